"""What a run may use: time, memory, cores. One object per run, asked by whoever is about to spend them.

The engine calls `check` between operations on tables, so a run ends soon after its time is up or the user asks for it.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ibia.limits import resident_memory

__all__ = ["Control", "Stopped", "TooSlow", "collecting_rarely"]


# How many new objects (usually 700) make Python look for some that only refer to each other, and how often it looks at
# older ones. Forests are a great many objects, and none of them do.
_COLLECTING = (100_000, 20, 20)
# Seconds between two looks at how much memory the process holds, and bytes that a run may add to what was there in any
# case: a limit below that leaves no choice but the least that can be tried.
_WEIGHED_EVERY, _LEAST = 0.2, 2.0**28


class Stopped(Exception):
    """The time is up, or the user asked to stop, before there was an answer."""


class TooSlow(Exception):
    """A run was given up because it would not have ended in time."""


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
        Cores that operations on large tables are spread over; it may change at any time. Answers do not depend on it.
    engaged
        How many threads beside its own are at work for the run (``threads.py``).
    stopping
        Set to stop at the next check.
    held
        Most bytes of resident memory seen so far, where the memory is limited.
    """

    deadline: float = math.inf
    memory: float = math.inf
    threads: int = 1
    engaged: int = 0
    stopping: bool = False
    held: float = 0.0
    _interruptible: bool = field(default=False, repr=False)
    _weigh_at: float = field(default=0.0, repr=False)
    _least: float = field(default=0.0, repr=False)

    def check(self) -> None:
        """Raise `Stopped` when the run has to end, and `MemoryError` when it holds too much."""
        if self.stopping or self.late:
            raise Stopped
        if self.memory < math.inf:
            self._weigh()

    def _weigh(self) -> None:
        """Look at the memory now and then: only large arrays are weighed before they are made."""
        now = time.monotonic()
        if now < self._weigh_at:
            return
        # Tables know of controls.
        from ibia.tables.memory import weigh

        self._weigh_at = now + _WEIGHED_EVERY
        self.held = max(self.held, resident_memory())
        self._least = self._least or self.held + _LEAST
        weigh(0, max(self.memory, self._least))

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.left() <= 0.0

    def left(self) -> float:
        """Return the seconds that are left."""
        return self.deadline - time.monotonic() if self.deadline < math.inf else math.inf

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


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Have Python look for cyclic garbage rarely: in large forests that took a sixth of the time, and found nothing."""
    usual = gc.get_threshold()
    if usual[0]:
        gc.set_threshold(*_COLLECTING)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
