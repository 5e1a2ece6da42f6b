"""Merging: factors of one scope become one table, its axes sorted and its largest entry one.

Where numbers of that table would vanish, there are several instead, all of them the same root of it.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ibia.flat import ends, positions
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
    offsets, values, log_scales, spreads, least = _merge(renumbered, cardinalities, sources, bounds)
    merged = Merged(starts, scopes, offsets, values, bounds, sources, log_scales, spreads, False)
    doubtful = np.flatnonzero(least < _LEAST).tolist()
    if not doubtful:
        return merged
    groups = {group: sources[bounds[group] : bounds[group + 1]] for group in doubtful}
    return _take_roots(
        merged, {group: _logarithms(renumbered, numbers, cardinalities) for group, numbers in groups.items()}
    )


def _logarithms(factors: Factors, numbers: Indices, cardinalities: Indices) -> Values:
    """Return the logarithms of a product of factors with the same variables, its axes sorted."""
    total = np.zeros(1)
    for number in numbers.tolist():
        scope = factors.members[factors.starts[number] : factors.starts[number + 1]]
        with np.errstate(divide="ignore"):
            table = np.log(factors.values[factors.offsets[number] : factors.offsets[number + 1]])
        total = total + table.reshape(cardinalities[scope]).transpose(np.argsort(scope)).ravel()
    return total


def _take_roots(merged: Merged, logarithms: dict[int, Values]) -> Merged:
    """Replace some tables, given by their logarithms, by as many roots of them as it takes."""
    count = merged.log_scales.size
    degrees = np.ones(count, np.int64)
    values = [merged.values[begin:end] for begin, end in pairwise(merged.offsets.tolist())]
    log_scales, spreads = merged.log_scales.copy(), merged.spreads.copy()
    for group, table in logarithms.items():
        log_scales[group] = table.max()
        if log_scales[group] > -np.inf:
            table = table - log_scales[group]
            spreads[group] = -table.min(where=table > -np.inf, initial=0.0)
        degrees[group] = max(math.ceil(spreads[group] / _FAR_APART), 1)
        values[group] = np.exp(table / degrees[group])
    chosen = np.arange(count).repeat(degrees)

    def repeated(starts: Indices, parts: Indices) -> tuple[Indices, Indices]:
        lengths = np.diff(starts)[chosen]
        return ends(lengths), parts[positions(starts[chosen], lengths)]

    starts, scopes = repeated(merged.starts, merged.scopes)
    bounds, sources = repeated(merged.bounds, merged.sources)
    return Merged(
        starts,
        scopes,
        ends(np.diff(merged.offsets)[chosen]),
        np.concatenate([values[group] for group in chosen.tolist()]),
        bounds,
        sources,
        (log_scales / degrees)[chosen],
        (spreads / degrees)[chosen],
        True,
    )


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
    factors: Factors, sizes: Indices, order: Indices, bounds: Indices
) -> tuple[Indices, Values, Values, Values, Values]:
    """Multiply the factors between two bounds; a group that is zero everywhere has the log scale minus infinity.

    Returns where the tables begin, the tables, log scales, spreads, and for each table the least number that was met
    on the way where a product should be positive, over the largest then.
    """
    starts, members, offsets, values, _ = factors
    count = bounds.size - 1
    out_offsets = np.zeros(count + 1, np.int64)
    most = 1
    for group in range(count):
        factor = order[bounds[group]]
        out_offsets[group + 1] = out_offsets[group] + offsets[factor + 1] - offsets[factor]
        most = max(most, starts[factor + 1] - starts[factor])
    out = np.ones(out_offsets[count], np.float64)
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
            target, largest, least = 0, 0.0, np.inf
            for entry in range(offsets[factor], offsets[factor + 1]):
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
            log_scales[group] += np.log(largest)
            if largest > 0.0:
                leasts[group] = min(leasts[group], least / largest)
                for entry in range(table.size):
                    table[entry] /= largest
            elif least == 0.0:
                leasts[group] = 0.0
        smallest = 1.0
        for entry in range(table.size):
            if 0.0 < table[entry] < smallest:
                smallest = table[entry]
        spreads[group] = -np.log(smallest)
    return out_offsets, out, log_scales, spreads, leasts
