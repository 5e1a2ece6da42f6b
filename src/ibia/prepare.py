"""From a simplified component to a problem the engine can run: numbering, tables, and the order of the factors.

Variables are numbered by a good elimination order of the whole component, so that the sepset towards the parent is the
contiguous inner part of a clique's table, where the kernels are fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ibia.control import Control
from ibia.errors import ZeroProbabilityError
from ibia.forest.triangulate import CliqueTree, triangulate
from ibia.simplify import Factors, Structure
from ibia.simplify.merge import merge_factors
from ibia.simplify.working import NOTHING_POSSIBLE
from ibia.steps.order import Ordering, factor_order
from ibia.tables import Scope, Space, Table
from ibia.tables.kernels import spread

__all__ = ["Problem", "prepare"]

# The search for a better tree may take about as long as the tables of the best one so far: an entry costs 16 ns where
# tables are large and 150 ns or more where they are small, a step of elimination 10 ns.
_EFFORT = 24.0
# Where a component fits the bound anyway, more search than this costs more time than its tables.
_LITTLE_EFFORT = 0.1


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
    component: Factors,
    cardinalities: list[int],
    structure: Structure | None,
    restarts: int | None = None,
    control: Control | None = None,
    bound: float | None = None,
) -> Problem:
    """Number the variables of a component and lay out its tables.

    Parameters
    ----------
    bound
        A tree of at most so many bits will do; None: search for a narrow one whatever it takes.
    """
    every_scope = component.scopes
    scopes = set(every_scope)
    log2 = {variable: math.log2(cardinalities[variable]) for scope in scopes for variable in scope}
    count = len(log2)
    # No tree is narrower than the largest factor.
    least = max(math.fsum(log2[variable] for variable in scope) for scope in scopes)
    attempts = _restarts(count) if restarts is None else restarts
    ordered = sorted(scopes)
    tree = triangulate(ordered, log2, restarts=attempts, good_enough=least, effort=_LITTLE_EFFORT)
    assert tree is not None
    if bound is None or tree.width > bound:
        tree = triangulate(ordered, log2, restarts=attempts, good_enough=least, effort=_EFFORT)
        assert tree is not None
    number = {variable: place for place, variable in enumerate(tree.order)}
    space = Space(tuple(cardinalities[variable] for variable in tree.order), control)
    merged: dict[Scope, list[int]] = {}
    for factor, members in enumerate(every_scope):
        merged.setdefault(tuple(sorted([number[variable] for variable in members])), []).append(factor)
    tables, log_scales = merge_factors(component, list(merged.values()), number, space.cardinalities)
    log_constant = math.fsum(log_scales)
    if log_constant == -math.inf:
        raise ZeroProbabilityError(NOTHING_POSSIBLE)
    factors = [Table(space, scope, values, spread(values)) for scope, values in zip(merged, tables, strict=True)]
    ranks: list[int] = []
    children: list[frozenset[int]] = []
    barren = set()
    if structure is not None:
        origins = component.origins.tolist()
        for place, (scope, group) in enumerate(merged.items()):
            sources = [origins[factor] for factor in group]
            ranks.append(max(structure.rank[source] for source in sources))
            owned = {number.get(structure.children[source], -1) for source in sources}
            children.append(frozenset(owned.intersection(scope)))
            if structure.normalised and min(structure.rank[source] for source in sources) >= structure.barren_from:
                barren.add(place)
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
