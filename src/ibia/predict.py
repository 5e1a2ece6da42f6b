"""Prediction: what an answer at a bound will cost, from the cliques of the model alone, before any table is filled.

A component that fits the bound costs the tables of its clique tree. One that does not is cut into steps; how many
tables of which size those have follows, roughly, from how far the cliques of its tree exceed the bound
(docs/anytime.md has the figures). Speeds are measured when first needed, and what earlier runs of the same model took
corrects the rest.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from ibia.limits import WORKER_MEMORY, available_memory, resident_memory
from ibia.prepare import Problem
from ibia.tables import Space
from ibia.tables.memory import KEPT_BYTES

__all__ = ["MOST_BITS", "Prediction", "Predictor", "Speed", "exact_bound", "measure_speed"]

# A clique that exceeds the bound comes back, within it, in about so many steps more for every bit of excess.
_ENTRIES_PER_BIT = 1.2
_CLIQUES, _CLIQUES_PER_BIT = 1.5, 2.0
# Times each entry is multiplied and summed, and each clique is handled, in an exact run, in one alternative up to its
# first backward sweep, and in its further sweeps.
_EXACT_PASSES, _FORWARD_PASSES, _SWEEP_PASSES = 5.0, 40.0, 25.0
_EXACT_HANDLINGS, _FORWARD_HANDLINGS, _SWEEP_HANDLINGS = 25.0, 430.0, 60.0
# Memory of an exact run: two messages per edge, and this part of the largest clique for parts of sums.
_EXACT_PART = 0.5
# Copies of all tables that the messages of the steps amount to, there and back; tables of steps are kept up to a limit
# of their own, in so many copies.
_COPIES, _KEPT_COPIES = 1.25, 2.0
# How alternatives are counted in portfolio.py: until so many entries, but so many at least and at most. This part of
# them is finished beside the best, unless all have more entries than that.
_WORK, _FEWEST, _MOST = 2.0**23, 2.0, 18.0
_FINISHED, _AVERAGED = 0.4, 2.0**27
# From so many seconds on it is worth while to start other processes; each adds this much to the speed of one. Where
# there is no limit, they may use this part of the free memory. Who runs out of memory has worked in vain, so there has
# to be so many times as much for tables as predicted.
_WORTH_HELP, _HELP = 2.0, 0.6
_HELP_PART, _HELP_ROOM = 0.5, 2.0
# Tables of more bits are counted as if they had so many: the numbers must stay finite.
MOST_BITS = 900.0
# An actual time of this many seconds weighs as much as no knowledge at all.
_DOUBT = 0.02
# Scopes that are made to measure a machine.
_SCOPES = 1000


@dataclass(frozen=True)
class Speed:
    """How fast this machine is.

    Attributes
    ----------
    entry, clique
        Seconds of processor time per table entry (one multiplication, one sum), and to handle a clique's scope once.
    byte
        Seconds by the clock to get a byte of new memory from the system (on virtual machines that can be most of all).
    waiting
        How much longer things take by the clock on the wall, because other programs run too.
    """

    entry: float
    clique: float
    byte: float = 0.0
    waiting: float = 1.0


@dataclass(frozen=True)
class Prediction:
    """What an answer will cost.

    Attributes
    ----------
    bound
        Bits of the largest clique.
    exact
        Whether the whole model fits.
    quick
        Whether only one alternative is to be tried, with one backward sweep.
    entries
        Table entries of all steps of one alternative.
    work
        Multiplications and sums of entries, in all.
    graph
        Cliques handled, in all.
    bytes
        Most memory that all processes will hold.
    seconds
        Time.
    processes
        How many are to work side by side.
    alternatives
        Try at least so many, and keep what an earlier answer at this bound knows (0: as many as usual).
    """

    bound: float
    exact: bool
    quick: bool
    entries: float
    work: float
    graph: float
    bytes: float
    seconds: float
    processes: int = 1
    alternatives: int = 0


def exact_bound(width: float) -> float:
    """Return a width rounded up to hundredths, as a bound that can be typed; at least the smallest bound, 1."""
    return max(1.0, math.ceil(round(width * 100, 6)) / 100)


class Predictor:
    """Predicts for one model, and learns from what its runs took.

    Parameters
    ----------
    problems
        The components.
    speed
        Of this machine.
    alternatives
        Whether several orders are tried for a component that does not fit.
    processes
        At most how many there may be.
    memory
        Bytes that all of them may hold together.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        speed: Speed,
        alternatives: bool = True,
        processes: int = 1,
        memory: float = math.inf,
    ) -> None:
        self._components = [_Component.of(problem) for problem in problems]
        self._speed = speed
        self._alternatives = alternatives
        self._processes = processes
        self._memory = memory
        self._learned: list[tuple[float, float]] = []
        # Later, memory of former runs that was not given back would count twice.
        self._resident = resident_memory()
        self.width = max((problem.width for problem in problems), default=0.0)

    @property
    def exact_bound(self) -> float:
        """The cheapest bound that the whole model fits."""
        return exact_bound(self.width)

    @property
    def lowest_bound(self) -> float:
        """The lowest bound worth trying: below the largest factor steps need more than they are allowed."""
        return float(max([2, *(math.ceil(component.largest_factor - 1e-9) for component in self._components)]))

    def predict(self, bound: float, quick: bool = False) -> Prediction:
        """Return what an answer at that bound will cost.

        Parameters
        ----------
        quick
            Whether only one alternative is to be tried, with one backward sweep.
        """
        entries = work = graph = tables = alternatives = 0.0
        for component in self._components:
            costs = component.costs(bound, quick, self._alternatives)
            entries += costs.entries
            work += costs.work
            graph += costs.graph
            alternatives += costs.alternatives
            # Each process solves one after the other.
            tables = max(tables, costs.bytes)
        exact = bound >= self.width - 1e-9
        seconds = self._seconds(work, graph, tables) * self._correction()
        processes = self._side_by_side(alternatives, tables) if seconds > _WORTH_HELP else 1
        held = self._resident + tables + (processes - 1) * (WORKER_MEMORY + tables)
        return Prediction(bound, exact, quick, entries, work, graph, held, seconds / _gain(processes), processes)

    def _side_by_side(self, alternatives: float, tables: float) -> int:
        """Return how many processes there is work, and memory, for."""
        most = min(self._processes, int(alternatives))
        if most <= 1:
            return 1
        return max(min(most, int((self._free + WORKER_MEMORY) / (_HELP_ROOM * tables + WORKER_MEMORY))), 1)

    @cached_property
    def _free(self) -> float:
        """Bytes that there are for tables, and for other processes."""
        return min(self._memory - self._resident, _HELP_PART * available_memory())

    def learn(self, predicted: Prediction, seconds: float) -> None:
        """Note how long a predicted run took: later predictions are corrected by it."""
        held = predicted.bytes - self._resident - (predicted.processes - 1) * WORKER_MEMORY
        expected = self._seconds(predicted.work, predicted.graph, held / predicted.processes)
        expected /= _gain(predicted.processes)
        if expected > 0.0 and seconds > 0.0:
            self._learned.append((seconds, math.log(seconds / expected)))

    def _seconds(self, work: float, graph: float, tables: float) -> float:
        speed = self._speed
        return (work * speed.entry + graph * speed.clique) * speed.waiting + tables * speed.byte

    def _correction(self) -> float:
        """Return the mean ratio of actual to predicted seconds; long runs tell more than short ones."""
        weight = _DOUBT + math.fsum(seconds for seconds, _ in self._learned)
        return math.exp(math.fsum(seconds * logarithm for seconds, logarithm in self._learned) / weight)


def _gain(processes: int) -> float:
    """Return how many times as fast as one so many processes are."""
    return 1.0 + _HELP * (processes - 1)


@dataclass(frozen=True)
class _Costs:
    """What a component costs, and how many alternatives of it can be run side by side."""

    entries: float
    work: float
    graph: float
    bytes: float
    alternatives: float


@dataclass(frozen=True)
class _Component:
    """The sizes of a component's cliques, in bits."""

    cliques: NDArray[np.float64]
    largest_factor: float
    messages: float

    @classmethod
    def of(cls, problem: Problem) -> _Component:
        bits, trees, merged = np.log2(problem.cardinalities), problem.trees, problem.merged
        factors = np.add.reduceat(bits[merged.scopes], merged.starts[:-1])
        # Roots have no sepset towards a parent.
        sepsets = np.add.reduceat(bits[trees.sepsets], trees.sepset_starts[:-1][trees.parents >= 0])
        cliques = np.minimum(np.add.reduceat(bits[trees.scopes], trees.scope_starts[:-1]), MOST_BITS)
        return cls(cliques, float(factors.max()), float(np.exp2(np.minimum(sepsets, MOST_BITS)).sum()))

    def costs(self, bound: float, quick: bool, alternatives: bool) -> _Costs:
        limit = max(bound, self.largest_factor)
        widest = float(self.cliques.max())
        if widest <= limit:
            entries = float(np.exp2(self.cliques).sum())
            handled = float(self.cliques.size)
            held = 8.0 * (2.0 * self.messages + _EXACT_PART * 2.0**widest)
            return _Costs(entries, _EXACT_PASSES * entries, _EXACT_HANDLINGS * handled, held, 0.0)
        excess = np.maximum(self.cliques - limit, 0.0)
        sizes = np.exp2(np.minimum(self.cliques, limit))
        entries = float((sizes * (1.0 + _ENTRIES_PER_BIT * excess)).sum())
        handled = float((_CLIQUES + _CLIQUES_PER_BIT * excess).sum())
        if quick:
            count, finished = 1.0, 0.0
        else:
            count = min(max(_FEWEST, math.ceil(_WORK / entries) + 1.0), _MOST) if alternatives else 1.0
            finished = 1.0 + (_FINISHED * (count - 1.0) if count * entries <= _AVERAGED else 0.0)
        return _Costs(
            entries,
            entries * (count * _FORWARD_PASSES + finished * _SWEEP_PASSES),
            handled * (count * _FORWARD_HANDLINGS + finished * _SWEEP_HANDLINGS),
            8.0 * _COPIES * entries + min(KEPT_BYTES, 8.0 * _KEPT_COPIES * entries),
            count,
        )


@cache
def measure_speed() -> Speed:
    """Measure this machine with a table of medium size, some scopes and new memory (milliseconds, once per process)."""
    space = Space((2,) * 18)
    table = space.ones(tuple(range(18)))
    part = space.ones(tuple(range(0, 18, 2)))

    def tables() -> None:
        table.multiply_in(part)
        table.marginal(part.scope)

    def scopes() -> None:
        for first in range(_SCOPES):
            tuple(sorted({(first * factor) % 97 for factor in range(12)}))

    entry = _least_seconds(tables) / table.values.size
    return Speed(entry, _least_seconds(scopes) / _SCOPES, _seconds_of_new_memory())


def _seconds_of_new_memory(size: int = 2**22) -> float:
    """Return the seconds that the system takes to provide a byte."""
    began = time.perf_counter()
    with mmap.mmap(-1, size) as memory:
        for place in range(0, size, mmap.PAGESIZE):
            memory[place] = 1
    return (time.perf_counter() - began) / size


def _least_seconds(action: Callable[[], object]) -> float:
    action()
    times = []
    for _ in range(3):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)
