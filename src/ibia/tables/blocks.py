"""The loop of a contraction: a block of the product is multiplied together, and added to all outputs, then the next.

Compiled, and called from compiled code by its name (``contract.py`` has what it is for). Tables are given by address.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside, part, with_compiler

if with_compiler():
    from ibia.tables.intrinsics import array_at, integers_at

__all__ = ["block_axes", "contract_blocks"]

Integers = NDArray[np.int64]

# Entries of a block: the buffer and the offsets of a few tables fit the first-level cache.
BLOCK = 2048
# Shorter ones than this cost more than the second-level cache does: they may become so long.
_SHORT_BLOCK, _LONGEST_BLOCK = 256, 8192
# How a table's entries lie along a block: all the same one; one after the other; in runs; anywhere.
_SCALAR, _CONTIGUOUS, _RUNS, _REPEATS, _ANYWHERE = 0, 1, 2, 3, 4
_SHORTEST_RUN = 8
_SHORTEST_REPEAT = 4

# Sums may be reassociated (so that they vectorise); nothing else of IEEE arithmetic is given up.
_FAST = {"reassoc", "contract", "nsz"}
_compile_part = part(fastmath=_FAST)
_inside = inside(fastmath=_FAST)


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
    while inner > 0:
        longer = block * cardinalities[inner - 1]
        if longer > (BLOCK if block >= _SHORT_BLOCK else _LONGEST_BLOCK) and block > 1:
            break
        inner -= 1
        block = longer
    return inner, block


# Compiled code that contracts calls this very function by its name; to be linked and optimised in every caller would
# take several times as long.
@entry(symbol="ibia_contract", fastmath=_FAST)
def contract_blocks(
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
    cardinalities = integers_at(cardinalities_at, axes)
    strides = integers_at(strides_at, tables * axes).reshape(tables, axes)
    addresses = integers_at(addresses_at, tables)
    sizes = integers_at(sizes_at, tables)
    first_axes = integers_at(first_axes_at, first_axes_count)
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
