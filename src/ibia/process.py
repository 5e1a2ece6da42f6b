"""What the commands share: exit codes, sentences for what goes wrong, clocks and signals.

Exit codes: 0 with an answer, 1 bad input, 2 a command line that cannot be understood, 3 out of memory, 4 a defect of
this program, 5 out of time, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ibia.control import Control

__all__ = ["BAD_USAGE", "Watch", "compile_first", "complain", "run_command"]

BAD_INPUT, BAD_USAGE, OUT_OF_MEMORY, DEFECT, OUT_OF_TIME, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143

# Seconds kept back from a time limit to write the answer: at least, and for every state of a variable.
_WRITING, _WRITING_STATE = 0.1, 5e-6
# A run that has not ended by itself so long after its deadline is interrupted, or, where it cannot be, so much later.
_PATIENCE, _RETRY = 0.1, 0.02
_DELICATE = frozenset({"importlib", "llvmlite", "numba", "ibia.machine", "ibia.tables.memory", "ibia.tables.threads"})
_STILL_READING = "no answer within the time limit; the model was still being read"
# Compiling everything takes about this many seconds.
_COMPILING = 15


def run_command(command: Callable[[list[str], float], Any], arguments: list[str] | None) -> NoReturn:
    """Run a command and end the process with its exit code.

    Parameters
    ----------
    command
        Takes the arguments and the time at which the clock of a time limit started (`time.monotonic`).
    arguments
        None: those of the process, which is then ours to end.
    """
    from ibia.limits import process_start

    # The clock of a time limit starts with the process, where the process is ours.
    started = process_start() if arguments is None else time.monotonic()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character should cost the character, not the answer.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if arguments is not None:
        sys.exit(_guarded(command, arguments, started))
    code = _guarded(command, sys.argv[1:], started)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        # Nobody listens any more.
        code = code or BAD_INPUT
    # Tidying up takes the interpreter tenths of a second, and the clock of a time limit runs until the process is gone.
    os._exit(code)


def _guarded(command: Callable[[list[str], float], Any], arguments: list[str], started: float) -> int:
    """Run a command; what goes wrong becomes one sentence and an exit code."""
    from ibia.control import Stopped
    from ibia.errors import IbiaError

    try:
        code = command(arguments, started)
    except MemoryError:
        return complain("Out of memory; a smaller --bound needs less.", OUT_OF_MEMORY)
    except Terminated:
        return complain("Terminated before there was an answer.", TERMINATED)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Stopped as stopped:
        sentence = str(stopped)
        return complain(f"{sentence[:1].upper()}{sentence[1:]}.", OUT_OF_TIME)
    except OSError as error:
        reason = error.strerror or str(error)
        return complain(f"{error.filename}: {reason}." if error.filename else f"{reason}.", BAD_INPUT)
    except (IbiaError, UnicodeError) as error:
        return complain(str(error), BAD_INPUT)
    except Exception as error:
        if os.environ.get("IBIA_TRACEBACK"):
            raise
        return complain(
            f"This should not have happened ({type(error).__name__}: {error}); please report it, with what "
            f"IBIA_TRACEBACK=1 shows.",
            DEFECT,
        )
    if code == INTERRUPTED:
        return complain("Interrupted.", INTERRUPTED)
    return code if isinstance(code, int) else 0


def complain(message: str, code: int) -> int:
    """Say what is wrong on standard error, in one line; return the exit code."""
    print(f"ibia: {' '.join(message.split())}", file=sys.stderr)
    return code


class Terminated(Exception):
    """Somebody asked the process to end."""


class Watch:
    """Lets signals end a run with the best answer so far, and a clock that runs out as well.

    The engine looks at the clock itself; the alarm is for what it does not watch over, like the reading of the model.
    """

    def __init__(self, control: Control, started: float, limit: float | None) -> None:
        self.reading = True
        self._control = control
        self._started = started
        self._limit = limit
        self._received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Watch:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            self._before[number] = signal.signal(number, self._receive)
        if self._limit is not None:
            self._set_alarm(self._started + self._limit - time.monotonic())
        return self

    def _set_alarm(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.0) + _PATIENCE)

    def time_left(self, states: int) -> float:
        """Return the seconds there are for inference, and set the alarm for then: the answer has to be written too.

        Parameters
        ----------
        states
            How many probabilities there will be to write.
        """
        from ibia.control import Stopped

        assert self._limit is not None
        writing = min(_WRITING + _WRITING_STATE * states, 0.5 * self._limit)
        left = self._started + self._limit - writing - time.monotonic()
        if left <= 0.0:
            raise Stopped(_STILL_READING)
        self._set_alarm(left)
        return left

    def _receive(self, number: int, frame: FrameType | None) -> None:
        from ibia.control import Stopped

        self._received = self._received or number
        if _is_delicate(frame):
            self._control.stopping = True
            signal.setitimer(signal.ITIMER_REAL, _RETRY)
            return
        self._control.stop()
        if self.reading:
            raise Stopped(_STILL_READING)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        from ibia.control import Stopped

        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is not None and issubclass(kind, Stopped):
            if self._received == signal.SIGTERM:
                raise Terminated from None
            if self._received == signal.SIGINT:
                raise KeyboardInterrupt from None


def _is_delicate(frame: FrameType | None) -> bool:
    """Tell whether this is no place to be interrupted, so that waiting a little is better.

    Half a module or half a compiled function would stay; other threads would go on with tables that are gone.
    """
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in _DELICATE or name.partition(".")[0] in _DELICATE:
            return True
        frame = frame.f_back
    return False


def compile_first(quiet: bool = False) -> None:
    """Compile everything now, and say so unless that is not wanted, if this is the first run."""
    from ibia.compiled import compile_kernels, kernels_compiled

    if not kernels_compiled():
        if not quiet:
            print(
                f"ibia: compiling the numeric kernels, once; this takes about {_COMPILING} seconds.",
                file=sys.stderr,
                flush=True,
            )
        compile_kernels()
