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
from functools import partial
from typing import Any, NamedTuple

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from ibia.compiled import entry, inside, part
from ibia.control import Control
from ibia.tables.threads import run_parts

__all__ = [
    "LARGE",
    "MERGING",
    "Rows",
    "array_at",
    "block_axes",
    "contract",
    "contract_in_chunks",
    "contract_logarithms",
    "contract_whole",
    "merge_inputs",
    "strides_of",
]

Integers = NDArray[np.int64]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.int64]]

# Entries of a block: the buffer and the offsets of a few tables fit the first-level cache.
BLOCK = 1024
# How a table's entries lie along a block: all the same one; one after the other; in runs; anywhere.
_SCALAR, _CONTIGUOUS, _RUNS, _REPEATS, _ANYWHERE = 0, 1, 2, 3, 4
_SHORTEST_RUN = 8
_SHORTEST_REPEAT = 4
# Products from this many entries on are made in chunks, which may be done on several cores.
LARGE = 2**17
_CHUNKS = 4
# From this many entries on, small inputs are merged first, into tables of at most this share of the product.
MERGING = 2**13
_MERGED_SHARE = 16

# Sums may be reassociated (so that they vectorise); nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract", "nsz"}
_compile = entry(fastmath=_FAST)
_compile_part = part(fastmath=_FAST)
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


def _array_maker(element: Any) -> Any:
    """Return the compiled function that makes an array out of an address and a number of entries (of 8 bytes)."""
    array_type = element[::1]

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        array = make_array(array_type)(context, builder)  # type: ignore[no-untyped-call]
        bytes_each = context.get_constant(types.intp, 8)
        populate_array(  # type: ignore[no-untyped-call]
            array,
            data=builder.inttoptr(arguments[0], array.data.type),
            shape=[arguments[1]],
            strides=[bytes_each],
            itemsize=bytes_each,
            meminfo=None,
        )
        return array._getvalue()

    def array_at(_context: Any, _address: Any, _size: Any) -> Any:
        return array_type(types.int64, types.int64), generate

    return intrinsic(array_at)


array_at = _array_maker(types.float64)
_integers_at = _array_maker(types.int64)


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
def _pattern(cardinalities: Integers, strides: Integers, inner: int, block: int) -> tuple[int, int]:
    """Return how a table lies along a block (the axes from `inner` on), and the length of its runs."""
    axis, run, repeats = cardinalities.size, 1, False
    while axis > inner:
        if strides[axis - 1] == 0 and (run == 1 or repeats):
            repeats = True
        elif strides[axis - 1] != run or repeats:
            break
        axis -= 1
        run *= cardinalities[axis]
    if run == block:
        return (_SCALAR if repeats or block == 1 else _CONTIGUOUS), run
    if repeats and (run >= _SHORTEST_REPEAT or run == 2):
        return _REPEATS, run
    if not repeats and run >= _SHORTEST_RUN:
        return _RUNS, run
    return _ANYWHERE, 1


@_inside
def _low_offsets(cardinalities: Integers, strides: Integers, inner: int, run: int, low: NDArray[np.uint32]) -> None:
    """Write the offsets along a block, one per run."""
    low[0] = 0
    size = 1
    length = 1
    axis = cardinalities.size
    while length < run:
        axis -= 1
        length *= cardinalities[axis]
    # The axes left are written from the innermost out: each repeats what is there, moved by its stride.
    for outer in range(axis - 1, inner - 1, -1):
        for state in range(1, cardinalities[outer]):
            shift = state * strides[outer]
            for position in range(size):
                low[state * size + position] = low[position] + np.uint32(shift)
        size *= cardinalities[outer]


@_inside
def _load(
    buffer: NDArray[np.float64],
    common: NDArray[np.float64],
    scale: float,
    table: NDArray[np.float64],
    low: NDArray[np.uint32],
    kind: int,
    run: int,
) -> None:
    """Begin a block: a table's part of it times `scale` times (unless empty) `common`."""
    block = buffer.size
    if kind == _CONTIGUOUS:
        if common.size:
            for i in range(block):
                buffer[i] = table[i] * (common[i] * scale)
        else:
            for i in range(block):
                buffer[i] = table[i] * scale
    elif kind == _ANYWHERE:
        if common.size:
            for i in range(block):
                buffer[i] = table[low[i]] * (common[i] * scale)
        else:
            for i in range(block):
                buffer[i] = table[low[i]] * scale
    else:
        for m in range(block // run):
            start = m * run
            part = buffer[start : start + run]
            if kind == _REPEATS:
                factor = scale * table[low[m]]
                for i in range(run):
                    part[i] = factor
            else:
                source = table[low[m] : low[m] + run]
                for i in range(run):
                    part[i] = source[i] * scale
            if common.size:
                for i in range(run):
                    part[i] *= common[start + i]


@_compile_part
def _multiply(
    buffer: NDArray[np.float64],
    table: NDArray[np.float64],
    low: NDArray[np.uint32],
    kind: int,
    run: int,
) -> None:
    """Multiply a block by a table's part of it."""
    block = buffer.size
    if kind == _CONTIGUOUS:
        for i in range(block):
            buffer[i] *= table[i]
    elif kind == _ANYWHERE:
        for i in range(block):
            buffer[i] *= table[low[i]]
    elif kind == _REPEATS and run == 2:
        for m in range(block // 2):
            factor = table[low[m]]
            buffer[2 * m] *= factor
            buffer[2 * m + 1] *= factor
    elif kind == _REPEATS:
        for m in range(block // run):
            factor = table[low[m]]
            part = buffer[m * run : m * run + run]
            for i in range(run):
                part[i] *= factor
    else:
        for m in range(block // run):
            source = table[low[m] : low[m] + run]
            part = buffer[m * run : m * run + run]
            for i in range(run):
                part[i] *= source[i]


@_compile_part
def _add(
    buffer: NDArray[np.float64],
    table: NDArray[np.float64],
    low: NDArray[np.uint32],
    kind: int,
    run: int,
) -> None:
    """Add a block to a table's part of it."""
    block = buffer.size
    if kind == _CONTIGUOUS:
        for i in range(block):
            table[i] += buffer[i]
    elif kind == _ANYWHERE:
        # Additions to one entry wait for each other; two halves taking turns wait less often.
        half = block // 2
        for i in range(half):
            table[low[i]] += buffer[i]
            table[low[half + i]] += buffer[half + i]
        if block % 2:
            table[low[block - 1]] += buffer[block - 1]
    elif kind == _REPEATS and run == 2:
        for m in range(block // 2):
            table[low[m]] += buffer[2 * m] + buffer[2 * m + 1]
    elif kind == _REPEATS:
        for m in range(block // run):
            part = buffer[m * run : m * run + run]
            subtotal = 0.0
            for i in range(run):
                subtotal += part[i]
            table[low[m]] += subtotal
    elif kind == _RUNS:
        for m in range(block // run):
            target = table[low[m] : low[m] + run]
            part = buffer[m * run : m * run + run]
            for i in range(run):
                target[i] += part[i]
    else:
        subtotal = 0.0
        for i in range(block):
            subtotal += buffer[i]
        table[0] += subtotal


@_inside
def block_axes(cardinalities: Integers) -> tuple[int, int]:
    """Return the first axis of a block and the block's size."""
    inner, block = cardinalities.size, 1
    while inner > 0 and (block * cardinalities[inner - 1] <= BLOCK or block == 1):
        inner -= 1
        block *= cardinalities[inner]
    return inner, block


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
    places = [array.ctypes.data for array in (rows.cardinalities, rows.strides, rows.addresses, rows.sizes, first_axes)]
    lengths = rows.cardinalities.size, rows.addresses.size, first_axes.size
    return float(_contract.ctypes(*places, *lengths, rows.inputs, product, total_wanted, start, stop))


@numba.cfunc(types.float64(*[types.int64] * 13), cache=True, fastmath=_FAST, error_model="numpy")
def _contract(
    cardinalities_at: int,
    strides_at: int,
    addresses_at: int,
    sizes_at: int,
    first_axes_at: int,
    axes: int,
    tables: int,
    first_axes_count: int,
    inputs: int,
    product: int,
    total_wanted: int,
    start: int,
    stop: int,
) -> float:
    """Do the work of `contract`; arrays are given by their addresses, then come their lengths."""
    cardinalities = _integers_at(cardinalities_at, axes)
    strides = _integers_at(strides_at, tables * axes).reshape(tables, axes)
    addresses = _integers_at(addresses_at, tables)
    sizes = _integers_at(sizes_at, tables)
    first_axes = _integers_at(first_axes_at, first_axes_count)
    inner, block = block_axes(cardinalities)
    kinds = np.empty(tables, np.int64)
    runs = np.empty(tables, np.int64)
    outer = np.zeros(tables, np.bool_)
    low = np.empty((tables, block), np.uint32)
    for t in range(tables):
        kinds[t], runs[t] = _pattern(cardinalities, strides[t], inner, block)
        if kinds[t] != _SCALAR and kinds[t] != _CONTIGUOUS:
            _low_offsets(cardinalities, strides[t], inner, runs[t], low[t])
        for axis in range(inner):
            outer[t] = outer[t] or strides[t, axis] != 0
    # The order of the outer axes, and where each table starts.
    order = np.empty(inner, np.int64)
    used = np.zeros(axes, np.bool_)
    count = 0
    for k in range(first_axes.size):
        order[count] = first_axes[k]
        used[first_axes[k]] = True
        count += 1
    for axis in range(inner):
        if not used[axis]:
            order[count] = axis
            count += 1
    product_strides = np.empty(axes, np.int64)
    size = 1
    for axis in range(axes - 1, -1, -1):
        product_strides[axis] = size
        size *= cardinalities[axis]
    if stop < 0:
        stop = size // block
    digits = np.zeros(inner, np.int64)
    offsets = np.zeros(tables, np.int64)
    place = 0
    rest = start
    for k in range(inner - 1, -1, -1):
        axis = order[k]
        digits[k] = rest % cardinalities[axis]
        rest //= cardinalities[axis]
        place += digits[k] * product_strides[axis]
        for t in range(tables):
            offsets[t] += digits[k] * strides[t, axis]
    # Inputs that are the same for every block are multiplied once; outputs that are, are added to once at the end.
    common = np.empty(0)
    gathered = np.zeros(block)
    buffer = np.empty(block)
    gather = False
    sums = total_wanted != 0
    first, mixed = -1, 0
    for t in range(tables):
        if outer[t] and t < inputs and kinds[t] != _SCALAR:
            mixed += 1
            if first < 0 or kinds[t] == _CONTIGUOUS:
                first = t
        elif not outer[t] and t < inputs:
            if common.size == 0:
                common = np.ones(block)
            if kinds[t] == _SCALAR:
                factor = array_at(addresses[t], 1)[0]
                for i in range(block):
                    common[i] *= factor
            else:
                _multiply(common, array_at(addresses[t], sizes[t]), low[t], kinds[t], runs[t])
        elif not outer[t]:
            gather = True
        elif t >= inputs and kinds[t] == _SCALAR:
            sums = True
    # A single table that lies in order is its own product.
    in_place = mixed == 1 and kinds[first] == _CONTIGUOUS and common.size == 0 and product == 0
    total = 0.0
    for _ in range(start, stop):
        scale = 1.0
        for t in range(inputs):
            if outer[t] and kinds[t] == _SCALAR:
                scale *= array_at(addresses[t] + 8 * offsets[t], 1)[0]
        if product:
            buffer = array_at(product + 8 * place, block)
        if scale != 0.0:
            if first < 0:
                for i in range(block):
                    buffer[i] = common[i] * scale if common.size else scale
            else:
                table = array_at(addresses[first] + 8 * offsets[first], sizes[first])
                if in_place and scale == 1.0:
                    buffer = table[:block]
                else:
                    if in_place:
                        buffer = np.empty(block)
                    _load(buffer, common, scale, table, low[first], kinds[first], runs[first])
            if mixed > 1:
                for t in range(inputs):
                    if outer[t] and kinds[t] != _SCALAR and t != first:
                        _multiply(
                            buffer, array_at(addresses[t] + 8 * offsets[t], sizes[t]), low[t], kinds[t], runs[t]
                        )
            if gather:
                for i in range(block):
                    gathered[i] += buffer[i]
            if sums:
                subtotal = 0.0
                for i in range(block):
                    subtotal += buffer[i]
                total += subtotal
                for t in range(inputs, tables):
                    if outer[t] and kinds[t] == _SCALAR:
                        array_at(addresses[t] + 8 * offsets[t], 1)[0] += subtotal
            for t in range(inputs, tables):
                if outer[t] and kinds[t] != _SCALAR:
                    _add(buffer, array_at(addresses[t] + 8 * offsets[t], sizes[t]), low[t], kinds[t], runs[t])
        elif product:
            for i in range(block):
                buffer[i] = 0.0
        k = inner - 1
        while k >= 0:
            axis = order[k]
            if digits[k] + 1 < cardinalities[axis]:
                digits[k] += 1
                place += product_strides[axis]
                for t in range(tables):
                    offsets[t] += strides[t, axis]
                break
            place -= digits[k] * product_strides[axis]
            for t in range(tables):
                offsets[t] -= digits[k] * strides[t, axis]
            digits[k] = 0
            k -= 1
    if gather:
        for t in range(inputs, tables):
            if not outer[t]:
                _add(gathered, array_at(addresses[t], sizes[t]), low[t], kinds[t], runs[t])
    return total


# Compiled code that contracts calls the one compilation of it by name; to be linked and optimised in every caller would
# take several times as long.
_NAME = "ibia_contract"
llvm.add_symbol(_NAME, _contract.address)


def _contract_whole(_context: Any, rows: Any, _product: Any, _total_wanted: Any) -> Any:
    """Contract all blocks, from compiled code: `contract` with no axes first."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        arrays = [
            make_array(array_type)(  # type: ignore[no-untyped-call]
                context, builder, builder.extract_value(arguments[0], place)
            )
            for place, array_type in enumerate(rows.types[:4])
        ]
        axes, tables = (builder.extract_value(arrays[place].shape, 0) for place in (0, 2))
        places = [builder.ptrtoint(array.data, word) for array in arrays]
        inputs = builder.extract_value(arguments[0], 4)
        none, everything = word(0), word(-1)
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(ir.DoubleType(), [word] * 13), _NAME
        )
        return builder.call(
            function,
            [*places, none, axes, tables, none, inputs, arguments[1], arguments[2], none, everything],
        )

    return types.float64(rows, types.int64, types.int64), generate


contract_whole: Any = intrinsic(_contract_whole)


@_compile
def merge_inputs(rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
    """Multiply small inputs of a contraction together beforehand, so that fewer are multiplied in the large product.

    Groups are filled greedily, the largest inputs first, while their table stays a small part of the product. Returns
    the new contraction and the array that holds the tables made for it.
    """
    cardinalities, strides, addresses, sizes, inputs = rows
    axes = cardinalities.size
    size = 1
    for axis in range(axes):
        size *= cardinalities[axis]
    limit = size // _MERGED_SHARE
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


@_compile
def contract_logarithms(rows: Rows, product: int) -> tuple[float, float]:
    """Do what `contract` does where products under- or overflow: with logarithms, slowly.

    Returns the total and the logarithm of the scale that the product was divided by (its largest entry).
    """
    cardinalities, strides, addresses, sizes, inputs = rows
    axes = cardinalities.size
    tables = addresses.size
    size = 1
    for axis in range(axes):
        size *= cardinalities[axis]
    largest = -np.inf
    total = 0.0
    digits = np.zeros(axes, np.int64)
    offsets = np.zeros(tables, np.int64)
    for measuring in range(2):
        for axis in range(axes):
            digits[axis] = 0
        for t in range(tables):
            offsets[t] = 0
        for position in range(size):
            logarithm = 0.0
            for t in range(inputs):
                value = array_at(addresses[t], sizes[t])[offsets[t]]
                logarithm += math.log(value) if value > 0.0 else -np.inf
            if measuring == 0:
                largest = max(largest, logarithm)
            else:
                value = math.exp(logarithm - largest) if largest > -np.inf else 0.0
                total += value
                for t in range(inputs, tables):
                    array_at(addresses[t], sizes[t])[offsets[t]] += value
                if product:
                    array_at(product, size)[position] = value
            axis = axes - 1
            while axis >= 0:
                if digits[axis] + 1 < cardinalities[axis]:
                    digits[axis] += 1
                    for t in range(tables):
                        offsets[t] += strides[t, axis]
                    break
                for t in range(tables):
                    offsets[t] -= digits[axis] * strides[t, axis]
                digits[axis] = 0
                axis -= 1
    return total, largest


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


def contract_in_chunks(rows: Rows, product: int, total_wanted: bool, control: Control) -> float:
    """Contract a large product on several threads; the sums do not depend on how many."""
    rows, arena = merge_inputs(rows)
    axes, chunks, blocks = _chunk_axes(rows)
    shared = [
        t for t in range(rows.inputs, rows.sizes.size) if any(rows.strides[t, axis] == 0 for axis in axes)
    ]
    copies = {t: np.zeros((chunks, rows.sizes[t])) for t in shared}

    def part(chunk: int) -> float:
        addresses = rows.addresses.copy()
        for t in shared:
            addresses[t] = copies[t][chunk].ctypes.data
        own = rows._replace(addresses=addresses)
        return contract(own, product, total_wanted, axes, chunk * (blocks // chunks), (chunk + 1) * (blocks // chunks))

    entries = math.prod(rows.cardinalities.tolist())
    totals = run_parts([partial(part, chunk) for chunk in range(chunks)], entries, control)
    for t in shared:
        output = np.ctypeslib.as_array((ctypes.c_double * int(rows.sizes[t])).from_address(int(rows.addresses[t])))
        for chunk in range(chunks):
            output += copies[t][chunk]
    del arena
    return math.fsum(totals)
