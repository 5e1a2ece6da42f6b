"""What a run may use: time, memory, cores. One object per run, asked by whoever is about to spend them.

The engine calls `check` between operations on tables, so a run ends soon after its time is up or the user asks for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Control", "Stopped", "TooSlow"]


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
    stopping
        Set to stop at the next check.
    """

    deadline: float = math.inf
    memory: float = math.inf
    threads: int = 1
    stopping: bool = False
    _interruptible: bool = field(default=False, repr=False)

    def check(self) -> None:
        """Raise `Stopped` when the run has to end."""
        if self.stopping or self.late:
            raise Stopped

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
