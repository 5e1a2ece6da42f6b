"""Bayesian structure: which variable each factor is the conditional distribution of, told or detected.

Files that say MARKOV may hold a Bayesian network. It shows: again and again some variable is left in one factor only,
and that factor sums to one over it. Also: barren variables, which have no observed descendant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ibia.model import Model

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


def find_structure(model: Model, evidence: dict[int, int]) -> Structure | None:
    """Return the direction of a Bayesian network, or None if the model is none."""
    children = _declared(model) if model.kind == "bayes" else _detected(model)
    if children is None:
        return None
    parents: dict[int, list[int]] = {}
    factor_of: dict[int, int] = {}
    for number, child in enumerate(children):
        if child is not None:
            factor_of[child] = number
            parents[child] = [variable for variable in model.factors[number].scope if variable != child]
    relevant = _ancestors(set(evidence) & set(factor_of), parents)
    order = _topological(factor_of, parents, relevant)
    rank = [0] * len(model.factors)
    for place, child in enumerate(order):
        rank[factor_of[child]] = place + 1
    barren = [child for child in order if child not in relevant]
    normalised = all(_sums_to_one(model, factor_of[child], child, _STRICT) for child in barren)
    owners = tuple(-1 if child is None else child for child in children)
    return Structure(owners, tuple(rank), len(order) - len(barren) + 1, normalised)


def _declared(model: Model) -> list[int | None] | None:
    children: list[int | None] = []
    for number, factor in enumerate(model.factors):
        child = factor.scope[-1] if factor.scope else None
        # Evidence that was baked into a table leaves a likelihood, not a conditional distribution.
        children.append(child)
        if child is not None and not _sums_to_one(model, number, child, _LOOSE):
            return None
    return children


def _detected(model: Model) -> list[int | None] | None:
    """Peel off leaves: variables in one remaining factor that sums to one over them."""
    children: list[int | None] = [None] * len(model.factors)
    holding: dict[int, set[int]] = {}
    for number, factor in enumerate(model.factors):
        for variable in factor.scope:
            holding.setdefault(variable, set()).add(number)
    left = sum(1 for factor in model.factors if factor.scope)
    waiting = [variable for variable, numbers in holding.items() if len(numbers) == 1]
    while waiting:
        variable = waiting.pop()
        if len(holding[variable]) != 1:
            continue
        (number,) = holding[variable]
        if children[number] is None and _sums_to_one(model, number, variable, _LOOSE):
            children[number] = variable
            left -= 1
            for other in model.factors[number].scope:
                holding[other].discard(number)
                if len(holding[other]) == 1:
                    waiting.append(other)
    return children if left == 0 else None


def _sums_to_one(model: Model, number: int, child: int, tolerance: float) -> bool:
    factor = model.factors[number]
    cardinalities = model.cardinalities
    axis = factor.scope.index(child)
    inner = int(np.prod([cardinalities[variable] for variable in factor.scope[axis + 1 :]], dtype=np.int64))
    sums = factor.values.reshape(-1, cardinalities[child], inner).sum(axis=1)
    return bool((np.abs(sums - 1.0) <= tolerance).all())


def _ancestors(variables: set[int], parents: dict[int, list[int]]) -> set[int]:
    found = set(variables)
    stack = list(variables)
    while stack:
        for parent in parents.get(stack.pop(), ()):
            if parent not in found:
                found.add(parent)
                stack.append(parent)
    return found


def _topological(factor_of: dict[int, int], parents: dict[int, list[int]], relevant: set[int]) -> list[int]:
    """Order children after their parents, relevant ones first, close relatives close together (depth first)."""
    offspring: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    for child in factor_of:
        known = [parent for parent in parents[child] if parent in factor_of]
        missing[child] = len(known)
        for parent in known:
            offspring.setdefault(parent, []).append(child)
    order: list[int] = []
    stack = [child for child in sorted(factor_of, reverse=True) if not missing[child]]
    while stack:
        child = stack.pop()
        order.append(child)
        ready = []
        for young in offspring.get(child, ()):
            missing[young] -= 1
            if missing[young] == 0:
                ready.append(young)
        stack.extend(sorted(ready, reverse=True))
    return [child for child in order if child in relevant] + [child for child in order if child not in relevant]
