"""What a run may use: time, memory, cores. One object per run, asked by whoever is about to spend them.

The engine calls `check` between operations on tables, so a run ends soon after its time is up or the user asks for it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Control", "Stopped"]


class Stopped(Exception):
    """The time is up, or the user asked to stop, before there was an answer."""


@dataclass
class Control:
    """The limits of one run.

    Attributes
    ----------
    deadline
        When to stop, as `time.monotonic` counts.
    memory
        Bytes of resident memory the process may reach.
    threads
        Cores that the work is spread over. Answers do not depend on it.
    together
        Whether there is memory for whole computations side by side, not only for parts of one.
    stopping
        Set to stop at the next check.
    """

    deadline: float = math.inf
    memory: float = math.inf
    threads: int = 1
    together: bool = False
    stopping: bool = False
    _interruptible: bool = field(default=False, repr=False)
    _working: int = field(default=1, repr=False)
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def check(self) -> None:
        """Raise `Stopped` when the run has to end."""
        if self.stopping or self.late:
            raise Stopped

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.deadline < math.inf and time.monotonic() >= self.deadline

    def hire(self, wanted: int) -> int:
        """Take up to `wanted` threads that are not at work, and return how many there were."""
        with self._counting:
            hired = max(min(wanted, self.threads - self._working), 0)
            self._working += hired
        return hired

    def dismiss(self) -> None:
        """Note that a thread has ended its work, or waits for others."""
        with self._counting:
            self._working -= 1

    def resume(self) -> None:
        """Note that a thread that waited goes on."""
        with self._counting:
            self._working += 1

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Mark work that may be given up at any point: inside, `stop` does not wait for a check; `Stopped` ends it."""
        try:
            self._interruptible = True
            yield
            self._interruptible = False
        except Stopped:
            self._interruptible = False
        except BaseException:
            self._interruptible = False
            raise

    def stop(self) -> None:
        """Stop the run (from a signal handler, say): raise `Stopped` where that is safe, else let the next check."""
        self.stopping = True
        if self._interruptible:
            # Once only: what follows must be left in peace to hand over what there is.
            self._interruptible = False
            raise Stopped
