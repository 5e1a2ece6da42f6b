"""A component that fits the bound: one tree, two passes of messages, and no belief is ever held."""

from __future__ import annotations

import time

from ibia.backward.posterior import Posterior
from ibia.forest.calibrate import marginals
from ibia.forest.checks import check_forest
from ibia.forest.forest import Forest
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.tables import Scope, Table

__all__ = ["solve_exactly"]


def solve_exactly(problem: Problem, check: bool = False) -> tuple[Posterior, StepFigures]:
    """Return all marginals and log Z of a component by its best clique tree."""
    started = time.perf_counter()
    tree, space = problem.tree, problem.space
    forest = Forest()
    for clique, scope in enumerate(tree.cliques):
        forest.add_clique(clique, scope)
    members = [frozenset(scope) for scope in tree.cliques]
    for first, second in tree.edges:
        forest.connect(first, second, tuple(sorted(members[first] & members[second])))
    place = {variable: position for position, variable in enumerate(tree.order)}

    def home(scope: Scope) -> int:
        return tree.home[min(scope, key=place.__getitem__)]

    potentials: dict[int, list[Table]] = {clique: [] for clique in forest.scopes}
    for factor in problem.factors:
        potentials[home(factor.scope)].append(factor)
    if check:
        check_forest(forest, space, tree.width)
    log_z, values = marginals(forest, space, potentials)
    figures = StepFigures(
        step=0,
        cliques=len(forest.scopes),
        largest_bits=tree.width,
        factors=len(problem.factors),
        bound=tree.width,
        loss=0.0,
        seconds=time.perf_counter() - started,
    )
    return Posterior(values, log_z, inconsistencies=[0.0]), figures
