"""The portfolio: solve one component by the best of a few alternatives.

How a component is cut into steps (the order of its factors, how far cliques are reduced) decides the error, and nobody
can tell beforehand which way is best. After one backward sweep one can: ways whose neighbouring steps agree worse than
those of the best are dropped, the others are finished, and the mean of their answers is taken. How many are tried
depends on what they cost, counted in table entries, so that the same input always gives the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.backward.links import update_by_links
from ibia.backward.posterior import Posterior
from ibia.backward.sweeps import Sweeper
from ibia.exact import solve_exactly
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.sequence import Settings, Step, forward
from ibia.steps.order import ORDERS
from ibia.threads import run_all

__all__ = ["Backward", "Solved", "solve"]

Progress = Callable[[str, int, int], None]

# Alternatives are tried until they have cost this many table entries, but a few at least (docs/decisions.md).
_WORK = 2.0**23
_FEWEST = 2
_VARIANTS = 3
# Alternatives whose steps disagree more than so many times as much as those of the best are dropped.
_WORTH_FINISHING = 1.5
# Below this, probabilities are as good as zero.
_NEGLIGIBLE = 1e-300
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
    progress: Progress | None = None,
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
        steps = _run(problem, _Alternative(name, 0, settings), progress)
        posterior = update_by_links(problem, steps, backward.threshold, _barren(problem, name))
        # Links are lossy themselves (they overwrite each other), so with them only a single step is exact.
        return _solved(posterior, steps, name, _nothing_lost(steps) and len(steps) == 1)
    return _best_of(problem, settings, _alternatives(problem, settings, order), backward.sweeps, progress)


class _Alternative(NamedTuple):
    """A way to cut a component into steps: order of the factors, variant of the elimination order behind it."""

    order: str
    variant: int
    settings: Settings


class _Tried(NamedTuple):
    """An alternative after one backward sweep.

    Attributes
    ----------
    first
        How much neighbouring steps disagree (infinity: too much).
    work
        Table entries of all steps.
    """

    sweeper: Sweeper
    order: str
    first: float
    work: float
    exact: bool

    def finish(self, sweeps: int) -> Solved:
        """Make the further sweeps."""
        return _solved(self.sweeper.run(sweeps), self.sweeper.steps, self.order, self.exact)


def _best_of(
    problem: Problem,
    settings: Settings,
    alternatives: Iterator[_Alternative],
    sweeps: int,
    progress: Progress | None,
) -> Solved:
    """Try alternatives and return the mean of the good ones.

    Several are tried side by side, where threads and memory allow; which ones count is decided in their order, as if
    they had been tried one after the other.
    """
    control = problem.space.control
    answers: list[Solved] = []
    waiting: _Tried | None = None
    least, work, number = math.inf, 0.0, 0
    together = min(control.threads, _FEWEST) if control.together else 1
    while batch := list(islice(alternatives, together)):
        # Only one reports: two that take turns would tell nothing.
        reports = [progress] + [None] * (len(batch) - 1)
        tried = run_all(
            [
                partial(_try, problem, alternative, settings.bound, _WORTH_FINISHING * least, report)
                for alternative, report in zip(batch, reports, strict=True)
            ],
            control,
        )
        worth_finishing: list[_Tried] = []
        for attempt in tried:
            if number >= _FEWEST and work > _WORK:
                break
            number += 1
            work += attempt.work
            if attempt.exact:
                return attempt.finish(sweeps)
            if attempt.first <= _WORTH_FINISHING * least:
                if work <= _AVERAGED:
                    worth_finishing.append(attempt)
                elif attempt.first < least:
                    waiting = attempt
                least = min(least, attempt.first)
        good = [attempt for attempt in worth_finishing if attempt.first <= _WORTH_FINISHING * least]
        answers += run_all([partial(attempt.finish, sweeps) for attempt in good], control)
        # What was tried and has been finished, or given up, needs its memory no longer.
        del tried, worth_finishing, good, attempt
        if number >= _FEWEST and work > _WORK:
            break
    if waiting is not None:
        # Of expensive alternatives only the best is finished.
        answers.append(waiting.finish(sweeps))
    return _combined(answers)


def _try(
    problem: Problem, alternative: _Alternative, bound: float, limit: float, progress: Progress | None
) -> _Tried:
    """Run an alternative and sweep backward once; steps that disagree more than `limit` are given up."""
    order = alternative.order
    steps = _run(problem, alternative, progress)
    sweeper = Sweeper(problem, steps, bound, _barren(problem, order))
    exact = _nothing_lost(steps)
    first = sweeper.first(math.inf if exact else limit)
    return _Tried(sweeper, order, first, math.fsum(step.entries for step in steps), exact)


def _combined(answers: list[Solved]) -> Solved:
    """Return the geometric mean of the answers whose steps agreed about equally well; in all else the best one.

    Such answers are off in different directions, so their mean is better than any of them.
    """
    best = min(answers, key=lambda answer: answer.posterior.inconsistencies[0])
    most = _WORTH_FINISHING * best.posterior.inconsistencies[0]
    posteriors = [answer.posterior for answer in answers if answer.posterior.inconsistencies[0] <= most]
    marginals = {
        variable: _geometric_mean([posterior.marginals[variable] for posterior in posteriors])
        for variable in best.posterior.marginals
    }
    log_z = math.fsum(posterior.log_z for posterior in posteriors) / len(posteriors)
    return replace(best, posterior=replace(best.posterior, marginals=marginals, log_z=log_z))


def _geometric_mean(marginals: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len(marginals) == 1:
        return marginals[0]
    logarithms = np.log(np.maximum(marginals, _NEGLIGIBLE)).mean(axis=0)
    mean: NDArray[np.float64] = np.exp(logarithms - logarithms.max())
    mean[np.max(marginals, axis=0) <= _NEGLIGIBLE] = 0.0
    mean /= mean.sum()
    return mean


def _alternatives(problem: Problem, settings: Settings, order: str) -> Iterator[_Alternative]:
    """Iterate over the ways to try.

    First all orders, then all with one bit more of reduction, then both with other elimination orders.
    """
    if order != "auto":
        yield _Alternative(order, 0, settings)
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
                    yield _Alternative(name, variant, attempt)


def _usual_order(problem: Problem) -> str:
    """Return the paper's choice: topological for Bayesian networks, else any other."""
    return "elimination" if problem.ranks is None else "topological"


def _barren(problem: Problem, order: str) -> frozenset[int]:
    return problem.barren if order == "topological" else frozenset()


def _run(problem: Problem, alternative: _Alternative, progress: Progress | None) -> list[Step]:
    name, variant, settings = alternative

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
