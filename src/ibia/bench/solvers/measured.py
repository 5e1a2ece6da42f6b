"""Start a program from a process that is small itself, and say how it ended, how long it took and what it held.

The system counts as memory of a program what the process that started it held, too, so the bench must not be that
process. The program gets a process group of its own, so that signals it sends to its group reach nobody else. Run as a
script of its own, ``python -I -S measured.py REPORT BYTES SECONDS PROGRAM ...``, that imports next to nothing; knows
nothing of the package.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import time

__all__ = ["main"]

_INPUT = 0


def main(arguments: list[str]) -> int:
    """Run a program and write to the open file REPORT what came of it.

    That is its exit status, negative if a signal has ended it, its seconds, most bytes of memory, and 1 if it was
    killed after SECONDS, else 0; or ``cannot`` and the number of an error, if it cannot be run. It may write BYTES to a
    file, and is killed after SECONDS (0: never), and when the standard input of this process is closed.
    """
    report, most, seconds = int(arguments[0]), int(arguments[1]), float(arguments[2])
    os.set_inheritable(report, False)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    program = arguments[3:]
    ended = _tell_of_children()
    began = time.monotonic()
    try:
        child = os.posix_spawn(
            program[0],
            program,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, _INPUT, os.devnull, os.O_RDONLY, 0)],
            setpgroup=0,
            # Python ignores these two signals; programs are to have them as usual.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        _say(report, f"cannot {error.errno}")
        return 1
    until = began + seconds if seconds > 0.0 else None
    late = False
    while True:
        number, status, usage = os.wait4(child, os.WNOHANG)
        if number == child:
            break
        left = None if until is None else max(until - time.monotonic(), 0.0)
        readable, _, _ = select.select([_INPUT, ended], [], [], left)
        if _INPUT in readable and not os.read(_INPUT, 1):
            _end(child)
            return 1
        if ended in readable:
            os.read(ended, 1024)
        if not readable:
            _end(child)
            until, late = None, True
    taken = time.monotonic() - began
    # What it has left in the background would only disturb what comes next.
    _end_group(child)
    # The unit is the kilobyte, but on one system the byte.
    held = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    _say(report, f"{os.waitstatus_to_exitcode(status)} {taken} {held} {late:d}")
    return 0


def _tell_of_children() -> int:
    """Return what can be read from when a child of this process has ended."""
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    # One that is ignored wakes nobody up.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return told


def _end(child: int) -> None:
    """End a program and its group, which it may have left."""
    os.kill(child, signal.SIGKILL)
    _end_group(child)


def _end_group(leader: int) -> None:
    # Mostly there is nobody left in it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _say(report: int, words: str) -> None:
    os.write(report, words.encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
