"""Simpler factors: axes along which a table is constant are dropped, tables that are products are split."""

from __future__ import annotations

import numpy as np

from ibia.simplify.working import Factors, Indices, Values, WorkingModel, compiled, compiled_inside

__all__ = ["split_products"]

# A product of two rounded numbers differs from the rounded product by a few units in the last place, no more.
_ROUNDING = float(8 * np.finfo(float).eps)
# Of smaller products of positive numbers the last places may be lost, or all.
_LEAST = 1e-290
# Pairs of variables are tried against the rest in tables of so many variables.
_FEWEST_FOR_PAIRS, _MOST_FOR_PAIRS = 4, 8


def split_products(working: WorkingModel) -> None:
    """Drop variables that do not matter to a factor, and split factors that are products.

    A product is a table of rank one between one variable and the others, or two variables and the others.
    """
    working.factors, log_constant = _split_all(working.factors, working.sizes)
    working.add_constant(log_constant)


@compiled
def _split_all(factors: Factors, sizes: Indices) -> tuple[Factors, float]:
    """Split every factor as far as possible, in the memory it has: the parts of a product have no more entries.

    Returns the factors, and the logarithm of those that have no variable any more.
    """
    starts, members, offsets, values, origins = factors
    most, largest = 1, 1
    for factor in range(origins.size):
        most = max(most, starts[factor + 1] - starts[factor])
        largest = max(largest, offsets[factor + 1] - offsets[factor])
    # Every part has a variable of its own.
    out_starts = np.zeros(members.size + 1, np.int64)
    out_offsets = np.zeros(members.size + 1, np.int64)
    out_origins = np.empty(members.size, np.int64)
    waiting = np.empty((most + 1, 3), np.int64)
    extents = np.empty(most, np.int64)
    strides = np.empty(most, np.int64)
    scratch = np.empty(largest, np.float64)
    kept, log_constant = 0, 0.0
    for factor in range(origins.size):
        waiting[0, 0], waiting[0, 1] = starts[factor], offsets[factor]
        waiting[0, 2] = starts[factor + 1] - starts[factor]
        top = 1
        while top:
            top -= 1
            member, offset, dimensions = waiting[top, 0], waiting[top, 1], waiting[top, 2]
            dimensions = _drop_constant_axes(members[member : member + dimensions], values[offset:], sizes)
            if dimensions == 0:
                log_constant += np.log(values[offset])
                continue
            size = 1
            for axis in range(dimensions - 1, -1, -1):
                strides[axis] = size
                extents[axis] = sizes[members[member + axis]]
                size *= extents[axis]
            table = values[offset : offset + size]
            pivot = 0
            for entry in range(size):
                if table[entry] > table[pivot]:
                    pivot = entry
            first, second = _find_product(table, pivot, extents[:dimensions], strides)
            if first >= 0:
                length = 1 if first == second else 2
                rest = _split(table, pivot, extents, strides, first, second, scratch)
                split_off = members[member + first], members[member + second]
                placed = member
                for axis in range(dimensions):
                    if axis != first and axis != second:
                        members[placed] = members[member + axis]
                        placed += 1
                members[placed], members[placed + length - 1] = split_off
                waiting[top, 0], waiting[top, 1] = member + dimensions - length, offset + rest
                waiting[top, 2] = length
                waiting[top + 1, 0], waiting[top + 1, 1] = member, offset
                waiting[top + 1, 2] = dimensions - length
                top += 2
                continue
            for axis in range(dimensions):
                members[out_starts[kept] + axis] = members[member + axis]
            for entry in range(size):
                values[out_offsets[kept] + entry] = values[offset + entry]
            out_starts[kept + 1] = out_starts[kept] + dimensions
            out_offsets[kept + 1] = out_offsets[kept] + size
            out_origins[kept] = origins[factor]
            kept += 1
    result = Factors(
        out_starts[: kept + 1],
        members[: out_starts[kept]],
        out_offsets[: kept + 1],
        values[: out_offsets[kept]],
        out_origins[:kept],
    )
    return result, log_constant


@compiled_inside
def _drop_constant_axes(scope: Indices, table: Values, sizes: Indices) -> int:
    """Take the axes along which a table is constant out of it, in place; return how many are left."""
    dimensions, size, stride = scope.size, 1, 1
    for axis in range(dimensions):
        size *= sizes[scope[axis]]
    for axis in range(dimensions - 1, -1, -1):
        width = stride * sizes[scope[axis]]
        constant = True
        for block in range(0, size, width):
            for entry in range(block + stride, block + width):
                constant = constant and table[entry] == table[entry - stride]
            if not constant:
                break
        if not constant:
            stride = width
            continue
        target = 0
        for block in range(0, size, width):
            for entry in range(block, block + stride):
                table[target] = table[entry]
                target += 1
        size = target
        dimensions -= 1
        for later in range(axis, dimensions):
            scope[later] = scope[later + 1]
    return dimensions


@compiled_inside
def _find_product(table: Values, pivot: int, extents: Indices, strides: Indices) -> tuple[int, int]:
    """Return the two axes (or twice the same one) that split off from a table, −1 and −1 if there are none.

    A product is the product of its row and its column through the pivot, its largest entry.
    """
    dimensions = extents.size
    furthest = dimensions if _FEWEST_FOR_PAIRS <= dimensions <= _MOST_FOR_PAIRS else 1
    # Of two variables, one is the rest of the other.
    most = dimensions if dimensions > 2 else dimensions - 1
    if table[pivot] <= 0.0:
        most = 0
    for distance in range(furthest):
        for first in range(most - distance):
            second = first + distance
            second_size = extents[second] if distance else 1
            first_pivot = pivot // strides[first] % extents[first]
            second_pivot = pivot // strides[second] % second_size
            found = True
            for entry in range(table.size):
                away = (first_pivot - entry // strides[first] % extents[first]) * strides[first]
                away += (second_pivot - entry // strides[second] % second_size) * strides[second]
                product = table[pivot - away] * (table[entry + away] / table[pivot])
                vanishing = product < _LEAST and table[pivot - away] > 0.0 and table[entry + away] > 0.0
                if vanishing or abs(product - table[entry]) > _ROUNDING * table[entry]:
                    found = False
                    break
            if found:
                return first, second
    return -1, -1


@compiled_inside
def _split(
    table: Values, pivot: int, extents: Indices, strides: Indices, first: int, second: int, scratch: Values
) -> int:
    """Put the parts of a product in its place, the rest before the axes split off; return the size of the rest."""
    first_size = extents[first]
    second_size = extents[second] if first != second else 1
    first_pivot = pivot // strides[first] % first_size
    second_pivot = pivot // strides[second] % second_size
    shift = first_pivot * strides[first] + second_pivot * strides[second]
    filled = 0
    for entry in range(table.size):
        if entry // strides[first] % first_size == 0 and entry // strides[second] % second_size == 0:
            scratch[filled] = table[entry + shift] / table[pivot]
            filled += 1
    rest = filled
    for row in range(first_size):
        for column in range(second_size):
            scratch[filled] = table[pivot - shift + row * strides[first] + column * strides[second]]
            filled += 1
    for entry in range(filled):
        table[entry] = scratch[entry]
    return rest
