"""Refinement of an elimination: regions of its clique tree are eliminated anew, and put back where that spares entries.

Whole eliminations, greedy ones or fronts, are decided by a few early choices, and thousands of them differ little. A
region of some dozen cliques can be eliminated in a tenth of a millisecond, so that very many are tried; what leads out
of it, the sepsets on its border, are cliques of its graph, so that the rest of the tree can be hung on again. Nothing
gets wider by it. Knows vertices from 0 on, nothing of variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.forest.elimination import Elimination, eliminate, missing_edges
from ibia.forest.front import follow_front, without_cheap
from ibia.forest.graph import Graph, local_graph
from ibia.forest.search import WIDEST, rank
from ibia.forest.triangulate import maximal_cliques

__all__ = ["refine"]

Integers = NDArray[np.int64]
Bits = NDArray[np.float64]
Clique = frozenset[int]

# Cliques of a region: at least, and at most.
_FEWEST, _MOST = 8, 40
# Most regions are grown from one of the cliques that are at most so many bits smaller than the largest.
_LARGE_BITS, _LARGE_SHARE = 3.0, 0.7
# The search ends after so many regions, and this part of all that were looked at, without a gain of this part of all
# entries.
_PATIENCE, _PATIENCE_PART, _GAIN = 64, 0.5, 1e-3
# Fronts through a region besides those from two ends.
_STARTS = 4
# What is not compiled takes as long, for each region, as so many steps of elimination.
_REGION = 10_000
# ... and for each clique of a tree, at first.
_CLIQUE = 1000
# Where there are several eliminations to begin with, this part of the time is left for the best.
_LAST_SHARE = 0.5
# Entries are spared if it is more than rounding.
_LESS = 1.0 - 1e-9
_EPSILON = 1e-9


class _Region(NamedTuple):
    """A part of the tree that hangs together.

    Attributes
    ----------
    border
        Cliques next to it, each with what it shares with the region.
    entries, width
        Of its tables: of all together, and the bits of the largest.
    """

    cliques: set[int]
    vertices: Integers
    border: list[tuple[int, Clique]]
    entries: float
    width: float


class _Tree:
    """The clique tree of an elimination (a forest, if the graph does not hang together), and what changes it.

    Attributes
    ----------
    entries, width
        Of all tables, and the bits of the largest.
    """

    def __init__(self, log2: Bits, elimination: Elimination) -> None:
        self._bits: list[float] = log2.tolist()
        self.cliques: dict[int, Clique] = {}
        self.neighbours: dict[int, dict[int, Clique]] = {}
        self.bits: dict[int, float] = {}
        self._next = 0
        self._add(elimination, np.arange(log2.size))
        self._note_sizes()

    def _add(self, elimination: Elimination, vertices: Integers) -> list[int]:
        """Add the cliques of an elimination and the edges between them; return their numbers."""
        starts, members, firsts, seconds, _ = maximal_cliques(
            elimination.order, elimination.starts, elimination.members, vertices
        )
        listed = members.tolist()
        numbers = []
        for begin, end in pairwise(starts.tolist()):
            number, self._next = self._next, self._next + 1
            self.cliques[number] = clique = frozenset(listed[begin:end])
            self.neighbours[number] = {}
            self.bits[number] = math.fsum(map(self._bits.__getitem__, clique))
            numbers.append(number)
        for first, second in zip(firsts.tolist(), seconds.tolist(), strict=True):
            self._connect(numbers[first], numbers[second], self.cliques[numbers[first]] & self.cliques[numbers[second]])
        return numbers

    def _connect(self, first: int, second: int, sepset: Clique) -> None:
        self.neighbours[first][second] = self.neighbours[second][first] = sepset

    def region(self, random: Random) -> _Region:
        """Return a region that has grown at random."""
        among = self._large if random.random() < _LARGE_SHARE else self._all
        root = among[int(random.random() * len(among))]
        most = random.randint(_FEWEST, _MOST)
        region = {root}
        reachable = list(self.neighbours[root])
        while reachable and len(region) < most:
            # The last one takes the place of the one that is taken.
            place = int(random.random() * len(reachable))
            clique, reachable[place] = reachable[place], reachable[-1]
            reachable.pop()
            region.add(clique)
            reachable += [neighbour for neighbour in self.neighbours[clique] if neighbour not in region]
        border = [
            (neighbour, sepset)
            for clique in region
            for neighbour, sepset in self.neighbours[clique].items()
            if neighbour not in region
        ]
        vertices = np.array(sorted(frozenset().union(*[self.cliques[clique] for clique in region])), np.int64)
        bits = [self.bits[clique] for clique in region]
        return _Region(region, vertices, border, sum([2.0**size for size in bits]), max(bits))

    def _note_sizes(self) -> None:
        """Note how large the cliques are, after a change."""
        self.entries = sum([2.0**bits for bits in self.bits.values()])
        self.width = max(self.bits.values())
        least = self.width - _LARGE_BITS
        self._large = [clique for clique, bits in self.bits.items() if bits >= least]
        self._all = list(self.bits)

    def replace(self, region: _Region, elimination: Elimination) -> bool:
        """Put the tree of an elimination in the place of a region, if that spares entries."""
        numbers = self._add(elimination, region.vertices)
        if sum([2.0 ** self.bits[number] for number in numbers]) >= _LESS * region.entries:
            for number in numbers:
                del self.cliques[number], self.neighbours[number], self.bits[number]
            return False
        for clique in region.cliques:
            for neighbour in self.neighbours.pop(clique):
                if neighbour not in region.cliques:
                    del self.neighbours[neighbour][clique]
            del self.cliques[clique], self.bits[clique]
        for neighbour, sepset in region.border:
            home = next(number for number in numbers if sepset <= self.cliques[number])
            self._connect(neighbour, home, sepset)
        self._note_sizes()
        return True

    def elimination(self, work: int) -> Elimination:
        """Return an elimination that makes these cliques: from the leaves of each tree to its root."""
        order: list[int] = []
        starts, members = [0], []
        width, size = 0.0, 0.0
        for clique, parent in self._upwards():
            left = sorted(self.cliques[clique])
            kept = self.neighbours[clique][parent] if parent >= 0 else frozenset()
            for vertex in [vertex for vertex in left if vertex not in kept]:
                bits = math.fsum(map(self._bits.__getitem__, left))
                width, size = max(width, bits), size + 2.0**bits
                order.append(vertex)
                members += left
                starts.append(len(members))
                left.remove(vertex)
        as_array = partial(np.array, dtype=np.int64)
        return Elimination(width, size, work, as_array(order), as_array(starts), as_array(members))

    def _upwards(self) -> Iterator[tuple[int, int]]:
        """Iterate over the cliques, each with its parent (−1: none) and before it."""
        parents: dict[int, int] = {}
        for root in self.cliques:
            if root not in parents:
                parents[root] = -1
                waiting = [root]
                for clique in waiting:
                    for neighbour in self.neighbours[clique]:
                        if neighbour not in parents:
                            parents[neighbour] = clique
                            waiting.append(neighbour)
        return reversed(parents.items())


def refine(
    graph: Graph,
    log2: Bits,
    starts: Sequence[Elimination],
    effort: float,
    most_entries: float = math.inf,
    good_enough: float = 0.0,
    bound: float = 0.0,
    control: Control | None = None,
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
    """
    share = (1.0 - _LAST_SHARE) / len(starts)
    searches = [_Refinement(graph, log2, start, good_enough, control) for start in starts]
    for search in searches:
        search.run(share * effort, most_entries)
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
        self, graph: Graph, log2: Bits, start: Elimination, good_enough: float, control: Control | None
    ) -> None:
        self.best = start
        self._graph = graph
        self._log2 = log2
        self._good_enough = good_enough
        self._control = control
        self._random = Random(0)
        self._generator = np.random.default_rng(0)
        self._place = np.full(log2.size, -1, np.int64)
        self._tree: _Tree | None = None

    def run(self, effort: float, most_entries: float) -> None:
        """Go on for so long."""

        def steps_allowed(entries: float) -> float:
            return effort * min(entries, most_entries)

        # Of few regions nothing is to be expected, and of what is too wide nothing that is of use.
        work = _CLIQUE * self.best.order.size
        few = self.best.order.size < _FEWEST or steps_allowed(self.best.size) < work + _PATIENCE * _REGION
        if few or self.best.width > WIDEST:
            return
        tree = self._tree = self._tree or _Tree(self._log2, self.best)
        looked, gained, changed = 0, 0, False
        while (
            work <= steps_allowed(tree.entries)
            and tree.width > self._good_enough + _EPSILON
            and looked - gained < _PATIENCE + _PATIENCE_PART * looked
        ):
            if self._control is not None:
                self._control.check()
            looked += 1
            region = tree.region(self._random)
            found, steps = self._eliminate_anew(region)
            work += steps + _REGION
            before = tree.entries
            if found.width < math.inf and tree.replace(region, found):
                changed = True
                if tree.entries < (1.0 - _GAIN) * before:
                    gained = looked
        if changed:
            self.best = tree.elimination(work)

    def _eliminate_anew(self, region: _Region) -> tuple[Elimination, int]:
        """Return the better of a greedy elimination of a region and of fronts through what is left of it.

        Also the steps they took.
        """
        log2, limit = self._log2[region.vertices], region.width + _EPSILON
        noise, places = self._generator.random(log2.size), self._generator.random(2 + _STARTS)
        lengths = np.array([len(sepset) for _, sepset in region.border], np.int64)
        members = np.array([vertex for _, sepset in region.border for vertex in sepset], np.int64)
        graph = Graph(*local_graph(*self._graph, region.vertices, lengths, members, self._place))
        weights = np.ones(log2.size, np.int64)
        criterion = weights, missing_edges(*graph, weights)
        best = eliminate(*graph, log2, *criterion, noise, limit, False)
        work = best.work
        rest = without_cheap(graph, log2, criterion, noise, places[0] * limit)
        if rest is None:
            return best, work
        work += rest.work
        bits = log2[rest.vertices]
        for first in rest.places_to_start(places[1:]):
            found = follow_front(*rest.graph, bits, first, limit)
            work += found.work
            if found.width <= limit and rest.before.size + found.size < best.size:
                best = rest.joined(found)
        return best, work
