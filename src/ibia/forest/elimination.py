"""Greedy elimination of the vertices of a sparse graph: the compiled loops behind triangulation.

The neighbours of each vertex are a sorted list in one pool, with room to grow; vertices that are gone are skipped and
dropped when a list is next rewritten. What a vertex's elimination would cost is kept up to date edge by edge, in whole
numbers, so it depends neither on the order of the updates nor on rounding. Knows vertices from 0 on, nothing of
variables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside, part

__all__ = ["Elimination", "eliminate", "extended", "missing_edges", "surely_exceeds"]

_compile = entry()
_compile_part = part()
_inside = inside()

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Bits are compared as whole multiples of 2^-38 (a hub of 10^7 variables still fits 63 bits), and count as equal when
# they differ by less than 1e-9: log2(6) is log2(2) + log2(3).
_SCALE = 2.0**38
_SAME = int(1e-9 * _SCALE)
# What sums of bits may be off by rounding.
_ROUNDING = 1e-7
# A list this many times longer than what it is compared with is searched, not walked through.
_LONG = 32

# What is known of a vertex, a row of whole numbers (in one array: compiled calls pay for every array they are handed).
# Its list of neighbours: where it begins in the pool, entries (some may be gone), space.
_BEGIN, _LENGTH, _ROOM = 0, 1, 2
# Its own bits and weight; bits of the clique it would make, weight of its neighbours and of the edges missing there.
_OWN_BITS, _OWN_WEIGHT, _BITS, _AROUND, _MISSING = 3, 4, 5, 6, 7
# The last step that eliminated a neighbour of it, or closed a triangle with it.
_JOINED, _TOUCHED = 8, 9
# While a neighbour is eliminated, those of its other neighbours not joined to this one: how many, their bits, their
# weight, and their weights times those of the vertices outside next to both.
_GAPS, _GAP_BITS, _GAP_WEIGHT, _GAP_CLOSED = 10, 11, 12, 13
# Its place in the queue, and the cost and bits it has that place for.
_PLACE, _QUEUED_COST, _QUEUED_BITS = 14, 15, 16
_FIELDS = 17


class Elimination(NamedTuple):
    """What an elimination made.

    Attributes
    ----------
    width
        Bits of the largest clique; infinite when the elimination was given up.
    size
        Table entries of all cliques.
    work
        Steps taken: list entries looked at.
    order
        The vertices as they were eliminated.
    starts, members
        Step s made the clique `members[starts[s] : starts[s + 1]]`, sorted.
    """

    width: float
    size: float
    work: int
    order: Integers
    starts: Integers
    members: Integers


@_inside
def _before(known: Integers, noise: NDArray[np.float64], one: int, other: int) -> bool:
    """Whether `one` comes out of the queue before `other`: by cost, then bits, then noise, then number."""
    difference = known[one, _QUEUED_COST] - known[other, _QUEUED_COST]
    if difference != 0:
        return bool(difference < 0)
    difference = known[one, _QUEUED_BITS] - known[other, _QUEUED_BITS]
    if abs(difference) > _SAME:
        return bool(difference < 0)
    if noise[one] != noise[other]:
        return bool(noise[one] < noise[other])
    return one < other


@_compile_part
def _sift_down(
    queue: Integers, known: Integers, noise: NDArray[np.float64], size: int, vertex: int, place: int
) -> None:
    """Put `vertex` at `place` of the queue (a binary heap) or where it belongs below."""
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _before(known, noise, queue[child + 1], queue[child]):
            child += 1
        least = queue[child]
        if not _before(known, noise, least, vertex):
            break
        queue[place] = least
        known[least, _PLACE] = place
        place = child
    queue[place] = vertex
    known[vertex, _PLACE] = place


@_compile_part
def _requeue(queue: Integers, known: Integers, noise: NDArray[np.float64], size: int, vertex: int) -> None:
    """Move a vertex of the queue where its present cost belongs."""
    if (
        known[vertex, _QUEUED_COST] == known[vertex, _MISSING]
        and known[vertex, _QUEUED_BITS] == known[vertex, _BITS]
    ):
        return
    known[vertex, _QUEUED_COST] = known[vertex, _MISSING]
    known[vertex, _QUEUED_BITS] = known[vertex, _BITS]
    place = known[vertex, _PLACE]
    while place > 0:
        above = queue[(place - 1) >> 1]
        if not _before(known, noise, vertex, above):
            break
        queue[place] = above
        known[above, _PLACE] = place
        place = (place - 1) >> 1
    _sift_down(queue, known, noise, size, vertex, place)


@_inside
def _place(pool: Integers, known: Integers, vertex: int, wanted: int) -> int:
    """Return where in the pool the first entry of the list of `vertex` is that is not less than `wanted`."""
    low = known[vertex, _BEGIN]
    high = low + known[vertex, _LENGTH]
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return int(low)


@_inside
def _contains(pool: Integers, known: Integers, vertex: int, wanted: int) -> bool:
    place = _place(pool, known, vertex, wanted)
    return bool(place < known[vertex, _BEGIN] + known[vertex, _LENGTH] and pool[place] == wanted)


@_compile_part
def extended(array: Integers, used: int, size: int) -> Integers:
    """Return an array of at least `size` entries that begins with the `used` ones of `array`."""
    if size <= array.size:
        return array
    longer = np.empty(max(size, 2 * array.size), array.dtype)
    for k in range(used):
        longer[k] = array[k]
    return longer


@_inside
def _with_room(pool: Integers, known: Integers, used: int, vertex: int) -> tuple[Integers, int]:
    """Return the pool with room for the gaps in the list of `vertex`, and how much of it is used."""
    length = known[vertex, _LENGTH]
    needed = length + known[vertex, _GAPS]
    if needed <= known[vertex, _ROOM]:
        return pool, used
    pool = extended(pool, used, used + 2 * needed)
    begin = known[vertex, _BEGIN]
    for k in range(length):
        pool[used + k] = pool[begin + k]
    known[vertex, _BEGIN] = used
    known[vertex, _ROOM] = 2 * needed
    return pool, used + 2 * needed


@_inside
def _merge(pool: Integers, known: Integers, vertex: int, clique: Integers) -> None:
    """Join by going through both lists (sorted) from the end."""
    begin = known[vertex, _BEGIN]
    read = begin + known[vertex, _LENGTH] - 1
    write = read + known[vertex, _GAPS]
    known[vertex, _LENGTH] += known[vertex, _GAPS]
    k = clique.size - 1
    # When all that is new is written the rest is where it was.
    while write > read:
        member = clique[k]
        if read >= begin and pool[read] >= member:
            if pool[read] == member:
                k -= 1
            pool[write] = pool[read]
            read -= 1
            write -= 1
        else:
            if member != vertex:
                pool[write] = member
                write -= 1
            k -= 1


@_inside
def _insert(pool: Integers, known: Integers, alive: Flags, vertex: int, member: int) -> None:
    """Add a vertex to a long list, in the space of the nearest entry that is gone."""
    begin = known[vertex, _BEGIN]
    end = begin + known[vertex, _LENGTH]
    place = _place(pool, known, vertex, member)
    if place < end and pool[place] == member:
        return
    above, below = place, place - 1
    while above < end and alive[pool[above]] and (below < begin or alive[pool[below]]):
        above += 1
        below -= 1
    if above == end:
        known[vertex, _LENGTH] += 1
    if above == end or not alive[pool[above]]:
        for position in range(above, place, -1):
            pool[position] = pool[position - 1]
        pool[place] = member
    else:
        for position in range(below, place - 1):
            pool[position] = pool[position + 1]
        pool[place - 1] = member


@_compile_part
def _join(pool: Integers, known: Integers, alive: Flags, vertex: int, clique: Integers) -> None:
    """Add those of `clique` that are not there yet to the list of one of it, which has room for them."""
    if known[vertex, _LENGTH] <= _LONG * clique.size:
        _merge(pool, known, vertex, clique)
        return
    for member in clique:
        if member != vertex:
            _insert(pool, known, alive, vertex, member)


@_compile
def missing_edges(starts: Integers, neighbours: Integers, weights: Integers) -> Integers:
    """Return for each vertex the edges missing among its neighbours, each counted by the product of its ends' weights.

    All pairs less the triangles; those are found from their vertex of least degree, so hubs cost little.
    """
    count = starts.size - 1
    upward = np.empty(neighbours.size // 2, np.int64)
    upward_starts = np.zeros(count + 1, np.int64)
    missing = np.zeros(count, np.int64)
    used = 0
    for vertex in range(count):
        degree = starts[vertex + 1] - starts[vertex]
        total, squares = 0, 0
        for other in neighbours[starts[vertex] : starts[vertex + 1]]:
            total += weights[other]
            squares += weights[other] * weights[other]
            others = starts[other + 1] - starts[other]
            if others > degree or (others == degree and other > vertex):
                upward[used] = other
                used += 1
        upward_starts[vertex + 1] = used
        missing[vertex] = (total * total - squares) >> 1
    marks = np.full(count, -1, np.int64)
    for first in range(count):
        for second in upward[upward_starts[first] : upward_starts[first + 1]]:
            marks[second] = first
        for second in upward[upward_starts[first] : upward_starts[first + 1]]:
            for third in upward[upward_starts[second] : upward_starts[second + 1]]:
                if marks[third] == first:
                    missing[first] -= weights[second] * weights[third]
                    missing[second] -= weights[first] * weights[third]
                    missing[third] -= weights[first] * weights[second]
    return missing


@_compile
def surely_exceeds(starts: Integers, neighbours: Integers, log2: NDArray[np.float64], limit: float) -> bool:
    """Tell whether every elimination makes a clique of more than `limit` bits; False: perhaps not.

    Contracting edges makes no graph wider, if the vertex that stands for two has the bits of the smaller one. So the
    least vertex is contracted with the neighbour it shares the fewest others with, again and again: once every vertex
    left exceeds the limit together with its neighbours, so does the first one eliminated of them.
    """
    count = log2.size
    joined = np.zeros((count, count), np.uint8)
    own = log2.copy()
    around = log2.copy()
    left = np.arange(count)
    for vertex in range(count):
        for other in neighbours[starts[vertex] : starts[vertex + 1]]:
            joined[vertex, other] = 1
            around[vertex] += log2[other]
    for size in range(count, 0, -1):
        at = 0
        for place in range(1, size):
            if around[left[place]] < around[left[at]]:
                at = place
        gone = left[at]
        if around[gone] > limit + _ROUNDING:
            return True
        left[at] = left[size - 1]
        row = joined[gone]
        chosen, fewest = -1, count
        for other in left[: size - 1]:
            if row[other]:
                joined[other, gone] = 0
                around[other] -= own[gone]
                shared = 0
                for place in range(count):
                    shared += row[place] & joined[other, place]
                if shared < fewest:
                    chosen, fewest = other, shared
        if chosen < 0:
            continue
        row[chosen] = 0
        for other in left[: size - 1]:
            if row[other] and not joined[chosen, other]:
                joined[chosen, other] = joined[other, chosen] = 1
                around[chosen] += own[other]
                around[other] += own[chosen]
        if own[gone] < own[chosen]:
            around[chosen] += own[gone] - own[chosen]
            for other in left[: size - 1]:
                if joined[chosen, other]:
                    around[other] += own[gone] - own[chosen]
            own[chosen] = own[gone]
    return False


@_inside
def _mark(pool: Integers, known: Integers, alive: Flags, marks: Integers, vertex: int, stamp: int) -> None:
    """Put a stamp on the neighbours of a vertex, and drop those from its list that are gone."""
    begin = known[vertex, _BEGIN]
    write = begin
    for position in range(begin, begin + known[vertex, _LENGTH]):
        other = pool[position]
        if alive[other]:
            marks[other] = stamp
            pool[write] = other
            write += 1
    known[vertex, _LENGTH] = write - begin


@_inside
def _neighbours(pool: Integers, known: Integers, alive: Flags, vertex: int, found: Integers) -> int:
    """Write the neighbours of a vertex, sorted, to `found` and return how many there are."""
    number = 0
    for position in range(known[vertex, _BEGIN], known[vertex, _BEGIN] + known[vertex, _LENGTH]):
        if alive[pool[position]]:
            found[number] = pool[position]
            number += 1
    return number


@_compile_part
def _close_triangles(
    pool: Integers,
    known: Integers,
    alive: Flags,
    marks: Integers,
    ends: tuple[int, int],
    stamp: int,
    step: int,
    reached: Integers,
    number: int,
) -> tuple[int, int]:
    """Tell all vertices next to both ends of a fill edge that they miss one edge less.

    Parameters
    ----------
    ends
        The ends; if `stamp` is not negative it marks the neighbours of the first.
    reached, number
        Vertices touched by this step so far, and how many.

    Returns
    -------
    The number of vertices touched, and the steps taken.
    """
    one, other = ends
    walk, search, marked = other, one, stamp >= 0
    if known[other, _LENGTH] > (_LONG if marked else 1) * known[one, _LENGTH]:
        walk, search, marked = one, other, False
    one_weight, other_weight = known[one, _OWN_WEIGHT], known[other, _OWN_WEIGHT]
    product = one_weight * other_weight
    outside = 0
    for position in range(known[walk, _BEGIN], known[walk, _BEGIN] + known[walk, _LENGTH]):
        both = pool[position]
        if marked:
            if marks[both] != stamp:
                continue
        elif not alive[both] or not _contains(pool, known, search, both):
            continue
        known[both, _MISSING] -= product
        if known[both, _JOINED] != step:
            outside += known[both, _OWN_WEIGHT]
            if known[both, _TOUCHED] != step:
                known[both, _TOUCHED] = step
                reached[number] = both
                number += 1
    known[one, _GAP_WEIGHT] += other_weight
    known[other, _GAP_WEIGHT] += one_weight
    known[one, _GAP_CLOSED] += other_weight * outside
    known[other, _GAP_CLOSED] += one_weight * outside
    return number, known[walk, _LENGTH]


@_compile_part
def _find_gaps(
    pool: Integers,
    known: Integers,
    alive: Flags,
    marks: Integers,
    members: Integers,
    by_fill: bool,
    stamp: int,
    step: int,
    reached: Integers,
) -> tuple[int, int]:
    """Find all pairs of `members` that are not joined; return how many other vertices that touches, and the work."""
    # Of a type that says nothing of its value: literal numbers have a compilation of their own.
    number: Any = np.int64(0)
    work = 0
    for k in range(members.size):
        one = members[k]
        # A list much longer than this clique belongs to a hub.
        marked = known[one, _LENGTH] <= _LONG * members.size
        if marked:
            _mark(pool, known, alive, marks, one, stamp + k)
            work += known[one, _LENGTH]
        for m in range(k + 1, members.size):
            other = members[m]
            if (marks[other] == stamp + k) if marked else _contains(pool, known, one, other):
                continue
            known[one, _GAPS] += 1
            known[other, _GAPS] += 1
            known[one, _GAP_BITS] += known[other, _OWN_BITS]
            known[other, _GAP_BITS] += known[one, _OWN_BITS]
            if by_fill:
                number, walked = _close_triangles(
                    pool, known, alive, marks, (one, other), stamp + k if marked else -1, step, reached, number
                )
                work += walked
        work += members.size - k
    return number, work


@_inside
def _settle(known: Integers, gone: int, members: Integers) -> None:
    """Bring bits and cost of the neighbours of an eliminated vertex up to date, and clear their gaps."""
    inside = 0
    for member in members:
        inside += known[member, _OWN_WEIGHT]
    for member in members:
        gap = known[member, _GAP_WEIGHT]
        # Of the pairs of its neighbours, those of `gone` with the vertices outside go, those of its new neighbours with
        # them come.
        outside = known[member, _AROUND] - known[gone, _OWN_WEIGHT] - (inside - known[member, _OWN_WEIGHT] - gap)
        known[member, _MISSING] += outside * (gap - known[gone, _OWN_WEIGHT]) - known[member, _GAP_CLOSED]
        known[member, _AROUND] += gap - known[gone, _OWN_WEIGHT]
        known[member, _BITS] += known[member, _GAP_BITS] - known[gone, _OWN_BITS]
        for field in range(_GAPS, _GAP_CLOSED + 1):
            known[member, field] = 0


@_inside
def _known(
    starts: Integers, neighbours: Integers, log2: NDArray[np.float64], weights: Integers, missing: Integers
) -> Integers:
    """Return what is known of each vertex before the first step."""
    known = np.zeros((log2.size, _FIELDS), np.int64)
    for vertex in range(log2.size):
        known[vertex, _BEGIN] = starts[vertex]
        known[vertex, _LENGTH] = known[vertex, _ROOM] = starts[vertex + 1] - starts[vertex]
        known[vertex, _OWN_BITS] = np.int64(np.rint(log2[vertex] * _SCALE))
        known[vertex, _JOINED] = known[vertex, _TOUCHED] = -1
        if weights.size:
            known[vertex, _OWN_WEIGHT] = weights[vertex]
            known[vertex, _MISSING] = missing[vertex]
    for vertex in range(log2.size):
        known[vertex, _BITS] = known[vertex, _OWN_BITS]
        for position in range(starts[vertex], starts[vertex + 1]):
            known[vertex, _BITS] += known[neighbours[position], _OWN_BITS]
            known[vertex, _AROUND] += known[neighbours[position], _OWN_WEIGHT]
        known[vertex, _QUEUED_COST] = known[vertex, _MISSING]
        known[vertex, _QUEUED_BITS] = known[vertex, _BITS]
    return known


@_inside
def _write_rest(
    pool: Integers, known: Integers, alive: Flags, cliques: Integers, clique_starts: Integers, step: int
) -> Integers:
    """Write the neighbours of each vertex that is left behind the cliques of the steps so far; return all of them."""
    for vertex in range(alive.size):
        if alive[vertex]:
            begin = clique_starts[step]
            cliques = extended(cliques, begin, begin + known[vertex, _LENGTH])
            clique_starts[step + 1] = begin + _neighbours(pool, known, alive, vertex, cliques[begin:])
            step += 1
    return cliques


@_compile
def eliminate(
    starts: Integers,
    neighbours: Integers,
    log2: NDArray[np.float64],
    weights: Integers,
    missing: Integers,
    noise: NDArray[np.float64],
    limit: float,
    rest: bool,
) -> Elimination:
    """Eliminate all vertices, always the cheapest; give up when a clique has more than `limit` bits.

    Parameters
    ----------
    log2
        Bits of each vertex.
    weights
        Weights of the vertices, at least one; a fill edge costs the product of its ends'. Empty: the clique with the
        fewest bits is the cheapest.
    missing
        The `missing_edges` of the graph with these weights.
    noise
        Decides between vertices whose cost and bits are equal.
    rest
        Whether an elimination that is given up is to end before that clique, and to have, instead of further cliques,
        the neighbours of each vertex that is left.
    """
    count = log2.size
    known = _known(starts, neighbours, log2, weights, missing)
    queue = np.arange(count)
    for place in range(count - 1, -1, -1):
        _sift_down(queue, known, noise, count, queue[place], place)
    used = neighbours.size
    pool = extended(neighbours, used, 2 * used + 1)
    alive = np.ones(count, np.bool_)
    marks = np.full(count, -1, np.int64)
    found, reached = np.empty(count, np.int64), np.empty(count, np.int64)
    order = np.empty(count, np.int64)
    clique_starts = np.zeros(count + 1, np.int64)
    cliques = np.empty(used // 2 + 2 * count, np.int64)
    width, size, work = 0.0, 0.0, used + count
    # Of a type that says nothing of their values: literal numbers have a compilation of their own.
    top: Any = np.int64(0)
    stamp: Any = np.int64(0)
    # Whether all that is left is one clique: then nothing changes any more, not even the order of the queue.
    complete = False
    for step in range(count):
        left = count - step - 1
        vertex = queue[0]
        if left:
            _sift_down(queue, known, noise, left, queue[left], top)
        alive[vertex] = False
        order[step] = vertex
        work += known[vertex, _LENGTH]
        members = found[: _neighbours(pool, known, alive, vertex, found)]
        cliques = extended(cliques, clique_starts[step], clique_starts[step] + members.size + 1)
        clique_starts[step + 1] = clique_starts[step] + members.size + 1
        bits = _write_clique(cliques, clique_starts[step], vertex, members, log2)
        if bits > limit:
            if rest:
                alive[vertex] = True
                cliques = _write_rest(pool, known, alive, cliques, clique_starts, step)
            return Elimination(np.inf, np.inf, work, order[:step], clique_starts, cliques)
        width = max(width, bits)
        size += 2.0**bits
        if complete:
            continue
        complete = members.size == left
        number = 0
        for member in members:
            known[member, _JOINED] = step
        if known[vertex, _MISSING] > 0 or not weights.size:
            number, steps = _find_gaps(
                pool, known, alive, marks, members, weights.size > 0, stamp, step, reached
            )
            work += steps
            stamp += members.size
            for member in members:
                if known[member, _GAPS]:
                    pool, used = _with_room(pool, known, used, member)
                    _join(pool, known, alive, member, members)
        _settle(known, vertex, members)
        for member in members:
            _requeue(queue, known, noise, left, member)
        for member in reached[:number]:
            _requeue(queue, known, noise, left, member)
    return Elimination(width, size, work, order, clique_starts, cliques)


@_inside
def _write_clique(
    cliques: Integers, begin: int, vertex: int, members: Integers, log2: NDArray[np.float64]
) -> float:
    """Write a vertex and its neighbours, sorted, to `cliques`; return their bits, added in that order."""
    write, bits = begin, 0.0
    placed = False
    for member in members:
        if member > vertex and not placed:
            cliques[write] = vertex
            bits += log2[vertex]
            write += 1
            placed = True
        cliques[write] = member
        bits += log2[member]
        write += 1
    if not placed:
        cliques[write] = vertex
        bits += log2[vertex]
    return bits
