"""Bayesian structure: which variable each factor is the conditional distribution of, told or detected.

Files that say MARKOV may hold a Bayesian network. It shows: again and again some variable is left in one factor only,
and that factor sums to one over it. Also: barren variables, which have no observed descendant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibia.simplify.working import Factors, Indices, WorkingModel, compiled, compiled_inside

__all__ = ["Structure", "find_structure"]

# Rows of real files sum to one only to about 1E-5; still the network is meant.
_LOOSE = 1e-4
# Only rows that sum to one to this may be left out of the backward pass (Theorem 1 of the paper).
_STRICT = 1e-10


@dataclass(frozen=True)
class Structure:
    """A Bayesian network's direction.

    Attributes
    ----------
    children
        Factor → the variable it is the conditional distribution of (−1: a constant factor).
    rank
        Factor → place in a topological order of the children; factors that evidence depends on come first.
    barren_from
        Factors of this rank or higher belong to barren variables.
    normalised
        Whether the barren variables' tables sum to one precisely, so that they cannot change any other posterior.
    """

    children: tuple[int, ...]
    rank: tuple[int, ...]
    barren_from: int
    normalised: bool


def find_structure(working: WorkingModel, declared: bool, evidence: Iterable[int]) -> Structure | None:
    """Return the direction of a Bayesian network, or None if the model is none.

    Parameters
    ----------
    working
        The model before anything was simplified.
    declared
        Whether the last variable of each factor is said to be the child.
    evidence
        The observed variables.
    """
    found, children = _children(working.factors, working.sizes, declared)
    if not found:
        return None
    observed = np.zeros(working.sizes.size, np.bool_)
    observed[list(evidence)] = True
    directed = np.flatnonzero(children >= 0)
    factor_of = np.full(working.sizes.size, -1)
    factor_of[children[directed]] = directed
    rank, barren_from, normalised = _ranks(working.factors, working.sizes, factor_of, observed)
    return Structure(tuple(children.tolist()), tuple(rank.tolist()), barren_from, normalised)


@compiled
def _children(factors: Factors, sizes: Indices, declared: bool) -> tuple[bool, Indices]:
    """Return whether each factor with variables is a conditional distribution, and the children.

    If they are not declared, leaves are peeled off: variables in one remaining factor that sums to one over them.
    """
    starts, members = factors.starts, factors.members
    count = starts.size - 1
    children = np.full(count, -1, np.int64)
    # The number of remaining factors that hold a variable, and the sum of their numbers: the number of the last one.
    holders = np.zeros(sizes.size, np.int64)
    numbers = np.zeros(sizes.size, np.int64)
    left = 0
    for factor in range(count):
        if starts[factor] == starts[factor + 1]:
            continue
        left += 1
        if declared:
            # Evidence that was baked into a table leaves a likelihood, not a conditional distribution.
            children[factor] = members[starts[factor + 1] - 1]
            if not _sums_to_one(factors, sizes, factor, children[factor], _LOOSE):
                return False, children
        for member in range(starts[factor], starts[factor + 1]):
            holders[members[member]] += 1
            numbers[members[member]] += factor
    if declared:
        return True, children
    waiting = np.empty(sizes.size, np.int64)
    top = 0
    for member in range(members.size):
        if holders[members[member]] == 1:
            waiting[top] = members[member]
            top += 1
    while top:
        top -= 1
        variable = waiting[top]
        if holders[variable] != 1:
            continue
        factor = numbers[variable]
        if _sums_to_one(factors, sizes, factor, variable, _LOOSE):
            children[factor] = variable
            left -= 1
            for member in range(starts[factor], starts[factor + 1]):
                other = members[member]
                holders[other] -= 1
                numbers[other] -= factor
                if holders[other] == 1:
                    waiting[top] = other
                    top += 1
    return left == 0, children


@compiled_inside
def _sums_to_one(factors: Factors, sizes: Indices, factor: int, child: int, tolerance: float) -> bool:
    starts, members, offsets, values, _ = factors
    stride = 1
    for member in range(starts[factor + 1] - 1, starts[factor] - 1, -1):
        if members[member] == child:
            break
        stride *= sizes[members[member]]
    width = stride * sizes[child]
    for block in range(offsets[factor], offsets[factor + 1], width):
        for row in range(block, block + stride):
            total = 0.0
            for entry in range(row, row + width, stride):
                total += values[entry]
            if not abs(total - 1.0) <= tolerance:
                return False
    return True


@compiled
def _ranks(
    factors: Factors, sizes: Indices, factor_of: Indices, observed: NDArray[np.bool_]
) -> tuple[Indices, int, bool]:
    """Order children after their parents, relevant ones first, close relatives close together (depth first).

    `factor_of` is the factor of each child. Returns the rank of each factor, the first rank of a barren one, and
    whether the barren ones sum to one precisely.
    """
    starts, members = factors.starts, factors.members
    # The offspring of a variable as a linked list, the highest number first.
    first_offspring = np.full(sizes.size, -1)
    next_offspring = np.empty(members.size, np.int64)
    owners = np.empty(members.size, np.int64)
    missing = np.zeros(sizes.size, np.int64)
    for child in range(sizes.size):
        factor = factor_of[child]
        if factor < 0:
            continue
        for member in range(starts[factor], starts[factor + 1]):
            parent = members[member]
            if parent != child and factor_of[parent] >= 0:
                owners[member] = child
                next_offspring[member] = first_offspring[parent]
                first_offspring[parent] = member
                missing[child] += 1
    relevant = _ancestors(factors, factor_of, observed)
    stack = np.empty(sizes.size, np.int64)
    order = np.empty(sizes.size, np.int64)
    top, placed, needed = 0, 0, 0
    for child in range(sizes.size - 1, -1, -1):
        if factor_of[child] >= 0 and missing[child] == 0:
            stack[top] = child
            top += 1
    while top:
        top -= 1
        order[placed] = stack[top]
        placed += 1
        needed += relevant[stack[top]]
        member = first_offspring[stack[top]]
        while member >= 0:
            child = owners[member]
            missing[child] -= 1
            if missing[child] == 0:
                stack[top] = child
                top += 1
            member = next_offspring[member]
    rank = np.zeros(starts.size - 1, np.int64)
    normalised = True
    early, late = 1, needed + 1
    for place in range(placed):
        factor = factor_of[order[place]]
        if relevant[order[place]]:
            rank[factor] = early
            early += 1
        else:
            rank[factor] = late
            late += 1
            normalised = normalised and _sums_to_one(factors, sizes, factor, order[place], _STRICT)
    return rank, needed + 1, normalised


@compiled_inside
def _ancestors(factors: Factors, factor_of: Indices, observed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which variables evidence depends on: observed ones that are some factor's child, and their ancestors."""
    starts, members = factors.starts, factors.members
    found = np.zeros(observed.size, np.bool_)
    stack = np.empty(observed.size, np.int64)
    top = 0
    for variable in range(observed.size):
        if observed[variable] and factor_of[variable] >= 0:
            found[variable] = True
            stack[top] = variable
            top += 1
    while top:
        top -= 1
        factor = factor_of[stack[top]]
        if factor >= 0:
            for member in range(starts[factor], starts[factor + 1]):
                if not found[members[member]]:
                    found[members[member]] = True
                    stack[top] = members[member]
                    top += 1
    return found
