"""Calibration and joint queries against brute force, and how a forest prints."""

from __future__ import annotations

import math

import numpy as np
import pytest

from brute_force import forest_joint, joint_of_tables, marginal_of, recalibrate
from ibia.forest.calibrate import ZeroMassError, calibrate
from ibia.forest.checks import check_forest
from ibia.forest.forest import Forest, edge
from ibia.forest.joint import Queried, Rooted
from ibia.forest.triangulate import triangulate
from ibia.tables import Space, Table

SEEDS = range(12)


def random_forest(seed: int, zeros: float = 0.0, scale: float = 1.0) -> tuple[Forest, Space, np.ndarray]:
    """Return an uncalibrated forest filled with random factors (some variables apart), and their product."""
    generator = np.random.default_rng(seed)
    space = Space(tuple(generator.choice([1, 2, 2, 2, 3], 10).tolist()))
    # Variables 0 to 5 and 6 to 9 stay apart, so there are at least two trees.
    scopes = [tuple(sorted(generator.choice(6, 2, replace=False).tolist())) for _ in range(6)]
    scopes += [tuple(sorted((6 + generator.choice(4, 2, replace=False)).tolist())) for _ in range(4)]
    tree = triangulate(scopes, space.log2)
    assert tree is not None
    tables: dict[int, list[Table]] = {clique: [] for clique in range(len(tree.cliques))}
    place = {variable: position for position, variable in enumerate(tree.order)}
    factors = []
    for scope in scopes:
        values = scale * (0.1 + generator.random(space.size(scope)))
        values[1:][generator.random(values.size - 1) < zeros] = 0.0
        factors.append(Table(space, scope, values))
        tables[tree.home[min(scope, key=place.__getitem__)]].append(factors[-1])
    forest = Forest()
    for clique, scope in enumerate(tree.cliques):
        forest.add_clique(clique, scope)
        forest.beliefs[clique] = space.ones(scope)
        for table in tables[clique]:
            forest.beliefs[clique].multiply_in(table)
    for first, second in tree.edges:
        shared = tuple(sorted(set(tree.cliques[first]).intersection(tree.cliques[second])))
        forest.connect(first, second, shared)
    held = tuple(sorted(forest.holders()))
    return forest, space, joint_of_tables(space, factors, held)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_beliefs_are_marginals_and_log_z_is_the_mass(seed: int, zeros: float) -> None:
    forest, space, joint = random_forest(seed, zeros)
    held = tuple(sorted(forest.holders()))
    log_z = recalibrate(forest, space)
    check_forest(forest, space)
    assert log_z == pytest.approx(math.log(joint.sum()), abs=1e-10)
    joint = joint / joint.sum()
    for clique, table in forest.beliefs.items():
        expected = marginal_of(joint, held, forest.scopes[clique])
        np.testing.assert_allclose(table.values, expected, rtol=1e-10, atol=1e-14)
    for first, second, sepset in forest.edges():
        np.testing.assert_allclose(
            forest.sepsets[edge(first, second)].values, marginal_of(joint, held, sepset), rtol=1e-10, atol=1e-14
        )
    np.testing.assert_allclose(forest_joint(forest, space, held), joint, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_logarithms_give_the_same_beliefs(seed: int, zeros: float) -> None:
    plain, space, _ = random_forest(seed, zeros)
    other, _, _ = random_forest(seed, zeros)
    for again in range(2):
        log_z = recalibrate(plain, space)
        assert recalibrate(other, space, far_apart=True) == pytest.approx(log_z, abs=1e-10), again
        for clique, table in plain.beliefs.items():
            np.testing.assert_allclose(other.beliefs[clique].values, table.values, rtol=1e-9, atol=1e-14)
        for key, table in plain.sepsets.items():
            np.testing.assert_allclose(other.sepsets[key].values, table.values, rtol=1e-9, atol=1e-14)
        # The second time there is something to divide by.
        news = np.random.default_rng(seed).random(next(iter(plain.beliefs.values())).values.size)
        for forest in (plain, other):
            next(iter(forest.beliefs.values())).values[:] *= news


def test_what_is_possible_does_not_vanish_in_logarithms() -> None:
    space = Space((2, 2, 2))
    forest = Forest()
    for clique, scope in enumerate([(0, 1), (1, 2)]):
        forest.add_clique(clique, scope)
    forest.connect(0, 1, (1,))
    potentials = {
        0: [Table(space, (0, 1), np.array([1.0, 1e-300, 1e-300, 0.0]))] * 2,
        1: [Table(space, (1, 2), np.array([1e-300, 1.0, 1e-300, 1e-300]))] * 2,
    }
    log_z, whole = calibrate(forest, space, potentials, far_apart=True)
    assert not whole
    assert log_z == pytest.approx(0.0)
    for belief in forest.beliefs.values():
        np.testing.assert_array_equal(belief.values > 0.0, [True, True, True, belief.scope == (1, 2)])
    np.testing.assert_allclose(forest.beliefs[0].values, [1.0, 0.0, 0.0, 0.0], atol=1e-150)


@pytest.mark.parametrize("seed", SEEDS)
def test_calibrating_again_changes_nothing(seed: int) -> None:
    forest, space, _ = random_forest(seed)
    recalibrate(forest, space)
    before = {clique: table.values.copy() for clique, table in forest.beliefs.items()}
    assert recalibrate(forest, space) == pytest.approx(0.0, abs=1e-12)
    for clique, values in before.items():
        np.testing.assert_allclose(forest.beliefs[clique].values, values, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_news_in_one_clique_reach_the_others(seed: int) -> None:
    forest, space, joint = random_forest(seed)
    held = tuple(sorted(forest.holders()))
    recalibrate(forest, space)
    generator = np.random.default_rng(seed + 50)
    joint = joint / joint.sum()
    for clique in list(forest.scopes)[::2]:
        news = Table(space, forest.scopes[clique], generator.random(forest.beliefs[clique].values.size))
        forest.beliefs[clique].multiply_in(news)
        joint = joint * joint_of_tables(space, [news], held)
    log_mass = recalibrate(forest, space)
    check_forest(forest, space)
    assert log_mass == pytest.approx(math.log(joint.sum()), abs=1e-10)
    joint = joint / joint.sum()
    for clique, table in forest.beliefs.items():
        np.testing.assert_allclose(table.values, marginal_of(joint, held, forest.scopes[clique]), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-28, 1e28])
def test_scales_neither_overflow_nor_vanish(scale: float) -> None:
    forest, space, _ = random_forest(1, scale=scale)
    plain, _, joint = random_forest(1)
    log_z = recalibrate(forest, space)
    assert log_z == pytest.approx(math.log(joint.sum()) + 10 * math.log(scale), rel=1e-12)
    recalibrate(plain, space)
    check_forest(forest, space)
    for clique, table in plain.beliefs.items():
        np.testing.assert_allclose(forest.beliefs[clique].values, table.values, rtol=1e-10)


def test_no_mass_is_an_error_wherever_it_shows() -> None:
    space = Space((2, 2, 2))
    for clashing in ([0.0] * 4, [0.0, 0.0, 1.0, 1.0]):
        forest = Forest()
        forest.add_clique(0, (0, 1))
        forest.add_clique(1, (1, 2))
        forest.connect(0, 1, (1,))
        # Clique 0 allows state 0 of variable 1 only, clique 1 state 1 only, or nothing.
        forest.beliefs = {
            0: Table(space, (0, 1), np.array([1.0, 0.0, 1.0, 0.0])),
            1: Table(space, (1, 2), np.array(clashing)),
        }
        with pytest.raises(ZeroMassError):
            recalibrate(forest, space)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_joint_queries_across_cliques_and_trees(seed: int, zeros: float) -> None:
    forest, space, joint = random_forest(seed, zeros)
    held = tuple(sorted(forest.holders()))
    recalibrate(forest, space)
    joint = joint / joint.sum()
    before = {clique: table.values.copy() for clique, table in forest.beliefs.items()}
    generator = np.random.default_rng(seed)
    queried = Queried(Rooted(forest), forest.beliefs, space, 30.0)
    for size in (1, 2, 3, 4, 3, 2):
        scope = tuple(sorted(generator.choice(held, size, replace=False).tolist()))
        table = queried.joint(scope)
        assert table is not None
        assert table.scope == scope
        np.testing.assert_allclose(table.values, marginal_of(joint, held, scope), rtol=1e-9, atol=1e-14)
    for clique, values in before.items():
        np.testing.assert_array_equal(forest.beliefs[clique].values, values)


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_queries_do_not_depend_on_those_before(seed: int) -> None:
    """Posteriors of neighbours may disagree; what one query found of a sepset must not reach the other direction."""
    forest, space, _ = random_forest(seed, 0.0)
    recalibrate(forest, space)
    generator = np.random.default_rng(seed)
    for belief in forest.beliefs.values():
        belief.values[:] *= 0.5 + generator.random(belief.values.size)
        belief.normalise_in()
    held = tuple(sorted(forest.holders()))
    queried = Queried(Rooted(forest), forest.beliefs, space, 30.0)
    for _ in range(12):
        scope = tuple(sorted(generator.choice(held, 3, replace=False).tolist()))
        again, fresh = queried.joint(scope), Queried(Rooted(forest), forest.beliefs, space, 30.0).joint(scope)
        assert again is not None
        assert fresh is not None
        np.testing.assert_array_equal(again.values, fresh.values)


def test_joint_queries_keep_to_their_limit() -> None:
    """The ends of a chain of pairs: a table over three variables is needed on the way."""
    space = Space((2,) * 6)
    forest = Forest()
    generator = np.random.default_rng(0)
    for place in range(5):
        forest.add_clique(place, (place, place + 1))
        forest.beliefs[place] = Table(space, (place, place + 1), 0.1 + generator.random(4))
        if place:
            forest.connect(place - 1, place, (place,))
    joint = joint_of_tables(space, forest.beliefs.values(), range(6))
    recalibrate(forest, space)
    assert Queried(Rooted(forest), forest.beliefs, space, 2.0).joint((0, 5)) is None
    table = Queried(Rooted(forest), forest.beliefs, space, 3.0).joint((0, 5))
    assert table is not None
    np.testing.assert_allclose(table.values, marginal_of(joint / joint.sum(), range(6), (0, 5)), rtol=1e-12)
    # Two variables in different trees need a table of both.
    apart = Forest()
    for clique, variable in ((0, 0), (1, 1)):
        apart.add_clique(clique, (variable,))
        apart.beliefs[clique] = Table(space, (variable,), np.array([0.25, 0.75]))
    assert Queried(Rooted(apart), apart.beliefs, space, 1.0).joint((0, 1)) is None
    both = Queried(Rooted(apart), apart.beliefs, space, 2.0).joint((0, 1))
    assert both is not None
    np.testing.assert_allclose(both.values, [0.0625, 0.1875, 0.1875, 0.5625])


def test_a_forest_prints_as_trees() -> None:
    forest = Forest()
    for clique, scope in enumerate([(0, 1), (1, 2), (2, 3), (1, 4), (7,)]):
        forest.add_clique(clique, scope)
    forest.connect(0, 1, (1,))
    forest.connect(1, 2, (2,))
    forest.connect(0, 3, (1,))
    assert str(forest).splitlines() == [
        "(0 1)",
        "   └─ (1 2)",
        "      └─ (2 3)",
        "   └─ (1 4)",
        "(7)",
    ]
    assert str(Forest()) == ""


def test_shared_tables_have_a_structure_of_their_own() -> None:
    forest, space, _ = random_forest(0)
    recalibrate(forest, space)
    scopes = dict(forest.scopes)
    edges = list(forest.edges())
    copy = forest.share_tables()
    for clique in list(copy.scopes)[:2]:
        copy.remove_clique(clique)
    assert forest.scopes == scopes
    assert list(forest.edges()) == edges
    assert forest.sepsets.keys() == {edge(first, second) for first, second, _ in edges}
