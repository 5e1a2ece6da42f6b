"""Refinement of an elimination: regions of its clique tree are eliminated anew, and put back where that spares entries.

Whole eliminations, greedy ones or fronts, are decided by a few early choices, and thousands of them differ little. A
region of some dozen cliques can be eliminated in some fifty microseconds, so that very many are tried; what leads out
of it, the sepsets on its border, are cliques of its graph, so that the rest of the tree can be hung on again. Nothing
gets wider by it. Compiled; knows vertices from 0 on, nothing of variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, part
from ibia.control import Control
from ibia.forest.elimination import Elimination, eliminate, extended, missing_edges
from ibia.forest.front import by_fronts
from ibia.forest.graph import Graph, local_graph
from ibia.forest.search import WIDEST, WORTH_WAKING, rank
from ibia.forest.triangulate import maximal_cliques
from ibia.sorting import sort_parts
from ibia.threads import run_all

__all__ = ["refine"]

_compile = entry()
_compile_part = part()

Integers = NDArray[np.int64]
Bits = NDArray[np.float64]

# Cliques of a region: at least, and at most.
_FEWEST, _MOST = 8, 40
# Most regions are grown from one of the cliques that are at most so many bits smaller than the largest.
_LARGE_BITS, _LARGE_SHARE = 3.0, 0.7
# The search ends after so many regions, and this part of all that were looked at, without a gain of this part of all
# entries.
_PATIENCE, _PATIENCE_PART, _GAIN = 64, 0.5, 1e-3
# Fronts through a region besides those from two ends.
_STARTS = 4
# What is not counted takes as long, for each region, as so many steps of elimination, and for each clique of a tree, at
# first.
_REGION, _CLIQUE = 1500, 100
# The clock is looked at after so many steps.
_PAUSE = 2**21
# Where there are several eliminations to begin with, this part of the time is left for the best.
_LAST_SHARE = 0.5
# Random numbers that a region takes beside one for each vertex.
_DRAWS = _MOST + _STARTS + 5
# Entries are spared if it is more than rounding.
_LESS = 1.0 - 1e-9
_EPSILON = 1e-9

# What is counted of a tree: entries of the pool that were used; cliques and edges that are free; cliques, and large
# ones; regions looked at in this run, in all, and by the last gain; changes; random numbers used; steps taken.
_USED, _FREE_CLIQUES, _FREE_EDGES, _ALL, _LARGE, _LOOKED, _STAMP, _GAINED, _CHANGES, _DRAWN, _WORK = range(11)
# What is measured: entries of all tables, bits of the largest.
_ENTRIES, _WIDTH = range(2)


class _Tree(NamedTuple):
    """The clique tree of an elimination (a forest, if the graph does not hang together), which is changed in place.

    Attributes
    ----------
    pool
        The vertices of all cliques, with gaps.
    begins, lengths
        Clique → its vertices, in the pool (length −1: there is no clique of that number).
    bits
        Clique → its size.
    edges
        Clique → one of its edges, as seen from there (−1: none). Seen from the other end it is the number that differs
        in the last bit.
    others, following
        Edge → the clique at the other end, and the next edge of this one.
    free_cliques, free_edges
        Numbers that are not in use (of an edge, half of the lesser).
    all, large
        The cliques, and those among them that regions are mostly grown from.
    marks
        Clique → the last region that it was in.
    counts, figures
        See above.
    """

    pool: Integers
    begins: Integers
    lengths: Integers
    bits: Bits
    edges: Integers
    others: Integers
    following: Integers
    free_cliques: Integers
    free_edges: Integers
    all: Integers
    large: Integers
    marks: Integers
    counts: Integers
    figures: Bits


@_compile_part
def _connect(tree: _Tree, first: int, second: int) -> None:
    """Add an edge."""
    tree.counts[_FREE_EDGES] -= 1
    edge = 2 * tree.free_edges[tree.counts[_FREE_EDGES]]
    tree.others[edge], tree.following[edge], tree.edges[first] = second, tree.edges[first], edge
    tree.others[edge + 1], tree.following[edge + 1], tree.edges[second] = first, tree.edges[second], edge + 1


@_compile_part
def _add_cliques(
    tree: _Tree, pool: Integers, log2: Bits, starts: Integers, members: Integers, numbers: Integers
) -> Integers:
    """Add cliques, and write which numbers they have; return the pool, or a larger one."""
    counts = tree.counts
    pool = extended(pool, counts[_USED], counts[_USED] + members.size)
    for place in range(starts.size - 1):
        counts[_FREE_CLIQUES] -= 1
        clique = tree.free_cliques[counts[_FREE_CLIQUES]]
        numbers[place] = clique
        tree.begins[clique], tree.lengths[clique] = counts[_USED], starts[place + 1] - starts[place]
        tree.edges[clique], tree.bits[clique] = -1, 0.0
        for member in members[starts[place] : starts[place + 1]]:
            pool[counts[_USED]] = member
            counts[_USED] += 1
            tree.bits[clique] += log2[member]
    return pool


@_compile_part
def _note_sizes(tree: _Tree, pool: Integers) -> Integers:
    """Note which cliques there are and how large, after a change; return the pool, or one without gaps."""
    counts, figures = tree.counts, tree.figures
    figures[_ENTRIES] = figures[_WIDTH] = 0.0
    counts[_ALL] = counts[_LARGE] = 0
    total = 0
    for clique in range(tree.lengths.size):
        if tree.lengths[clique] >= 0:
            tree.all[counts[_ALL]] = clique
            counts[_ALL] += 1
            figures[_ENTRIES] += 2.0 ** tree.bits[clique]
            figures[_WIDTH] = max(figures[_WIDTH], tree.bits[clique])
            total += tree.lengths[clique]
    for clique in tree.all[: counts[_ALL]]:
        if tree.bits[clique] >= figures[_WIDTH] - _LARGE_BITS:
            tree.large[counts[_LARGE]] = clique
            counts[_LARGE] += 1
    if counts[_USED] <= 4 * total:
        return pool
    dense = np.empty(2 * total, np.int64)
    counts[_USED] = 0
    for clique in tree.all[: counts[_ALL]]:
        begin, tree.begins[clique] = tree.begins[clique], counts[_USED]
        for member in pool[begin : begin + tree.lengths[clique]]:
            dense[counts[_USED]] = member
            counts[_USED] += 1
    return dense


@_compile
def tree_of(order: Integers, starts: Integers, members: Integers, log2: Bits) -> _Tree:
    """Return the tree of an elimination."""
    count = log2.size
    clique_starts, cliques, firsts, seconds, _ = maximal_cliques(order, starts, members, np.arange(count))
    tree = _Tree(
        np.empty(2 * cliques.size, np.int64),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(count),
        np.full(count, -1, np.int64),
        np.empty(2 * count, np.int64),
        np.empty(2 * count, np.int64),
        np.arange(count),
        np.arange(count),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.full(count, -1, np.int64),
        np.zeros(_WORK + 1, np.int64),
        np.zeros(_WIDTH + 1),
    )
    tree.counts[_FREE_CLIQUES] = tree.counts[_FREE_EDGES] = count
    numbers = np.empty(clique_starts.size - 1, np.int64)
    pool = _add_cliques(tree, tree.pool, log2, clique_starts, cliques, numbers)
    for edge in range(firsts.size):
        _connect(tree, numbers[firsts[edge]], numbers[seconds[edge]])
    _note_sizes(tree, pool)
    return tree


@_compile_part
def _choose_region(tree: _Tree, draws: Bits, region: Integers, reachable: Integers) -> int:
    """Write the cliques of a region that grows at random, and return how many there are."""
    counts = tree.counts
    counts[_STAMP] += 1
    drawn = counts[_DRAWN]
    if draws[drawn] < _LARGE_SHARE:
        root = tree.large[np.int64(draws[drawn + 1] * counts[_LARGE])]
    else:
        root = tree.all[np.int64(draws[drawn + 1] * counts[_ALL])]
    most = _FEWEST + np.int64(draws[drawn + 2] * (_MOST - _FEWEST + 1))
    drawn += 3
    reachable[0] = root
    size, waiting = 0, 1
    while waiting and size < most:
        # The last one takes the place of the one that is taken.
        place = np.int64(draws[drawn] * waiting)
        drawn += 1
        waiting -= 1
        clique, reachable[place] = reachable[place], reachable[waiting]
        region[size] = clique
        size += 1
        tree.marks[clique] = counts[_STAMP]
        edge = tree.edges[clique]
        while edge >= 0:
            if tree.marks[tree.others[edge]] != counts[_STAMP]:
                reachable[waiting] = tree.others[edge]
                waiting += 1
            edge = tree.following[edge]
    counts[_DRAWN] = drawn
    return size


@_compile_part
def _border(
    tree: _Tree, pool: Integers, place: Integers, region: Integers, edges: Integers
) -> tuple[Integers, Integers]:
    """Write the edges that lead out of a region; return where what they share with it begins, and what that is.

    Parameters
    ----------
    place
        Vertex → its position in the region (−1: it is not in it).
    """
    starts, members = np.zeros(edges.size + 1, np.int64), np.empty(4 * edges.size, np.int64)
    number, used = 0, 0
    for clique in region:
        edge = tree.edges[clique]
        while edge >= 0:
            other = tree.others[edge]
            if tree.marks[other] != tree.counts[_STAMP]:
                members = extended(members, used, used + tree.lengths[other])
                # What a clique outside shares with any of the region it shares with the one next to it.
                for member in pool[tree.begins[other] : tree.begins[other] + tree.lengths[other]]:
                    if place[member] >= 0:
                        members[used] = place[member]
                        used += 1
                edges[number] = edge
                number += 1
                starts[number] = used
            edge = tree.following[edge]
    return starts[: number + 1], members[:used]


@_compile_part
def _eliminate_anew(starts: Integers, neighbours: Integers, log2: Bits, draws: Bits, limit: float) -> Elimination:
    """Return the better of a greedy elimination of a graph and of fronts through what is left of it."""
    count = log2.size
    weights = np.ones(count, np.int64)
    missing = missing_edges(starts, neighbours, weights)
    noise, shares = draws[:count], draws[count + 1 : count + 2 + _STARTS]
    best = eliminate(starts, neighbours, log2, weights, missing, noise, limit, False)
    gone = eliminate(starts, neighbours, log2, weights, missing, noise, draws[count] * limit, True)
    front = by_fronts(gone, log2, shares, limit, np.inf)
    work = best.work + front.work
    if front.size < best.size:
        return Elimination(front.width, front.size, work, front.order, front.starts, front.members)
    return Elimination(best.width, best.size, work, best.order, best.starts, best.members)


@_compile_part
def _remove(tree: _Tree, region: Integers) -> None:
    """Remove the cliques of a region and the edges between them; those that lead out of it are left without an end."""
    counts = tree.counts
    for clique in region:
        edge = tree.edges[clique]
        while edge >= 0:
            # Each of them is met from both ends.
            if edge & 1 == 0 and tree.marks[tree.others[edge]] == counts[_STAMP]:
                tree.free_edges[counts[_FREE_EDGES]] = edge >> 1
                counts[_FREE_EDGES] += 1
            edge = tree.following[edge]
    for clique in region:
        tree.lengths[clique] = -1
        tree.free_cliques[counts[_FREE_CLIQUES]] = clique
        counts[_FREE_CLIQUES] += 1


@_compile
def look(
    starts: Integers,
    neighbours: Integers,
    log2: Bits,
    tree: _Tree,
    draws: Bits,
    effort: float,
    most_entries: float,
    good_enough: float,
) -> tuple[Integers, bool]:
    """Look at regions, and change those where that spares entries, for a while.

    Parameters
    ----------
    draws
        Random numbers; when few are left it ends.

    Returns
    -------
    The pool of the tree, and whether there is no use in going on.
    """
    count = log2.size
    counts, figures = tree.counts, tree.figures
    pool = tree.pool
    place = np.full(count, -1, np.int64)
    vertices, region, reachable = np.empty(count, np.int64), np.empty(_MOST, np.int64), np.empty(count, np.int64)
    border_edges = np.empty(count, np.int64)
    pause = counts[_WORK] + _PAUSE
    while True:
        over = (
            counts[_WORK] > effort * min(figures[_ENTRIES], most_entries)
            or figures[_WIDTH] <= good_enough + _EPSILON
            or counts[_LOOKED] - counts[_GAINED] >= _PATIENCE + _PATIENCE_PART * counts[_LOOKED]
        )
        if over or counts[_WORK] > pause or draws.size - counts[_DRAWN] < count + _DRAWS:
            return pool, over
        counts[_LOOKED] += 1
        cliques = region[: _choose_region(tree, draws, region, reachable)]
        size, width, entries = 0, 0.0, 0.0
        for clique in cliques:
            width = max(width, tree.bits[clique])
            entries += 2.0 ** tree.bits[clique]
            for vertex in pool[tree.begins[clique] : tree.begins[clique] + tree.lengths[clique]]:
                if place[vertex] < 0:
                    place[vertex] = size
                    vertices[size] = vertex
                    size += 1
        inner = vertices[:size]
        border_starts, border = _border(tree, pool, place, cliques, border_edges)
        local_starts, local = local_graph(starts, neighbours, inner, place, border_starts, border)
        for vertex in inner:
            place[vertex] = -1
        bits = np.empty(size)
        for position in range(size):
            bits[position] = log2[inner[position]]
        drawn = counts[_DRAWN]
        counts[_DRAWN] += size + 2 + _STARTS
        found = _eliminate_anew(local_starts, local, bits, draws[drawn : counts[_DRAWN]], width + _EPSILON)
        # The graph is made by way of a matrix.
        counts[_WORK] += found.work + _REGION + ((size * size) >> 4)
        if found.width == np.inf:
            continue
        new_starts, members, firsts, seconds, homes = maximal_cliques(found.order, found.starts, found.members, inner)
        new_entries = 0.0
        for clique in range(new_starts.size - 1):
            clique_bits = 0.0
            for member in members[new_starts[clique] : new_starts[clique + 1]]:
                clique_bits += log2[member]
            new_entries += 2.0**clique_bits
        if new_entries >= _LESS * entries:
            continue
        _remove(tree, cliques)
        numbers = np.empty(new_starts.size - 1, np.int64)
        pool = _add_cliques(tree, pool, log2, new_starts, members, numbers)
        for edge in range(firsts.size):
            _connect(tree, numbers[firsts[edge]], numbers[seconds[edge]])
        step_of = np.empty(size, np.int64)
        for step in range(size):
            step_of[found.order[step]] = step
        for number in range(border_starts.size - 1):
            # What it shares is in the clique of the vertex of it that goes first.
            step = size
            for position in border[border_starts[number] : border_starts[number + 1]]:
                step = min(step, step_of[position])
            edge, clique = border_edges[number], numbers[homes[step]]
            tree.others[edge ^ 1] = clique
            tree.following[edge] = tree.edges[clique]
            tree.edges[clique] = edge
        before = figures[_ENTRIES]
        pool = _note_sizes(tree, pool)
        counts[_CHANGES] += 1
        if figures[_ENTRIES] < (1.0 - _GAIN) * before:
            counts[_GAINED] = counts[_LOOKED]


@_compile
def elimination_of(tree: _Tree, log2: Bits) -> Elimination:
    """Return an elimination that makes the cliques of a tree: from its leaves to its root."""
    count = log2.size
    parents = np.full(count, -2, np.int64)
    waiting = np.empty(count, np.int64)
    last = 0
    for root in tree.all[: tree.counts[_ALL]]:
        if parents[root] != -2:
            continue
        parents[root] = -1
        first = last
        waiting[last] = root
        last += 1
        while first < last:
            clique = waiting[first]
            first += 1
            edge = tree.edges[clique]
            while edge >= 0:
                other = tree.others[edge]
                if parents[other] == -2:
                    parents[other] = clique
                    waiting[last] = other
                    last += 1
                edge = tree.following[edge]
    order, starts = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    members, left = np.empty(2 * tree.counts[_USED], np.int64), np.empty(count, np.int64)
    kept, ends = np.full(count, -1, np.int64), np.zeros(2, np.int64)
    width, size, step = 0.0, 0.0, 0
    for number in range(last - 1, -1, -1):
        clique = waiting[number]
        parent = parents[clique]
        if parent >= 0:
            for vertex in tree.pool[tree.begins[parent] : tree.begins[parent] + tree.lengths[parent]]:
                kept[vertex] = number
        length = ends[1] = tree.lengths[clique]
        for position in range(length):
            left[position] = tree.pool[tree.begins[clique] + position]
        sort_parts(ends, left)
        position = 0
        while position < length:
            vertex = left[position]
            if kept[vertex] == number:
                position += 1
                continue
            begin = starts[step]
            members = extended(members, begin, begin + length)
            bits = 0.0
            for place in range(length):
                members[begin + place] = left[place]
                bits += log2[left[place]]
            width = max(width, bits)
            size += 2.0**bits
            order[step] = vertex
            step += 1
            starts[step] = begin + length
            length -= 1
            for place in range(position, length):
                left[place] = left[place + 1]
    return Elimination(width, size, tree.counts[_WORK], order, starts, members[: starts[count]])


def refine(
    graph: Graph,
    log2: Bits,
    starts: Sequence[Elimination],
    effort: float,
    most_entries: float = np.inf,
    good_enough: float = 0.0,
    bound: float = 0.0,
    control: Control | None = None,
    seed: int = 0,
) -> Elimination:
    """Return the best of what becomes of some eliminations: of each in part of the time, and of the best in the rest.

    Parameters
    ----------
    effort, most_entries
        Stop when the search took more than this many steps for each table entry, of which no more than so many count.
    good_enough
        Stop at this width.
    bound
        The width wanted.
    seed
        Decides which regions are looked at.
    """
    share = (1.0 - _LAST_SHARE) / len(starts)
    searches = [_Refinement(graph, log2, start, good_enough, control, seed) for start in starts]
    calls = [partial(search.run, share * effort, most_entries) for search in searches]
    if control is not None and share * effort * min(starts[0].size, most_entries) >= WORTH_WAKING:
        run_all(calls, control)
    else:
        for call in calls:
            call()
    best = min(searches, key=lambda search: rank(search.best, bound))
    best.run(_LAST_SHARE * effort, most_entries)
    return best.best


class _Refinement:
    """The refinement of one elimination: what it becomes is nowhere wider, and has fewer entries.

    Attributes
    ----------
    best
        What it has become so far.
    """

    def __init__(
        self,
        graph: Graph,
        log2: Bits,
        start: Elimination,
        good_enough: float,
        control: Control | None,
        seed: int,
    ) -> None:
        self.best = start
        self._graph = graph
        self._log2 = log2
        self._good_enough = good_enough
        self._control = control
        self._seed = seed
        self._tree: _Tree | None = None

    def run(self, effort: float, most_entries: float) -> None:
        """Go on for so long."""
        best, count = self.best, self._log2.size
        # Of few regions nothing is to be expected, and of what is too wide nothing that is of use.
        work = _CLIQUE * count
        few = count < _FEWEST or effort * min(best.size, most_entries) < work + _PATIENCE * _REGION
        if few or best.width > WIDEST:
            return
        if self._tree is None:
            self._tree = tree_of(best.order, best.starts, best.members, self._log2)
            self._generator = np.random.default_rng(self._seed)
            self._draws = np.empty(0)
        tree = self._tree
        counts = tree.counts
        counts[_WORK], counts[_LOOKED], counts[_GAINED] = work, 0, 0
        changes, over = counts[_CHANGES], False
        while not over:
            if self._control is not None:
                self._control.check()
            if self._draws.size - counts[_DRAWN] < count + _DRAWS:
                self._draws = self._generator.random(8 * (count + _DRAWS))
                counts[_DRAWN] = 0
            pool, over = look(
                *self._graph, self._log2, tree, self._draws, effort, most_entries, self._good_enough
            )
            tree = self._tree = tree._replace(pool=pool)
        if counts[_CHANGES] > changes:
            self.best = elimination_of(tree, self._log2)
