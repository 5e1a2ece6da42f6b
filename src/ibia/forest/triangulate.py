"""Triangulation: from scopes to a clique tree of small width (min-fill, with restarts).

Greedy elimination decides the width, so it is repeated with random ties and several criteria; a repetition stops as
soon as it is worse than the best so far or than the bound. Knows scopes and cardinalities, nothing of tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry
from ibia.forest.elimination import Elimination, Graph, eliminate, missing_edges, surely_exceeds
from ibia.forest.layout import Trees, lay_out

__all__ = [
    "MOST_ENTRIES",
    "CliqueTree",
    "clique_tree",
    "graph_of",
    "maximal_cliques",
    "numbered_trees",
    "search",
    "triangulate",
]

_compile = entry()

Integers = NDArray[np.int64]

# Weights of variables in weighted fill are whole multiples of this many bits: sums are exact, and equal ones equal.
_WEIGHT = 2.0**-10
# The criteria, and the turns they take: fewest fill edges, smallest weighted fill, smallest clique.
_FILL, _WEIGHTED_FILL, _SIZE = "fill", "weighted fill", "size"
_TURNS = (_FILL, _FILL, _WEIGHTED_FILL, _SIZE)
# Trees with more table entries than this are not worth a longer search: nobody will make those tables.
MOST_ENTRIES = 2.0**24
# In larger graphs the test whether anything can fit takes longer than trying.
_MOST_CONTRACTED = 1024
_NONE: Integers = np.empty(0, np.int64)


class CliqueTree(NamedTuple):
    """A clique tree forest made by elimination.

    Attributes
    ----------
    width
        Bits of the largest clique.
    order
        The elimination order of the variables.
    cliques
        Maximal cliques, as sorted tuples of variables.
    edges
        Pairs of positions in `cliques`.
    home
        For each variable the clique (position) of its elimination: it contains every scope whose first eliminated
        variable it is.
    """

    width: float
    order: list[int]
    cliques: list[tuple[int, ...]]
    edges: list[tuple[int, int]]
    home: dict[int, int]

    def sepsets(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Return the edges, each with the variables its two cliques share."""
        members = [frozenset(clique) for clique in self.cliques]
        return [(first, second, tuple(sorted(members[first] & members[second]))) for first, second in self.edges]

    def homes(self, scopes: Iterable[tuple[int, ...]]) -> list[int]:
        """Return for each scope a clique (position) that contains it, if one does."""
        place = {variable: position for position, variable in enumerate(self.order)}
        return [self.home[min(scope, key=place.__getitem__)] for scope in scopes]

    def renumbered(self, number: Mapping[int, int]) -> CliqueTree:
        """Return the same tree with variables replaced by their numbers."""
        return CliqueTree(
            self.width,
            [number[variable] for variable in self.order],
            [tuple(sorted(number[variable] for variable in clique)) for clique in self.cliques],
            self.edges,
            {number[variable]: clique for variable, clique in self.home.items()},
        )


def triangulate(
    scopes: Iterable[tuple[int, ...]],
    log2: Sequence[float] | Mapping[int, float],
    limit: float = float("inf"),
    restarts: int = 0,
    good_enough: float = 0.0,
    seed: int = 0,
    effort: float = float("inf"),
) -> CliqueTree | None:
    """Return a clique tree forest in which every scope lies in a clique, or None when each attempt exceeds `limit`.

    Parameters
    ----------
    scopes
        Sets of variables; every one becomes part of a clique.
    log2
        Bits of each variable.
    limit
        Largest clique allowed, in bits.
    restarts
        How many more eliminations with random ties to try after the first.
    good_enough
        Stop early at this width.
    seed
        Decides the random ties: same seed, same tree.
    effort
        Stop early when the search took more than this many steps for each table entry of the best tree so far (of more
        than 2^24 entries, for 2^24).
    """
    listed = list(scopes)
    members = np.array(list(chain.from_iterable(listed)), np.int64)
    if not members.size:
        return CliqueTree(0.0, [], [], [], {})
    variables, graph = graph_of(np.array(list(map(len, listed)), np.int64), members)
    bits = np.array([log2[variable] for variable in variables.tolist()])
    if math.isfinite(limit) and bits.size <= _MOST_CONTRACTED and surely_exceeds(*graph, bits, limit):
        return None
    best = search(graph, bits, limit, restarts, good_enough, seed, effort)
    return clique_tree(best, variables) if np.isfinite(best.width) else None


def graph_of(lengths: Integers, members: Integers) -> tuple[Integers, Graph]:
    """Return the variables of scopes that lie end to end, sorted, and the graph over their positions."""
    variables, starts, neighbours = _graph(lengths, members, np.sort(members))
    return variables, Graph(starts, neighbours)


@_compile
def _graph(lengths: Integers, members: Integers, variables: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the variables and the graph over their positions in which every scope is a clique.

    `variables` are the members sorted; what NumPy would do with them here takes long to compile.
    """
    count = 1
    for place in range(1, variables.size):
        if variables[place] != variables[place - 1]:
            variables[count] = variables[place]
            count += 1
    variables = variables[:count]
    local = np.empty(members.size, np.int64)
    for place in range(members.size):
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) >> 1
            if variables[middle] < members[place]:
                low = middle + 1
            else:
                high = middle
        local[place] = low
    scope_starts = np.zeros(lengths.size + 1, np.int64)
    held = np.zeros(count + 1, np.int64)
    for scope in range(lengths.size):
        scope_starts[scope + 1] = scope_starts[scope] + lengths[scope]
    for member in local:
        held[member + 1] += 1
    used = np.empty(count, np.int64)
    for vertex in range(count):
        held[vertex + 1] += held[vertex]
        used[vertex] = held[vertex]
    holders = np.empty(members.size, np.int64)
    for scope in range(lengths.size):
        for member in local[scope_starts[scope] : scope_starts[scope + 1]]:
            holders[used[member]] = scope
            used[member] += 1
    # Counted first, then written: every vertex goes to the lists of its neighbours in turn, so these are sorted.
    starts = np.zeros(count + 1, np.int64)
    ends = np.empty(count, np.int64)
    neighbours = np.empty(0, np.int64)
    marks = np.empty(count, np.int64)
    for writing in range(2):
        if writing:
            for vertex in range(count):
                starts[vertex + 1] += starts[vertex]
                ends[vertex] = starts[vertex]
            neighbours = np.empty(starts[count], np.int64)
        for vertex in range(count):
            marks[vertex] = -1
        for vertex in range(count):
            marks[vertex] = vertex
            for scope in holders[held[vertex] : held[vertex + 1]]:
                for other in local[scope_starts[scope] : scope_starts[scope + 1]]:
                    if marks[other] != vertex:
                        marks[other] = vertex
                        if writing:
                            neighbours[ends[other]] = vertex
                            ends[other] += 1
                        else:
                            starts[other + 1] += 1
    return variables, starts, neighbours


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
    noise = np.arange(log2.size, dtype=float)
    fill = _criterion(_FILL, graph, log2)
    best = eliminate(*graph, log2, *fill, noise, limit + 1e-9)
    work = best.work
    criteria = {_FILL: fill}
    generator: np.random.Generator | None = None
    for attempt in range(1, restarts + 1):
        if best.width <= good_enough + 1e-9 or work > effort * min(best.size, MOST_ENTRIES):
            break
        generator = generator or np.random.default_rng(seed)
        noise = generator.random(log2.size)
        name = _TURNS[attempt % len(_TURNS)]
        if name not in criteria:
            criteria[name] = _criterion(name, graph, log2)
        found = eliminate(*graph, log2, *criteria[name], noise, min(limit, best.width) + 1e-9)
        work += found.work
        if found.width < best.width - 1e-9 or (found.width <= best.width + 1e-9 and found.size < best.size):
            best = found
    return best


def _criterion(name: str, graph: Graph, log2: NDArray[np.float64]) -> tuple[Integers, Integers]:
    """Return the weights of the vertices by a criterion, and the weight of the edges missing around each."""
    if name == _SIZE:
        return _NONE, _NONE
    weights = np.ones(log2.size, np.int64)
    if name == _WEIGHTED_FILL:
        # At least one, so that only a vertex whose neighbours are all joined costs nothing.
        weights = np.maximum(np.rint(log2 / _WEIGHT).astype(np.int64), 1)
    return weights, missing_edges(*graph, weights)


def clique_tree(elimination: Elimination, variables: Integers) -> CliqueTree:
    """Turn an elimination into its tree of maximal cliques."""
    starts, members, firsts, seconds, homes = maximal_cliques(
        elimination.order, elimination.starts, elimination.members, variables
    )
    order = variables[elimination.order].tolist()
    ends, listed = starts.tolist(), members.tolist()
    return CliqueTree(
        elimination.width,
        order,
        [tuple(listed[begin:end]) for begin, end in pairwise(ends)],
        list(zip(firsts.tolist(), seconds.tolist(), strict=True)),
        dict(zip(order, homes.tolist(), strict=True)),
    )


def numbered_trees(elimination: Elimination) -> tuple[Integers, Trees, Integers]:
    """Number vertices as they are eliminated; return the numbers, the trees of maximal cliques, and the numbers' homes.

    A number's home is the clique of its elimination: it contains every scope whose least number it is.
    """
    number = np.empty_like(elimination.order)
    number[elimination.order] = np.arange(elimination.order.size)
    starts, cliques, firsts, seconds, homes = maximal_cliques(
        elimination.order, elimination.starts, elimination.members, number
    )
    trees, places = lay_out(starts, cliques, firsts, seconds)
    return number, trees, places[homes]


@_compile
def maximal_cliques(
    order: Integers, starts: Integers, members: Integers, variables: Integers
) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Return the maximal cliques (starts, variables), the edges between them (both ends), and each step's clique."""
    count = order.size
    place = np.empty(count, np.int64)
    for step in range(count):
        place[order[step]] = step
    # The elimination tree: a clique hangs on the clique of the next variable of it to be eliminated.
    parents = np.full(count, count, np.int64)
    for step in range(count):
        for vertex in members[starts[step] : starts[step + 1]]:
            if place[vertex] > step:
                parents[step] = min(parents[step], place[vertex])
    # What a clique has left after its own variable lies in its parent; if that is all of the parent, the parent is no
    # maximal clique and the child stands for it.
    stands = np.arange(count)
    kept, total = 0, 0
    for step in range(count):
        if stands[step] == step:
            kept += 1
            total += starts[step + 1] - starts[step]
        parent = parents[step]
        rest = starts[step + 1] - starts[step] - 1
        if parent < count and stands[parent] == parent and starts[parent + 1] - starts[parent] == rest:
            stands[parent] = stands[step]
    kept_starts = np.zeros(kept + 1, np.int64)
    kept_members = np.empty(total, np.int64)
    homes = np.empty(count, np.int64)
    firsts, seconds = np.empty(kept, np.int64), np.empty(kept, np.int64)
    kept, total = 0, 0
    for step in range(count):
        if stands[step] == step:
            homes[step] = kept
            for vertex in members[starts[step] : starts[step + 1]]:
                kept_members[total] = variables[vertex]
                total += 1
            kept += 1
            kept_starts[kept] = total
        else:
            homes[step] = homes[stands[step]]
    edges = 0
    for step in range(count):
        if parents[step] < count and homes[parents[step]] != homes[step]:
            firsts[edges], seconds[edges] = homes[step], homes[parents[step]]
            edges += 1
    return kept_starts, kept_members, firsts[:edges], seconds[:edges], homes
