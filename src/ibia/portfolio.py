"""The portfolio: solve one component by the best of a few alternatives.

How a component is cut into steps (the order of its factors, how far cliques are reduced) decides the error, and nobody
can tell beforehand which way is best. After one backward sweep one can: the way whose neighbouring steps agree best is
finished, the others are dropped. How many are tried depends on what they cost, counted in table entries, so that the
same input always gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ibia.backward.links import update_by_links
from ibia.backward.posterior import Posterior
from ibia.backward.sweeps import Sweeper
from ibia.exact import solve_exactly
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.sequence import Settings, Step, forward
from ibia.steps.order import ORDERS

__all__ = ["Backward", "Solved", "solve"]

# Alternatives are tried until they have cost this many table entries, but a few at least (docs/decisions.md).
_WORK = 2.0**23
_FEWEST = 2
_VARIANTS = 3
_EPSILON = 1e-9


@dataclass(frozen=True)
class Backward:
    """The backward pass: which update, at most how many sweeps, and the threshold for links."""

    update: str = "sweeps"
    sweeps: int = 6
    threshold: float = 1e-3


@dataclass(frozen=True)
class Solved:
    """A component's answer, without the tables behind it.

    Attributes
    ----------
    exact
        Whether no lossy operation was made.
    loss
        Nats lost by local marginalisation.
    order
        The order of the factors that was kept.
    """

    posterior: Posterior
    exact: bool
    loss: float
    order: str
    steps: tuple[StepFigures, ...]


def solve(
    problem: Problem,
    settings: Settings,
    order: str,
    backward: Backward,
    progress: Callable[[str, int, int], None] | None = None,
) -> Solved:
    """Return the marginals and log Z of one component.

    Parameters
    ----------
    order
        Name of an order, or ``"auto"``: try several.
    progress
        Called with the order being tried, and how many factors of how many are placed.
    """
    if problem.width <= settings.bound + _EPSILON:
        whole, figures = solve_exactly(problem, settings.check)
        if progress is not None:
            progress("exact", len(problem.factors), len(problem.factors))
        return Solved(whole, True, 0.0, order, (figures,))
    if backward.update == "links":
        name = _usual_order(problem) if order == "auto" else order
        steps = _run(problem, settings, name, 0, progress)
        posterior = update_by_links(problem, steps, backward.threshold, _barren(problem, name))
        # Links are lossy themselves (they overwrite each other), so with them only a single step is exact.
        return _solved(posterior, steps, name, _nothing_lost(steps) and len(steps) == 1)
    best: Sweeper | None = None
    best_name, least, work = "", math.inf, 0.0
    for number, (name, variant, attempt) in enumerate(_alternatives(problem, settings, order)):
        if number >= _FEWEST and work > _WORK:
            break
        steps = _run(problem, attempt, name, variant, progress)
        work += math.fsum(step.entries for step in steps)
        sweeper = Sweeper(problem, steps, settings.bound, _barren(problem, name))
        exact = _nothing_lost(steps)
        inconsistency = sweeper.first(math.inf if exact else least)
        if best is None or exact or inconsistency < least:
            best, best_name, least = sweeper, name, inconsistency
        if exact:
            break
    assert best is not None
    return _solved(best.run(backward.sweeps), best.steps, best_name, _nothing_lost(best.steps))


def _alternatives(problem: Problem, settings: Settings, order: str) -> Iterator[tuple[str, int, Settings]]:
    """Iterate over the ways to try: order, variant of the elimination order behind it, settings.

    First all orders, then all with one bit more of reduction, then both with other elimination orders.
    """
    if order != "auto":
        yield order, 0, settings
        return
    usual = _usual_order(problem)
    names = [usual, *(name for name in reversed(ORDERS) if name not in (usual, "topological"))]
    reductions = [settings]
    if settings.reduce is not None and settings.reduce + 1.0 < settings.bound:
        reductions.append(replace(settings, reduce=settings.reduce + 1.0))
    for variant in range(_VARIANTS):
        for attempt in reductions:
            for name in names:
                # A topological order does not depend on an elimination order.
                if not (variant and name == "topological"):
                    yield name, variant, attempt


def _usual_order(problem: Problem) -> str:
    """Return the paper's choice: topological for Bayesian networks, else any other."""
    return "elimination" if problem.ranks is None else "topological"


def _barren(problem: Problem, order: str) -> frozenset[int]:
    return problem.barren if order == "topological" else frozenset()


def _run(
    problem: Problem,
    settings: Settings,
    name: str,
    variant: int,
    progress: Callable[[str, int, int], None] | None,
) -> list[Step]:
    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(name, done, total)

    return forward(problem, problem.order(name, variant), settings, report, topological=name == "topological")


def _nothing_lost(steps: list[Step]) -> bool:
    """Tell whether no lossy operation was made: a loss of zero alone would not do (rounding hides small losses)."""
    return all(step.reduction is None or step.reduction.removals == 0 for step in steps)


def _solved(posterior: Posterior, steps: list[Step], order: str, exact: bool) -> Solved:
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
