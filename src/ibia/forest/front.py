"""Fronts: eliminations that go through a graph from one end to the other.

Greedy elimination takes what is cheapest wherever it is; what is left between the places where it has been gets wide.
In graphs that are longer than wide, or would be without what is cheap at their edges, a front that moves through them
stays short. So here what makes small cliques goes first, greedily, and then a front goes through the rest. How small,
and where the front starts, decides the width, and is tried out. Knows vertices from 0 on, nothing of variables.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, part
from ibia.forest.elimination import Elimination, eliminate, extended
from ibia.forest.graph import Graph

__all__ = ["Rest", "far_vertex", "follow_front", "without_cheap"]

_compile = entry()
_compile_part = part()

Integers = NDArray[np.int64]
Bits = NDArray[np.float64]

# Sums of bits that differ by less are equal.
_SAME = 1e-7


class Rest:
    """A graph after what makes small cliques was eliminated.

    Parameters
    ----------
    log2
        Bits of each vertex.
    gone
        An elimination that was given up, with what is left (see `eliminate`).

    Attributes
    ----------
    work
        Steps taken so far.
    vertices
        Those that are left, sorted.
    graph
        Over their positions.
    """

    def __init__(self, log2: Bits, gone: Elimination) -> None:
        self._log2 = log2
        self._gone = gone
        self.work = gone.work
        left = np.ones(log2.size, np.bool_)
        left[gone.order] = False
        self.vertices = left.nonzero()[0]
        starts = gone.starts[gone.order.size :]
        position = left.cumsum() - 1
        self.graph = Graph(starts - starts[0], position[gone.members[starts[0] : starts[-1]]])

    def places_to_start(self, shares: Bits) -> list[int]:
        """Return where fronts may start: at two ends, found from the first of some places (shares), and at the rest."""
        somewhere, *others = (shares * self.vertices.size).astype(np.int64).tolist()
        one = far_vertex(*self.graph, somewhere)
        return [one, far_vertex(*self.graph, one), *others]

    @cached_property
    def before(self) -> Elimination:
        """The elimination so far: its cliques, and their vertices in the order in which they went."""
        order = self._gone.order
        starts = self._gone.starts[: order.size + 1]
        members = self._gone.members[: starts[-1]]
        bits = np.bincount(np.arange(order.size).repeat(np.diff(starts)), self._log2[members], order.size)
        return Elimination(float(bits.max(initial=0.0)), float(np.exp2(bits).sum()), self.work, order, starts, members)

    def joined(self, after: Elimination) -> Elimination:
        """Return the whole elimination, of one of the rest."""
        before = self.before
        return Elimination(
            max(before.width, after.width),
            before.size + after.size,
            before.work + after.work,
            np.concatenate((before.order, self.vertices[after.order])),
            np.concatenate((before.starts, before.starts[-1] + after.starts[1:])),
            np.concatenate((before.members, self.vertices[after.members[: after.starts[-1]]])),
        )


def without_cheap(
    graph: Graph, log2: Bits, criterion: tuple[Integers, Integers], noise: Bits, most_bits: float
) -> Rest | None:
    """Eliminate greedily (see `eliminate`) while the cliques have at most so many bits; return what is left, if any."""
    found = eliminate(*graph, log2, *criterion, noise, most_bits, True)
    return None if math.isfinite(found.width) else Rest(log2, found)


@_compile
def far_vertex(starts: Integers, neighbours: Integers, vertex: int) -> int:
    """Return a vertex as far away as any that can be reached."""
    reached = np.zeros(starts.size - 1, np.bool_)
    waiting = np.empty(starts.size - 1, np.int64)
    waiting[0] = vertex
    reached[vertex] = True
    first, last = 0, 1
    while first < last:
        vertex = waiting[first]
        first += 1
        for neighbour in neighbours[starts[vertex] : starts[vertex + 1]]:
            if not reached[neighbour]:
                reached[neighbour] = True
                waiting[last] = neighbour
                last += 1
    return vertex


@_compile
def follow_front(starts: Integers, neighbours: Integers, log2: Bits, first: int, limit: float) -> Elimination:
    """Eliminate all vertices along a front that moves through the graph, from the vertex `first` on.

    The next one is that of the front which makes it grow least, of those the one that has been there longest. All that
    is gone hangs together, so each clique is all of the front; where the graph does not, another front begins. Gives up
    when a clique has more than `limit` bits.
    """
    count = log2.size
    entered = np.full(count, -1, np.int64)
    # Bits of the neighbours of each vertex that the front has not reached.
    ahead = np.zeros(count)
    for vertex in range(count):
        for neighbour in neighbours[starts[vertex] : starts[vertex + 1]]:
            ahead[vertex] += log2[neighbour]
    front = np.empty(count, np.int64)
    length = _reach(starts, neighbours, log2, front, 0, entered, ahead, first, 0)
    order = np.empty(count, np.int64)
    clique_starts = np.zeros(count + 1, np.int64)
    cliques = np.empty(2 * count, np.int64)
    width, size, work = 0.0, 0.0, neighbours.size + count
    unreached = 0
    for step in range(count):
        if not length:
            while entered[unreached] >= 0:
                unreached += 1
            length = _reach(starts, neighbours, log2, front, length, entered, ahead, unreached, step)
        work += length
        chosen, least = 0, np.inf
        for place in range(length):
            growth = ahead[front[place]] - log2[front[place]]
            if growth < least - _SAME or (growth < least + _SAME and entered[front[place]] < entered[front[chosen]]):
                chosen, least = place, growth
        vertex = front[chosen]
        for neighbour in neighbours[starts[vertex] : starts[vertex + 1]]:
            if entered[neighbour] < 0:
                length = _reach(starts, neighbours, log2, front, length, entered, ahead, neighbour, step + 1)
        order[step] = vertex
        begin = clique_starts[step]
        clique_starts[step + 1] = begin + length
        cliques = extended(cliques, begin, begin + length)
        bits, kept = 0.0, 0
        for place in range(length):
            member = front[place]
            cliques[begin + place] = member
            bits += log2[member]
            if member != vertex:
                front[kept] = member
                kept += 1
        if bits > limit:
            return Elimination(np.inf, np.inf, work, order, clique_starts, cliques)
        length = kept
        width = max(width, bits)
        size += 2.0**bits
    return Elimination(width, size, work, order, clique_starts, cliques)


@_compile_part
def _reach(
    starts: Integers,
    neighbours: Integers,
    log2: Bits,
    front: Integers,
    length: int,
    entered: Integers,
    ahead: Bits,
    vertex: int,
    step: int,
) -> int:
    """Put a vertex into the front, which stays sorted; return how long it is then."""
    entered[vertex] = step
    for neighbour in neighbours[starts[vertex] : starts[vertex + 1]]:
        ahead[neighbour] -= log2[vertex]
    place = length
    while place > 0 and front[place - 1] > vertex:
        front[place] = front[place - 1]
        place -= 1
    front[place] = vertex
    return length + 1
