"""A worker: a process that runs alternatives for another one, which tells it what to do through a pipe.

It knows nothing of what its work is for, and says nothing of what goes wrong: it ends, and the other process does the
work itself. It ends too when that process does. Started by ``workers.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pickle
import signal
import sys
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, BinaryIO

from ibia.alternative import Alternative, Solved, Trial
from ibia.control import Control, Stopped, collecting_rarely
from ibia.limits import resident_memory
from ibia.prepare import Problem
from ibia.tables.memory import end_of_run, limit_memory, release_all, rest

__all__ = ["READY", "main"]

# The first thing a worker says.
READY = "ready"
# What does not wait until the request under way is answered.
_AT_ONCE = frozenset({"use_threads", "use_memory", "stop"})
_SET_DEATH_SIGNAL = 1


def main(parent: int) -> None:
    """Serve the process of that number, which started this one, until it ends."""
    # Who interrupts or stops the run tells the other process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(parent)
    messages, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Whatever else is read or written must not disturb.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    try:
        with collecting_rarely():
            _Service(messages, replies).run()
    finally:
        # Something went wrong: the end of the pipe says so.
        os._exit(1)


def _die_with(parent: int) -> None:
    """Have the system end this process with the one that started it; where it cannot, the end of the pipe will do."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if hasattr(os, "getppid") and os.getppid() != parent:
        os._exit(0)


class _Service:
    """What a worker does: requests are handled one by one, settings and the word to stop at once.

    Each message is a number (0: nobody waits for an answer), the name of a method, and what it is called with.
    """

    def __init__(self, messages: BinaryIO, replies: BinaryIO) -> None:
        self._messages = messages
        self._replies = replies
        self._requests: SimpleQueue[tuple[int, str, tuple[Any, ...]]] = SimpleQueue()
        self._control = Control()
        self._beginning = threading.Lock()
        # The request under way, and the last one that is not to be answered any more.
        self._number = self._stopped = 0
        self._problems: dict[int, Problem] = {}
        self._trials: dict[int, Trial] = {}

    def run(self) -> None:
        """Answer requests."""
        self._reply(READY)
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            number, name, arguments = self._requests.get()
            with self._beginning:
                self._number, self._control.stopping = number, 0 < number <= self._stopped
            try:
                reply = (True, getattr(self, name)(*arguments))
            except Stopped:
                reply = (False, None)
            if number:
                self._reply(reply)

    def _reply(self, reply: object) -> None:
        pickle.dump(reply, self._replies, pickle.HIGHEST_PROTOCOL)
        self._replies.flush()

    def _listen(self) -> None:
        try:
            while True:
                number, name, arguments = pickle.load(self._messages)
                if name in _AT_ONCE:
                    getattr(self, name)(*arguments)
                else:
                    self._requests.put((number, name, arguments))
        finally:
            # The other process has closed the pipe, or is gone.
            os._exit(0)

    def use_threads(self, threads: int) -> None:
        """Spread operations on large tables over so many cores."""
        self._control.threads = threads

    def use_memory(self, limit: float, others: Sequence[int]) -> None:
        """Stay within so many bytes, together with the processes of these numbers."""
        self._control.memory = limit
        limit_memory(limit, lambda: math.fsum(map(resident_memory, others)))

    def rest(self) -> None:
        """Leave memory to others: there is nothing to do."""
        rest()

    def stop(self, number: int) -> None:
        """Give up the request of that number, if it is still under way, or has not begun yet."""
        with self._beginning:
            self._stopped = number
            self._control.stopping = self._control.stopping or number == self._number

    def know(self, key: int, problem: Problem) -> None:
        """Keep a problem for requests to come."""
        problem.space.control = self._control
        self._problems[key] = problem

    def start(self, key: int, problem: int, alternative: Alternative) -> tuple[float, bool, float]:
        """Run an alternative forward."""
        self._trials[key] = trial = Trial(self._problems[problem], alternative)
        return trial.work, trial.exact, trial.loss

    def answer(self, key: int, sweeps: int) -> Solved:
        """Sweep backward."""
        return self._trials[key].answer(sweeps)

    def drop(self, key: int) -> None:
        """Let go of a trial."""
        del self._trials[key]

    def forget_trials(self) -> None:
        """Let go of all trials."""
        self._trials.clear()

    def forget_all(self) -> None:
        """Let go of all there is."""
        self._trials.clear()
        self._problems.clear()
        end_of_run()
        release_all()
