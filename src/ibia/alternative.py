"""One alternative: a way to cut a component into steps, run forward, swept backward once, and finished if it is good.

Which alternatives there are and which of them count is decided elsewhere (``portfolio.py``), and so is who runs them:
this process or another one (``schedule.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from ibia.backward.posterior import Posterior
from ibia.backward.sweeps import Proceed, Sweeper
from ibia.costs import alternative_work
from ibia.forest.calibrate import ZeroMassError
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.sequence import Settings, Step, forward

__all__ = ["Alternative", "Progress", "Solved", "Trial", "barren", "run_forward", "solved"]

Progress = Callable[[str, int, int], None]


class Alternative(NamedTuple):
    """A way to cut a component into steps: order of the factors, variant of the elimination order behind it."""

    order: str
    variant: int
    settings: Settings


@dataclass(frozen=True)
class Solved:
    """A component's answer, without the tables behind it.

    Attributes
    ----------
    exact
        Whether no lossy operation was made, and no number can have vanished.
    loss
        Nats lost by local marginalisation.
    order
        The order of the factors that was kept.
    tried
        How many alternatives were tried.
    spread
        How far the marginals of an alternative are from the answer's, at most (Hellinger), in the mean
        over those tried.
    """

    posterior: Posterior
    exact: bool
    loss: float
    order: str
    steps: tuple[StepFigures, ...]
    tried: int = 1
    spread: float = 0.0


class Trial:
    """An alternative after its forward pass.

    Attributes
    ----------
    work
        Table entries of all steps, and what handling their cliques takes, in the same unit.
    exact, loss
        Whether nothing was lost on the way forward, and how many nats were.
    """

    def __init__(self, problem: Problem, alternative: Alternative, progress: Progress | None = None) -> None:
        steps = run_forward(problem, alternative, progress)
        entries, cliques = math.fsum(step.entries for step in steps), sum(len(step.forest.scopes) for step in steps)
        self.work = alternative_work(entries, cliques)
        self.exact = steps[-1].whole
        self.loss = math.fsum(step.loss for step in steps)
        self._problem, self._alternative = problem, alternative
        self._sweeper = self._sweeper_of(steps)

    def answer(self, sweeps: int, proceed: Proceed | None = None) -> Solved:
        """Sweep backward until there were so many sweeps, or the steps agree, and return the answer.

        Parameters
        ----------
        proceed
            Called now and then; it may raise an error to end all.
        """
        try:
            posterior = self._sweeper.run(sweeps, proceed)
        except ZeroMassError:
            if self._sweeper.steps[0].far_apart:
                raise
            # Numbers have vanished in a clique, though not in all.
            settings = replace(self._alternative.settings, far_apart=True)
            self._sweeper = self._sweeper_of(run_forward(self._problem, self._alternative._replace(settings=settings)))
            posterior = self._sweeper.run(sweeps, proceed)
        return solved(posterior, self._sweeper.steps, self._alternative.order, self._sweeper.whole)

    def _sweeper_of(self, steps: list[Step]) -> Sweeper:
        order, bound = self._alternative.order, self._alternative.settings.bound
        return Sweeper(self._problem, steps, bound, barren(self._problem, order))

    def drop(self) -> None:
        """Let go of the tables."""
        del self._sweeper


def run_forward(problem: Problem, alternative: Alternative, progress: Progress | None = None) -> list[Step]:
    """Return the steps of an alternative."""
    name, variant, settings = alternative

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(f"{name} order", done, total)

    order, topological = problem.order(name, variant), name == "topological"
    with suppress(ZeroMassError):
        return forward(problem, order, settings, report, topological)
    # If not all is impossible, numbers have vanished.
    return forward(problem, order, replace(settings, far_apart=True), report, topological)


def barren(problem: Problem, order: str) -> frozenset[int]:
    """Return the factors that cannot inform earlier steps, if they are added in that order."""
    return problem.barren if order == "topological" else frozenset()


def solved(posterior: Posterior, steps: list[Step], order: str, exact: bool) -> Solved:
    """Return an answer with the figures of its steps."""
    figures = tuple(
        StepFigures(
            step=number,
            cliques=len(step.forest.scopes),
            largest_bits=step.largest_bits,
            factors=step.added,
            bound=step.bound,
            loss=step.loss,
            seconds=step.seconds,
        )
        for number, step in enumerate(steps)
    )
    return Solved(posterior, exact, math.fsum(step.loss for step in steps), order, figures)
