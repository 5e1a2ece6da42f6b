"""What the commands share: exit codes, sentences for what goes wrong, clocks and signals.

Exit codes: 0 with an answer, 1 bad input, 2 a command line that cannot be understood, 3 out of memory, 4 a defect of
this program, 5 out of time, 130 interrupted, 143 terminated, 129 hung up.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from ibia import start
from ibia.shown import plain

if TYPE_CHECKING:
    from ibia.control import Control

__all__ = [
    "BAD_USAGE",
    "Ended",
    "Watch",
    "check_output",
    "compile_first",
    "complain",
    "heed_hangups",
    "load_arrays",
    "run_command",
]

BAD_INPUT, BAD_USAGE, OUT_OF_MEMORY, DEFECT, OUT_OF_TIME = 1, 2, 3, 4, 5
INTERRUPTED, TERMINATED, HUNG_UP = 130, 143, 129

# Seconds kept back from a time limit to write the answer: at least, and for every state of a variable.
_WRITING, _WRITING_STATE = 0.1, 5e-6
# A run that has not ended by itself so long after its deadline is interrupted, or, where it cannot be, so much later.
_PATIENCE, _RETRY = 0.1, 0.02
# Clocks of the system do not count farther than some hundreds of years.
_LONGEST = 1e9
_DELICATE = frozenset({"importlib", "llvmlite", "numba", "ibia.formats.whole", "ibia.machine", "ibia.threads"})
_DELICATE |= {"ibia.tables.memory", "ibia.tables.threads"}
_ENDINGS = {
    signal.SIGINT: ("Interrupted before there was an answer.", INTERRUPTED),
    signal.SIGTERM: ("Terminated before there was an answer.", TERMINATED),
    signal.SIGHUP: ("Hung up before there was an answer.", HUNG_UP),
}
_READING = "the model was still being read"
_BEING_COMPILED = "the numeric kernels were still being compiled, once for all"
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
    # Closed by whoever started this.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character should cost the character, not the answer.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    if arguments is not None:
        sys.exit(_guarded(command, arguments, started))
    code = _guarded(_minding_signals(command), sys.argv[1:], started)
    try:
        sys.stdout.flush()
    except OSError as error:
        # If nobody listens any more, nobody wants to know.
        reason = "" if isinstance(error, BrokenPipeError) else f"The answer cannot be shown: {_lowered(error)}."
        code = code or complain(reason, BAD_INPUT)
    # Tidying up takes the interpreter tenths of a second, and the clock of a time limit runs until the process is gone.
    os._exit(code)


def _guarded(command: Callable[[list[str], float], Any], arguments: list[str], started: float) -> int:
    """Run a command; what goes wrong becomes one sentence and an exit code."""
    from ibia.control import Stopped
    from ibia.errors import IbiaError

    try:
        code = command(arguments, started)
    except MemoryError:
        advice = "a smaller --bound needs less, a larger --memory-limit allows more"
        return complain(f"Out of memory; {advice}.", OUT_OF_MEMORY)
    except Ended as ended:
        sentence, code = _ENDINGS[ended.number]
        return complain("" if ended.is_said else sentence, code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Stopped as stopped:
        sentence = str(stopped)
        return complain(f"{sentence[:1].upper()}{sentence[1:]}.", OUT_OF_TIME)
    except OSError as error:
        if signal.SIGHUP in start.noted:
            # The terminal that this was to be shown on is gone.
            return HUNG_UP
        named = error.filename if isinstance(error.filename, str) else "input or output"
        return complain(f"{named}: {_lowered(error)}.", BAD_INPUT)
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
        return complain(*_ENDINGS[signal.SIGINT])
    return code if isinstance(code, int) else 0


def _lowered(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


def complain(message: str, code: int) -> int:
    """Say what is wrong on standard error, in one line, if there is anything to say; return the exit code."""
    line = plain(" ".join(message.split()))
    # Messages that others put words before and behind have no full stop of their own.
    if line and not line.endswith((".", "?", "!")):
        line += "."
    # Nobody may listen there either.
    with suppress(OSError):
        if line:
            print(f"ibia: {line}", file=sys.stderr, flush=True)
    return code


class Ended(BaseException):
    """Somebody asked the process to end, before there was an answer.

    It is no `Exception`, and no `KeyboardInterrupt` either: nobody is to take it for anything else.

    Attributes
    ----------
    number
        The signal that asked.
    is_said
        Whether the user was told already.
    """

    def __init__(self, number: int, *, is_said: bool = False) -> None:
        super().__init__()
        self.number = signal.Signals(number)
        self.is_said = is_said


# Whether there is all that was asked for, so that a signal comes too late.
_done = False


def _minding_signals(command: Callable[[list[str], float], Any]) -> Callable[[list[str], float], Any]:
    """Return a command that signals end, from its first moment on, but nowhere where something would stay half done."""
    asked = start.noted

    def receive(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            asked.append(number)
        if _done or not asked:
            return
        if _is_delicate(frame):
            signal.setitimer(signal.ITIMER_REAL, _RETRY)
            return
        raise Ended(asked[0])

    def lost(problem: sys.UnraisableHookArgs) -> None:
        # Raised where nobody could take it.
        if isinstance(problem.exc_value, Ended):
            signal.setitimer(signal.ITIMER_REAL, _RETRY)
        else:
            sys.__unraisablehook__(problem)

    def run(arguments: list[str], started: float) -> Any:
        sys.unraisablehook = lost
        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, receive)
        if asked:
            raise Ended(asked[0])
        code = command(arguments, started)
        _finish()
        return code

    return run


def heed_hangups() -> None:
    """Have the command end where the terminal is closed as where somebody terminates it; ``nohup`` prevents that."""
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))


def _finish() -> None:
    global _done
    _done = True


class Watch:
    """Lets signals end a run with the best answer so far, and a clock that runs out as well.

    The engine looks at the clock itself; the alarm is for what it does not watch over, like the reading of the model.

    Attributes
    ----------
    doing
        What is going on before inference, as the end of a sentence; nothing: inference has begun.
    written
        Whether the answer is where it belongs, and only remains to be shown.
    """

    def __init__(self, control: Control, started: float, limit: float | None) -> None:
        self.doing = _READING
        self.written = False
        self._control = control
        self._started = started
        self._limit = limit
        self._received = 0
        self._asked_late = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Watch:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            self._before[number] = signal.signal(number, self._receive)
        if start.noted:
            # It came a moment ago, at a bad time, and was to be looked at again.
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            raise Ended(start.noted[0])
        if self._limit is not None:
            self._set_alarm(self._started + self._limit - time.monotonic())
        return self

    def _set_alarm(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, min(max(seconds, 0.0) + _PATIENCE, _LONGEST))

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
            raise Stopped(self._too_early())
        self._set_alarm(left)
        return left

    def _receive(self, number: int, frame: FrameType | None) -> None:
        from ibia.control import Stopped

        if self.written:
            # Showing it takes a moment. Who asks again does not want to wait for it.
            if number != signal.SIGALRM:
                self._asked_late += 1
            if self._asked_late > 1:
                raise Ended(number)
            return
        self._received = self._received or number
        if _is_delicate(frame):
            self._control.stopping = True
            signal.setitimer(signal.ITIMER_REAL, _RETRY)
            return
        self._control.stop()
        if self.doing:
            raise Stopped(self._too_early())

    def _too_early(self) -> str:
        return f"no answer within the time limit; {self.doing}"

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        from ibia.control import Stopped

        # A signal that is being received may have set the clock once more.
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if kind is None:
            _finish()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is not None and issubclass(kind, Stopped) and self._received in _ENDINGS:
            raise Ended(self._received) from None


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


def check_output(path: str) -> str | None:
    """Return the file that a path leads to if it can be written, None if that is a device; else say why not."""
    import stat
    import tempfile

    from ibia.errors import InputError

    if not path or "\0" in path or os.path.isdir(path):
        raise InputError(f"{path or 'an empty name'} is not the name of a file to write.")
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise InputError(f"{path} cannot be written: there is no folder {folder}.")
    try:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(target).st_mode):
                # A device or a pipe: nothing to overwrite, and trying it out would use it up.
                return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {_lowered(error)}.") from None
    return target


def load_arrays() -> None:
    """Load NumPy, without threads for linear algebra: nothing here uses them, and they take as long to start as it."""
    threads = "OPENBLAS_NUM_THREADS"
    if threads in os.environ:
        return
    os.environ[threads] = "1"
    import numpy  # noqa: F401

    # What is started from here may have a use for them.
    del os.environ[threads]


def compile_first(quiet: bool = False, watch: Watch | None = None) -> None:
    """Compile everything now, and say so unless that is not wanted, if this is the first run.

    Parameters
    ----------
    watch
        Is told what is going on.
    """
    from ibia.compiled import compile_kernels, kernels_compiled

    if not kernels_compiled():
        if not quiet:
            print(
                f"ibia: compiling the numeric kernels, once; this takes about {_COMPILING} seconds.",
                file=sys.stderr,
                flush=True,
            )
        if watch is not None:
            watch.doing = _BEING_COMPILED
        compile_kernels()
