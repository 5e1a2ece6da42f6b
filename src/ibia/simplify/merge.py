"""Merging: factors of one scope become one table, its axes sorted and its largest entry one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ibia.simplify.working import Factors, Indices, Values, compiled, ends

__all__ = ["merge_factors"]


def merge_factors(
    factors: Factors, groups: list[list[int]], number: dict[int, int], cardinalities: tuple[int, ...]
) -> tuple[list[Values], Values]:
    """Return a table for each group of factors, and the logarithms of the scales taken out.

    Parameters
    ----------
    groups
        Numbers of factors with the same variables.
    number
        Variable → its new number; the axes of the tables are in the order of these.
    cardinalities
        New number → the number of states.
    """
    first = factors.starts[0]
    members = [number[variable] for variable in factors.members[first : factors.starts[-1]].tolist()]
    renumbered = factors._replace(starts=factors.starts - first, members=np.array(members, np.int64))
    order = np.array([factor for group in groups for factor in group], np.int64)
    bounds = ends(np.array([len(group) for group in groups], np.int64))
    offsets, values, log_scales = _merge(renumbered, np.array(cardinalities, np.int64), order, bounds)
    return [values[start:stop] for start, stop in pairwise(offsets.tolist())], log_scales


@compiled
def _merge(factors: Factors, sizes: Indices, order: Indices, bounds: Indices) -> tuple[Indices, Values, Values]:
    """Multiply the factors between two bounds; a group that is zero everywhere has the log scale minus infinity."""
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
            target, largest = 0, 0.0
            for entry in range(offsets[factor], offsets[factor + 1]):
                table[target] *= values[entry]
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
                for entry in range(table.size):
                    table[entry] /= largest
    return out_offsets, out, log_scales
