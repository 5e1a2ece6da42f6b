"""Start a program from a process that is small itself, and say how it ended, how long it took and what it held.

The system counts as memory of a program what the process that started it held, too, so the bench must not be that
process. Run as a script of its own, ``python -I -S measured.py REPORT BYTES SECONDS PROGRAM ...``, that imports next to
nothing; knows nothing of the package.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run a program and write to the open file REPORT what came of it.

    That is its exit status, negative if a signal has ended it, its seconds and most bytes of memory; or ``cannot`` and
    the number of an error, if it cannot be run. It may write BYTES to a file, and is killed after SECONDS (0: never).
    """
    report, most, seconds = int(arguments[0]), int(arguments[1]), float(arguments[2])
    os.set_inheritable(report, False)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    program = arguments[3:]
    began = time.monotonic()
    try:
        # Python ignores these two signals; programs are to have them as usual.
        child = os.posix_spawn(program[0], program, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    except OSError as error:
        _say(report, f"cannot {error.errno}")
        return 1
    if seconds > 0.0:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, max(seconds - (time.monotonic() - began), 1e-3))
    _, status, usage = os.wait4(child, 0)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    taken = time.monotonic() - began
    # The unit is the kilobyte, but on one system the byte.
    held = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    _say(report, f"{os.waitstatus_to_exitcode(status)} {taken} {held}")
    return 0


def _say(report: int, words: str) -> None:
    os.write(report, words.encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
