"""The checks find what they should: one forest, broken in one way at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from brute_force import recalibrate
from ibia.forest.checks import ForestError, check_forest, check_reduction
from ibia.forest.forest import Forest
from ibia.steps.local import Reduction
from ibia.tables import Space, Table

SPACE = Space((2, 2, 2, 2, 3))
SCOPES = [(0, 1, 2), (1, 2, 3), (3, 4)]


def valid() -> Forest:
    """Return a calibrated tree of three cliques."""
    forest = Forest()
    generator = np.random.default_rng(0)
    for clique, scope in enumerate(SCOPES):
        forest.add_clique(clique, scope)
        forest.beliefs[clique] = Table(SPACE, scope, 0.1 + generator.random(SPACE.size(scope)))
    forest.connect(0, 1, (1, 2))
    forest.connect(1, 2, (3,))
    recalibrate(forest, SPACE)
    return forest


def test_a_valid_forest_passes() -> None:
    check_forest(valid(), SPACE)
    check_forest(valid(), SPACE, 3.0)
    check_forest(Forest(), SPACE, 1.0)
    empty = valid()
    empty.beliefs.clear()
    empty.sepsets.clear()
    check_forest(empty, SPACE)


def _one_way(forest: Forest) -> None:
    del forest.neighbours[1][0]


def _two_sepsets(forest: Forest) -> None:
    forest.neighbours[1][0] = (1,)


def _cycle(forest: Forest) -> None:
    forest.add_clique(3, (2, 3))
    forest.connect(0, 3, (2,))
    forest.connect(1, 3, (2, 3))


def _wrong_sepset(forest: Forest) -> None:
    forest.connect(0, 1, (1,))


def _empty_sepset(forest: Forest) -> None:
    forest.add_clique(3, (0,))
    forest.connect(2, 3, ())


def _apart(forest: Forest) -> None:
    forest.add_clique(3, (0,))


def _unsorted(forest: Forest) -> None:
    forest.scopes[2] = (4, 3)


def _uncalibrated(forest: Forest) -> None:
    forest.beliefs[0] = Table(SPACE, SCOPES[0], np.full(8, 0.125))


def _not_normalised(forest: Forest) -> None:
    forest.beliefs[2].scale_in(2.0)


def _negative(forest: Forest) -> None:
    forest.beliefs[2].values[:2] += (-1.0, 1.0)


def _not_a_number(forest: Forest) -> None:
    forest.beliefs[1].values[0] = np.nan


def _missing_belief(forest: Forest) -> None:
    del forest.beliefs[2]


def _missing_sepset(forest: Forest) -> None:
    del forest.sepsets[1, 2]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_one_way, "only"),
        (_two_sepsets, "two sepsets"),
        (_cycle, "cycle"),
        (_wrong_sepset, "share"),
        (_empty_sepset, "empty"),
        (_apart, "variable 0"),
        (_unsorted, "sorted"),
        (_uncalibrated, "not calibrated"),
        (_not_normalised, "sums to"),
        (_negative, "negative"),
        (_not_a_number, "finite"),
        (_missing_belief, "beliefs"),
        (_missing_sepset, "sepset"),
    ],
)
def test_each_kind_of_damage_is_found(damage: Callable[[Forest], None], message: str) -> None:
    forest = valid()
    damage(forest)
    with pytest.raises(ForestError, match=message):
        check_forest(forest, SPACE)


def test_a_clique_over_the_bound_is_found() -> None:
    with pytest.raises(ForestError, match="bound"):
        check_forest(valid(), SPACE, 2.9)


def test_a_valid_reduction_passes() -> None:
    reduction = Reduction({0: (0, 1), 1: (1, 2, 3), 2: (3, 4)}, {(0, 1): (1,), (1, 2): (3,)})
    check_reduction(valid(), reduction, {0, 1, 2, 3, 4, 99})


@pytest.mark.parametrize(
    ("scopes", "sepsets", "message"),
    [
        ({0: (0,), 1: (1, 2, 3), 2: (3, 4)}, {(0, 1): (), (1, 2): (3,)}, "falls apart"),
        ({0: (0, 1), 1: (1, 3), 2: (3,)}, {(0, 1): (1,), (1, 2): (3,)}, "interface"),
        ({0: (0, 1, 2), 1: (1, 2, 3), 2: (3, 4)}, {(0, 1): (1,), (1, 2): (3,)}, "share"),
        ({0: (0, 1), 1: (1, 3)}, {(0, 1): (1,)}, "cliques"),
        ({0: (0, 1), 1: (1, 2, 3), 2: (3, 4)}, {(0, 1): (1,)}, "edges"),
        ({0: (0, 1, 4), 1: (1, 2, 3), 2: (3, 4)}, {(0, 1): (1,), (1, 2): (3,)}, "part"),
    ],
)
def test_each_broken_reduction_is_found(scopes: dict, sepsets: dict, message: str) -> None:
    with pytest.raises(ForestError, match=message):
        check_reduction(valid(), Reduction(scopes, sepsets), {0, 2, 4})


def test_running_intersection_of_a_reduction_is_checked() -> None:
    forest = Forest()
    for clique, scope in enumerate([(0, 1), (0, 1, 2), (0, 2)]):
        forest.add_clique(clique, scope)
    forest.connect(0, 1, (0, 1))
    forest.connect(1, 2, (0, 2))
    reduction = Reduction({0: (0, 1), 1: (1, 2), 2: (0, 2)}, {(0, 1): (1,), (1, 2): (2,)})
    with pytest.raises(ForestError, match="variable 0"):
        check_reduction(forest, reduction, set())
