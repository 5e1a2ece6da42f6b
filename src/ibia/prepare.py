"""From a simplified component to a problem the engine can run: numbering, tables, and the order of the factors.

Variables are numbered by a good elimination order of the whole component, so that the sepset towards the parent is the
contiguous inner part of a clique's table, where the kernels are fastest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.errors import ZeroProbabilityError
from ibia.forest.elimination import Elimination
from ibia.forest.graph import graph_of
from ibia.forest.layout import Trees
from ibia.forest.refine import refine
from ibia.forest.search import MOST_ENTRIES, search, search_fronts
from ibia.forest.triangulate import CliqueTree, clique_tree, numbered_trees, triangulate
from ibia.simplify import Factors, Simplified
from ibia.simplify.merge import Merged, merge_factors
from ibia.simplify.working import NOTHING_POSSIBLE
from ibia.slicing import Slicing
from ibia.steps.order import Ordering, factor_order
from ibia.tables import Space, Table

__all__ = ["Problem", "prepare", "prepare_components"]

Integers = NDArray[np.int64]

# The search for a better tree may take about as long as the tables of the best one so far: an entry costs 16 ns where
# tables are large and 150 ns or more where they are small, a step of elimination 10 ns.
_EFFORT = 24.0
# Where a component fits the bound anyway, more search than this costs more time than its tables.
_LITTLE_EFFORT = 0.1
# Where nobody asked for a bound and the tables can be made, the answer will be exact: large entries are reckoned with.
_FAIR_EFFORT = 2.0
# So many times the same is tried by fronts, with this effort: where a component fits anyway, and where it does not.
_FRONTS, _FRONT_EFFORT = 40, (0.03, 4.0)
# The best of both are refined, with this effort; in the first case while entries cost far more than steps.
_REFINEMENT = (0.1, 2.0)
# With a time limit of fewer seconds, by so much less.
_NO_HURRY = 10.0
# Numbers vanish below e^−708; what a single table of this range prefers by itself may have been next to it.
_FAR_APART = 230.0


@dataclass
class Problem:
    """One connected component, ready to be solved.

    The arrays are all that an exact answer needs; what only approximate ones use is made when it is asked for.

    Attributes
    ----------
    variables
        Number in the space → variable of the model.
    cardinalities
        Number in the space → the number of states.
    merged
        The tables, each scaled to a largest entry of one.
    log_constant
        Logarithm of the scales taken out.
    trees
        A good clique tree of the whole component: the best one found for its tables, or (see `narrow`) for its order.
    homes
        Variable → the clique of its elimination: it contains every scope whose first variable it is.
    narrow
        Whether no better tree than that was found. Fronts make better trees than greedy elimination, but orders that
        approximate far worse, so where both may be needed variables are numbered for the latter.
    """

    space: Space
    variables: tuple[int, ...]
    cardinalities: Integers
    merged: Merged
    log_constant: float
    trees: Trees
    homes: Integers
    narrow: bool
    _component: Factors
    _simplified: Simplified
    _elimination: Elimination
    _narrowest: Elimination

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs to run the problem: arrays, and what only the whole model can tell."""
        derived = {"ranks": self.ranks, "children": self.children, "barren": self.barren}
        left = ("space", "factors", "tree", "slicing", "_component", "_simplified")
        return {name: value for name, value in {**self.__dict__, **derived}.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.space = Space(tuple(self.cardinalities.tolist()))

    @cached_property
    def factors(self) -> list[Table]:
        """The tables."""
        starts, offsets, scopes = self.merged.starts.tolist(), self.merged.offsets.tolist(), self.merged.scopes.tolist()
        return [
            Table(self.space, tuple(scopes[begin:end]), self.merged.values[first:last], spread)
            for (begin, end), (first, last), spread in zip(
                pairwise(starts), pairwise(offsets), self.merged.spreads.tolist(), strict=True
            )
        ]

    @cached_property
    def tree(self) -> CliqueTree:
        """The tree as cliques and edges."""
        tree = clique_tree(self._elimination, np.sort(self.variables))
        return tree.renumbered({variable: number for number, variable in enumerate(self.variables)})

    @cached_property
    def slicing(self) -> Slicing:
        """The ways to solve it in slices."""
        number = np.empty_like(self._elimination.order)
        number[self._elimination.order] = np.arange(number.size)
        best = self._narrowest
        elimination = best._replace(order=number[best.order], members=number[best.members[: best.starts[-1]]])
        return Slicing(self.merged.starts, self.merged.scopes, self.cardinalities, elimination, self.space.control)

    @cached_property
    def ranks(self) -> list[int] | None:
        """Topological rank of each factor, when the model is a Bayesian network."""
        structure = self._simplified.structure
        if structure is None:
            return None
        return [max(structure.rank[source] for source in sources) for sources in self._sources]

    @cached_property
    def children(self) -> list[frozenset[int]] | None:
        """Variables each factor is the conditional distribution of, when the model is a Bayesian network."""
        structure = self._simplified.structure
        if structure is None:
            return None
        number = {variable: place for place, variable in enumerate(self.variables)}
        owned = [{number.get(structure.children[source], -1) for source in sources} for sources in self._sources]
        return [frozenset(own.intersection(table.scope)) for own, table in zip(owned, self.factors, strict=True)]

    @cached_property
    def barren(self) -> frozenset[int]:
        """Factors that cannot change the posterior of variables in other factors (or none)."""
        structure = self._simplified.structure
        if structure is None or not structure.normalised or self.merged.roots:
            return frozenset()
        return frozenset(
            place
            for place, sources in enumerate(self._sources)
            if min(structure.rank[source] for source in sources) >= structure.barren_from
        )

    @property
    def _sources(self) -> list[list[int]]:
        """The model's factors that each factor is made of."""
        origins = self._component.origins[self.merged.sources].tolist()
        return [origins[begin:end] for begin, end in pairwise(self.merged.bounds.tolist())]

    @property
    def positive(self) -> bool:
        """Whether there are no zeros in the tables."""
        return bool(self.merged.values.min(initial=1.0) > 0.0)

    @property
    def far_apart(self) -> bool:
        """Whether single tables have entries so far apart that they may outweigh what had vanished before."""
        return self.merged.roots or bool(self.merged.spreads.max(initial=0.0) > _FAR_APART)

    @property
    def width(self) -> float:
        """Bits of the largest clique of the best triangulation found: the cheapest exact bound."""
        return self._narrowest.width

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
    simplified: Simplified,
    restarts: int | None = None,
    control: Control | None = None,
    bound: float | None = None,
    time_limit: float = math.inf,
) -> Problem:
    """Number the variables of a component and lay out its tables.

    Parameters
    ----------
    bound
        A tree of at most so many bits will do; None: search for a narrow one whatever it takes.
    time_limit
        Seconds that there are for an answer: where they are few, a tree is refined less.
    """
    starts = component.starts - component.starts[0]
    members = component.members[component.starts[0] : component.starts[-1]]
    variables, graph = graph_of(component.lengths, members)
    log2 = simplified.log2[variables]
    places = variables.searchsorted(members)
    # No tree is narrower than the largest factor.
    least = float(np.add.reduceat(log2[places], starts[:-1]).max())
    attempts = _restarts(variables.size) if restarts is None else restarts
    wanted = 0.0 if bound is None else bound

    def further(best: Elimination) -> float:
        if best.width <= wanted:
            return _LITTLE_EFFORT
        return _FAIR_EFFORT if bound is None and best.size <= MOST_ENTRIES else _EFFORT

    greedy = search(graph, log2, math.inf, attempts, least, 0, _LITTLE_EFFORT, control, further)
    fronts = _FRONTS if restarts is None else restarts
    wide = greedy.width > wanted
    best = search_fronts(graph, log2, greedy, fronts, least, wanted, _FRONT_EFFORT[wide], MOST_ENTRIES, control)
    if fronts:
        starts = [greedy] if best is greedy else [greedy, best]
        effort = _REFINEMENT[wide] * min(time_limit / _NO_HURRY, 1.0)
        best = refine(graph, log2, starts, effort, MOST_ENTRIES, least, wanted, control)
    # Which of them variables are numbered by depends on whether there will be anything but an exact answer.
    certain = best.size <= MOST_ENTRIES if bound is None else best.width <= bound
    own = best if certain else greedy
    number, trees, homes = numbered_trees(own)
    numbered = variables[own.order]
    cardinalities = simplified.sizes[numbered]
    merged = merge_factors(component, number[places], cardinalities)
    log_constant = math.fsum(merged.log_scales)
    if log_constant == -math.inf:
        raise ZeroProbabilityError(NOTHING_POSSIBLE)
    return Problem(
        Space(tuple(cardinalities.tolist()), control),
        tuple(numbered.tolist()),
        cardinalities,
        merged,
        log_constant,
        trees,
        homes,
        own is best,
        component,
        simplified,
        own,
        best,
    )


def prepare_components(
    simplified: Simplified,
    control: Control | None = None,
    bound: float | None = None,
    time_limit: float = math.inf,
) -> tuple[Problem, ...]:
    """Prepare all components of a model."""
    control = Control() if control is None else control
    problems = []
    for component in simplified.components:
        control.check()
        problems.append(prepare(component, simplified, control=control, bound=bound, time_limit=time_limit))
    return tuple(problems)
