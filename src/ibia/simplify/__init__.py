"""Exact simplifications: from a model and evidence to small independent problems with the same answer.

Evidence is sliced in, impossible states are pruned, irrelevant axes dropped, products split, and what falls apart is
solved apart. The constant that is taken out and the states that are left are kept: all variables get their marginals,
and log Z keeps its scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibia.model import Model
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.shape import drop_constant_axes, split_products
from ibia.simplify.structure import Structure, find_structure
from ibia.simplify.support import prune_support
from ibia.simplify.working import WorkingFactor, WorkingModel

__all__ = ["Component", "Simplified", "Structure", "simplify"]


@dataclass(frozen=True)
class Component:
    """Factors that hang together."""

    factors: tuple[WorkingFactor, ...]


@dataclass(frozen=True)
class Simplified:
    """The outcome of the simplifications.

    Attributes
    ----------
    states
        Variable → its possible states (original numbers).
    components
        Independent problems.
    free
        Variables in no factor: uniform over their possible states.
    log_constant
        To be added to the components' log Z.
    structure
        Direction of a Bayesian network, if it is one.
    """

    states: tuple[NDArray[np.int64], ...]
    components: tuple[Component, ...]
    free: tuple[int, ...]
    log_constant: float
    structure: Structure | None


def simplify(model: Model, evidence: dict[int, int]) -> Simplified:
    """Return the components to solve; raises ZeroProbabilityError when the evidence is impossible."""
    structure = find_structure(model, evidence)
    working = slice_evidence(model, evidence)
    changed = True
    while changed:
        changed = prune_support(working)
        changed = drop_constant_axes(working) or changed
        changed = split_products(working) or changed
    components = _components(working)
    used = {variable for component in components for factor in component.factors for variable in factor.scope}
    free = tuple(variable for variable in range(len(working.states)) if variable not in used)
    log_constant = working.log_constant + float(np.sum(np.log([working.states[v].size for v in free])))
    return Simplified(tuple(working.states), components, free, log_constant, structure)


def _components(working: WorkingModel) -> tuple[Component, ...]:
    leader: dict[int, int] = {}

    def find(variable: int) -> int:
        root = variable
        while leader.setdefault(root, root) != root:
            root = leader[root]
        while leader[variable] != root:
            leader[variable], variable = root, leader[variable]
        return root

    for factor in working.factors:
        first = find(factor.scope[0])
        for variable in factor.scope[1:]:
            leader[find(variable)] = first
    groups: dict[int, list[WorkingFactor]] = {}
    for factor in working.factors:
        groups.setdefault(find(factor.scope[0]), []).append(factor)
    return tuple(Component(tuple(group)) for group in groups.values())
