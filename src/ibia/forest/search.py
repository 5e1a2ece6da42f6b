"""The search for an elimination of small width: greedily (min-fill and others), and by fronts (``front.py``).

Elimination decides the width, so it is repeated with random ties and several criteria; a repetition stops as soon as it
is worse than the best so far or than the bound. Knows vertices from 0 on, nothing of variables.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ibia.forest.elimination import Elimination, eliminate, missing_edges
from ibia.forest.front import far_vertex, follow_front, without_cheap
from ibia.forest.graph import Graph

__all__ = ["MOST_ENTRIES", "search", "search_fronts"]

Integers = NDArray[np.int64]
Bits = NDArray[np.float64]
Criterion = tuple[Integers, Integers]

# Weights of variables in weighted fill are whole multiples of this many bits: sums are exact, and equal ones equal.
_WEIGHT = 2.0**-10
# The criteria, and the turns they take: fewest fill edges, smallest weighted fill, smallest clique.
_FILL, _WEIGHTED_FILL, _SIZE = "fill", "weighted fill", "size"
_TURNS = (_FILL, _FILL, _WEIGHTED_FILL, _SIZE)
# Trees with more table entries than this are not worth a longer search: nobody will make those tables.
MOST_ENTRIES = 2.0**24
# Fronts that are wider are of no use to anybody.
_WIDEST = 64.0
# Starts of fronts besides two ends, and a share that, taken again and again, leaves no gaps.
_STARTS, _GOLDEN = 4, 0.6180339887498949
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
) -> Elimination:
    """Return the best of several eliminations (see `triangulate`); its width is infinite if all exceed the limit."""
    generator: np.random.Generator | None = None
    noise = np.arange(log2.size, dtype=float)
    if log2.size > _LONG:
        generator = np.random.default_rng(seed)
        noise = generator.random(log2.size)
    fill = _criterion(_FILL, graph, log2)
    best = eliminate(*graph, log2, *fill, noise, limit + _EPSILON, False)
    work = best.work
    criteria = {_FILL: fill}
    for attempt in range(1, restarts + 1):
        if best.width <= good_enough + _EPSILON or work > effort * min(best.size, MOST_ENTRIES):
            break
        generator = generator or np.random.default_rng(seed)
        noise = generator.random(log2.size)
        name = _TURNS[attempt % len(_TURNS)]
        if name not in criteria:
            criteria[name] = _criterion(name, graph, log2)
        found = eliminate(*graph, log2, *criteria[name], noise, min(limit, best.width) + _EPSILON, False)
        work += found.work
        if found.width < best.width - _EPSILON or (found.width <= best.width + _EPSILON and found.size < best.size):
            best = found
    return best


def search_fronts(
    graph: Graph,
    log2: Bits,
    best: Elimination,
    attempts: int,
    good_enough: float = 0.0,
    bound: float = 0.0,
    effort: float = math.inf,
    most_entries: float = math.inf,
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
    """
    generator = np.random.default_rng(0)
    criteria = [_criterion(name, graph, log2) for name in (_FILL, _WEIGHTED_FILL)]
    noise = np.arange(log2.size, dtype=float)
    work = 0
    for attempt in range(attempts):
        if best.width <= good_enough + _EPSILON or work > effort * min(best.size, most_entries):
            break
        # How small is small: shares that are spread evenly, however many there are.
        share = attempt * _GOLDEN % 1.0
        rest = without_cheap(graph, log2, criteria[attempt % 2], noise, share * min(best.width, _WIDEST))
        noise = generator.random(log2.size)
        work += _ATTEMPT
        if rest is None:
            continue
        work += rest.work
        bits = log2[rest.vertices]
        one = far_vertex(*rest.graph, int(generator.integers(bits.size)))
        for first in (one, far_vertex(*rest.graph, one), *generator.integers(bits.size, size=_STARTS).tolist()):
            limit = min(max(best.width, bound), _WIDEST) + _EPSILON
            found = follow_front(*rest.graph, bits, first, limit)
            work += found.work
            if found.width <= limit:
                whole = rest.joined(found)
                if _rank(whole, bound) < _rank(best, bound):
                    best = whole
    return best


def _rank(elimination: Elimination, bound: float) -> tuple[bool, float]:
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
