"""Simpler factors: axes along which a table is constant are dropped, tables that are products are split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.simplify.working import WorkingFactor, WorkingModel

__all__ = ["drop_constant_axes", "split_products"]

# A product of two rounded numbers differs from the rounded product by a few units in the last place, no more.
_ROUNDING = 8 * np.finfo(float).eps


def drop_constant_axes(working: WorkingModel) -> bool:
    """Drop variables that do not matter to a factor; return whether there were any."""
    changed = False
    for number, factor in enumerate(working.factors):
        values, scope = factor.values, list(factor.scope)
        for axis in range(len(scope) - 1, -1, -1):
            first = values.take([0], axis=axis)
            if (values == first).all():
                values = np.squeeze(first, axis=axis)
                del scope[axis]
        if len(scope) < len(factor.scope):
            working.factors[number] = WorkingFactor(tuple(scope), values, factor.origins)
            changed = True
    if changed:
        working.drop_empty()
    return changed


def split_products(working: WorkingModel) -> bool:
    """Split factors that are products of smaller ones (rank one between two groups of variables)."""
    result: list[WorkingFactor] = []
    changed = False
    waiting = list(reversed(working.factors))
    while waiting:
        factor = waiting.pop()
        parts = _split(factor)
        if parts is None:
            result.append(factor)
        else:
            changed = True
            waiting.extend(parts)
    working.factors = result
    if changed:
        working.drop_empty()
    return changed


def _split(factor: WorkingFactor) -> tuple[WorkingFactor, WorkingFactor] | None:
    dimensions = len(factor.scope)
    if dimensions < 2:
        return None
    groups: list[tuple[int, ...]] = [(axis,) for axis in range(dimensions)] if dimensions > 2 else [(0,)]
    if 4 <= dimensions <= 8:
        groups += [(first, second) for first in range(dimensions) for second in range(first)]
    for group in groups:
        rest = tuple(axis for axis in range(dimensions) if axis not in group)
        matrix = factor.values.transpose(group + rest).reshape(
            int(np.prod([factor.values.shape[axis] for axis in group])), -1
        )
        parts = _rank_one(matrix)
        if parts is not None:
            return (
                _part(factor, group, parts[0]),
                _part(factor, rest, parts[1]),
            )
    return None


def _part(factor: WorkingFactor, axes: tuple[int, ...], values: NDArray[np.float64]) -> WorkingFactor:
    shape = [factor.values.shape[axis] for axis in axes]
    return WorkingFactor(tuple(factor.scope[axis] for axis in axes), values.reshape(shape), factor.origins)


def _rank_one(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    row, column = np.unravel_index(int(matrix.argmax()), matrix.shape)
    pivot = matrix[row, column]
    if pivot <= 0.0:
        return None
    left = matrix[:, column].copy()
    right = matrix[row] / pivot
    # A cheap look at one entry saves the full comparison for most tables.
    if abs(left[0] * right[-1] - matrix[0, -1]) > _ROUNDING * matrix[0, -1]:
        return None
    if (np.abs(np.outer(left, right) - matrix) <= _ROUNDING * matrix).all():
        return left, right
    return None
