"""A component that fits the bound: one tree, two passes of messages, and no belief is ever held."""

from __future__ import annotations

import time

import numpy as np

from ibia.backward.posterior import Posterior
from ibia.flat import ends, positions
from ibia.forest.calibrate import Inputs, Marginals
from ibia.forest.checks import check_forest
from ibia.forest.forest import forest_of
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.tables.kernels import address_of

__all__ = ["solve_exactly"]


def solve_exactly(problem: Problem, check: bool = False) -> tuple[Posterior, StepFigures]:
    """Return all marginals and log Z of a component by its best clique tree."""
    started = time.perf_counter()
    if check:
        check_forest(forest_of(problem.trees), problem.space, problem.width)
    values = Marginals(problem.trees, problem.cardinalities, _inputs(problem), problem.space)
    log_z = values.run()
    figures = StepFigures(
        step=0,
        cliques=problem.trees.parents.size,
        largest_bits=problem.width,
        factors=problem.merged.log_scales.size,
        bound=problem.width,
        loss=0.0,
        seconds=time.perf_counter() - started,
    )
    return Posterior(dict(enumerate(values.apart())), log_z, inconsistencies=[0.0]), figures


def _inputs(problem: Problem) -> Inputs:
    """Return the tables of the problem by the cliques they belong to."""
    merged = problem.merged
    # Variables are numbered as they are eliminated, so the first of a scope is the first to go.
    homes = problem.homes[merged.scopes[merged.starts[:-1]]]
    order = homes.argsort(kind="stable")
    lengths = (merged.starts[1:] - merged.starts[:-1])[order]
    return Inputs(
        ends(np.bincount(homes, minlength=problem.trees.parents.size)),
        ends(lengths),
        merged.scopes[positions(merged.starts[order], lengths)],
        address_of(merged.values) + 8 * merged.offsets[order],
        merged.spreads[order],
    )
