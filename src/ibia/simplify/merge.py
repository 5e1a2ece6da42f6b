"""Merging: factors of one scope become one table, its axes sorted and its largest entry one.

Where numbers of that table would vanish, there are several instead, all of them the same root of it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.flat import ends
from ibia.simplify.working import Factors, Indices, Values, compiled
from ibia.sorting import sort_parts

__all__ = ["Merged", "merge_factors"]

# Entries below the first number times the largest may not be whole any more. Where there are such, the logarithms of
# entries of a table may be so far apart.
_LEAST, _FAR_APART = 1e-260, 300.0


class Merged(NamedTuple):
    """Tables of different scopes (but for roots of one table), end to end.

    Attributes
    ----------
    starts, scopes
        Table → where its variables begin in `scopes`, sorted; one number more says where the last ones end.
    offsets, values
        Table → where its entries begin in `values`; one number more says where the last ones end.
    bounds, sources
        Table → where the numbers of the factors it is the product of begin in `sources`, likewise.
    log_scales
        Logarithms of the scales taken out.
    spreads
        Logarithm of the largest entry (which is one) over the smallest positive one of each table.
    roots
        Whether some tables are only roots of what they stand for, as often in a row as it takes.
    """

    starts: Indices
    scopes: Indices
    offsets: Indices
    values: Values
    bounds: Indices
    sources: Indices
    log_scales: Values
    spreads: Values
    roots: bool


def merge_factors(factors: Factors, members: Indices, cardinalities: Indices) -> Merged:
    """Multiply factors with the same variables, in the order of the first factor of each scope.

    Parameters
    ----------
    members
        The variables of the factors' scopes, end to end, by new numbers; the axes of the tables are in their order.
    cardinalities
        New number → the number of states.
    """
    renumbered = factors._replace(starts=factors.starts - factors.starts[0], members=members)
    starts, scopes, bounds, sources = _group(renumbered.starts, members.copy(), cardinalities.size)
    offsets, values, log_scales, spreads, least = _merge(renumbered, cardinalities, sources, bounds, False)
    merged = Merged(starts, scopes, offsets, values, bounds, sources, log_scales, spreads, False)
    if (least >= _LEAST).all():
        return merged
    _, logarithms, log_scales, spreads, _ = _merge(renumbered, cardinalities, sources, bounds, True)
    doubtful = least < _LEAST
    counts = np.where(doubtful, np.maximum(np.ceil(spreads / _FAR_APART), 1.0), 1.0).astype(np.int64)
    roots = _take_roots(merged._replace(values=logarithms, log_scales=log_scales, spreads=spreads), counts)
    # What was whole before stays as it is.
    whole = ~doubtful.repeat(counts).repeat(np.diff(roots.offsets))
    roots.values[whole] = values[(~doubtful).repeat(np.diff(offsets))]
    return roots


def _take_roots(merged: Merged, counts: Indices) -> Merged:
    """Replace each table, given by its logarithms, by so many roots of it."""

    def repeated(starts: Indices, values: NDArray[Any]) -> tuple[Indices, NDArray[Any]]:
        parts = [values[begin:end] for begin, end in pairwise(starts.tolist())]
        chosen = [part for part, count in zip(parts, counts, strict=True) for _ in range(count)]
        return ends([part.size for part in chosen]), np.concatenate(chosen)

    starts, scopes = repeated(merged.starts, merged.scopes)
    offsets, logarithms = repeated(merged.offsets, merged.values)
    bounds, sources = repeated(merged.bounds, merged.sources)
    degrees = counts.repeat(counts)
    values = np.exp(logarithms / degrees.repeat(np.diff(offsets)))
    log_scales, spreads = (array.repeat(counts) / degrees for array in (merged.log_scales, merged.spreads))
    return Merged(starts, scopes, offsets, values, bounds, sources, log_scales, spreads, True)


@compiled
def _group(starts: Indices, scopes: Indices, variables: int) -> tuple[Indices, Indices, Indices, Indices]:
    """Sort each scope in place, and find equal ones.

    Returns the different scopes (starts, variables), and the factors that have each of them (bounds, numbers).
    """
    count = starts.size - 1
    sort_parts(starts, scopes)
    # Groups with the same first variable, as a linked list.
    latest = np.full(variables, -1, np.int64)
    earlier = np.empty(count, np.int64)
    leaders = np.empty(count, np.int64)
    group_of = np.empty(count, np.int64)
    bounds = np.zeros(count + 1, np.int64)
    groups = 0
    for factor in range(count):
        begin = starts[factor]
        length = starts[factor + 1] - begin
        group = latest[scopes[begin]]
        while group >= 0:
            other = starts[leaders[group]]
            same = starts[leaders[group] + 1] - other == length
            for position in range(length):
                same = same and scopes[other + position] == scopes[begin + position]
            if same:
                break
            group = earlier[group]
        if group < 0:
            group = groups
            groups += 1
            leaders[group] = factor
            earlier[group] = latest[scopes[begin]]
            latest[scopes[begin]] = group
        group_of[factor] = group
        bounds[group + 1] += 1
    filled = np.empty(groups, np.int64)
    scope_starts = np.zeros(groups + 1, np.int64)
    for group in range(groups):
        bounds[group + 1] += bounds[group]
        filled[group] = bounds[group]
        scope_starts[group + 1] = scope_starts[group] + starts[leaders[group] + 1] - starts[leaders[group]]
    numbers = np.empty(count, np.int64)
    for factor in range(count):
        numbers[filled[group_of[factor]]] = factor
        filled[group_of[factor]] += 1
    different = np.empty(scope_starts[groups], np.int64)
    for group in range(groups):
        for position in range(scope_starts[group + 1] - scope_starts[group]):
            different[scope_starts[group] + position] = scopes[starts[leaders[group]] + position]
    return scope_starts, different, bounds[: groups + 1], numbers


@compiled
def _merge(
    factors: Factors, sizes: Indices, order: Indices, bounds: Indices, in_logarithms: bool
) -> tuple[Indices, Values, Values, Values, Values]:
    """Multiply the factors between two bounds; a group that is zero everywhere has the log scale minus infinity.

    Returns where the tables begin, the tables (or their logarithms), log scales, spreads, and for each table the least
    positive number that was met on the way, over the largest then.
    """
    starts, members, offsets, values, _ = factors
    count = bounds.size - 1
    out_offsets = np.zeros(count + 1, np.int64)
    most = 1
    for group in range(count):
        factor = order[bounds[group]]
        out_offsets[group + 1] = out_offsets[group] + offsets[factor + 1] - offsets[factor]
        most = max(most, starts[factor + 1] - starts[factor])
    out = np.full(out_offsets[count], 0.0 if in_logarithms else 1.0, np.float64)
    log_scales = np.zeros(count, np.float64)
    spreads = np.empty(count, np.float64)
    leasts = np.ones(count, np.float64)
    digits = np.zeros(most, np.int64)
    strides = np.empty(most, np.int64)
    for group in range(count):
        table = out[out_offsets[group] : out_offsets[group + 1]]
        for place in range(bounds[group], bounds[group + 1]):
            factor = order[place]
            scope = members[starts[factor] : starts[factor + 1]]
            for axis in range(scope.size):
                strides[axis] = 1
                for other in range(scope.size):
                    if scope[other] > scope[axis]:
                        strides[axis] *= sizes[scope[other]]
            target, largest, least = 0, -np.inf if in_logarithms else 0.0, np.inf
            for entry in range(offsets[factor], offsets[factor + 1]):
                if in_logarithms:
                    table[target] += np.log(values[entry])
                else:
                    possible = table[target] > 0.0 and values[entry] > 0.0
                    table[target] *= values[entry]
                    if possible:
                        least = min(least, table[target])
                largest = max(largest, table[target])
                for axis in range(scope.size - 1, -1, -1):
                    digits[axis] += 1
                    target += strides[axis]
                    if digits[axis] < sizes[scope[axis]]:
                        break
                    target -= digits[axis] * strides[axis]
                    digits[axis] = 0
            log_scales[group] += largest if in_logarithms else np.log(largest)
            if in_logarithms and largest > -np.inf:
                for entry in range(table.size):
                    table[entry] -= largest
            elif largest > 0.0:
                leasts[group] = min(leasts[group], least / largest)
                for entry in range(table.size):
                    table[entry] /= largest
            elif least == 0.0:
                leasts[group] = 0.0
        smallest = 0.0 if in_logarithms else 1.0
        for entry in range(table.size):
            if (-np.inf if in_logarithms else 0.0) < table[entry] < smallest:
                smallest = table[entry]
        spreads[group] = -smallest if in_logarithms else -np.log(smallest)
    return out_offsets, out, log_scales, spreads, leasts
