"""Slicing: which variables of a component to hold fixed, so that the rest fits a bound.

Where some variables are held fixed, the rest is narrower; what is added up over all their states (``slices.py``) is
the whole. One variable after the other is held, each time one that makes the rest narrow, while the tables of all
slices together have few entries. Where that leads is a matter of luck, so it is tried several times where much depends
on it. Knows scopes and cardinalities, nothing of tables.
"""

from __future__ import annotations

import math
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.flat import ends
from ibia.forest.elimination import Elimination
from ibia.forest.graph import graph_of
from ibia.forest.layout import Trees
from ibia.forest.refine import refine
from ibia.forest.search import MOST_ENTRIES, search, search_fronts
from ibia.forest.triangulate import numbered_trees
from ibia.threads import has_help, run_all

__all__ = ["Level", "Slicing"]

Integers = NDArray[np.int64]

# At most so many bits are held fixed.
_MOST_HELD = 20.0
# When a variable is held, at most so many other triangulations of the rest are tried, greedy ones and fronts, and the
# best is refined, as long as that takes this many steps for each table entry of all slices together (a step takes about
# as long as an entry): in passing, and when they are certain to be made.
_RESTARTS, _EFFORT = (2, 20), (0.001, 0.002)
_FRONTS, _FRONT_EFFORT = (4, 20), (0.001, 0.02)
_REFINEMENT, _MOST_STEPS = (0.005, 0.006), (2.0**22, math.inf)
# As long as none is held, more: what is better then is better for all.
_FIRST_REFINEMENT = 0.02
# Which variables make the rest narrow is told by this power of the sizes of the cliques.
_WIDTH_POWER = 4.0
# How fast entries grow can be told when so many bits were spared; they are taken to grow this much more slowly.
_TELLING, _CERTAIN = 2.0, 0.75
# Good ways are looked for once, and again for each time that slices of so many entries double, at most so often; not
# where the first one has so many times more entries than are of use.
_AGAIN_FROM, _MOST_WAYS, _HOPELESS = 2.0**32, 6, 3.0
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

    @property
    def entries(self) -> float:
        """Table entries of all slices together."""
        return self.count * self.elimination.size

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
    """The ways to hold variables of a component fixed, and the best of them.

    Parameters
    ----------
    starts, scopes
        Of the component's tables.
    elimination
        Of the whole component, by the numbers of its variables.
    control
        What the search for better ones may use.

    Attributes
    ----------
    whole
        The component with none held.
    """

    def __init__(
        self,
        starts: Integers,
        scopes: Integers,
        cardinalities: Integers,
        elimination: Elimination,
        control: Control | None = None,
    ) -> None:
        self.whole = Level((), np.arange(cardinalities.size), elimination, 1.0)
        self._way = partial(_Way, self.whole, starts, scopes, cardinalities, control)
        self._control = Control() if control is None else control
        self._in_passing = self._way(thorough=False, seed=0)
        self._thorough: list[_Way] = []

    def at(self, bound: float, thorough: bool = False, most_entries: float = math.inf) -> Level | None:
        """Return what fits the bound with the first variables of a way, or of the best of several; None: nothing does.

        Parameters
        ----------
        thorough
            Look for a good one longer.
        most_entries
            Give up where all slices together have more, or would have at the pace so far: it gets no less when more
            is held.
        """
        if not thorough:
            return self._in_passing.at(bound, most_entries)
        if most_entries < math.inf and _count(most_entries) > 1 and has_help(self._control):
            # The second one is needed more often than not, so who has nothing to do can look for it meanwhile.
            self._look(2, bound, most_entries)
        (best,) = self._look(1, bound, most_entries)
        expected = self._thorough[0].entries_at(bound)
        if expected > _HOPELESS * most_entries:
            return best
        found = self._look(_count(min(expected, most_entries)), bound, most_entries)
        fitting = [level for level in found if level is not None]
        return min(fitting, key=lambda level: level.entries, default=None)

    def _look(self, count: int, bound: float, most_entries: float) -> list[Level | None]:
        """Return what the first so many ways come to; what was found before is not looked for again."""
        while len(self._thorough) < count:
            self._thorough.append(self._way(thorough=True, seed=len(self._thorough)))
        return run_all([partial(way.at, bound, most_entries) for way in self._thorough[:count]], self._control)


def _count(entries: float) -> int:
    """Return how many ways to look for where slices of so many entries are at stake."""
    return max(math.ceil(min(math.log2(entries / _AGAIN_FROM), _MOST_WAYS)), 1)


class _Way:
    """One way to hold variables fixed, one after the other, the best first.

    Parameters
    ----------
    whole
        The component with none held.
    starts, scopes
        Of its tables.
    thorough
        Whether to look long for good triangulations of the rest.
    seed
        Decides what is found by chance.
    """

    def __init__(
        self,
        whole: Level,
        starts: Integers,
        scopes: Integers,
        cardinalities: Integers,
        control: Control | None,
        *,
        thorough: bool,
        seed: int,
    ) -> None:
        self._starts, self._scopes = starts, scopes
        self._cardinalities = cardinalities
        self._bits = np.log2(cardinalities)
        self._control = control
        self._thorough, self._seed = thorough, seed
        self._whole = whole
        self._levels: list[Level] = []

    def at(self, bound: float, most_entries: float) -> Level | None:
        """Return the first level that fits the bound, if there is any (see `Slicing.at`)."""
        levels = self._levels
        if not levels:
            levels.append(self._improved(self._whole) if self._thorough else self._whole)
        for level in levels:
            if level.width <= bound + _EPSILON:
                return level
        # What is left has to fit, even if it is a single variable.
        if self._bits.max() > bound + _EPSILON:
            return None
        while self._bits[list(levels[-1].held)].sum() + levels[-1].width - bound <= _MOST_HELD:
            if self.entries_at(bound) > most_entries:
                break
            levels.append(self._with_one_more(levels[-1]))
            if levels[-1].width <= bound + _EPSILON:
                return levels[-1]
        return None

    def entries_at(self, bound: float) -> float:
        """Return how many entries all slices would have at a bound, if they grow as they did with the levels so far."""
        for level in self._levels:
            if level.width <= bound + _EPSILON:
                return level.entries
        first, last = self._levels[0], self._levels[-1]
        spared = first.width - last.width
        if spared < _TELLING:
            return last.entries
        pace = math.log2(last.entries / first.entries) / spared
        return float(last.entries * 2.0 ** (_CERTAIN * pace * max(last.width - bound, 0.0)))

    def _with_one_more(self, level: Level) -> Level:
        """Hold one more variable: one that makes the rest narrow, while all slices together have few entries."""
        variables, trees = level.variables, level.trees
        bits = self._bits[variables]
        cliques = np.add.reduceat(bits[trees.scopes], trees.scope_starts[:-1])

        def left(power: float) -> NDArray[np.float64]:
            """Return the sum of a power of the cliques' sizes without each of the variables, in bits."""
            sizes = np.exp2(power * (cliques - cliques.max()))
            holding = np.bincount(trees.scopes, sizes.repeat(np.diff(trees.scope_starts)), variables.size)
            others = np.maximum(sizes.sum() - holding, 0.0)
            found: NDArray[np.float64] = np.log2(others + holding * np.exp2(-power * bits)) / power
            return found

        # A high power is the width, but shows also what is gained where several cliques are equally large.
        chosen = int(variables[(left(1.0) + bits + left(_WIDTH_POWER)).argmin()])
        return self._improved(
            Level(
                (*level.held, chosen),
                level.left[level.left != chosen],
                self._without(level, chosen),
                level.count * float(self._cardinalities[chosen]),
            )
        )

    def _improved(self, level: Level) -> Level:
        """Return a level, with another elimination if a better one is found."""
        kept = np.isin(self._scopes, level.left)
        owners = np.arange(self._starts.size - 1).repeat(np.diff(self._starts))
        lengths = np.bincount(owners[kept], minlength=self._starts.size - 1)
        _, graph = graph_of(lengths[lengths > 0], self._scopes[kept])
        bits = self._bits[level.left]
        best, thorough, seed = level.elimination, self._thorough, self._seed
        effort = _EFFORT[thorough] * level.count * best.size / min(best.size, MOST_ENTRIES)
        found = search(graph, bits, math.inf, _RESTARTS[thorough], 0.0, seed, effort, self._control)
        if (found.width, found.size) < (best.width - _EPSILON, best.size):
            best = found
        effort = _FRONT_EFFORT[thorough] * level.count
        best = search_fronts(graph, bits, best, _FRONTS[thorough], seed=seed, effort=effort, control=self._control)
        starts = [best] if best is level.elimination else [level.elimination, best]
        effort = _FIRST_REFINEMENT
        if level.held:
            effort = min(_REFINEMENT[thorough] * level.count, _MOST_STEPS[thorough] / best.size)
        best = refine(graph, bits, starts, effort, seed=seed, control=self._control)
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

