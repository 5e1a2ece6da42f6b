"""A component that fits the bound: one tree, two passes of messages, and no belief is ever held."""

from __future__ import annotations

import time

from ibia.backward.posterior import Posterior
from ibia.forest.calibrate import marginals
from ibia.forest.checks import check_forest
from ibia.forest.forest import Forest
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.tables import Table

__all__ = ["solve_exactly"]


def solve_exactly(problem: Problem, check: bool = False) -> tuple[Posterior, StepFigures]:
    """Return all marginals and log Z of a component by its best clique tree."""
    started = time.perf_counter()
    tree, space = problem.tree, problem.space
    forest = Forest()
    for clique, scope in enumerate(tree.cliques):
        forest.add_clique(clique, scope)
    for first, second, sepset in tree.sepsets():
        forest.connect(first, second, sepset)
    potentials: dict[int, list[Table]] = {clique: [] for clique in forest.scopes}
    homes = tree.homes(factor.scope for factor in problem.factors)
    for home, factor in zip(homes, problem.factors, strict=True):
        potentials[home].append(factor)
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
