"""Branches: which cliques of large forests can be worked on side by side, and where to root a tree so that they can.

All of it follows from sizes alone, whoever does the work afterwards: so do the sums.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.forest.forest import Forest
from ibia.tables import Space
from ibia.tables.threads import WORTH_SHARING, run_parts

__all__ = ["Branches", "walk_trees"]

Integers = NDArray[np.int64]
Walk = list[tuple[int, int]]

# Forests with fewer entries are worked through faster than they are shared out.
_LARGE = 2**20
# Pieces have about such a part of the whole, and at least so many entries, unless it is a single clique.
_PART, _LEAST = 1.0 / 32, 2.0**15


def walk_trees(forest: Forest, space: Space) -> Walk:
    """Return the cliques of all trees, parents before children, each with its parent (−1 for roots).

    A large tree is rooted in its middle, so that what hangs from the root can be done side by side.
    """
    walks: Walk = []
    for walk in forest.trees():
        sizes = [space.size(forest.scopes[clique]) for clique, _ in walk]
        if _worth_sharing(sum(sizes), len(sizes)):
            walk = forest.walk(_centre(walk, sizes))
        walks.extend(walk)
    return walks


def _worth_sharing(entries: float, cliques: int) -> bool:
    return entries >= max(_LARGE, WORTH_SHARING * cliques)


def _centre(walk: Walk, sizes: Sequence[int]) -> int:
    """Return the clique from which no branch holds more than half of all entries."""
    below = dict(zip((clique for clique, _ in walk), sizes, strict=True))
    for clique, parent in reversed(walk[1:]):
        below[parent] += below[clique]
    half = sum(sizes) / 2
    # Of all that hold half or more the last, which is the furthest from the root.
    return [clique for clique, _ in walk if below[clique] >= half][-1]


class Branches(NamedTuple):
    """Work on cliques of trees, or on anything that forms trees, cut into pieces that hang on each other.

    Attributes
    ----------
    pieces
        Each a list of cliques; parents come before children, in pieces and in the list of them.
    parents
        Piece → the one that it hangs on (−1: none).
    entries
        Of each piece.
    """

    pieces: list[Integers]
    parents: list[int]
    entries: list[float]

    @classmethod
    def cut(cls, parents: Integers, sizes: NDArray[np.float64]) -> Branches:
        """Cut trees.

        Small branches of a clique belong to its piece, or form pieces of their own where there are many.

        Parameters
        ----------
        parents
            Clique → the one that it hangs on, which comes before it (−1: none).
        sizes
            Entries of each clique.
        """
        count, whole = parents.size, float(sizes.sum())
        if not _worth_sharing(whole, count):
            return cls([np.arange(count)], [-1], [whole])
        enough = max(_PART * whole, _LEAST)
        # The piece that a clique is the top of, if it is; the last row is for what hangs on nothing.
        top_of = [-1] * count
        small: list[list[int]] = [[] for _ in range(count + 1)]
        gathered = [0.0] * (count + 1)
        pieces = 0
        for clique in range(count - 1, -1, -1):
            parent = int(parents[clique])
            small[parent].append(clique)
            size = float(sizes[clique]) + gathered[clique]
            if size >= enough:
                tops = [small[parent].pop()]
            elif gathered[parent] + size >= enough:
                tops, small[parent], gathered[parent] = small[parent], [], 0.0
            else:
                gathered[parent] += size
                continue
            for top in tops:
                top_of[top] = pieces
            pieces += 1
        for top in small[-1]:
            top_of[top] = pieces
        piece_of = top_of
        above: dict[int, int] = {}
        for clique, parent in enumerate(parents.tolist()):
            if piece_of[clique] < 0:
                piece_of[clique] = piece_of[parent]
            else:
                above.setdefault(piece_of[clique], piece_of[parent] if parent >= 0 else -1)
        # In the order of their first cliques, which is the one in which they were met here.
        place = {-1: -1} | {piece: number for number, piece in enumerate(above)}
        cut = np.array([place[piece] for piece in piece_of])
        return cls(
            [np.flatnonzero(cut == number) for number in range(len(above))],
            [place[piece] for piece in above.values()],
            np.bincount(cut, sizes).tolist(),
        )

    def inwards(self, work: Callable[[Integers], None], control: Control) -> None:
        """Have all cliques done, each after those that hang on it."""
        ways = list(self.entries)
        for piece, parent in enumerate(self.parents):
            if parent >= 0:
                ways[piece] += ways[parent]
        waiting = [0] * len(self.pieces)
        for parent in self.parents:
            if parent >= 0:
                waiting[parent] += 1
        then = [[parent] if parent >= 0 else [] for parent in self.parents]
        pieces = [piece[::-1] for piece in self.pieces]
        _Round(pieces, work, waiting, then, ways, sum(self.entries)).run(control)

    def outwards(self, work: Callable[[Integers], None], control: Control) -> None:
        """Have all cliques done, each after the one that it hangs on."""
        ways = [0.0] * len(self.pieces)
        then: list[list[int]] = [[] for _ in self.pieces]
        for piece in range(len(self.pieces) - 1, -1, -1):
            ways[piece] += self.entries[piece]
            parent = self.parents[piece]
            if parent >= 0:
                then[parent].append(piece)
                ways[parent] = max(ways[parent], ways[piece])
        waiting = [int(parent >= 0) for parent in self.parents]
        _Round(self.pieces, work, waiting, then, ways, sum(self.entries)).run(control)


class _Round:
    """Pieces of work under way, some after others.

    Parameters
    ----------
    waiting
        How many others each piece has to wait for.
    then
        Those that wait for it.
    ways
        What has to be done from a piece on, one piece after the other: the longest way comes first.
    entries
        Of all pieces.
    """

    def __init__(
        self,
        pieces: list[Integers],
        work: Callable[[Integers], None],
        waiting: list[int],
        then: list[list[int]],
        ways: list[float],
        entries: float,
    ) -> None:
        self._entries = int(entries)
        self._pieces = pieces
        self._work = work
        self._waiting = waiting
        self._then = then
        self._ways = ways
        self._ready = [(-ways[piece], piece) for piece, others in enumerate(waiting) if not others]
        heapq.heapify(self._ready)
        self._running = 0
        self._change = threading.Condition()
        self._failed = False

    def run(self, control: Control) -> None:
        """Do all pieces. Where there is only one to be done, its large tables are shared instead."""
        while self._ready:
            if len(self._ready) == 1 or control.threads == 1:
                _, piece = heapq.heappop(self._ready)
                self._work(self._pieces[piece])
                self._note(piece)
            else:
                run_parts([self._help] * control.threads, self._entries, control)

    def _help(self) -> None:
        """Do pieces while there are several to be done."""
        while True:
            with self._change:
                while not self._ready and self._running:
                    self._change.wait()
                if self._failed or len(self._ready) + self._running < 2:
                    return
                _, piece = heapq.heappop(self._ready)
                self._running += 1
            try:
                self._work(self._pieces[piece])
            except BaseException:
                with self._change:
                    self._failed = True
                    self._ready.clear()
                    self._running -= 1
                    self._change.notify_all()
                raise
            with self._change:
                self._running -= 1
                self._note(piece)
                self._change.notify_all()

    def _note(self, piece: int) -> None:
        """Note that a piece is done, and which others can be done now."""
        for other in self._then[piece]:
            self._waiting[other] -= 1
            if not self._waiting[other]:
                heapq.heappush(self._ready, (-self._ways[other], other))
