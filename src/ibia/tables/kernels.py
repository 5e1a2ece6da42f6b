"""The compiled loops over table entries: the only code that touches array memory in bulk.

A second backend (a GPU, say) implements the functions of ``__all__`` for arrays of its own; nothing else in the package
loops over entries. Arrays are flat float64; partners are found through the index maps of ``maps.py``.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "allocate",
    "divide_in",
    "entropy",
    "gather",
    "largest_difference",
    "marginalise",
    "multiply_in",
    "scale_in",
    "total",
]

Array = NDArray[np.float64]
Offsets = NDArray[np.int64]

# Below this a divisor counts as zero: ratios of tiny numbers overflow, and infinity times zero is not a number.
TINY = 1e-200

# Sums may be reassociated (so that they vectorise); nothing else of IEEE arithmetic is given up.
_compile = numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, nogil=True)


def allocate(size: int, value: float) -> Array:
    """Return a new array of `size` entries, all `value`."""
    if value == 0.0:
        return np.zeros(size)
    return np.full(size, value)


@_compile
def marginalise(table: Array, high: Offsets, low: Offsets, run: int, kind: int, out: Array) -> None:
    """Add every entry of `table` to its partner in `out`."""
    position = 0
    if kind == 0:
        for h in range(high.size):
            target = out[high[h] :]
            source = table[position : position + low.size]
            for inner in range(low.size):
                target[low[inner]] += source[inner]
            position += low.size
    elif kind == 1:
        for h in range(high.size):
            for m in range(low.size):
                base = high[h] + low[m]
                target = out[base : base + run]
                source = table[position : position + run]
                for inner in range(run):
                    target[inner] += source[inner]
                position += run
    elif run == 2:
        for h in range(high.size):
            target = out[high[h] :]
            source = table[position : position + 2 * low.size]
            for m in range(low.size):
                target[low[m]] += source[2 * m] + source[2 * m + 1]
            position += 2 * low.size
    else:
        for h in range(high.size):
            for m in range(low.size):
                source = table[position : position + run]
                subtotal = 0.0
                for inner in range(run):
                    subtotal += source[inner]
                out[high[h] + low[m]] += subtotal
                position += run


@_compile
def multiply_in(table: Array, high: Offsets, low: Offsets, run: int, kind: int, other: Array) -> None:
    """Multiply every entry of `table` by its partner in `other`."""
    position = 0
    if kind == 0:
        for h in range(high.size):
            source = other[high[h] :]
            target = table[position : position + low.size]
            for inner in range(low.size):
                target[inner] *= source[low[inner]]
            position += low.size
    elif kind == 1:
        for h in range(high.size):
            for m in range(low.size):
                base = high[h] + low[m]
                source = other[base : base + run]
                target = table[position : position + run]
                for inner in range(run):
                    target[inner] *= source[inner]
                position += run
    elif run == 2:
        for h in range(high.size):
            source = other[high[h] :]
            target = table[position : position + 2 * low.size]
            for m in range(low.size):
                factor = source[low[m]]
                target[2 * m] *= factor
                target[2 * m + 1] *= factor
            position += 2 * low.size
    else:
        for h in range(high.size):
            for m in range(low.size):
                factor = other[high[h] + low[m]]
                target = table[position : position + run]
                for inner in range(run):
                    target[inner] *= factor
                position += run


@_compile
def gather(high: Offsets, low: Offsets, run: int, kind: int, other: Array, start: int, out: Array) -> None:
    """Copy to every entry of `out` its partner in `other`, counted from `start`."""
    step = 0 if kind == 2 else 1
    position = 0
    for h in range(high.size):
        for m in range(low.size):
            base = start + high[h] + low[m]
            for inner in range(run):
                out[position + inner] = other[base + step * inner]
            position += run


@_compile
def divide_in(table: Array, divisor: Array, zero_value: float) -> None:
    """Divide `table` by `divisor`, entry by entry; where the divisor is (near) zero the result is `zero_value`."""
    for i in range(table.size):
        if divisor[i] > TINY:
            table[i] /= divisor[i]
        else:
            table[i] = zero_value


@_compile
def scale_in(table: Array, factor: float) -> None:
    """Multiply every entry of `table` by `factor`."""
    for i in range(table.size):
        table[i] *= factor


@_compile
def total(table: Array) -> float:
    """Return the sum of all entries."""
    result = 0.0
    for i in range(table.size):
        result += table[i]
    return result


@_compile
def entropy(table: Array) -> float:
    """Return −Σ x ln x over the entries (nats); the table should sum to one."""
    result = 0.0
    for i in range(table.size):
        if table[i] > 0.0:
            result -= table[i] * math.log(table[i])
    return result


@_compile
def largest_difference(table: Array, other: Array) -> float:
    """Return the largest absolute difference between two tables of the same scope."""
    result = 0.0
    for i in range(table.size):
        difference = abs(table[i] - other[i])
        if difference > result:
            result = difference
    return result
