"""Costs: how many table entries and cliques an answer of a component takes, by each of the ways there are to one.

A component that fits the bound costs the tables of its clique tree. One that does not is cut into steps; how many
tables of which size those have follows, roughly, from how far the cliques of its tree exceed the bound
(docs/anytime.md has the figures); or it is solved in slices, if that takes less. Counts only, so that choices made by
them are the same on every machine; ``predict.py`` knows what they mean in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ibia.forest.layout import Trees
from ibia.prepare import Problem
from ibia.slicing import Level
from ibia.tables.contract import LARGE
from ibia.tables.memory import KEPT_BYTES

__all__ = ["AVERAGED", "FEWEST", "MOST_BITS", "SLICES", "WORK", "Costs", "Sizes", "alternative_work"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# A clique that exceeds the bound comes back, within it, in about so many steps more for every bit of excess, where
# cliques are reduced by one bit after each; where by more, that falls with these powers of it.
_ENTRIES_PER_BIT, _ENTRIES_POWER = 1.2, -1.1
_CLIQUES, _CLIQUES_PER_BIT, _CLIQUES_POWER = 1.5, 2.0, -0.5
# Times each entry is multiplied and summed, and each clique is handled, in an exact run, in one alternative up to its
# first backward sweep, and in its further sweeps.
_EXACT_PASSES, _FORWARD_PASSES, _SWEEP_PASSES = 3.0, 40.0, 25.0
# In an exact run an entry is also added to a message for each child of its clique.
_CHILD_PASSES = 0.2
_EXACT_HANDLINGS, _FORWARD_HANDLINGS, _SWEEP_HANDLINGS = 25.0, 430.0, 60.0
# Memory of an exact run: messages, and this part of the largest clique for parts of sums.
_EXACT_PART = 0.5
# Copies of all tables that the messages of the steps amount to, one way; tables of steps are kept up to a limit of
# their own, in so many copies. Messages both ways are there where they are damped, or another alternative waits.
_COPIES, _KEPT_COPIES = 0.6, 2.0
# Alternatives are tried until they have cost this much, but a few at least (docs/decisions.md), and there are no more
# than so many. Once they have cost as much as the other number, only the best of the further ones is finished; before,
# this part of them is, beside the best.
WORK, FEWEST, _MOST = 2.0**23, 2, 18
AVERAGED, _FINISHED = 2.0**27, 0.4
# Handling a clique of a step, there and back, takes about as long as working on so many table entries.
_CLIQUE_ENTRIES = 2.0**12
# Handling a clique once takes as long as this many multiplications and sums, and a slice takes so many handlings more
# than its cliques do.
_ENTRIES_PER_CLIQUE = 700.0
_SLICE = 100.0
# An exact answer may cost so many times as much as an approximate one: so much is one bit more of the bound.
_WORTH_EXACTNESS = 2.0
# Tables of more bits are counted as if they had so many: the numbers must stay finite.
MOST_BITS = 900.0
_EPSILON = 1e-9
# Holding so many bits may make a component narrower by as many, and by so many more with luck.
_LUCK = 2.0
# Good slices, once looked for, may have so many times fewer entries than those found in passing.
_HOPE = 8.0

# Whether a component that does not fit is solved in slices: if that costs less than approximation, never, or always.
SLICES = ("auto", "never", "always")


@dataclass(frozen=True)
class Costs:
    """What an answer of a component costs.

    Attributes
    ----------
    entries
        Table entries of all steps, or slices, of one alternative.
    work
        Multiplications and sums of entries, in all.
    graph
        Cliques handled, in all.
    bytes
        Most memory that a process will hold.
    bytes_beside
        Most memory that a process beside it will hold, which runs other alternatives.
    alternatives
        How many can be run side by side (0: there is only one way).
    slices
        How it is solved in slices, if it is.
    """

    entries: float
    work: float
    graph: float
    bytes: float
    bytes_beside: float = 0.0
    alternatives: float = 0.0
    slices: Level | None = None

    @property
    def exact(self) -> bool:
        """Whether the answer will be exact for certain."""
        return not self.alternatives

    @property
    def total(self) -> float:
        """Work and graph in one number."""
        return self.work + _ENTRIES_PER_CLIQUE * self.graph


class Sizes:
    """The sizes of a component's cliques, and what an answer costs at any bound.

    Attributes
    ----------
    largest_factor
        Bits of its largest table.
    """

    def __init__(self, problem: Problem) -> None:
        merged = problem.merged
        self._problem = problem
        self._bits = np.log2(problem.cardinalities)
        self._cliques, self._messages = _sizes(self._bits, problem.trees)
        self._values = merged.values.size
        self.largest_factor = float(np.add.reduceat(self._bits[merged.scopes], merged.starts[:-1]).max())

    def costs(
        self,
        bound: float,
        quick: bool = False,
        alternatives: bool = True,
        slices: str = "auto",
        thorough: bool = False,
        reduce: float = 1.0,
    ) -> Costs:
        """Return the costs of an answer at a bound, by the cheapest way.

        Parameters
        ----------
        quick
            Whether only one alternative is to be tried, with one backward sweep.
        alternatives
            Whether several alternatives are tried otherwise.
        slices
            ``"auto"``: solve it in slices if that costs hardly more; ``"never"``; ``"always"``: whatever it costs.
        thorough
            Where slices would do, or might, look for good ones, which takes a little of the time that they spare.
        reduce
            Bits by which cliques are reduced after each step of an approximation.
        """
        if self._problem.width <= bound + _EPSILON:
            return self._whole
        reduce = max(min(reduce, bound), 1.0)
        approximate = self._approximate(max(bound, self.largest_factor), quick, alternatives, reduce)
        # Slices take about as long as the whole would, at least.
        if slices == "never" or (slices == "auto" and self._whole.work > _WORTH_EXACTNESS * approximate.total):
            return approximate
        most = math.inf if slices == "always" else _WORTH_EXACTNESS * approximate.total
        if self._least_graph(bound) > most:
            return approximate
        slicing, most_entries = self._problem.slicing, most / _EXACT_PASSES
        hopeful = slices == "always"
        level = None if hopeful else slicing.at(bound, most_entries=_HOPE * most_entries if thorough else most_entries)
        if hopeful or (thorough and level is not None):
            level = slicing.at(bound, True, most_entries)
        sliced = approximate if level is None else self._sliced(level)
        return sliced if sliced.total <= most else approximate

    @cached_property
    def _whole(self) -> Costs:
        """Costs of an exact answer by the best tree."""
        problem = self._problem
        if problem.narrow:
            return _exact(self._cliques, self._messages, problem.trees)
        return self._sliced(problem.slicing.whole)

    def _least_graph(self, bound: float) -> float:
        """Return what it costs at least to handle the cliques of all slices, as work."""
        count = math.exp2(min(self._problem.width - bound - _LUCK, MOST_BITS))
        return _ENTRIES_PER_CLIQUE * count * self._whole.graph

    def _sliced(self, level: Level) -> Costs:
        cliques, messages = _sizes(self._bits[level.variables], level.trees)
        single = _exact(cliques, messages, level.trees)
        return Costs(
            level.count * single.entries,
            level.count * single.work,
            level.count * (single.graph + _SLICE),
            single.bytes + 8.0 * self._values,
            slices=level,
        )

    def _approximate(self, limit: float, quick: bool, alternatives: bool, reduce: float) -> Costs:
        excess = np.maximum(self._cliques - limit, 0.0)
        sizes = np.exp2(np.minimum(self._cliques, limit))
        entries = float((sizes * (1.0 + _ENTRIES_PER_BIT * reduce**_ENTRIES_POWER * excess)).sum())
        handled = float((_CLIQUES + _CLIQUES_PER_BIT * reduce**_CLIQUES_POWER * excess).sum())
        if quick:
            count, finished = 1.0, 0.0
        else:
            work = alternative_work(entries, handled)
            count = float(min(max(FEWEST, math.ceil(WORK / work) + 1), _MOST)) if alternatives else 1.0
            finished = 1.0 + (_FINISHED * (count - 1.0) if count * work <= AVERAGED else 0.0)
        one_way = 8.0 * _COPIES * entries
        kept = min(KEPT_BYTES, 8.0 * _KEPT_COPIES * entries)
        return Costs(
            entries,
            entries * (count * _FORWARD_PASSES + finished * _SWEEP_PASSES),
            handled * (count * _FORWARD_HANDLINGS + finished * _SWEEP_HANDLINGS),
            (one_way if quick else 2.0 * one_way) + kept,
            one_way + kept,
            count,
        )


def alternative_work(entries: float, cliques: float) -> float:
    """Return what an alternative costs, from the table entries and the number of cliques of all its steps."""
    return entries + _CLIQUE_ENTRIES * cliques


def _exact(cliques: Array, messages: Array, trees: Trees) -> Costs:
    """Return what a clique tree costs that is worked through as a whole."""
    entries = np.exp2(cliques)
    children = np.bincount(trees.parents[trees.parents >= 0], minlength=cliques.size)
    work = float((entries * (_EXACT_PASSES + _CHILD_PASSES * children)).sum())
    held = 8.0 * (_most_held(messages, trees.parents) + _EXACT_PART * float(entries.max()))
    return Costs(float(entries.sum()), work, _EXACT_HANDLINGS * cliques.size, held)


def _most_held(messages: Array, parents: Integers) -> float:
    """Return how many entries of messages there are at most at a time.

    Small messages stay. A large one that goes up is there until its clique is done on the way down, one that goes down
    from when its parent is done until its clique is; where several threads go down, there is another of those.
    """
    count = messages.size
    if messages.max(initial=0.0) < LARGE:
        return 2.0 * float(messages.sum())
    large = np.flatnonzero(messages >= LARGE)
    sizes = messages[large]
    changes = np.zeros(count + 1)
    np.add.at(changes, large + 1, -2.0 * sizes)
    np.add.at(changes, parents[large], sizes)
    most = sizes.sum() + changes.cumsum().max(initial=0.0) + sizes.max(initial=0.0)
    return float(most + 2.0 * (messages.sum() - sizes.sum()))


def _sizes(bits: Array, trees: Trees) -> tuple[Array, Array]:
    """Return the bits of each clique, and the entries of the messages between it and its parent (none for roots)."""
    cliques = np.minimum(np.add.reduceat(bits[trees.scopes], trees.scope_starts[:-1]), MOST_BITS)
    has_parent = trees.parents >= 0
    messages = np.zeros(cliques.size)
    messages[has_parent] = np.exp2(
        np.minimum(np.add.reduceat(bits[trees.sepsets], trees.sepset_starts[:-1][has_parent]), MOST_BITS)
    )
    return cliques, messages
