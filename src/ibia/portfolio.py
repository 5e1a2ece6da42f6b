"""The portfolio: which alternatives of a component are tried, and which of them make its answer.

How a component is cut into steps (the order of its factors, how far cliques are reduced) decides the error, and nobody
can tell beforehand which way is best. After one backward sweep one can: ways that lost more, or whose neighbouring
steps agree worse, than those of the best are dropped, the others are finished, and the mean of their answers is taken.
How far all that were tried are from it tells how far off it may be. How many are tried depends on what they cost,
counted in table entries (``costs.py``), so that the same input always gives the same answer.

Alternatives may be run side by side and end in any order (``schedule.py``). What counts is decided as if they had come
one after the other; what turns out not to count was done in vain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ibia.alternative import Alternative, Progress, Solved, barren, run_forward, solved
from ibia.backward.links import update_by_links
from ibia.backward.posterior import Marginals, largest_distance
from ibia.costs import AVERAGED, FEWEST, WORK
from ibia.exact import solve_exactly
from ibia.prepare import Problem
from ibia.sequence import Settings
from ibia.steps.order import ORDERS

__all__ = ["Portfolio", "fits", "solve_by_links", "solve_whole"]

_VARIANTS = 3
# An alternative seems to be off by as much as its neighbouring steps disagree, and by this part of its loss.
_LOSS_PART = 0.002
# Of what is lost in topological order this part counts where no sweep has shown yet what is better.
_TOPOLOGICAL_PART = 1.0 / 3.0
# Alternatives that seem to be off by more than so many times as much as the best are dropped.
_WORTH_FINISHING = 1.5
# Below this, probabilities are as good as zero.
_NEGLIGIBLE = 1e-300
_EPSILON = 1e-9


def fits(problem: Problem, bound: float) -> bool:
    """Tell whether a component fits the bound as a whole."""
    return problem.width <= bound + _EPSILON


def solve_whole(problem: Problem, settings: Settings, order: str, progress: Progress | None) -> Solved:
    """Return the answer of a component that fits the bound."""
    posterior, figures = solve_exactly(problem, settings.check)
    if progress is not None:
        progress("exact", len(problem.factors), len(problem.factors))
    return Solved(posterior, True, 0.0, order, (figures,))


def solve_by_links(
    problem: Problem, settings: Settings, order: str, threshold: float, progress: Progress | None
) -> Solved:
    """Return the answer of a component by the paper's belief update: one order of the factors, and no sweeps."""
    name = _usual_order(problem) if order == "auto" else order
    steps = run_forward(problem, Alternative(name, 0, settings), progress)
    posterior = update_by_links(problem, steps, threshold, barren(problem, name))
    # Links are lossy themselves (they overwrite each other), so with them only a single step is exact.
    return solved(posterior, steps, name, steps[-1].whole and len(steps) == 1)


@dataclass
class _Entry:
    """What is known of an alternative so far.

    Attributes
    ----------
    taken
        Whether somebody runs it, or has.
    work, exact, loss
        What it costs (`alternative_work`), whether nothing was lost, and nats lost: known after the forward pass.
    first
        The answer after the first backward sweep.
    answer
        The answer when it is finished.
    error
        What went wrong; that counts if the alternative does.
    """

    alternative: Alternative
    taken: bool = False
    work: float | None = None
    exact: bool = False
    loss: float = 0.0
    first: Solved | None = None
    answer: Solved | None = None
    error: Exception | None = None

    @property
    def apparent_loss(self) -> float:
        """What it has lost, for comparison with others: the same loss does less in topological order."""
        return self.loss * (_TOPOLOGICAL_PART if self.alternative.order == "topological" else 1.0)

    @property
    def seems_off(self) -> float:
        """How far off it seems to be after its first backward sweep (infinity: there was none)."""
        return math.inf if self.first is None else _seems_off(self.first)


class Portfolio:
    """The alternatives of one component, in their order, and what is known of them.

    Parameters
    ----------
    order
        Name of an order, or ``"auto"``: try several.
    """

    def __init__(self, problem: Problem, settings: Settings, order: str) -> None:
        self.problem = problem
        self._entries = [_Entry(alternative) for alternative in _alternatives(problem, settings, order)]
        self._answer: Solved | None = None
        self._fewest = FEWEST

    def ask_for(self, alternatives: int) -> None:
        """Have at least so many alternatives tried, if there are so many."""
        if alternatives <= self._fewest:
            return
        for number, entry in enumerate(self._entries):
            # What did not count was given up somewhere, and its tables are gone.
            if entry.answer is None and not self._counts(number):
                self.give_back(number)
        self._fewest = alternatives
        self._answer = None

    def take(self) -> int | None:
        """Return the number of an alternative to be run now, if there is one that seems to be needed."""
        for number, entry in enumerate(self._entries):
            if not entry.taken:
                if not self.needed(number) or not self._likely(number):
                    return None
                entry.taken = True
                return number
        return None

    def alternative(self, number: int) -> Alternative:
        """Return the alternative of that number."""
        return self._entries[number].alternative

    def give_back(self, number: int) -> None:
        """Note that nobody runs an alternative any more, and that what was done for it is lost."""
        self._entries[number] = _Entry(self._entries[number].alternative)

    def note_forward(self, number: int, work: float, exact: bool, loss: float) -> None:
        """Note what the forward pass has shown."""
        entry = self._entries[number]
        entry.work, entry.exact, entry.loss = work, exact, loss

    def note_first(self, number: int, answer: Solved) -> None:
        """Note the answer of an alternative after its first backward sweep."""
        self._entries[number].first = answer

    def note_answer(self, number: int, answer: Solved) -> None:
        """Note the answer of an alternative."""
        self._entries[number].answer = answer

    def note_error(self, number: int, error: Exception) -> None:
        """Note that an alternative has failed."""
        self._entries[number].error = error

    def needed(self, number: int) -> bool:
        """Tell whether an alternative may count, as far as is known."""
        return self._counts(number) is not False

    def worth_finishing(self, number: int) -> bool | None:
        """Tell whether an alternative after its first sweep is to be finished; None: that depends on others."""
        entry = self._entries[number]
        assert entry.first is not None
        if entry.exact:
            return self.needed(number)
        # Of later ones it is not known whether they count.
        least = min((earlier.seems_off for earlier in self._entries[:number]), default=math.inf)
        if not self.needed(number) or entry.seems_off > _WORTH_FINISHING * least:
            return False
        chosen = self._chosen()
        if chosen is not None:
            return number in chosen
        # Of expensive ones only the best is finished, so it has to be known first which one that is.
        work = math.fsum(earlier.work or 0.0 for earlier in self._entries[: number + 1])
        return True if work <= AVERAGED else None

    def worth_a_try(self, number: int) -> bool:
        """Tell whether to go on with an alternative of which it is not known yet if it is to be finished.

        Whether it is better than those that are not as far can be told, seven times out of ten, by what they have lost;
        as long as that is not known, the first one is taken (docs/decisions.md).
        """
        entry, least = self._entries[number], min(other.seems_off for other in self._entries)
        if self.worth_finishing(number) is not None or entry.seems_off > least:
            return False
        behind = [other for other in self._entries if other.taken and other.first is None]
        if any(other.work is None for other in behind):
            return number == 0
        return all(entry.apparent_loss <= other.apparent_loss for other in behind)

    def answer(self) -> Solved | None:
        """Return the component's answer, once all that counts is known; raise what went wrong with what counts."""
        for number, entry in enumerate(self._entries):
            if entry.error is not None and self._counts(number):
                raise entry.error
        chosen = self._chosen() if self._answer is None else None
        if chosen is not None:
            answers = {number: self._entries[number].answer for number in chosen}
            known = [answer for answer in answers.values() if answer is not None]
            if len(known) == len(answers):
                self._answer = _combined(known, self._dropped(chosen))
        return self._answer

    def _dropped(self, chosen: Sequence[int]) -> list[Solved]:
        """Return what is known of the alternatives that count, but are not among the chosen ones."""
        return [
            entry.first
            for number, entry in enumerate(self._entries)
            if entry.first is not None and number not in chosen and self._counts(number)
        ]

    def _counts(self, number: int) -> bool | None:
        """Tell whether an alternative counts; None: not known yet."""
        before = self._entries[:number]
        if any(entry.exact for entry in before):
            return False
        if number >= self._fewest and math.fsum(entry.work or 0.0 for entry in before) > WORK:
            return False
        return None if any(entry.work is None for entry in before) else True

    def _likely(self, number: int) -> bool:
        """Tell whether an alternative will count if those under way cost as much as the others."""
        works = [entry.work for entry in self._entries[:number] if entry.work is not None]
        return number < self._fewest or (bool(works) and math.fsum(works) * number <= WORK * len(works))

    def _chosen(self) -> list[int] | None:
        """Return the alternatives that make the answer, in their order; None: not known yet."""
        least, work = math.inf, 0.0
        averaged: dict[int, float] = {}
        expensive: dict[int, float] = {}
        for number, entry in enumerate(self._entries):
            counts = self._counts(number)
            if counts is False:
                break
            if counts and entry.exact:
                return [number]
            if counts is None or entry.work is None or entry.first is None:
                return None
            work += entry.work
            if entry.seems_off <= _WORTH_FINISHING * least:
                if work <= AVERAGED:
                    averaged[number] = entry.seems_off
                elif entry.seems_off < least:
                    expensive = {number: entry.seems_off}
                least = min(least, entry.seems_off)
        return [number for number, off in (averaged | expensive).items() if off <= _WORTH_FINISHING * least]


def _seems_off(answer: Solved) -> float:
    """Return how far off an answer seems to be, whatever sweeps there were after the first."""
    return answer.posterior.inconsistencies[0] + _LOSS_PART * answer.loss


def _combined(answers: Sequence[Solved], dropped: Sequence[Solved]) -> Solved:
    """Return the geometric mean of the answers; in all else the best of them.

    They seem to be about equally good. Such answers are off in different directions, so their mean is better than any.
    """
    best = min(answers, key=_seems_off)
    posteriors = [answer.posterior for answer in answers]
    marginals = {
        variable: _geometric_mean([posterior.marginals[variable] for posterior in posteriors])
        for variable in best.posterior.marginals
    }
    log_z = math.fsum(posterior.log_z for posterior in posteriors) / len(posteriors)
    tried = [*answers, *dropped]
    return replace(
        best,
        posterior=replace(best.posterior, marginals=marginals, log_z=log_z),
        tried=len(tried),
        spread=_spread(marginals, [answer.posterior.marginals for answer in tried]),
    )


def _spread(marginals: Marginals, tried: Sequence[Marginals]) -> float:
    """Return the largest Hellinger distance between two marginals of the same variable, in the mean over those tried.

    One of them is the answer itself, or all are as much nearer to their mean: one less is counted.
    """
    distances = [largest_distance(marginals, others) for others in tried]
    return math.fsum(distances) / max(len(tried) - 1, 1)


def _geometric_mean(marginals: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    if len(marginals) == 1:
        return marginals[0]
    logarithms = np.log(np.maximum(marginals, _NEGLIGIBLE)).mean(axis=0)
    mean: NDArray[np.float64] = np.exp(logarithms - logarithms.max())
    mean[np.max(marginals, axis=0) <= _NEGLIGIBLE] = 0.0
    mean /= mean.sum()
    return mean


def _alternatives(problem: Problem, settings: Settings, order: str) -> Iterator[Alternative]:
    """Iterate over the ways to try.

    First all orders, then all with one bit more of reduction, then both with other elimination orders.
    """
    if order != "auto":
        yield Alternative(order, 0, settings)
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
                    yield Alternative(name, variant, attempt)


def _usual_order(problem: Problem) -> str:
    """Return the paper's choice: topological for Bayesian networks, else any other."""
    return "elimination" if problem.ranks is None else "topological"
