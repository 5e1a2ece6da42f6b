"""Triangulation: from scopes to a clique tree of small width (min-fill on bit sets, with restarts).

Greedy elimination decides the width, so it is repeated with random ties and several criteria; a repetition stops as
soon as it is worse than the best so far or than the bound. Knows scopes and cardinalities, nothing of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["CliqueTree", "triangulate"]

_compile = numba.njit(cache=True)

# Criteria tried in turn by the restarts: fewest fill edges, smallest weighted fill, smallest clique.
_FILL, _WEIGHTED_FILL, _SIZE = 0, 1, 2
# Beyond this degree the exact number of fill edges decides nothing; its upper bound is used instead.
_LARGE_DEGREE = 256


@_compile
def _bit_count(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    # Not int(): compiled, that would stay unsigned and turn sums with signed numbers into floats.
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]


@_compile
def _lowest(word: np.uint64) -> int:
    return _bit_count((word & (~word + np.uint64(1))) - np.uint64(1))


@_compile
def _adjacency(count: int, starts: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return adjacency bit sets (with themselves) of the graph in which every scope is a clique."""
    adjacency = np.zeros((count, (count + 63) // 64), np.uint64)
    one = np.uint64(1)
    for s in range(starts.size - 1):
        for a in range(starts[s], starts[s + 1]):
            for b in range(starts[s], starts[s + 1]):
                adjacency[members[a], members[b] >> 6] |= one << np.uint64(members[b] & 63)
    return adjacency


@_compile
def _neighbours(row: NDArray[np.uint64], found: NDArray[np.int64]) -> int:
    """Write the members of a bit set to `found` and return how many there are."""
    count = 0
    for w in range(row.size):
        word = row[w]
        while word != np.uint64(0):
            found[count] = w * 64 + _lowest(word)
            count += 1
            word &= word - np.uint64(1)
    return count


@_compile
def _cost(
    vertex: int,
    adjacency: NDArray[np.uint64],
    weights: NDArray[np.float64],
    criterion: int,
    found: NDArray[np.int64],
) -> tuple[float, float]:
    """Return the criterion's cost of eliminating `vertex`, and the bits of the clique that makes."""
    row = adjacency[vertex]
    count = _neighbours(row, found)
    bits = 0.0
    for k in range(count):
        bits += weights[found[k]]
    if criterion == _SIZE:
        return bits, bits
    if count > _LARGE_DEGREE:
        return count * count / 2.0, bits
    cost = 0.0
    for k in range(count):
        other = adjacency[found[k]]
        if criterion == _FILL:
            missing = 0
            for w in range(row.size):
                missing += _bit_count(row[w] & ~other[w])
            cost += missing
        else:
            for w in range(row.size):
                word = row[w] & ~other[w]
                while word != np.uint64(0):
                    cost += weights[w * 64 + _lowest(word)] * weights[found[k]]
                    word &= word - np.uint64(1)
    return cost / 2.0, bits


@_compile
def _eliminate(
    graph: NDArray[np.uint64],
    weights: NDArray[np.float64],
    noise: NDArray[np.float64],
    criterion: int,
    limit: float,
    order: NDArray[np.int64],
    cliques: NDArray[np.uint64],
) -> tuple[float, float]:
    """Eliminate all vertices greedily; return width (bits) and total size, or infinite width when over `limit`."""
    count = graph.shape[0]
    adjacency = graph.copy()
    alive = np.ones(count, np.bool_)
    costs = np.empty(count)
    bits = np.empty(count)
    found = np.empty(count, np.int64)
    members = np.empty(count, np.int64)
    touched = np.zeros(graph.shape[1], np.uint64)
    for vertex in range(count):
        costs[vertex], bits[vertex] = _cost(vertex, adjacency, weights, criterion, found)
    width, size = 0.0, 0.0
    for step in range(count):
        best = -1
        for vertex in range(count):
            if alive[vertex] and (
                best < 0
                or costs[vertex] < costs[best]
                or (
                    costs[vertex] == costs[best]
                    and (
                        bits[vertex] < bits[best] - 1e-9
                        or (abs(bits[vertex] - bits[best]) <= 1e-9 and noise[vertex] < noise[best])
                    )
                )
            ):
                best = vertex
        if bits[best] > limit:
            return np.inf, np.inf
        width = max(width, bits[best])
        size += 2.0 ** bits[best]
        order[step] = best
        cliques[step] = adjacency[best]
        alive[best] = False
        row = adjacency[best].copy()
        row[best >> 6] &= ~(np.uint64(1) << np.uint64(best & 63))
        number = _neighbours(row, members)
        touched[:] = row
        clear = ~(np.uint64(1) << np.uint64(best & 63))
        fills = costs[best] > 0.0 or criterion == _SIZE or number > _LARGE_DEGREE
        for k in range(number):
            other = adjacency[members[k]]
            other[best >> 6] &= clear
        if fills:
            # Vertices next to both ends of a new edge lose one of their own missing edges.
            for k in range(number):
                other = adjacency[members[k]]
                for w in range(row.size):
                    word = row[w] & ~other[w]
                    while word != np.uint64(0):
                        end = w * 64 + _lowest(word)
                        word &= word - np.uint64(1)
                        if end > members[k]:
                            for x in range(row.size):
                                touched[x] |= other[x] & adjacency[end, x]
            for k in range(number):
                other = adjacency[members[k]]
                for w in range(row.size):
                    other[w] |= row[w]
        number = _neighbours(touched, members)
        for k in range(number):
            vertex = members[k]
            if alive[vertex]:
                costs[vertex], bits[vertex] = _cost(vertex, adjacency, weights, criterion, found)
    return width, size


@_compile
def _search(
    graph: NDArray[np.uint64],
    weights: NDArray[np.float64],
    noises: NDArray[np.float64],
    first_noise: NDArray[np.float64],
    limit: float,
    good_enough: float,
) -> tuple[float, NDArray[np.int64], NDArray[np.uint64]]:
    """Return width, order and cliques of the best of several eliminations."""
    count = graph.shape[0]
    best_order = np.zeros(count, np.int64)
    best_cliques = np.zeros_like(graph)
    order = np.zeros(count, np.int64)
    cliques = np.zeros_like(graph)
    best_width, best_size = np.inf, np.inf
    for attempt in range(noises.shape[0] + 1):
        noise = first_noise if attempt == 0 else noises[attempt - 1]
        criterion = _FILL if attempt % 4 < 2 else (_WEIGHTED_FILL if attempt % 4 == 2 else _SIZE)
        width, size = _eliminate(
            graph, weights, noise, criterion, min(limit, best_width) + 1e-9, order, cliques
        )
        if width < best_width - 1e-9 or (width <= best_width + 1e-9 and size < best_size):
            best_width, best_size = width, size
            best_order[:] = order
            best_cliques[:] = cliques
            if best_width <= good_enough + 1e-9:
                break
    return best_width, best_order, best_cliques


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
    scopes: Iterable[Iterable[int]],
    log2: Sequence[float] | Mapping[int, float],
    limit: float = float("inf"),
    restarts: int = 0,
    good_enough: float = 0.0,
    seed: int = 0,
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
    """
    listed = [tuple(scope) for scope in scopes]
    variables = sorted({variable for scope in listed for variable in scope})
    local = {variable: position for position, variable in enumerate(variables)}
    starts = np.zeros(len(listed) + 1, np.int64)
    np.cumsum([len(scope) for scope in listed], out=starts[1:])
    members = np.fromiter((local[variable] for scope in listed for variable in scope), np.int64, int(starts[-1]))
    graph = _adjacency(len(variables), starts, members)
    weights = np.array([log2[variable] for variable in variables])
    noises = np.random.default_rng(seed).random((restarts, len(variables)))
    width, order, rows = _search(
        graph, weights, noises, np.arange(len(variables), dtype=float), limit, good_enough
    )
    if not np.isfinite(width) and variables:
        return None
    return _tree(width if variables else 0.0, variables, order, rows)


def _tree(
    width: float, variables: list[int], order: NDArray[np.int64], rows: NDArray[np.uint64]
) -> CliqueTree:
    """Turn the elimination into its tree of maximal cliques."""
    count = len(variables)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    if count:
        dense = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :count].astype(bool)
    steps: list[list[int]] = [np.flatnonzero(dense[step]).tolist() for step in range(count)]
    # The elimination tree: a clique hangs on the clique of the next variable of it to be eliminated.
    parents = [-1] * count
    for step in range(count):
        later = [int(place[vertex]) for vertex in steps[step] if place[vertex] > step]
        if later:
            parents[step] = min(later)
    # A clique inside an earlier one (its child) is no maximal clique; the child stands for it.
    stands = list(range(count))
    scopes = [frozenset(members) for members in steps]
    for step in range(count):
        parent = parents[step]
        if parent >= 0 and stands[parent] == parent and scopes[parent] < scopes[stands[step]]:
            stands[parent] = stands[step]
    kept = [step for step in range(count) if stands[step] == step]
    position = {step: index for index, step in enumerate(kept)}
    edges: list[tuple[int, int]] = []
    for step in range(count):
        parent = parents[step]
        if parent >= 0 and stands[parent] != stands[step]:
            edges.append((position[stands[step]], position[stands[parent]]))
    return CliqueTree(
        float(width),
        [variables[vertex] for vertex in order.tolist()],
        [tuple(variables[vertex] for vertex in steps[step]) for step in kept],
        edges,
        {variables[int(order[step])]: position[stands[step]] for step in range(count)},
    )
