"""From a simplified component to a problem the engine can run: numbering, tables, and the order of the factors.

Variables are numbered by a good elimination order of the whole component, so that the sepset towards the parent is the
contiguous inner part of a clique's table, where the kernels are fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.errors import ZeroProbabilityError
from ibia.forest.triangulate import CliqueTree, triangulate
from ibia.simplify import Component, Structure
from ibia.simplify.working import NOTHING_POSSIBLE, WorkingFactor
from ibia.steps.order import Ordering, factor_order
from ibia.tables import Scope, Space, Table

__all__ = ["Problem", "prepare"]

# The search for a better tree may take about as long as the tables of the best one so far: an entry costs 16 ns where
# tables are large and 150 ns or more where they are small, a step of elimination 10 ns.
_EFFORT = 24.0


@dataclass
class Problem:
    """One connected component, ready to be solved.

    Attributes
    ----------
    variables
        Number in the space → variable of the model.
    factors
        Tables, each scaled to a largest entry of one.
    log_constant
        Logarithm of the scales taken out.
    tree
        The best clique tree found for the whole component; its width is the cheapest exact bound.
    ranks
        Topological rank of each factor, when the model is a Bayesian network.
    children
        Variables each factor is the conditional distribution of, when the model is a Bayesian network.
    barren
        Factors that cannot change the posterior of variables in other factors (or none).
    """

    space: Space
    variables: tuple[int, ...]
    factors: list[Table]
    log_constant: float
    tree: CliqueTree
    ranks: list[int] | None
    children: list[frozenset[int]] | None
    barren: frozenset[int]

    @property
    def width(self) -> float:
        """Bits of the largest clique of the best triangulation found."""
        return self.tree.width

    def order(self, name: str, variant: int = 0) -> list[int]:
        """Return the numbers of the factors in the order of that name.

        Parameters
        ----------
        variant
            Which elimination order it starts from: 0 is the one by which variables are numbered, others are found by
            further triangulations with other random ties.
        """
        scopes = [table.scope for table in self.factors]
        place = list(range(len(self.variables)))
        if variant:
            tree = triangulate(
                sorted(set(scopes)), self.space.log2, restarts=_restarts(len(place)) // 4, seed=variant, effort=_EFFORT
            )
            assert tree is not None
            for position, variable in enumerate(tree.order):
                place[variable] = position
        return factor_order(name, Ordering(scopes, place, self.ranks))


def _restarts(variables: int) -> int:
    """At most how many triangulations a model of that size gets."""
    return max(2, min(200, 100_000 // max(variables, 1)))


def prepare(
    component: Component,
    cardinalities: list[int],
    structure: Structure | None,
    restarts: int | None = None,
    control: Control | None = None,
) -> Problem:
    """Number the variables of a component and lay out its tables."""
    scopes = {factor.scope for factor in component.factors}
    log2 = {variable: math.log2(cardinalities[variable]) for scope in scopes for variable in scope}
    count = len(log2)
    # No tree is narrower than the largest factor.
    least = max(math.fsum(log2[variable] for variable in scope) for scope in scopes)
    attempts = _restarts(count) if restarts is None else restarts
    tree = triangulate(sorted(scopes), log2, restarts=attempts, good_enough=least, effort=_EFFORT)
    assert tree is not None
    number = {variable: place for place, variable in enumerate(tree.order)}
    space = Space(tuple(cardinalities[variable] for variable in tree.order), control)
    merged: dict[Scope, list[WorkingFactor]] = {}
    for factor in component.factors:
        merged.setdefault(tuple(sorted(number[variable] for variable in factor.scope)), []).append(factor)
    factors: list[Table] = []
    ranks: list[int] = []
    children: list[frozenset[int]] = []
    log_constant = 0.0
    barren = set()
    for scope, group in merged.items():
        values, log_scale = _table(scope, group, number)
        if not math.isfinite(log_scale):
            raise ZeroProbabilityError(NOTHING_POSSIBLE)
        log_constant += log_scale
        if structure is not None:
            origins = [origin for factor in group for origin in factor.origins]
            ranks.append(max(structure.rank[origin] for origin in origins))
            owned = {number.get(structure.children[origin], -1) for origin in origins}
            children.append(frozenset(owned.intersection(scope)))
            if structure.normalised and min(structure.rank[origin] for origin in origins) >= structure.barren_from:
                barren.add(len(factors))
        factors.append(Table(space, scope, values, _spread(values)))
    return Problem(
        space,
        tuple(tree.order),
        factors,
        log_constant,
        tree.renumbered(number),
        ranks if structure is not None else None,
        children if structure is not None else None,
        frozenset(barren),
    )


def _spread(values: NDArray[np.float64]) -> float:
    """Return the logarithm of the largest over the smallest positive entry."""
    positive = values[values > 0.0]
    return math.log(float(positive.max())) - math.log(float(positive.min()))


def _table(scope: Scope, group: list[WorkingFactor], number: dict[int, int]) -> tuple[NDArray[np.float64], float]:
    """Return the product of factors of one scope as a flat array with largest entry one, and the log of its scale."""
    log_scale = 0.0
    result: NDArray[np.float64] | None = None
    for factor in group:
        numbers = [number[variable] for variable in factor.scope]
        values = factor.values.transpose(sorted(range(len(numbers)), key=numbers.__getitem__))
        result = np.ascontiguousarray(values).reshape(-1) if result is None else result * values.reshape(-1)
        largest = float(result.max())
        if largest <= 0.0:
            return result, -math.inf
        result = result / largest
        log_scale += math.log(largest)
    assert result is not None
    return result, log_scale
