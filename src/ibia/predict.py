"""Prediction: what an answer at a bound will cost, from the cliques of the model alone, before any table is filled.

What has to be done is counted in ``costs.py``; how long that takes follows from speeds that are measured when first
needed, and what earlier runs of the same model took corrects the rest.
"""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from ibia.costs import Costs, Sizes
from ibia.ladder import worth
from ibia.limits import FREE_PART, WORKER_MEMORY, available_memory, resident_memory
from ibia.prepare import Problem
from ibia.tables import Space

__all__ = ["Prediction", "Predictor", "Speed", "exact_bound", "measure_speed"]

# From so many seconds on it is worth while to start other processes; each adds this much to the speed of one.
_WORTH_HELP, _HELP = 2.0, 0.6
# An actual time of this many seconds weighs as much as no knowledge at all.
_DOUBT = 0.02
# Scopes that are made to measure a machine.
_SCOPES = 250


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
        Table entries of all steps of one alternative, or of all slices.
    work
        Multiplications and sums of entries, in all.
    graph
        Cliques handled, in all.
    bytes
        Most memory that all processes will hold.
    seconds, expected
        Time, with and without what earlier runs have taught.
    processes
        How many are to work side by side.
    slices
        Whether components are solved in slices (see `Sizes.costs`).
    alternatives
        Try at least so many, and keep what an earlier answer at this bound knows (0: as many as usual).
    reduce
        Bits by which cliques are reduced after each step.
    """

    bound: float
    exact: bool
    quick: bool
    entries: float
    work: float
    graph: float
    bytes: float
    seconds: float
    expected: float
    processes: int = 1
    slices: str = "auto"
    alternatives: int = 0
    reduce: float = 1.0

    @property
    def worth(self) -> float:
        """How good the answer should be, in bits of the bound: exact ones are beyond all others."""
        return math.inf if self.exact else worth(self.bound, self.reduce)


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
    slices
        Whether components are solved in slices, unless said otherwise (see `Sizes.costs`).
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        speed: Speed,
        alternatives: bool = True,
        processes: int = 1,
        memory: float = math.inf,
        slices: str = "auto",
    ) -> None:
        self._components = [Sizes(problem) for problem in problems]
        self._slices = slices
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

    def predict(self, bound: float, quick: bool = False, slices: str = "", reduce: float = 1.0) -> Prediction:
        """Return what an answer at that bound will cost.

        Parameters
        ----------
        quick
            Whether only one alternative is to be tried, with one backward sweep.
        slices
            Whether components are solved in slices (empty: as usual).
        reduce
            Bits by which cliques are reduced after each step.
        """
        slices = slices or self._slices
        costs = [
            component.costs(bound, quick, self._alternatives, slices, reduce=reduce) for component in self._components
        ]
        # Each process solves one component after the other.
        tables = max((cost.bytes for cost in costs), default=0.0)
        beside = WORKER_MEMORY + max((cost.bytes_beside for cost in costs), default=0.0)
        exact = [cost for cost in costs if cost.exact]
        approximate = [cost for cost in costs if not cost.exact]
        expected = self._seconds(exact) + self._seconds(approximate)
        processes = 1
        if expected * self._correction() > _WORTH_HELP:
            processes = self._side_by_side(math.fsum(cost.alternatives for cost in costs), tables, beside)
            # Whole tables, and slices, are shared by threads.
            expected = self._seconds(approximate) / _gain(processes) + self._seconds(exact) / _gain(self._processes)
        held = self._resident + tables + (processes - 1) * beside
        return Prediction(
            bound,
            not approximate,
            quick,
            math.fsum(cost.entries for cost in costs),
            math.fsum(cost.work for cost in costs),
            math.fsum(cost.graph for cost in costs),
            held,
            expected * self._correction(),
            expected,
            processes,
            slices,
            reduce=reduce,
        )

    def predict_exact(self, bound: float) -> Prediction | None:
        """Return what an exact answer within that bound will cost, in slices if need be and allowed."""
        predicted = self.predict(bound, slices="never" if self._slices == "never" else "always")
        return predicted if predicted.exact else None

    def _side_by_side(self, alternatives: float, tables: float, beside: float) -> int:
        """Return how many processes there is work, and memory, for.

        They need not be sure of it: who needs more than there is gives way, and nothing that this process has done is
        lost.
        """
        most = min(self._processes, int(alternatives))
        if most <= 1:
            return 1
        return max(min(most, 1 + int((self._free - tables) / beside)), 1)

    @cached_property
    def _free(self) -> float:
        """Bytes that there are for tables, and for other processes."""
        return min(self._memory - self._resident, FREE_PART * available_memory())

    def learn(self, predicted: Prediction, seconds: float) -> None:
        """Note how long a predicted run took: later predictions are corrected by it."""
        if predicted.expected > 0.0 and seconds > 0.0:
            self._learned.append((seconds, math.log(seconds / predicted.expected)))

    def _seconds(self, costs: Sequence[Costs]) -> float:
        """Return the time that all of these take one process."""
        speed = self._speed
        work, graph = math.fsum(cost.work for cost in costs), math.fsum(cost.graph for cost in costs)
        held = max((cost.bytes for cost in costs), default=0.0)
        return (work * speed.entry + graph * speed.clique) * speed.waiting + held * speed.byte

    def _correction(self) -> float:
        """Return the mean ratio of actual to predicted seconds; long runs tell more than short ones."""
        weight = _DOUBT + math.fsum(seconds for seconds, _ in self._learned)
        return math.exp(math.fsum(seconds * logarithm for seconds, logarithm in self._learned) / weight)


def _gain(processes: int) -> float:
    """Return how many times as fast as one so many processes are."""
    return 1.0 + _HELP * (processes - 1)


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
