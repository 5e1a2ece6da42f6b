"""The compiled loops over table entries: the only code that touches array memory in bulk.

A second backend (a GPU, say) implements the functions of ``__all__`` for arrays of its own; nothing else in the package
loops over entries. Arrays are flat float64; partners are found through the index maps of ``maps.py``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside, part
from ibia.tables.maps import BROADCAST, CONTIGUOUS, LOOKUP

__all__ = [
    "address_of",
    "blend_in",
    "divide_in",
    "entropy",
    "entropy_without",
    "gather",
    "largest_difference",
    "marginalise",
    "multiply_in",
    "multiply_to",
    "scale_in",
    "total",
]

Array = NDArray[np.float64]
Offsets = NDArray[np.int64]
Low = NDArray[np.uint32]

# Below this a divisor counts as zero: ratios of tiny numbers overflow, and infinity times zero is not a number.
TINY = 1e-200
# One over a smaller mass would overflow.
SMALLEST_MASS = 2.0**-1000
# Sums of many entries are one up to this: scaling would not make them better.
ROUNDING = 1e-14

# Sums may be reassociated (so that they vectorise); nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract", "nsz"}
_compile = entry(fastmath=_FAST)
_compile_part = part(fastmath=_FAST)
_inside = inside(fastmath=_FAST)
# A function called from a compiled one inherits its options unless it says otherwise.
_compile_part_strictly = part(fastmath=False)


@_compile
def address_of(table: Array) -> int:
    """Return where the entries start: asked of NumPy, it takes ten times as long."""
    return table.ctypes.data


@_compile
def marginalise(table: Array, high: Offsets, low: Low, run: int, kind: int, out: Array) -> None:
    """Add every entry of `table` to its partner in `out`."""
    position = 0
    if kind == LOOKUP:
        # Additions to one entry have to wait for each other. The two halves of a block take turns, so that fewer do;
        # where both have the same partners, they are added first.
        half = low.size // 2
        rest = low.size - 2 * half
        alike = True
        for inner in range(half):
            alike = alike and low[inner] == low[half + inner]
        for h in range(high.size):
            target = out[high[h] :]
            source = table[position : position + low.size]
            if alike:
                for inner in range(half):
                    target[low[inner]] += source[inner] + source[half + inner]
            else:
                for inner in range(half):
                    target[low[inner]] += source[inner]
                    target[low[half + inner]] += source[half + inner]
            if rest:
                target[low[low.size - 1]] += source[low.size - 1]
            position += low.size
    elif kind == CONTIGUOUS:
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
def multiply_in(table: Array, high: Offsets, low: Low, run: int, kind: int, other: Array) -> None:
    """Multiply every entry of `table` by its partner in `other`."""
    position = 0
    if kind == LOOKUP:
        for h in range(high.size):
            source = other[high[h] :]
            target = table[position : position + low.size]
            for inner in range(low.size):
                target[inner] *= source[low[inner]]
            position += low.size
    elif kind == CONTIGUOUS:
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
def multiply_to(table: Array, high: Offsets, low: Low, run: int, kind: int, other: Array, out: Array) -> None:
    """Write to `out` every entry of `table` times its partner in `other`: a copy and a product in one pass."""
    position = 0
    if kind == LOOKUP:
        for h in range(high.size):
            source = other[high[h] :]
            part = table[position : position + low.size]
            target = out[position : position + low.size]
            for inner in range(low.size):
                target[inner] = part[inner] * source[low[inner]]
            position += low.size
    elif kind == BROADCAST and run == 2:
        for h in range(high.size):
            source = other[high[h] :]
            part = table[position : position + 2 * low.size]
            target = out[position : position + 2 * low.size]
            for m in range(low.size):
                factor = source[low[m]]
                target[2 * m] = part[2 * m] * factor
                target[2 * m + 1] = part[2 * m + 1] * factor
            position += 2 * low.size
    else:
        for h in range(high.size):
            for m in range(low.size):
                base = high[h] + low[m]
                part = table[position : position + run]
                target = out[position : position + run]
                if kind == CONTIGUOUS:
                    source = other[base : base + run]
                    for inner in range(run):
                        target[inner] = part[inner] * source[inner]
                else:
                    factor = other[base]
                    for inner in range(run):
                        target[inner] = part[inner] * factor
                position += run


@_compile
def gather(high: Offsets, low: Low, run: int, kind: int, other: Array, start: int, out: Array) -> None:
    """Copy to every entry of `out` its partner in `other`, counted from `start`."""
    position = 0
    if kind == LOOKUP:
        for h in range(high.size):
            source = other[start + high[h] :]
            target = out[position : position + low.size]
            for inner in range(low.size):
                target[inner] = source[low[inner]]
            position += low.size
    elif kind == BROADCAST and run == 2:
        for h in range(high.size):
            source = other[start + high[h] :]
            target = out[position : position + 2 * low.size]
            for m in range(low.size):
                target[2 * m] = source[low[m]]
                target[2 * m + 1] = source[low[m]]
            position += 2 * low.size
    else:
        for h in range(high.size):
            for m in range(low.size):
                base = start + high[h] + low[m]
                target = out[position : position + run]
                if kind == CONTIGUOUS:
                    source = other[base : base + run]
                    for inner in range(run):
                        target[inner] = source[inner]
                else:
                    value = other[base]
                    for inner in range(run):
                        target[inner] = value
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


# x = 2^e · m with m in [√½, √2): `_LOW` is √½ as bits, `_MAGIC` turns a small whole number into a float by its bits.
_LOW = np.uint64(0x3FE6A09E667F3BCD)
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_BIAS = np.uint64(1024 << 52)
_MAGIC = np.uint64(0x4330000000000000)
_MAGIC_VALUE = float(2**52 + 1024)
_ROUNDER = float(3 * 2**51)
_BLOCK = 1024


# 2 artanh(r) / r − 2 as a polynomial in r², over r², for |r| ≤ (√2 − 1) / (√2 + 1): interpolated at Chebyshev's nodes,
# off by less than 2E-18.
_SERIES = (
    0.666666666666667,
    0.39999999999899505,
    0.28571428625975415,
    0.2222221113477644,
    0.18182889127294533,
    0.15331721528403702,
    0.1461645055753855,
)


@_compile_part_strictly
def _split(values: Array, mantissas: Array, exponents: Array) -> None:
    """Write values as 2^e · m: the mantissas, and e ln 2."""
    bits, mantissa_bits, exponent_bits = values.view(np.uint64), mantissas.view(np.uint64), exponents.view(np.uint64)
    for i in range(bits.size):
        shifted = bits[i] - _LOW
        mantissa_bits[i] = (shifted & _MANTISSA) + _LOW
        exponent_bits[i] = ((shifted + _BIAS) >> np.uint64(52)) | _MAGIC
    for i in range(bits.size):
        exponents[i] = (exponents[i] - _MAGIC_VALUE) * 0.6931471805599453


@_inside
def _logarithm(mantissa: float, exponent: float) -> float:
    """Return e ln 2 + 2 artanh((m − 1) / (m + 1))."""
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = _SERIES[4] + square * (_SERIES[5] + square * _SERIES[6])
    series = _SERIES[0] + square * (_SERIES[1] + square * (_SERIES[2] + square * (_SERIES[3] + square * series)))
    return exponent + ratio * (2.0 + square * series)


@_compile_part
def _block_entropy(values: Array, scratch: Array) -> float:
    """Return −Σ x ln x over at most a block of entries; `scratch` has room for two blocks."""
    mantissas, exponents = scratch[:_BLOCK], scratch[_BLOCK:]
    _split(values, mantissas, exponents)
    result = 0.0
    for i in range(values.size):
        result -= values[i] * _logarithm(mantissas[i], exponents[i])
    return result


@_compile
def entropy(table: Array) -> float:
    """Return −Σ x ln x over the entries (nats); the table should sum to one.

    The logarithm is our own because a loop with a library call per entry does not vectorise (measured: 0.9 against
    4.6 to 7.7 ns per entry); it is good to a few units in the last place.
    """
    scratch = np.empty(2 * _BLOCK)
    result = 0.0
    for start in range(0, table.size, _BLOCK):
        result += _block_entropy(table[start : start + _BLOCK], scratch)
    return result


@_compile
def entropy_without(table: Array, states: int, inner: int) -> float:
    """Return the entropy of `table` summed over one variable, without writing the sum down.

    Parameters
    ----------
    states
        Cardinality of the variable.
    inner
        Entries that the variables after it span.
    """
    scratch = np.empty(2 * _BLOCK)
    buffer = np.empty(_BLOCK)
    result = 0.0
    if inner >= _BLOCK:
        for outer in range(0, table.size, states * inner):
            for start in range(outer, outer + inner, _BLOCK):
                part = buffer[: min(_BLOCK, outer + inner - start)]
                _sum_states(table, start, states, inner, part)
                result += _block_entropy(part, scratch)
    else:
        rows = _BLOCK // inner
        count = table.size // (states * inner)
        for first in range(0, count, rows):
            here = min(rows, count - first)
            _sum_rows(table, first, here, states, inner, buffer)
            result += _block_entropy(buffer[: here * inner], scratch)
    return result


@_compile_part
def _sum_rows(table: Array, first: int, count: int, states: int, inner: int, out: Array) -> None:
    """Sum some rows of `states` times `inner` entries over the states."""
    start = first * states * inner
    if states == 2 and inner == 1:
        for row in range(count):
            out[row] = table[start + 2 * row] + table[start + 2 * row + 1]
    elif states == 2 and inner == 2:
        for row in range(count):
            here = start + 4 * row
            out[2 * row] = table[here] + table[here + 2]
            out[2 * row + 1] = table[here + 1] + table[here + 3]
    elif inner == 1:
        for row in range(count):
            subtotal = 0.0
            for state in range(states):
                subtotal += table[start + row * states + state]
            out[row] = subtotal
    else:
        for row in range(count):
            _sum_states(table, start + row * states * inner, states, inner, out[row * inner : (row + 1) * inner])


@_inside
def _sum_states(table: Array, start: int, states: int, inner: int, out: Array) -> None:
    """Sum entries that lie `inner` apart, from `start` on."""
    source = table[start : start + out.size]
    for i in range(out.size):
        out[i] = source[i]
    for state in range(1, states):
        other = table[start + state * inner : start + state * inner + out.size]
        for i in range(out.size):
            out[i] += other[i]


@_compile_part_strictly
def _exponentials(values: Array, powers: Array) -> None:
    """Replace values from −708 to 709 by two factors of their exponentials: e^r, as a series, and 2^k."""
    for i in range(values.size):
        # Adding a large number rounds to a whole one, which is then found in the last bits.
        powers[i] = values[i] * 1.4426950408889634 + _ROUNDER
        whole = powers[i] - _ROUNDER
        rest = (values[i] - whole * 0.6931471803691238) - whole * 1.9082149292705877e-10
        series = 1 / 39916800 + rest * (1 / 479001600)
        series = 1 / 40320 + rest * (1 / 362880 + rest * (1 / 3628800 + rest * series))
        series = 1 / 120 + rest * (1 / 720 + rest * (1 / 5040 + rest * series))
        series = 0.5 + rest * (1 / 6 + rest * (1 / 24 + rest * series))
        values[i] = 1.0 + rest * (1.0 + rest * series)
    bits = powers.view(np.uint64)
    for i in range(bits.size):
        bits[i] = (bits[i] + np.uint64(1023)) << np.uint64(52)


@_compile
def blend_in(table: Array, old: Array, weight: float) -> None:
    """Replace `table` by the weighted geometric mean of it and `old`; where either is zero it stays as it is."""
    means, mantissas, exponents = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, table.size, _BLOCK):
        here = table[start : start + _BLOCK]
        there = old[start : start + _BLOCK]
        _split(here, mantissas, exponents)
        for i in range(here.size):
            means[i] = weight * _logarithm(mantissas[i], exponents[i])
        _split(there, mantissas, exponents)
        for i in range(here.size):
            mean = means[i] + (1.0 - weight) * _logarithm(mantissas[i], exponents[i])
            means[i] = mean if mean > -708.0 else -708.0
        powers = exponents
        _exponentials(means[: here.size], powers)
        for i in range(here.size):
            if here[i] > 0.0 and there[i] > 0.0:
                here[i] = means[i] * powers[i]


@_compile
def largest_difference(table: Array, other: Array) -> float:
    """Return the largest absolute difference between two tables of the same scope."""
    result = 0.0
    for i in range(table.size):
        difference = abs(table[i] - other[i])
        if difference > result:
            result = difference
    return result
