"""The compiled part of messages between steps: conditional distributions of many cliques in one call.

A message is the marginal of a belief over a reduced clique, over what that gives for the variables shared with its
parent, and over another table where something is not to be told twice: summed once, and then written in one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside, with_compiler
from ibia.tables.contract import Rows, strides_of
from ibia.tables.kernels import ROUNDING, SMALLEST_MASS, TINY

if with_compiler():
    from ibia.tables.intrinsics import array_at, contract_whole

__all__ = ["Conditionals", "conditionals", "distances"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Entries for which it is looked up once where their partners are.
_BLOCK = 1024

_FAST = {"reassoc", "contract", "nsz"}
_compile = entry(fastmath=_FAST)
_inside = inside(fastmath=_FAST)


class Conditionals(NamedTuple):
    """Cliques and their tables in flat arrays; tables are given by their addresses (0: none).

    Attributes
    ----------
    cardinalities
        Of all variables.
    source_starts, source_scopes, sources
        The beliefs, each over the variables of its clique or more.
    scope_starts, scopes
        Variables of each clique, sorted.
    shared_starts, shared
        Those of them that its parent has.
    marginals
        Where the beliefs over the cliques go, scaled to sum to one, or are, to be compared with.
    results
        Where the conditional distributions go.
    divisors, kept
        What they are divided by, and what stands where that is zero, one such entry after the other (none: one).
    """

    cardinalities: Integers
    source_starts: Integers
    source_scopes: Integers
    sources: Integers
    scope_starts: Integers
    scopes: Integers
    shared_starts: Integers
    shared: Integers
    marginals: Integers
    results: Integers
    divisors: Integers
    kept: Integers


@_inside
def _sum_to(scope: Integers, source: int, subscope: Integers, cardinalities: Integers, out: Array) -> None:
    """Write the marginal of a table that is given by its address."""
    if scope.size == subscope.size:
        table = array_at(source, out.size)
        for i in range(out.size):
            out[i] = table[i]
    else:
        axes = np.empty(scope.size, np.int64)
        strides = np.empty((2, scope.size), np.int64)
        addresses, sizes = np.empty(2, np.int64), np.empty(2, np.int64)
        for axis in range(scope.size):
            axes[axis] = cardinalities[scope[axis]]
        sizes[0] = strides_of(scope, scope, cardinalities, strides[0])
        sizes[1] = strides_of(scope, subscope, cardinalities, strides[1])
        addresses[0], addresses[1] = source, out.ctypes.data
        for i in range(out.size):
            out[i] = 0.0
        contract_whole(Rows(axes, strides, addresses, sizes, 1), 0, 0)


@_inside
def _size(scope: Integers, cardinalities: Integers) -> int:
    size = 1
    for variable in scope:
        size *= cardinalities[variable]
    return size


@_inside
def _normalise(table: Array) -> None:
    """Scale to sum one, if anything is there."""
    mass = 0.0
    for i in range(table.size):
        mass += table[i]
    if 0.0 < mass < SMALLEST_MASS:
        for i in range(table.size):
            table[i] *= 1.0 / SMALLEST_MASS
        mass *= 1.0 / SMALLEST_MASS
    if mass > 0.0 and abs(mass - 1.0) > ROUNDING:
        factor = 1.0 / mass
        for i in range(table.size):
            table[i] *= factor


@_compile
def conditionals(plan: Conditionals, cliques: Integers, scratch: Array) -> None:
    """Write the marginals and conditional distributions of some cliques.

    Parameters
    ----------
    scratch
        Room for a table over what any of them shares with its parent.
    """
    cardinalities = plan.cardinalities
    for clique in cliques:
        source = plan.source_scopes[plan.source_starts[clique] : plan.source_starts[clique + 1]]
        scope = plan.scopes[plan.scope_starts[clique] : plan.scope_starts[clique + 1]]
        shared = plan.shared[plan.shared_starts[clique] : plan.shared_starts[clique + 1]]
        size = _size(scope, cardinalities)
        result = array_at(plan.results[clique], size)
        belief = result
        if plan.marginals[clique]:
            belief = array_at(plan.marginals[clique], size)
        _sum_to(source, plan.sources[clique], scope, cardinalities, belief)
        if plan.marginals[clique]:
            _normalise(belief)
        reciprocals = scratch[: _size(shared, cardinalities)]
        if shared.size:
            _sum_to(scope, belief.ctypes.data, shared, cardinalities, reciprocals)
            for i in range(reciprocals.size):
                reciprocals[i] = 1.0 / reciprocals[i] if reciprocals[i] > TINY else 0.0
        else:
            reciprocals[0] = 1.0
        divisor, kept = result, result
        divided, keeping = plan.divisors[clique] != 0, plan.kept[clique] != 0
        if divided:
            divisor = array_at(plan.divisors[clique], size)
        if keeping:
            # As if there were so many of them.
            kept = array_at(plan.kept[clique], size)
        _multiply(belief, scope, shared, cardinalities, reciprocals, divisor, kept, divided, keeping, result)


@_inside
def _multiply(
    belief: Array,
    scope: Integers,
    shared: Integers,
    cardinalities: Integers,
    reciprocals: Array,
    divisor: Array,
    kept: Array,
    divided: bool,
    keeping: bool,
    result: Array,
) -> None:
    """Write a belief times a table over some of its variables, over another one if there is one."""
    strides = np.empty(scope.size, np.int64)
    strides_of(scope, shared, cardinalities, strides)
    # The last axes make a block; where its partners are is the same in all blocks, but for where they begin.
    inner, block = scope.size, 1
    while inner > 0 and (block == 1 or block * cardinalities[scope[inner - 1]] <= _BLOCK):
        inner -= 1
        block *= cardinalities[scope[inner]]
    partners = np.zeros(block, np.int64)
    length = 1
    alike = True
    for axis in range(scope.size - 1, inner - 1, -1):
        alike = alike and strides[axis] == 0
        for state in range(1, cardinalities[scope[axis]]):
            for i in range(length):
                partners[state * length + i] = partners[i] + state * strides[axis]
        length *= cardinalities[scope[axis]]
    digits = np.zeros(inner, np.int64)
    offset, standing = 0, 0
    for start in range(0, belief.size, block):
        here = belief[start : start + block]
        target = result[start : start + block]
        if alike:
            factor = reciprocals[offset]
            for i in range(block):
                target[i] = here[i] * factor
        else:
            factors = reciprocals[offset:]
            for i in range(block):
                target[i] = here[i] * factors[partners[i]]
        if divided:
            below = divisor[start : start + block]
            if keeping:
                for i in range(block):
                    if below[i] > TINY:
                        target[i] = target[i] / below[i]
                    else:
                        target[i] = kept[standing]
                        standing += 1
            else:
                for i in range(block):
                    target[i] = target[i] / below[i] if below[i] > TINY else 1.0
        axis = inner - 1
        while axis >= 0:
            if digits[axis] + 1 < cardinalities[scope[axis]]:
                digits[axis] += 1
                offset += strides[axis]
                break
            offset -= digits[axis] * strides[axis]
            digits[axis] = 0
            axis -= 1


@_compile
def distances(plan: Conditionals, cliques: Integers, scratch: Array, out: Array) -> None:
    """Write for some cliques the largest difference between belief and marginal.

    Parameters
    ----------
    scratch
        Room for a table over any of them.
    """
    cardinalities = plan.cardinalities
    for clique in cliques:
        source = plan.source_scopes[plan.source_starts[clique] : plan.source_starts[clique + 1]]
        scope = plan.scopes[plan.scope_starts[clique] : plan.scope_starts[clique + 1]]
        size = _size(scope, cardinalities)
        belief = scratch[:size]
        if source.size == scope.size:
            belief = array_at(plan.sources[clique], size)
        else:
            _sum_to(source, plan.sources[clique], scope, cardinalities, belief)
        marginal = array_at(plan.marginals[clique], size)
        largest = 0.0
        for i in range(size):
            difference = abs(belief[i] - marginal[i])
            if difference > largest:
                largest = difference
        out[clique] = largest
