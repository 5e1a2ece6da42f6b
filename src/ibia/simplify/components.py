"""Components: factors that hang together through their variables, told apart from the others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ibia.flat import ends
from ibia.simplify.working import Factors, Indices, compiled, compiled_inside

__all__ = ["split_components"]


def split_components(factors: Factors, variables: int) -> tuple[Factors, ...]:
    """Return the connected components of factors over so many variables, in the order of their first factors."""
    count, components = _components(factors, np.arange(variables))
    if count == 1:
        return (factors,)
    factors = factors.taken(components.argsort(kind="stable"))
    bounds = ends(np.bincount(components)).tolist()
    return tuple([factors.between(first, last) for first, last in pairwise(bounds)])


@compiled
def _components(factors: Factors, leader: Indices) -> tuple[int, Indices]:
    """Return how many components there are, and each factor's number; at first every variable is its own leader."""
    starts, members = factors.starts, factors.members
    count = starts.size - 1
    for factor in range(count):
        first = _find(leader, members[starts[factor]])
        for member in range(starts[factor] + 1, starts[factor + 1]):
            leader[_find(leader, members[member])] = first
    numbers = np.zeros(leader.size, np.int64)
    components = np.empty(count, np.int64)
    found = 0
    for factor in range(count):
        root = _find(leader, members[starts[factor]])
        if numbers[root] == 0:
            found += 1
            numbers[root] = found
        components[factor] = numbers[root] - 1
    return found, components


@compiled_inside
def _find(leader: Indices, variable: int) -> int:
    """Return the variable that stands for its component, and shorten the way to it."""
    while leader[variable] != variable:
        leader[variable] = leader[leader[variable]]
        variable = leader[variable]
    return variable
