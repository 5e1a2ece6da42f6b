"""Slicing: which variables of a component to hold fixed, so that the rest fits a bound.

Where some variables are held fixed, the rest is narrower; what is added up over all their states (``slices.py``) is
the whole. One variable after the other is held, each time the one for which the tables of all slices together have the
fewest entries. Knows scopes and cardinalities, nothing of tables.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ibia.flat import ends
from ibia.forest.elimination import Elimination
from ibia.forest.graph import graph_of
from ibia.forest.layout import Trees
from ibia.forest.search import MOST_ENTRIES, search, search_fronts
from ibia.forest.triangulate import numbered_trees

__all__ = ["Level", "Slicing"]

Integers = NDArray[np.int64]

# At most so many bits are held fixed.
_MOST_HELD = 20.0
# When a variable is held, at most so many other triangulations of the rest are tried, greedy ones and fronts, as long
# as they take this many steps for each table entry of all slices together (a step takes about as long as an entry): in
# passing, and when they are certain to be made.
_RESTARTS, _EFFORT = (2, 100), (0.001, 0.002)
_FRONTS, _FRONT_EFFORT = (4, 2000), (0.001, 0.02)
_EPSILON = 1e-9


class Level:
    """A component with some variables held fixed.

    Parameters
    ----------
    held
        Those variables.
    left
        The others, sorted.
    elimination
        Of the others, by their positions in `left`.

    Attributes
    ----------
    count
        How many slices there are: the states of all held variables together.
    width
        Bits of the largest clique that is left.
    """

    def __init__(self, held: tuple[int, ...], left: Integers, elimination: Elimination, count: float) -> None:
        self.held = held
        self.left = left
        self.elimination = elimination
        self.count = count
        self.width = elimination.width

    @cached_property
    def _numbered(self) -> tuple[Integers, Trees, Integers]:
        return numbered_trees(self.elimination)

    @property
    def variables(self) -> Integers:
        """The variables that are left, as they are eliminated."""
        return self.left[self.elimination.order]

    @property
    def trees(self) -> Trees:
        """The clique trees over `variables`."""
        return self._numbered[1]

    @property
    def homes(self) -> Integers:
        """Variable (by its place in `variables`) → the clique of its elimination."""
        return self._numbered[2]


class Slicing:
    """The ways to hold variables of a component fixed: one after the other, the one that spares the most first.

    Parameters
    ----------
    starts, scopes
        Of the component's tables.
    elimination
        Of the whole component, by the numbers of its variables.

    Attributes
    ----------
    whole
        The component with none held.
    """

    def __init__(self, starts: Integers, scopes: Integers, cardinalities: Integers, elimination: Elimination) -> None:
        self._starts, self._scopes = starts, scopes
        self._cardinalities = cardinalities
        self._bits = np.log2(cardinalities)
        self.whole = Level((), np.arange(cardinalities.size), elimination, 1.0)
        self._levels: tuple[list[Level], list[Level]] = ([], [])

    def at(self, bound: float, thorough: bool = False) -> Level | None:
        """Return the first way that fits the bound, if there is any.

        Parameters
        ----------
        thorough
            Look for a good one longer.
        """
        levels = self._levels[thorough]
        if not levels:
            levels.append(self._improved(self.whole) if thorough else self.whole)
        for level in levels:
            if level.width <= bound + _EPSILON:
                return level
        # What is left has to fit, even if it is a single variable.
        if self._bits.max() > bound + _EPSILON:
            return None
        while self._bits[list(levels[-1].held)].sum() + levels[-1].width - bound <= _MOST_HELD:
            levels.append(self._with_one_more(levels[-1], thorough))
            if levels[-1].width <= bound + _EPSILON:
                return levels[-1]
        return None

    def _with_one_more(self, level: Level, thorough: bool) -> Level:
        """Hold one more variable: the one for which the tables of all slices together have the fewest entries."""
        variables, trees = level.variables, level.trees
        bits = self._bits[variables]
        sizes = np.exp2(np.add.reduceat(bits[trees.scopes], trees.scope_starts[:-1]))
        holders = sizes.repeat(np.diff(trees.scope_starts))
        spared = np.bincount(trees.scopes, holders, variables.size) * (1.0 - np.exp2(-bits))
        entries = (sizes.sum() - spared) * np.exp2(bits)
        chosen = int(variables[entries.argmin()])
        return self._improved(
            Level(
                (*level.held, chosen),
                level.left[level.left != chosen],
                self._without(level, chosen),
                level.count * float(self._cardinalities[chosen]),
            ),
            thorough,
        )

    def _improved(self, level: Level, thorough: bool = True) -> Level:
        """Return a level, with another elimination if a better one is found."""
        kept = np.isin(self._scopes, level.left)
        owners = np.arange(self._starts.size - 1).repeat(np.diff(self._starts))
        lengths = np.bincount(owners[kept], minlength=self._starts.size - 1)
        _, graph = graph_of(lengths[lengths > 0], self._scopes[kept])
        bits = self._bits[level.left]
        best = level.elimination
        effort = _EFFORT[thorough] * level.count * best.size / min(best.size, MOST_ENTRIES)
        found = search(graph, bits, math.inf, _RESTARTS[thorough], 0.0, 0, effort)
        if (found.width, found.size) < (best.width - _EPSILON, best.size):
            best = found
        best = search_fronts(graph, bits, best, _FRONTS[thorough], effort=_FRONT_EFFORT[thorough] * level.count)
        return Level(level.held, level.left, best, level.count)

    def _without(self, level: Level, variable: int) -> Elimination:
        """Return the elimination of a level without one of its variables."""
        gone = int(level.left.searchsorted(variable))
        old = level.elimination
        steps, members = old.order != gone, old.members[: old.starts[-1]]
        owners = np.arange(old.order.size).repeat(np.diff(old.starts))
        kept = (members != gone) & steps[owners]
        lengths = np.bincount(owners[kept], minlength=old.order.size)[steps]
        members = members[kept]
        bits = self._bits[level.left][members]
        starts = ends(lengths)
        sizes = np.add.reduceat(bits, starts[:-1])
        order = old.order[steps]
        return Elimination(
            float(sizes.max()),
            float(np.exp2(sizes).sum()),
            0,
            order - (order > gone),
            starts,
            members - (members > gone),
        )
