"""What a run may use: time, memory, cores. One object per run, asked by whoever is about to spend them.

The engine calls `check` between operations on tables, so a run ends soon after its time is up or the user asks for it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

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
        Cores that large tables are spread over. Answers do not depend on it.
    stopping
        Set (by a signal handler, say) to stop at the next check.
    """

    deadline: float = math.inf
    memory: float = math.inf
    threads: int = 1
    stopping: bool = False

    def check(self) -> None:
        """Raise `Stopped` when the run has to end."""
        if self.stopping or (self.deadline < math.inf and time.monotonic() > self.deadline):
            raise Stopped
