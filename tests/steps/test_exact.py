"""Exact marginalisation: the joint over what remains is preserved, and every clique can be restored."""

from __future__ import annotations

import numpy as np
import pytest

from brute_force import BUILDERS, recalibrate
from ibia.control import Control
from ibia.forest import branches
from ibia.forest.calibrate import calibrate
from ibia.forest.checks import check_forest
from ibia.forest.forest import Forest
from ibia.steps.exact import marginalise_exactly
from ibia.tables import Space, Table


def cases(problem_of, first_forest, kind: str, seed: int, bound: float):
    """Return space, calibrated forest and a random interface, or skip."""
    problem = problem_of(kind, seed)
    if problem is None:
        pytest.skip("nothing is left of the model after simplification")
    bound = max(bound, max(problem.space.bits(table.scope) for table in problem.factors))
    forest, deferred = first_forest(problem, bound)
    interface = {variable for _, scope in deferred for variable in scope}
    if not deferred:
        generator = np.random.default_rng(seed)
        held = sorted(forest.holders())
        interface = set(generator.choice(held, max(1, len(held) // 3), replace=False).tolist())
    return problem.space, forest, interface, bound


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spare", [0.0, 1.0, 3.0])
def test_joint_of_what_remains_is_preserved(kind, seed, spare, problem_of, first_forest, joint_of) -> None:
    space, forest, interface, bound = cases(problem_of, first_forest, kind, seed, 5.0)
    before = {clique: table.values.copy() for clique, table in forest.beliefs.items()}
    scopes = dict(forest.scopes)
    core = marginalise_exactly(forest, interface, bound - spare, space)
    check_forest(core.forest, space)
    joint = joint_of(forest, space)
    kept = core.forest.holders().keys()
    gone = tuple(variable for variable in range(len(space.cardinalities)) if variable not in kept)
    np.testing.assert_allclose(
        joint_of(core.forest, space), joint.sum(axis=gone, keepdims=True), rtol=1e-9, atol=1e-12
    )
    assert interface.intersection(forest.holders()) <= kept
    # A variable that is not needed any more is kept only where its going would make a clique too large.
    for variable in kept - interface:
        union = {
            member for clique in core.forest.holders()[variable] for member in core.forest.scopes[clique]
        }
        assert space.bits(union) - space.log2[variable] > bound - spare
    assert forest.scopes == scopes, "the forest it came from must not change"
    for clique, values in before.items():
        np.testing.assert_array_equal(forest.beliefs[clique].values, values)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("seed", range(3))
def test_restore_with_unchanged_beliefs_gives_them_back(kind, seed, problem_of, first_forest) -> None:
    space, forest, interface, bound = cases(problem_of, first_forest, kind, seed, 5.0)
    core = marginalise_exactly(forest, interface, bound - 1.0, space)
    restored, _ = core.restore(dict(core.forest.beliefs), set(forest.scopes))
    assert restored.keys() == forest.scopes.keys()
    for clique, table in restored.items():
        assert table.scope == forest.scopes[clique]
        np.testing.assert_allclose(table.values, forest.beliefs[clique].values, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("seed", range(3))
def test_restore_passes_new_information_to_every_clique(kind, seed, problem_of, first_forest, joint_of) -> None:
    space, forest, interface, bound = cases(problem_of, first_forest, kind, seed, 5.0)
    core = marginalise_exactly(forest, interface, bound - 1.0, space)
    generator = np.random.default_rng(seed + 100)
    changed = core.forest.share_tables()
    joint = joint_of(forest, space)
    for clique, belief in core.forest.beliefs.items():
        news = Table(space, belief.scope, generator.uniform(0.1, 1.0, belief.values.size))
        changed.beliefs[clique] = belief.copy().multiply_in(news)
        shape = [n if v in belief.scope else 1 for v, n in enumerate(space.cardinalities)]
        joint = joint * news.values.reshape(shape)
    joint /= joint.sum()
    recalibrate(changed, space)
    restored, _ = core.restore(dict(changed.beliefs), set(forest.scopes))
    # A tree of which nothing remained has heard nothing, and its part of the joint is unchanged too.
    for clique, table in restored.items():
        others = tuple(variable for variable in range(joint.ndim) if variable not in table.scope)
        np.testing.assert_allclose(
            table.values, joint.sum(axis=others).reshape(-1), rtol=1e-9, atol=1e-12, err_msg=f"clique {clique}"
        )


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("seed", range(3))
def test_tables_can_be_dropped_and_made_again_bit_for_bit(kind, seed, problem_of, first_forest) -> None:
    space, forest, interface, bound = cases(problem_of, first_forest, kind, seed, 5.0)
    core = marginalise_exactly(forest, interface, bound - 1.0, space)
    before = [dict(tables) for tables in (core.forest.beliefs, core.forest.sepsets, core.full)]
    core.clear_tables()
    core.fill(forest)
    for tables, again in zip(before, (core.forest.beliefs, core.forest.sepsets, core.full), strict=True):
        assert again.keys() == tables.keys()
        for key, table in tables.items():
            assert again[key].scope == table.scope
            assert (again[key].values == table.values).all()


def test_origins_name_cliques_of_the_original_forest(problem_of, first_forest) -> None:
    for seed in range(5):
        space, forest, interface, bound = cases(problem_of, first_forest, "grid", seed, 5.0)
        core = marginalise_exactly(forest, interface, bound, space)
        for clique, scope in core.forest.scopes.items():
            origins = core.origin[clique]
            assert origins
            assert set(origins) <= set(forest.scopes)
            # What a collapsed clique holds, its parts held before.
            assert set(scope) <= {variable for part in origins for variable in forest.scopes[part]}


def pairs_of_cliques(count: int, bits: int, shared: int, control: Control) -> tuple[Space, Forest, set[int]]:
    """Return trees of two cliques, calibrated, and an interface that neither clique shares with the other."""
    generator = np.random.default_rng(0)
    own = bits - shared
    width = 2 * own + shared
    space = Space((2,) * (count * width), control)
    forest = Forest()
    potentials = {}
    interface = set()
    for pair in range(count):
        first = pair * width
        middle = tuple(range(first + own, first + bits))
        forest.add_clique(2 * pair, tuple(range(first, first + bits)))
        forest.add_clique(2 * pair + 1, tuple(range(first + own, first + width)))
        forest.connect(2 * pair, 2 * pair + 1, middle)
        for clique in (2 * pair, 2 * pair + 1):
            scope = forest.scopes[clique]
            potentials[clique] = [
                Table(space, scope[start : start + 5], generator.random(32) + 0.1) for start in range(bits - 4)
            ]
        interface |= {first, first + 1, first + width - 1}
    calibrate(forest, space, potentials)
    return space, forest, interface


def test_large_cores_have_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    side_by_side: list[int] = []
    run_parts = branches.run_parts

    def noting(functions, entries, control):
        side_by_side.append(len(functions))
        return run_parts(functions, entries, control)

    found = []
    for threads in (1, 2, 3):
        space, forest, interface = pairs_of_cliques(20, 17, 9, Control(threads=threads))
        with monkeypatch.context() as patched:
            patched.setattr(branches, "run_parts", noting)
            core = marginalise_exactly(forest, interface, 12.0, space)
            posterior = {
                clique: Table(space, belief.scope, belief.values[::-1].copy())
                for clique, belief in core.forest.beliefs.items()
            }
            restored, _ = core.restore(posterior, set(forest.scopes))
        assert all(operation.parts for operation in core.operations[40::2]), "all pairs are collapsed"
        tables = [*core.forest.beliefs.items(), *sorted(core.full.items()), *restored.items()]
        found.append([(clique, table.scope, table.values.tobytes()) for clique, table in tables])
    # Once there and once back, on two threads and on three.
    assert side_by_side == [2, 2, 3, 3]
    assert found[0] == found[1] == found[2]


def test_what_nobody_reads_is_not_computed() -> None:
    # The first clique is absorbed as soon as it is summed.
    space = Space((2,) * 4)
    forest = Forest()
    forest.add_clique(0, (0, 1, 2))
    forest.add_clique(1, (1, 2, 3))
    forest.connect(0, 1, (1, 2))
    calibrate(forest, space, {0: [Table(space, (0, 1), np.arange(1.0, 5.0))], 1: [space.ones((2, 3))]})
    core = marginalise_exactly(forest, {1, 2, 3}, 3.0, space)
    assert list(core.forest.scopes.values()) == [(1, 2, 3)]
    assert core.operations == []
    restored, _ = core.restore(dict(core.forest.beliefs), {0, 1})
    for clique, table in restored.items():
        np.testing.assert_allclose(table.values, forest.beliefs[clique].values, rtol=1e-12)
