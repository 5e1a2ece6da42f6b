"""Support pruning: states that some factor rules out are removed, which may rule out others, until nothing changes."""

from __future__ import annotations

from collections import deque

import numpy as np

from ibia.simplify.working import WorkingFactor, WorkingModel

__all__ = ["prune_support"]


def prune_support(working: WorkingModel) -> bool:
    """Remove impossible states from variables and factors; return whether anything was removed.

    A state is possible only if every factor has a non-zero entry with it. A variable left with one state is as good as
    observed and loses its axis.
    """
    changed: set[int] = set()
    # Only factors with zeros can rule anything out, and they do so again only when a neighbour has changed.
    with_zeros = [number for number, factor in enumerate(working.factors) if not factor.values.all()]
    by_variable: dict[int, list[int]] = {}
    for number in with_zeros:
        for variable in working.factors[number].scope:
            by_variable.setdefault(variable, []).append(number)
    masks = {variable: np.ones(working.states[variable].size, bool) for variable in by_variable}
    queue = deque(with_zeros)
    queued = set(with_zeros)
    while queue:
        number = queue.popleft()
        queued.discard(number)
        factor = working.factors[number]
        possible = factor.values > 0.0
        for axis, variable in enumerate(factor.scope):
            if not masks[variable].all():
                shape = [1] * possible.ndim
                shape[axis] = -1
                possible = possible & masks[variable].reshape(shape)
        for axis, variable in enumerate(factor.scope):
            others = tuple(other for other in range(possible.ndim) if other != axis)
            supported = possible.any(axis=others)
            if (masks[variable] & ~supported).any():
                masks[variable] &= supported
                changed.add(variable)
                if not masks[variable].any():
                    working.take_constant(0.0)
                for neighbour in by_variable[variable]:
                    if neighbour != number and neighbour not in queued:
                        queued.add(neighbour)
                        queue.append(neighbour)
    if not changed:
        return False
    for number, factor in enumerate(working.factors):
        if not changed.isdisjoint(factor.scope):
            working.factors[number] = _restrict(factor, {v: masks[v] for v in factor.scope if v in changed})
    for variable in changed:
        working.keep_states(variable, masks[variable])
    working.drop_empty()
    return True


def _restrict(factor: WorkingFactor, masks: dict[int, np.ndarray]) -> WorkingFactor:
    values = factor.values
    scope = list(factor.scope)
    for axis in range(len(scope) - 1, -1, -1):
        mask = masks.get(scope[axis])
        if mask is not None:
            values = np.compress(mask, values, axis=axis)
            if values.shape[axis] == 1:
                values = np.squeeze(values, axis=axis)
                del scope[axis]
    return WorkingFactor(tuple(scope), values, factor.origins)
