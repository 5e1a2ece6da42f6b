"""What the tests of the steps share: problems from random models, and the joint distributions of forests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from brute_force import BUILDERS, forest_joint, joint_of_tables
from ibia.forest.calibrate import calibrate
from ibia.forest.forest import Forest
from ibia.prepare import Problem, prepare
from ibia.sequence import potentials_of
from ibia.simplify import simplify
from ibia.steps.build import Growth, grow
from ibia.tables import Space, Table


def _largest_problem(kind: str, seed: int) -> Problem | None:
    simplified = simplify(BUILDERS[kind](np.random.default_rng(seed)), {})
    if not simplified.components:
        return None
    component = max(simplified.components, key=lambda part: part.origins.size)
    return prepare(component, simplified)


@pytest.fixture
def problem_of() -> Callable[[str, int], Problem | None]:
    """Return a function from the kind and seed of a random model to its largest component, if it has any."""
    return _largest_problem


@pytest.fixture
def first_forest() -> Callable[[Problem, float], tuple[Forest, list[tuple[int, tuple[int, ...]]]]]:
    """Return a function that builds and calibrates the first forest of a problem, and says what was deferred."""

    def build(problem: Problem, bound: float) -> tuple[Forest, list[tuple[int, tuple[int, ...]]]]:
        growth = Growth(problem.space)
        remaining = [(number, problem.factors[number].scope) for number in problem.order("elimination")]
        deferred = grow(growth, remaining, bound, restarts=2)
        calibrate(growth.forest, problem.space, potentials_of(growth.contents, problem.factors, None))
        return growth.forest, deferred

    return build


def _product(space: Space, tables: Sequence[Table]) -> np.ndarray:
    return joint_of_tables(space, tables, range(len(space.cardinalities)))


@pytest.fixture
def joint_of() -> Callable[[Forest, Space], np.ndarray]:
    """Return a function that multiplies out a calibrated forest: cliques over sepsets, one axis per variable.

    Axes of variables that the forest does not hold have length one.
    """

    def joint(forest: Forest, space: Space) -> np.ndarray:
        result = forest_joint(forest, space, range(len(space.cardinalities)))
        held = {variable for scope in forest.scopes.values() for variable in scope}
        absent = tuple(variable for variable in range(len(space.cardinalities)) if variable not in held)
        return result.mean(axis=absent, keepdims=True)

    return joint


@pytest.fixture
def product_of() -> Callable[[Space, Sequence[Table]], np.ndarray]:
    """Return a function that multiplies tables out to one axis per variable."""
    return _product
