"""Speed of the table operations, as multiples of the time of a memory copy of the same size in the same run.

Times of an entry say little across machines; the ratio to the copy does. Knows the kernels and the index maps only.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibia.tables import kernels
from ibia.tables.maps import IndexMap, index_map

__all__ = ["OPERATIONS", "PATTERNS", "Measurement", "measure", "print_measurements"]

OPERATIONS = ("multiply_in", "marginalise", "gather", "entropy")

# Axes of the partner, as a function of the number of axes and a generator of random numbers.
PATTERNS: dict[str, Callable[[int, random.Random], Iterable[int]]] = {
    "inner kept": lambda axes, _: range(axes // 2, axes),
    "inner dropped": lambda axes, _: range(axes // 2),
    "first dropped": lambda axes, _: range(1, axes),
    "last dropped": lambda axes, _: range(axes - 1),
    "interleaved": lambda axes, _: range(0, axes, 2),
    "interleaved, last kept": lambda axes, _: range(1, axes, 2) if axes % 2 == 0 else range(0, axes, 2),
    "random half": lambda axes, chance: chance.sample(range(axes), axes // 2),
    "mixed cardinalities": lambda axes, chance: chance.sample(range(axes), axes // 2),
}

# Each measurement goes over about this many entries, and is repeated at least so often: the best counts.
_ENTRIES = 2**22
_REPETITIONS = 7
# The project's aim for multiply_in and marginalise from 2^12 entries on.
_AIM = 3.0


@dataclass(frozen=True)
class Measurement:
    """The time of one operation on one shape.

    Attributes
    ----------
    bits, entries
        Nominal size (log2) and size of the larger table.
    pattern, operation
        Names out of `PATTERNS` and `OPERATIONS`.
    copy, time
        Nanoseconds per entry of the larger table: of a memory copy, and of the operation.
    """

    bits: int
    entries: int
    pattern: str
    operation: str
    copy: float
    time: float

    @property
    def ratio(self) -> float:
        """How many times the operation takes what a copy takes."""
        return self.time / self.copy


def measure(sizes: Iterable[int], seed: int = 1) -> Iterator[Measurement]:
    """Measure every operation on every pattern.

    Parameters
    ----------
    sizes
        Sizes of the larger table in bits.
    seed
        Of the random patterns.
    """
    chance = random.Random(seed)
    for bits in sizes:
        for pattern, choose in PATTERNS.items():
            cardinalities = _mixed(bits, chance) if pattern == "mixed cardinalities" else (2,) * bits
            partner, smaller = _partner(cardinalities, frozenset(choose(len(cardinalities), chance)))
            yield from _measure_shape(bits, pattern, math.prod(cardinalities), partner, smaller)


def _mixed(bits: int, chance: random.Random) -> tuple[int, ...]:
    """Return random cardinalities from 2 to 5 whose product is near 2^bits."""
    cardinalities: list[int] = []
    while math.prod(cardinalities) * 3.5 <= 2.0**bits * 2.0:
        cardinalities.append(chance.randint(2, 5))
    return tuple(cardinalities)


def _partner(cardinalities: tuple[int, ...], kept: frozenset[int]) -> tuple[IndexMap, int]:
    strides, size = [0] * len(cardinalities), 1
    for axis in reversed(range(len(cardinalities))):
        if axis in kept:
            strides[axis] = size
            size *= cardinalities[axis]
    return index_map(cardinalities, tuple(strides)), size


def _measure_shape(bits: int, pattern: str, size: int, partner: IndexMap, smaller: int) -> Iterator[Measurement]:
    generator = np.random.default_rng(bits)
    table, scratch = _apart(size)
    generator.random(out=table)
    table /= table.sum()
    np.copyto(scratch, table)
    # Ones leave the scratch table as it is: repeated products would decay to slow, tiny numbers.
    other = np.ones(smaller)
    sums = np.zeros(smaller)
    calls: dict[str, Callable[[], object]] = {
        "copy": lambda: np.copyto(scratch, table),
        "multiply_in": lambda: kernels.multiply_in(scratch, *partner, other),
        "marginalise": lambda: kernels.marginalise(table, *partner, sums),
        "gather": lambda: kernels.gather(*partner, other, 0, scratch),
        "entropy": lambda: kernels.entropy(table),
    }
    repetitions = max(_REPETITIONS, min(1000, _ENTRIES // size))
    nanoseconds = {name: _best(call, repetitions) / size * 1e9 for name, call in calls.items()}
    for operation in OPERATIONS:
        yield Measurement(bits, size, pattern, operation, nanoseconds["copy"], nanoseconds[operation])


def _apart(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two arrays that do not lie a few bytes apart modulo a page: that slows a copy tenfold and flatters us."""
    page = 4096 // 8
    memory = np.empty(2 * size + 3 * page)
    first = -(memory.ctypes.data // 8) % page
    second = first + (size + page - 1) // page * page + page // 2
    return memory[first : first + size], memory[second : second + size]


def _best(call: Callable[[], object], repetitions: int) -> float:
    """Return the shortest time of several calls, after one that is not counted (compilation, cold caches)."""
    call()
    best = math.inf
    for _ in range(repetitions):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def print_measurements(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Print a line for each shape as its measurements come, and pass them on; colours only on a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    console.print("ns per entry, and in brackets how many times a memory copy of the same size takes")
    console.print(f"{'size':<6}{'pattern':<24}{'copy':>7}" + "".join(f"{name:>18}" for name in OPERATIONS))
    line = Text()
    for measurement in measurements:
        if measurement.operation == OPERATIONS[0]:
            line = Text(f"2^{measurement.bits:<4}{measurement.pattern:<24}{measurement.copy:>7.2f}")
        aimed = measurement.operation in ("multiply_in", "marginalise") and measurement.bits >= 12
        style = ("green" if measurement.ratio <= _AIM else "red") if aimed else ""
        line.append(f"{measurement.time:>10.2f} ({measurement.ratio:>4.1f}×)", style=style)
        if measurement.operation == OPERATIONS[-1]:
            console.print(line)
        yield measurement
