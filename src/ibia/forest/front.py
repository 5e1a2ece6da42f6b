"""Fronts: eliminations that go through a graph from one end to the other.

Greedy elimination takes what is cheapest wherever it is; what is left between the places where it has been gets wide.
In graphs that are longer than wide, or would be without what is cheap at their edges, a front that moves through them
stays short. So what makes small cliques goes first, greedily, and then a front goes through the rest. How small, and
where the front starts, decides the width, and is tried out. Knows vertices from 0 on, nothing of variables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, part
from ibia.forest.elimination import Elimination, extended

__all__ = ["by_fronts", "far_vertex", "follow_front"]

_compile = entry()
_compile_part = part()

Integers = NDArray[np.int64]
Bits = NDArray[np.float64]

# Sums of bits that differ by less are equal.
_SAME = 1e-7
_EPSILON = 1e-9


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


@_compile
def by_fronts(gone: Elimination, log2: Bits, shares: Bits, limit: float, bound: float) -> Elimination:
    """Go on with a greedy elimination, where that was given up, along the best of several fronts through the rest.

    Parameters
    ----------
    gone
        What was eliminated, with what is left (see `eliminate`).
    shares
        Where fronts start: at two ends of the rest, found from the first of these places, and at the other places.
    limit
        A front that needs more bits is given up. If all are, or if there is no rest, the width is infinite.
    bound
        The width wanted: within it fewest entries are best, beyond it the least sum of width and logarithm of the
        entries (see `search.rank`).
    """
    work = gone.work
    best = Elimination(np.inf, np.inf, work, gone.order, gone.starts, gone.members)
    if gone.width < np.inf:
        return best
    steps, count = gone.order.size, log2.size - gone.order.size
    vertices, place = np.empty(count, np.int64), np.zeros(log2.size, np.int64)
    for vertex in gone.order:
        place[vertex] = -1
    left = 0
    for vertex in range(log2.size):
        if place[vertex] == 0:
            place[vertex] = left
            vertices[left] = vertex
            left += 1
    own, rest_starts = np.empty(count), np.empty(count + 1, np.int64)
    for position in range(count):
        own[position] = log2[vertices[position]]
    begin = gone.starts[steps]
    for position in range(count + 1):
        rest_starts[position] = gone.starts[steps + position] - begin
    rest = np.empty(rest_starts[count], np.int64)
    for position in range(rest.size):
        rest[position] = place[gone.members[begin + position]]
    width, size = 0.0, 0.0
    for step in range(steps):
        bits = 0.0
        for member in gone.members[gone.starts[step] : gone.starts[step + 1]]:
            bits += log2[member]
        width = max(width, bits)
        size += 2.0**bits
    best_beyond, best_rank = True, np.inf
    first = int(shares[0] * count)
    for number in range(shares.size + 1):
        first = far_vertex(rest_starts, rest, first) if number < 2 else int(shares[number - 1] * count)
        found = follow_front(rest_starts, rest, own, first, limit)
        work += found.work
        if found.width > limit:
            continue
        whole_width, whole_size = max(width, found.width), size + found.size
        beyond = whole_width > bound + _EPSILON
        rank = whole_width + np.log2(whole_size) if beyond else whole_size
        if beyond < best_beyond or (beyond == best_beyond and rank < best_rank):
            best = Elimination(whole_width, whole_size, work, found.order, found.starts, found.members)
            best_beyond, best_rank = beyond, rank
            limit = min(limit, max(whole_width, bound) + _EPSILON)
    if best.width == np.inf:
        return Elimination(np.inf, np.inf, work, best.order, best.starts, best.members)
    order = np.empty(log2.size, np.int64)
    clique_starts = np.empty(log2.size + 1, np.int64)
    cliques = np.empty(begin + best.starts[count], np.int64)
    for step in range(steps):
        order[step], clique_starts[step] = gone.order[step], gone.starts[step]
    for position in range(begin):
        cliques[position] = gone.members[position]
    for step in range(count):
        order[steps + step], clique_starts[steps + step] = vertices[best.order[step]], begin + best.starts[step]
    clique_starts[log2.size] = cliques.size
    for position in range(best.starts[count]):
        cliques[begin + position] = vertices[best.members[position]]
    return Elimination(best.width, best.size, work, order, clique_starts, cliques)
