"""The search for an elimination of small width: greedily (min-fill and others), and by fronts (``front.py``).

Elimination decides the width, so it is repeated with random ties and several criteria; a repetition stops as soon as it
is worse than the best so far or than the bound. Several are made side by side, as if none of them were better than the
best so far. Most are not; where one is, those after it are made again, so that what is found does not depend on the
number of threads. Knows vertices from 0 on, nothing of variables.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.forest.elimination import Elimination, eliminate, missing_edges
from ibia.forest.front import by_fronts
from ibia.forest.graph import Graph
from ibia.threads import run_all

__all__ = ["MOST_ENTRIES", "WIDEST", "WORTH_WAKING", "rank", "search", "search_fronts"]

Integers = NDArray[np.int64]
Bits = NDArray[np.float64]
Criterion = tuple[Integers, Integers]
# What tries to find a better elimination than the best so far: it returns the better of both, and the steps it took.
Attempt = Callable[[Elimination], tuple[Elimination, int]]

# Weights of variables in weighted fill are whole multiples of this many bits: sums are exact, and equal ones equal.
_WEIGHT = 2.0**-10
# The criteria, and the turns they take: fewest fill edges, smallest weighted fill, smallest clique.
_FILL, _WEIGHTED_FILL, _SIZE = "fill", "weighted fill", "size"
_TURNS = (_FILL, _FILL, _WEIGHTED_FILL, _SIZE)
# Trees with more table entries than this are not worth a longer search: nobody will make those tables.
MOST_ENTRIES = 2.0**24
# Trees that are wider are of no use to anybody.
WIDEST = 64.0
# Starts of fronts besides two ends, and a share that, taken again and again, leaves no gaps.
_STARTS, _GOLDEN = 4, 0.6180339887498949
# Waking another thread takes longer than so many steps.
WORTH_WAKING = 2**15
# What is not compiled takes as long, for each attempt, as so many steps.
_ATTEMPT = 20_000
_NONE: Integers = np.empty(0, np.int64)
_EPSILON = 1e-9
# In larger graphs the first elimination has random ties as well: with ties by number, it goes round long cycles vertex
# by vertex, and puts one of them into all cliques.
_LONG = 2**12


def search(
    graph: Graph,
    log2: NDArray[np.float64],
    limit: float,
    restarts: int,
    good_enough: float,
    seed: int,
    effort: float,
    control: Control | None = None,
    further: Callable[[Elimination], float] | None = None,
) -> Elimination:
    """Return the best of several eliminations (see `triangulate`); its width is infinite if all exceed the limit.

    Parameters
    ----------
    further
        Tells, from the best that was found with the effort, the effort to go on with.
    """
    if control is not None:
        control.check()
    generator = np.random.default_rng(seed) if log2.size > _LONG else None
    noise = np.arange(log2.size, dtype=float) if generator is None else generator.random(log2.size)
    fill = _criterion(_FILL, graph, log2)
    first = eliminate(*graph, log2, *fill, noise, limit + _EPSILON, False)

    def attempts() -> Iterator[Attempt]:
        ties = np.random.default_rng(seed) if generator is None else generator
        criteria = {_FILL: fill}
        for number in range(1, restarts + 1):
            name = _TURNS[number % len(_TURNS)]
            if name not in criteria:
                criteria[name] = _criterion(name, graph, log2)
            yield partial(greedily, criteria[name], ties.random(log2.size))

    def greedily(criterion: Criterion, noise: Bits, best: Elimination) -> tuple[Elimination, int]:
        found = eliminate(*graph, log2, *criterion, noise, min(limit, best.width) + _EPSILON, False)
        better = found.width < best.width - _EPSILON or (
            found.width <= best.width + _EPSILON and found.size < best.size
        )
        return (found if better else best), found.work

    tried = _Attempts(first, attempts(), good_enough, MOST_ENTRIES, first.work, control)
    best = tried.best(effort)
    return best if further is None else tried.best(further(best))


def search_fronts(
    graph: Graph,
    log2: Bits,
    best: Elimination,
    attempts: int,
    good_enough: float = 0.0,
    bound: float = 0.0,
    effort: float = math.inf,
    most_entries: float = math.inf,
    control: Control | None = None,
    seed: int = 0,
) -> Elimination:
    """Return the best of some eliminations by fronts, or `best` if that is better.

    Parameters
    ----------
    attempts
        How many times to eliminate what makes small cliques, and to follow some fronts through the rest.
    good_enough
        Stop early at this width.
    bound
        The width wanted.
    effort, most_entries
        Stop early when the search took more than this many steps for each table entry of the best so far, of which no
        more than so many count.
    control
        Its threads make attempts side by side.
    seed
        Decides ties, and where fronts start.
    """

    def tries() -> Iterator[Attempt]:
        generator = np.random.default_rng(seed)
        criteria = [_criterion(name, graph, log2) for name in (_FILL, _WEIGHTED_FILL)]
        noise = np.arange(log2.size, dtype=float)
        for number in range(attempts):
            # How small is small: shares that are spread evenly, however many there are.
            share = number * _GOLDEN % 1.0
            yield partial(attempt, criteria[number % 2], noise, share, generator.random(1 + _STARTS))
            noise = generator.random(log2.size)

    def attempt(
        criterion: Criterion, noise: Bits, share: float, places: Bits, best: Elimination
    ) -> tuple[Elimination, int]:
        cheap = share * min(best.width, WIDEST)
        limit = min(max(best.width, bound), WIDEST) + _EPSILON
        gone = eliminate(*graph, log2, *criterion, noise, cheap, True)
        found = by_fronts(gone, log2, places, limit, bound)
        better = found.width <= limit and rank(found, bound) < rank(best, bound)
        return (found if better else best), _ATTEMPT + found.work

    return _Attempts(best, tries(), good_enough, most_entries, 0, control).best(effort)


class _Attempts:
    """Attempts made one after the other, as far as effort allows, and the best that was found.

    Parameters
    ----------
    best
        The best so far.
    good_enough
        Stop at this width.
    most_entries
        No more entries of the best count for the effort.
    work
        Steps taken so far.
    """

    def __init__(
        self,
        best: Elimination,
        attempts: Iterable[Attempt],
        good_enough: float,
        most_entries: float,
        work: int,
        control: Control | None,
    ) -> None:
        self._best = best
        self._following = iter(attempts)
        self._begun: deque[Attempt] = deque()
        self._side_by_side = 1
        self._good_enough = good_enough
        self._most_entries = most_entries
        self._work = work
        self._control = control

    def best(self, effort: float) -> Elimination:
        """Go on until the best is good enough or all took more than this many steps for each entry of it."""
        control, begun = self._control, self._begun
        while self._best.width > self._good_enough + _EPSILON and not self._exceeds(effort):
            if control is not None:
                control.check()
            begun.extend(islice(self._following, self._side_by_side - len(begun)))
            if not begun:
                break
            calls = [partial(attempt, self._best) for attempt in begun]
            for found, steps in [call() for call in calls] if control is None else run_all(calls, control):
                begun.popleft()
                self._work += steps
                if control is not None and steps >= WORTH_WAKING:
                    self._side_by_side = max(self._side_by_side, control.threads)
                changed, self._best = found is not self._best, found
                if changed or self._exceeds(effort):
                    break
        return self._best

    def _exceeds(self, effort: float) -> bool:
        return self._work > effort * min(self._best.size, self._most_entries)


def rank(elimination: Elimination, bound: float) -> tuple[bool, float]:
    """Return what says which of two eliminations is better: the lesser.

    Within the bound entries count, beyond it the width, too: it decides how many slices there would have to be.
    """
    if elimination.width <= bound + _EPSILON:
        return False, elimination.size
    return True, elimination.width + math.log2(elimination.size)


def _criterion(name: str, graph: Graph, log2: Bits) -> Criterion:
    """Return the weights of the vertices by a criterion, and the weight of the edges missing around each."""
    if name == _SIZE:
        return _NONE, _NONE
    weights = np.ones(log2.size, np.int64)
    if name == _WEIGHTED_FILL:
        # At least one, so that only a vertex whose neighbours are all joined costs nothing.
        weights = np.maximum(np.rint(log2 / _WEIGHT).astype(np.int64), 1)
    return weights, missing_edges(*graph, weights)
