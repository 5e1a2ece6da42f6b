"""Contraction: the product of any number of tables, summed to any number of smaller ones, in one pass.

The entries of the product are made a block at a time in a buffer that stays in the first-level cache; each block is
multiplied together from its inputs and at once added to all outputs. The product itself is written only if it is
wanted, so a clique of 2^26 entries can send messages and give marginals without ever being in memory.

Tables are passed by address, so that one compiled call can work through a whole tree (``forest/calibrate.py``). The
caller keeps the arrays alive.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator
from functools import partial, reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside, with_compiler
from ibia.control import Control
from ibia.tables.blocks import block_axes, contract_blocks
from ibia.tables.threads import run_parts, worth_sharing

if with_compiler():
    from ibia.tables.intrinsics import array_at, contract_part, contract_whole

__all__ = [
    "LARGE",
    "MERGING",
    "Rows",
    "contract",
    "contract_alone",
    "contract_in_chunks",
    "contract_logarithms",
    "contract_logarithms_in_parts",
    "merge_inputs",
    "strides_of",
    "sum_logarithms",
]

Integers = NDArray[np.int64]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.int64]]

# Products from this many entries on are made in chunks, which may be done on several cores.
LARGE = 2**17
_CHUNKS = 4
# With logarithms the clock is looked at after so many entries.
_LOGARITHMS = 2**22
# From this many entries on, small inputs are merged first, into tables of at most this share of the product.
MERGING = 2**13
_MERGED_SHARE = 16

# Sums may be reassociated (so that they vectorise); nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract", "nsz"}
_compile = entry(fastmath=_FAST)
_compile_in_order = entry()
_inside = inside(fastmath=_FAST)


class Rows(NamedTuple):
    """What goes into and comes out of a contraction.

    Attributes
    ----------
    cardinalities
        Axes of the product.
    strides, addresses, sizes
        A row for each table: how it moves along the axes, where it is, how many entries it has.
    inputs
        The first so many tables are multiplied, the others added to (they are not cleared before).
    """

    cardinalities: Integers
    strides: Matrix
    addresses: Integers
    sizes: Integers
    inputs: int


@_inside
def strides_of(scope: Integers, subscope: Integers, cardinalities: Integers, strides: Integers) -> int:
    """Write how far a table over `subscope` moves along each axis of `scope` (0: not at all); return its size."""
    size = 1
    last = subscope.size - 1
    for axis in range(scope.size - 1, -1, -1):
        if last >= 0 and subscope[last] == scope[axis]:
            strides[axis] = size
            size *= cardinalities[scope[axis]]
            last -= 1
        else:
            strides[axis] = 0
    return size


@_inside
def _entries(cardinalities: Integers) -> int:
    """Return how many entries a product has."""
    size = 1
    for cardinality in cardinalities:
        size *= cardinality
    return size


def contract(rows: Rows, product: int, total_wanted: bool, first_axes: Integers, start: int, stop: int) -> float:
    """Multiply tables and add the product to others; return the total of the product, if wanted.

    Parameters
    ----------
    product
        Address to write the product to, or 0.
    first_axes
        Axes (outside the block) to run through slowest, slowest first.
    start, stop
        Which blocks to do, in that order of the axes (stop −1: all).
    """
    return contract_blocks(*[*_given(rows, first_axes), product, int(total_wanted), start, stop])


# Where among them the addresses of the tables are.
_ADDRESSES = 2


def _given(rows: Rows, first_axes: Integers) -> list[int]:
    """Return what `contract_blocks` has to know of tables and axes; the arrays have to be kept alive."""
    arrays = (rows.cardinalities, rows.strides, rows.addresses, rows.sizes, first_axes)
    lengths = (rows.cardinalities.size, rows.addresses.size, first_axes.size)
    return [*(array.ctypes.data for array in arrays), *lengths, rows.inputs]


@_compile
def merge_inputs(rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
    """Multiply small inputs of a contraction together beforehand, so that fewer are multiplied in the large product.

    Groups are filled greedily, the largest inputs first, while their table stays a small part of the product. Returns
    the new contraction and the array that holds the tables made for it.
    """
    cardinalities, strides, addresses, sizes, inputs = rows
    axes = cardinalities.size
    limit = _entries(cardinalities) // _MERGED_SHARE
    inner, _ = block_axes(cardinalities)
    group_of = np.full(inputs, -1, np.int64)
    has = np.zeros((inputs, axes), np.bool_)
    group_sizes = np.empty(inputs, np.int64)
    members = np.zeros(inputs, np.int64)
    groups = 0
    taken = np.zeros(inputs, np.bool_)
    for _ in range(inputs):
        # The largest one left; sorting would take longer to compile than it is worth.
        t = -1
        for k in range(inputs):
            if not taken[k] and (t < 0 or sizes[k] > sizes[t]):
                t = k
        taken[t] = True
        outer = False
        for axis in range(inner):
            outer = outer or strides[t, axis] != 0
        if not outer or sizes[t] > limit:
            # Free inside a block, or too large.
            continue
        for g in range(groups + 1):
            if g == groups:
                group_sizes[g] = 1
                groups += 1
            union = group_sizes[g]
            for axis in range(axes):
                if strides[t, axis] != 0 and not has[g, axis]:
                    union *= cardinalities[axis]
            if union <= limit:
                group_of[t] = g
                group_sizes[g] = union
                members[g] += 1
                for axis in range(axes):
                    has[g, axis] = has[g, axis] or strides[t, axis] != 0
                break
    space = 0
    merged = 0
    for g in range(groups):
        if members[g] > 1:
            space += group_sizes[g]
            merged += members[g] - 1
    arena = np.empty(space)
    if merged == 0:
        return rows, arena
    count = sizes.size - merged
    new_strides = np.empty((count, axes), np.int64)
    new_addresses = np.empty(count, np.int64)
    new_sizes = np.empty(count, np.int64)
    row = 0
    place = 0
    for g in range(groups):
        if members[g] > 1:
            width = 0
            for axis in range(axes):
                width += has[g, axis]
            own_cardinalities = np.empty(width, np.int64)
            own_strides = np.empty((members[g], width), np.int64)
            own_addresses = np.empty(members[g], np.int64)
            own_sizes = np.empty(members[g], np.int64)
            stride = 1
            for axis in range(axes - 1, -1, -1):
                new_strides[row, axis] = 0
                if has[g, axis]:
                    width -= 1
                    own_cardinalities[width] = cardinalities[axis]
                    new_strides[row, axis] = stride
                    stride *= cardinalities[axis]
                    k = 0
                    for t in range(inputs):
                        if group_of[t] == g:
                            own_strides[k, width] = strides[t, axis]
                            own_addresses[k] = addresses[t]
                            own_sizes[k] = sizes[t]
                            k += 1
            address = arena.ctypes.data + 8 * place
            own = Rows(own_cardinalities, own_strides, own_addresses, own_sizes, members[g])
            contract_whole(own, address, 0)
            new_addresses[row] = address
            new_sizes[row] = group_sizes[g]
            row += 1
            place += group_sizes[g]
    for t in range(sizes.size):
        if t >= inputs or group_of[t] < 0 or members[group_of[t]] == 1:
            for axis in range(axes):
                new_strides[row, axis] = strides[t, axis]
            new_addresses[row] = addresses[t]
            new_sizes[row] = sizes[t]
            row += 1
    return Rows(cardinalities, new_strides, new_addresses, new_sizes, inputs - merged), arena


@_inside
def _advance(cardinalities: Integers, strides: Matrix, digits: Integers, offsets: Integers) -> None:
    """Go on to the next entry of a product: its states, and where it is in each table; from the last to the first."""
    axis = digits.size - 1
    while axis >= 0:
        if digits[axis] + 1 < cardinalities[axis]:
            digits[axis] += 1
            for t in range(offsets.size):
                offsets[t] += strides[t, axis]
            break
        for t in range(offsets.size):
            offsets[t] -= digits[axis] * strides[t, axis]
        digits[axis] = 0
        axis -= 1


@_inside
def _go_to(cardinalities: Integers, strides: Matrix, position: int, digits: Integers, offsets: Integers) -> None:
    """Write the states of an entry of a product, and where it is in each table."""
    for axis in range(digits.size - 1, -1, -1):
        digits[axis] = position % cardinalities[axis]
        position //= cardinalities[axis]
        for t in range(offsets.size):
            offsets[t] += digits[axis] * strides[t, axis]


@_compile
def contract_logarithms(rows: Rows, product: int) -> tuple[float, float]:
    """Do what `contract` does where products under- or overflow: with logarithms, slowly.

    Returns the total and the logarithm of the scale that the product was divided by (its largest entry).
    """
    size = _entries(rows.cardinalities)
    largest = _contract_logarithms(rows, product, False, 0.0, 0, size)
    return _contract_logarithms(rows, product, True, largest, 0, size), largest


def contract_logarithms_in_parts(rows: Rows, product: int, control: Control) -> tuple[float, float]:
    """Do the same for a large product, and look at the clock now and then."""
    parts = list(_parts(rows))
    largest = max(_contract_logarithms(rows, product, False, 0.0, *part) for part in _checked(parts, control))
    total = math.fsum(_contract_logarithms(rows, product, True, largest, *part) for part in _checked(parts, control))
    return total, largest


@_compile
def _contract_logarithms(rows: Rows, product: int, summing: bool, largest: float, start: int, stop: int) -> float:
    """Return the largest logarithm of some entries of a product, or add them to the outputs and return their sum."""
    cardinalities, strides, addresses, sizes, inputs = rows
    size = _entries(cardinalities)
    digits, offsets = np.zeros(cardinalities.size, np.int64), np.zeros(addresses.size, np.int64)
    _go_to(cardinalities, strides, start, digits, offsets)
    result = 0.0 if summing else -np.inf
    for position in range(start, stop):
        logarithm = 0.0
        for t in range(inputs):
            value = array_at(addresses[t], sizes[t])[offsets[t]]
            logarithm += math.log(value) if value > 0.0 else -np.inf
        if not summing:
            result = max(result, logarithm)
        else:
            value = math.exp(logarithm - largest) if largest > -np.inf else 0.0
            result += value
            for t in range(inputs, addresses.size):
                array_at(addresses[t], sizes[t])[offsets[t]] += value
            if product:
                array_at(product, size)[position] = value
        _advance(cardinalities, strides, digits, offsets)
    return result


def sum_logarithms(rows: Rows, product: int, control: Control) -> float:
    """Do what `contract` does with logarithms of tables: no number vanishes, however far apart they are. Slow.

    Inputs and outputs are logarithms, and so is the product if it is wanted; the outputs need not be set before.
    Returns the logarithm of the total. Looks at the clock now and then.
    """
    parts = list(_parts(rows))
    # Outputs hold their largest terms first; beside them, end to end, are the sums over those.
    sums = np.zeros(int(rows.sizes[rows.inputs :].sum()))
    largest = max(
        _sum_logarithms(rows, product, sums, False, 0.0, *part) for part in _checked(parts, control)
    )
    total = math.fsum(
        _sum_logarithms(rows, product, sums, True, largest, *part) for part in _checked(parts, control)
    )
    return largest + math.log(total) if total > 0.0 else -math.inf


@_compile
def _sum_logarithms(
    rows: Rows, product: int, sums: NDArray[np.float64], summing: bool, largest: float, start: int, stop: int
) -> float:
    """Do one of both passes over some entries of a product; return their largest logarithm, or their sum over it."""
    cardinalities, strides, addresses, sizes, inputs = rows
    size, tables = _entries(cardinalities), addresses.size
    starts = np.zeros(tables + 1, np.int64)
    for t in range(inputs, tables):
        starts[t + 1] = starts[t] + sizes[t]
        if start == 0 and not summing:
            output = array_at(addresses[t], sizes[t])
            for position in range(output.size):
                output[position] = -np.inf
    digits, offsets = np.zeros(cardinalities.size, np.int64), np.zeros(tables, np.int64)
    _go_to(cardinalities, strides, start, digits, offsets)
    result = 0.0 if summing else -np.inf
    for position in range(start, stop):
        logarithm = 0.0
        for t in range(inputs):
            logarithm += array_at(addresses[t], sizes[t])[offsets[t]]
        if product:
            array_at(product, size)[position] = logarithm
        if logarithm > -np.inf:
            if summing:
                result += math.exp(logarithm - largest)
            else:
                result = max(result, logarithm)
            for t in range(inputs, tables):
                output = array_at(addresses[t], sizes[t])
                if summing:
                    sums[starts[t] + offsets[t]] += math.exp(logarithm - output[offsets[t]])
                else:
                    output[offsets[t]] = max(output[offsets[t]], logarithm)
        _advance(cardinalities, strides, digits, offsets)
    if summing and stop == size:
        for t in range(inputs, tables):
            output = array_at(addresses[t], sizes[t])
            for position in range(output.size):
                if output[position] > -np.inf:
                    output[position] += math.log(sums[starts[t] + position])
    return result


def _parts(rows: Rows) -> Iterator[tuple[int, int]]:
    """Iterate over parts of a product that take a fraction of a second with logarithms: first entry, and the next."""
    size = math.prod(rows.cardinalities.tolist())
    for start in range(0, size, _LOGARITHMS):
        yield start, min(start + _LOGARITHMS, size)


def _checked(parts: Iterable[tuple[int, int]], control: Control) -> Iterator[tuple[int, int]]:
    """Iterate over parts, and look at the clock before each."""
    for part in parts:
        control.check()
        yield part


@_compile
def _chunk_axes(rows: Rows) -> tuple[Integers, int, int]:
    """Return the axes along which to cut a large product into chunks, how many chunks, and the number of blocks.

    An output that has all those axes gets each of its entries from one chunk only; the others need a copy per chunk,
    so axes are chosen that the large outputs have. The cut depends on nothing but sizes: neither do the sums.
    """
    cardinalities, strides, _, sizes, inputs = rows
    inner, block = block_axes(cardinalities)
    size = block
    for axis in range(inner):
        size *= cardinalities[axis]
    chosen = np.empty(inner, np.int64)
    count, chunks = 0, 1
    while size >= LARGE and chunks < _CHUNKS and count < inner:
        best, least = -1, 0
        for axis in range(inner):
            taken = cardinalities[axis] == 1
            for k in range(count):
                taken = taken or chosen[k] == axis
            if taken:
                continue
            copied = 0
            for t in range(inputs, sizes.size):
                if strides[t, axis] == 0:
                    copied += sizes[t]
            copied *= chunks * cardinalities[axis]
            if copied <= size // 4 and (best < 0 or copied < least):
                best, least = axis, copied
        if best < 0:
            break
        chosen[count] = best
        count += 1
        chunks *= cardinalities[best]
    return chosen[:count], chunks, size // block


@_compile_in_order
def contract_alone(rows: Rows, product: int, total_wanted: int) -> float:
    """Do what `contract_in_chunks` does, chunk after chunk in one call: the same sums."""
    fewer, arena = merge_inputs(rows)
    axes, chunks, blocks = _chunk_axes(fewer)
    count = blocks // chunks
    addresses = fewer.addresses.copy()
    space = 0
    for t in range(fewer.inputs, addresses.size):
        for k in range(axes.size):
            if fewer.strides[t, axes[k]] == 0:
                # The output is not the chunk's own: it is added up apart.
                addresses[t] = 0
        if addresses[t] == 0:
            space += fewer.sizes[t]
    copies = np.empty(space)
    place = 0
    for t in range(fewer.inputs, addresses.size):
        if addresses[t] == 0:
            addresses[t] = copies.ctypes.data + 8 * place
            place += fewer.sizes[t]
    own = Rows(fewer.cardinalities, fewer.strides, addresses, fewer.sizes, fewer.inputs)
    total = 0.0
    for chunk in range(chunks):
        copies[:] = 0.0
        total += contract_part(own, product, total_wanted, axes, chunk * count, (chunk + 1) * count)
        for t in range(fewer.inputs, addresses.size):
            if addresses[t] != fewer.addresses[t]:
                output, copy = array_at(fewer.addresses[t], fewer.sizes[t]), array_at(addresses[t], fewer.sizes[t])
                for i in range(output.size):
                    output[i] += copy[i]
    # Alive until here: the contraction knows it by its address only.
    return total + 0.0 * arena.size


def contract_in_chunks(rows: Rows, product: int, total_wanted: bool, control: Control) -> float:
    """Contract a large product on several threads; the sums do not depend on how many."""
    entries = math.prod(rows.cardinalities.tolist())
    if not worth_sharing(entries, control):
        return contract_alone(rows, product, int(total_wanted))
    rows, arena = merge_inputs(rows)
    axes, chunks, blocks = _chunk_axes(rows)
    shared = [
        t for t in range(rows.inputs, rows.sizes.size) if any(rows.strides[t, axis] == 0 for axis in axes)
    ]
    copies = {t: np.zeros((chunks, rows.sizes[t])) for t in shared}
    # Looking up where arrays are takes as long as a small part, and Python's lock all the while: that is done once.
    given = _given(rows, axes)
    count = blocks // chunks

    def part(chunk: int) -> float:
        own = given
        if shared:
            addresses = rows.addresses.copy()
            for t in shared:
                addresses[t] = copies[t][chunk].ctypes.data
            own = given.copy()
            own[_ADDRESSES] = addresses.ctypes.data
        return contract_blocks(*[*own, product, int(total_wanted), chunk * count, (chunk + 1) * count])

    totals = run_parts([partial(part, chunk) for chunk in range(chunks)], entries, control)
    for t in shared:
        output = np.ctypeslib.as_array((ctypes.c_double * int(rows.sizes[t])).from_address(int(rows.addresses[t])))
        for chunk in range(chunks):
            output += copies[t][chunk]
    del arena
    # One after the other, as in `contract_alone`: newer versions of Python's own sum carry more digits.
    return reduce(add, totals)
