"""Loopy belief propagation of this package."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ibia.bench.solvers.interface import Allowance, Answer, Solver, at_least, number, one_of, option
from ibia.bench.version import own_version
from ibia.errors import InputError
from ibia.model import Model

__all__ = ["Loopy"]

# Of the time it may take, so much is kept back for what comes after the last sweep.
_KEPT_BACK = 0.05


def _damping(text: str) -> float:
    expected = "a number of at least 0 and less than 1"
    value = number(text, float, expected)
    if not 0.0 <= value < 1.0:
        raise InputError(f"expected {expected}")
    return value


def _schedule(text: str) -> str:
    from ibia.loopy import SCHEDULES

    return one_of(SCHEDULES)(text)


@dataclass(frozen=True)
class Loopy(Solver):
    """Loopy belief propagation, damped; the baseline everybody knows."""

    name: ClassVar[str] = "loopy"
    about: ClassVar[str] = "loopy belief propagation of this package"

    damping: float = option(0.5, _damping, "share of the old message")
    schedule: str = option("residual", _schedule, "residual or flooding")
    tolerance: float = option(1e-6, at_least(0.0), "largest change of a message that ends it")
    sweeps: int = option(1000, at_least(1), "at most so many")

    def version(self) -> str:
        """Return the version of the package."""
        return own_version()

    def warm_up(self) -> None:
        """Compile it, or load what was compiled."""
        from ibia import examples
        from ibia.loopy import loopy_marginals

        loopy_marginals(examples.student(), {}, schedule=self.schedule)

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        from ibia.loopy import loopy_marginals

        seconds = allowance.seconds

        def answer() -> Answer:
            result = loopy_marginals(
                model,
                evidence,
                damping=self.damping,
                schedule=self.schedule,
                tolerance=self.tolerance,
                sweeps=self.sweeps,
                deadline=None if seconds is None else time.monotonic() + (1.0 - _KEPT_BACK) * seconds,
            )
            figures = {"converged": result.converged, "sweeps": result.sweeps}
            return Answer(result.marginals, result.log_z / math.log(10.0), figures=figures)

        return answer
