"""Triangulation: from scopes to a clique tree of small width, by the best elimination that is found (``search.py``).

Knows scopes and cardinalities, nothing of tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry
from ibia.forest.elimination import Elimination, surely_exceeds
from ibia.forest.graph import graph_of
from ibia.forest.layout import Trees, lay_out
from ibia.forest.search import search

__all__ = ["CliqueTree", "clique_tree", "maximal_cliques", "numbered_trees", "triangulate"]

_compile = entry()

Integers = NDArray[np.int64]

# In larger graphs the test whether anything can fit takes longer than trying.
_MOST_CONTRACTED = 1024


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
