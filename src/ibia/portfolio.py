"""The portfolio: solve one component by the best of a few alternatives.

How a component is cut into steps (the order of its factors, how far cliques are reduced) decides the error, and nobody
can tell beforehand which way is best. After one backward sweep one can: ways whose neighbouring steps agree much worse
than those of the best are dropped, the others are finished, and their answers weigh by that agreement. How many are
tried depends on what they cost, counted in table entries, so that the same input always gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

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
# Alternatives whose steps disagree more than so many times as much as those of the best are dropped; the others weigh
# as their disagreement to this negative power.
_WORTH_FINISHING = 3.0
_SHARPNESS = 3.0
_NEGLIGIBLE = 1e-9
# Once they have cost this many table entries, only the best of the further ones is finished.
_AVERAGED = 2.0**27
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
    answers: list[Solved] = []
    waiting: tuple[Sweeper, str] | None = None
    least, work = math.inf, 0.0
    for number, (name, variant, attempt) in enumerate(_alternatives(problem, settings, order)):
        if number >= _FEWEST and work > _WORK:
            break
        steps = _run(problem, attempt, name, variant, progress)
        work += math.fsum(step.entries for step in steps)
        sweeper = Sweeper(problem, steps, settings.bound, _barren(problem, name))
        exact = _nothing_lost(steps)
        first = sweeper.first(math.inf if exact else _WORTH_FINISHING * least)
        if exact:
            return _solved(sweeper.run(backward.sweeps), steps, name, exact)
        if first < math.inf and work <= _AVERAGED:
            answers.append(_solved(sweeper.run(backward.sweeps), steps, name, exact))
        elif first < least:
            waiting = sweeper, name
        least = min(least, first)
    if waiting is not None:
        # Of expensive alternatives only the best is finished.
        sweeper, name = waiting
        answers.append(_solved(sweeper.run(backward.sweeps), sweeper.steps, name, False))
    return _combined(answers)


def _combined(answers: list[Solved]) -> Solved:
    """Return the mean of answers, weighted by how well their steps agreed after one sweep; in all else the best one.

    Answers whose steps agree about equally well are off in different directions, so their mean is better than any.
    """
    best = min(answers, key=lambda answer: answer.posterior.inconsistencies[0])
    worst_weighed = _WORTH_FINISHING * best.posterior.inconsistencies[0]
    weighed = [answer for answer in answers if answer.posterior.inconsistencies[0] <= worst_weighed]
    weights = np.array([max(answer.posterior.inconsistencies[0], _NEGLIGIBLE) ** -_SHARPNESS for answer in weighed])
    weights /= weights.sum()
    posteriors = [answer.posterior for answer in weighed]
    marginals = {
        variable: weights @ np.array([posterior.marginals[variable] for posterior in posteriors])
        for variable in best.posterior.marginals
    }
    log_z = math.fsum(weight * posterior.log_z for weight, posterior in zip(weights, posteriors, strict=True))
    return replace(best, posterior=replace(best.posterior, marginals=marginals, log_z=log_z))


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
