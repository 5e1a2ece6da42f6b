"""Build: factors end in cliques that contain them, forests stay valid and within the bound, order is kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from brute_force import BUILDERS
from ibia.control import Control, Stopped
from ibia.forest.checks import check_forest
from ibia.steps import build
from ibia.steps.build import Growth, _Budget, grow
from ibia.tables import Space


def check_growth(growth: Growth, bound: float | None = None) -> None:
    """Check the forest and that every potential lies in exactly one clique, which contains its scope."""
    check_forest(growth.forest, growth.space, bound)
    placed = sorted(potential for inside in growth.contents.values() for potential in inside)
    assert placed == sorted(growth.potentials)
    assert growth.contents.keys() == growth.forest.scopes.keys()
    for clique, inside in growth.contents.items():
        for potential in inside:
            assert set(growth.potentials[potential]) <= set(growth.forest.scopes[clique])
    assert growth.holders == growth.forest.holders()
    check_roots(growth)


def check_roots(growth: Growth) -> None:
    """Check that parents lead along edges to one root per tree, and that trees are told apart."""
    assert growth.parents.keys() == growth.forest.scopes.keys()
    names = set()
    for tree in growth.forest.trees():
        cliques = {clique for clique, _ in tree}
        assert sum(growth.parents[clique] < 0 for clique in cliques) == 1
        for clique in cliques:
            assert growth.parents[clique] < 0 or growth.parents[clique] in growth.forest.neighbours[clique]
        (name,) = {growth._tree(clique) for clique in cliques}
        assert name not in names
        names.add(name)
    assert growth.entries == pytest.approx(sum(2.0**bits for bits in growth.bits.values()))


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("seed", range(3))
def test_forest_is_valid_after_every_single_factor(kind: str, seed: int, problem_of) -> None:
    problem = problem_of(kind, seed)
    if problem is None:
        pytest.skip("nothing is left of the model after simplification")
    bound = max(4.0, max(problem.space.bits(table.scope) for table in problem.factors))
    for order in ("elimination", "breadth"):
        growth = Growth(problem.space)
        added = []
        for number in problem.order(order):
            scope = problem.factors[number].scope
            before = {clique: growth.forest.scopes[clique] for clique in growth.forest.scopes}
            if growth.try_add([(number, scope)], bound, 1):
                added.append(number)
            else:
                assert growth.forest.scopes == before, "a factor that does not fit must change nothing"
            check_growth(growth, bound)
            assert sorted(growth.potentials) == sorted(added)


@pytest.mark.parametrize("kind", ["grid", "dense", "mixed", "with_zeros", "deterministic"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_grow_defers_in_order_and_stays_within_the_bound(kind: str, seed: int, batch: int, problem_of) -> None:
    problem = problem_of(kind, seed)
    if problem is None:
        pytest.skip("nothing is left of the model after simplification")
    space = problem.space
    bound = max(3.0, max(space.bits(table.scope) for table in problem.factors))
    remaining = [(number, problem.factors[number].scope) for number in problem.order("elimination")]
    growth = Growth(space)
    deferred = grow(growth, remaining, bound, restarts=1, batch=batch)
    check_growth(growth, bound)
    assert sorted([*growth.potentials, *(number for number, _ in deferred)]) == list(range(len(problem.factors)))
    places = {entry: place for place, entry in enumerate(remaining)}
    assert [places[entry] for entry in deferred] == sorted(places[entry] for entry in deferred)
    if problem.width > bound:
        assert deferred
    # Nothing that was deferred would fit after all.
    if batch == 1:
        for entry in deferred[:1]:
            assert not growth.try_add([entry], bound, 0)


def test_effort_leaves_the_rest_alone() -> None:
    space = Space((2,) * 6)
    factors = [(0, (0, 1)), (1, (0, 1, 2)), (2, (2, 3, 4)), (3, (4, 5))]
    growth = Growth(space)
    assert grow(growth, factors, 2.0, restarts=0, effort=0.0, batch=1) == factors[1:]
    growth = Growth(space)
    assert grow(growth, factors, 2.0, restarts=0, effort=1.0, batch=1) == factors[1:3]


@dataclass
class Costs:
    """What a budget looks at of a forest under construction."""

    bits: range
    spent: float = 0.0

    def allowance(self) -> float:
        return 100.0


def test_in_large_forests_looking_goes_on_while_it_is_worth_it() -> None:
    small, large = Costs(range(100)), Costs(range(5000))
    for costs, goes_on in ((small, False), (large, True)):
        budget = _Budget(costs, 2.0)
        costs.spent = 200.0
        assert budget.allows(10)
        # Used up, when ten factors have cost 400 with the rest of the step.
        costs.spent = 201.0
        assert budget.allows(10) is goes_on
    # Others behind them are found for a tenth of that each ...
    for found in range(1, 50):
        large.spent += 4.0
        assert budget.allows(10 + found)
    # ... and when there are no more, it ends.
    large.spent += 200.0 * 0.25 + 49 * 40.0
    assert not budget.allows(59)


def test_what_waits_behind_factors_that_do_not_fit_is_found_in_large_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of six variables, which do not fit, use up what a step may spend; a hundred pairs after them fit."""
    scopes = [*combinations(range(6), 2), *((first, first + 1) for first in range(6, 206, 2))]
    remaining = list(enumerate(scopes))
    monkeypatch.setattr(build, "_LEAST", 16)
    added = []
    for fewest in (10**6, 1):
        monkeypatch.setattr(build, "_LARGE_FOREST", fewest)
        growth = Growth(Space((2,) * 206))
        deferred = grow(growth, remaining, 3.0, restarts=1, effort=6.0, batch=4)
        check_growth(growth, 3.0)
        assert deferred == sorted(deferred), "the order is kept"
        added.append(len(remaining) - len(deferred))
    assert added == [9, 109]


def test_what_did_not_fit_is_not_triangulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space((2,) * 4)
    growth = Growth(space)
    assert growth.try_add([(0, (0, 1)), (1, (1, 2))], 2.0, 0)
    assert not growth.try_add([(2, (0, 2))], 2.0, 0)
    monkeypatch.setattr("ibia.steps.build.triangulate", None)
    assert not growth.try_add([(2, (0, 2))], 2.0, 0)
    growth.refusals.next_step()
    assert not growth.fits((0, 2), 2.0, 0)
    monkeypatch.undo()
    growth.refusals.next_step()
    assert growth.try_add([(2, (0, 2))], 3.0, 0)


def test_factors_that_join_two_trees_twice_make_no_cycle() -> None:
    space = Space((2,) * 6)
    growth = Growth(space)
    first = [(0, (0, 1)), (1, (1, 2)), (2, (3, 4)), (3, (4, 5))]
    assert growth.try_add(first, 3.0, 0)
    assert len(list(growth.forest.trees())) == 2
    assert growth.try_add([(4, (0, 3)), (5, (2, 5))], 3.0, 4)
    check_growth(growth, 3.0)
    assert len(list(growth.forest.trees())) == 1


def test_a_batch_with_known_and_new_scopes_is_placed_completely() -> None:
    space = Space((2,) * 5)
    growth = Growth(space)
    assert growth.try_add([(0, (0, 1, 2)), (1, (2, 3))], 3.0, 0)
    assert growth.try_add([(2, (0, 1)), (3, (3, 4)), (4, (2,)), (5, (1, 3))], 3.0, 2)
    check_growth(growth, 3.0)
    assert sorted(growth.potentials) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(20))
def test_region_is_a_subtree_that_holds_what_is_wanted(seed: int) -> None:
    generator = np.random.default_rng(seed)
    space = Space((2,) * 12)
    growth = Growth(space)
    # A random tree of cliques: each new clique shares variables with an older one.
    scopes = [(0, 1)]
    growth.add_clique(scopes[0])
    for variable in range(2, 12):
        host = int(generator.integers(len(scopes)))
        shared = int(generator.choice(scopes[host]))
        scope = tuple(sorted((shared, variable)))
        clique = growth.add_clique(scope)
        growth.hang(clique, host, (shared,))
        scopes.append(scope)
    wanted = tuple(sorted(generator.choice(12, 3, replace=False).tolist()))
    region = growth.region([wanted])
    held = {variable for clique in region for variable in growth.forest.scopes[clique]}
    assert set(wanted) <= held
    inner = sum(1 for first, second, _ in growth.forest.edges() if first in region and second in region)
    assert inner == len(region) - 1


@pytest.mark.parametrize("seed", range(40))
def test_batches_of_pairs_that_a_clique_holds_by_chance_stay_in_a_clique(seed: int) -> None:
    """Some pairs lie in a clique only because of fill edges, which a later triangulation of the region may drop."""
    generator = np.random.default_rng(seed)
    space = Space((2,) * 12)
    growth = Growth(space)
    number = 0
    for _ in range(8):
        batch = []
        for _ in range(5):
            scope = tuple(sorted(generator.choice(12, 2, replace=False).tolist()))
            batch.append((number, scope))
            number += 1
        growth.try_add(batch, 6.0, 1)
        check_growth(growth, 6.0)


def test_a_time_limit_ends_the_search_for_factors_that_fit() -> None:
    space = Space((2,) * 4, Control(deadline=0.0))
    with pytest.raises(Stopped):
        grow(Growth(space), [(0, (0, 1)), (1, (1, 2))], 4.0, restarts=0)
