"""Slices: exact answers of models that do not fit the bound, for all states of some variables one after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import BUILDERS, largest_error, random_evidence, solve
from ibia import examples
from ibia.answer import prepare_model
from ibia.control import Control, Stopped
from ibia.costs import Sizes
from ibia.errors import InputError, ZeroProbabilityError
from ibia.forest.checks import check_forest
from ibia.forest.forest import forest_of
from ibia.forest.graph import graph_of
from ibia.forest.search import search
from ibia.model import Model, Variable
from ibia.pipeline import infer
from ibia.prepare import Problem
from ibia.slicing import Slicing
from ibia.tables import Space

SEEDS = st.integers(0, 2**32 - 1)


def component(model: Model) -> Problem:
    (problem,) = prepare_model(model, {}).problems
    return problem


@settings(derandomize=True, deadline=None, max_examples=200)
@given(SEEDS, st.sampled_from(sorted(BUILDERS)), st.sampled_from([1.0, 1.6, 2.0, 3.0, 4.0]))
def test_slices_are_exact(seed: int, kind: str, bound: float) -> None:
    generator = np.random.default_rng(seed)
    model = BUILDERS[kind](generator)
    evidence = random_evidence(generator, model)
    answer = solve(model, evidence)
    result = infer(model, evidence, bound=bound, slices="always", check=True)
    if max(model.cardinalities) > 2.0**bound:
        # There may be a variable that does not fit.
        return
    assert result.exact
    assert largest_error(result.marginals, answer) < 1e-9
    assert result.log_z == pytest.approx(answer.log_z, abs=1e-9)
    assert result.max_clique_bits <= bound + 1e-9
    assert result.error.typical == 0.0


def test_they_are_counted_and_told() -> None:
    result = infer(examples.grid(6, 6, seed=1), bound=4, slices="always")
    assert result.exact
    assert result.slices > 1
    assert math.log2(result.slices).is_integer()
    assert f"in up to {result.slices} slices" in str(result)
    assert result.to_dict()["slices"] == result.slices
    whole = infer(examples.grid(6, 6, seed=1), bound=20)
    assert whole.slices == 1
    assert "slices" not in str(whole)


@pytest.mark.parametrize("bound", [3.0, 5.0, 8.0])
def test_what_is_left_is_a_clique_tree_within_the_bound(bound: float) -> None:
    problem = component(examples.grid(9, 9, seed=1))
    level = problem.slicing.at(bound)
    assert level is not None
    assert sorted([*level.held, *level.left.tolist()]) == list(range(len(problem.variables)))
    assert level.count == math.prod(int(problem.cardinalities[variable]) for variable in level.held)
    check_forest(forest_of(level.trees), Space(tuple(problem.cardinalities[level.variables].tolist())), bound)
    # Every table lies in the clique of its first variable.
    place = {int(variable): number for number, variable in enumerate(level.variables)}
    trees = level.trees
    for table in problem.factors:
        scope = sorted(place[variable] for variable in table.scope if variable not in level.held)
        if scope:
            home = int(level.homes[scope[0]])
            clique = trees.scopes[trees.scope_starts[home] : trees.scope_starts[home + 1]]
            assert set(scope) <= set(clique.tolist())


def test_higher_bounds_hold_fewer_variables() -> None:
    slicing = component(examples.grid(9, 9, seed=1)).slicing
    levels = [slicing.at(bound) for bound in (3.0, 4.0, 6.0, 9.0, 20.0)]
    counts = [level.count for level in levels if level is not None]
    assert len(counts) == len(levels)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1.0


def test_there_are_models_too_wide_for_slices() -> None:
    problem = component(examples.grid(40, 40, seed=1))
    assert problem.slicing.at(4.0) is None
    assert not Sizes(problem).costs(4.0, slices="always").exact


@pytest.mark.parametrize("threads", [2, 3])
def test_the_bits_do_not_depend_on_the_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibia.slices._WORTH_THREADS", 0.0)
    model = examples.grid(9, 9, seed=2)
    one = infer(model, bound=5, slices="always", threads=1)
    several = infer(model, bound=5, slices="always", threads=threads)
    assert one.slices > 64
    assert one.log_z == several.log_z
    assert all((a == b).all() for a, b in zip(one.marginals, several.marginals, strict=True))


def test_strong_factors_do_not_vanish() -> None:
    """Slices whose masses differ by hundreds of orders of magnitude, with products far below the smallest numbers."""
    generator = np.random.default_rng(3)
    scopes = [(first, second) for first in range(7) for second in range(first)]
    tables = [np.exp(-800.0 * generator.random((2, 2))) for _ in scopes]
    model = Model.from_arrays([2] * 7, list(zip(scopes, tables, strict=True)))
    sliced, whole = infer(model, bound=3, slices="always"), infer(model, bound=20)
    assert sliced.slices > 1
    assert sliced.log_z == pytest.approx(whole.log_z, rel=1e-12)
    for one, other in zip(sliced.marginals, whole.marginals, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_nothing_possible_is_said() -> None:
    # Three variables that must all differ, with two states.
    differ = [[0.0, 1.0], [1.0, 0.0]]
    model = Model.from_arrays([2] * 3, [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    with pytest.raises(ZeroProbabilityError, match="probability zero"):
        infer(model, bound=2, slices="always")


def test_a_run_in_slices_can_be_stopped() -> None:
    control = Control()
    done: list[tuple[int, int]] = []

    def progress(label: str, now: int, total: int) -> None:
        assert "slices" in label
        done.append((now, total))
        control.stop()

    with pytest.raises(Stopped):
        infer(examples.grid(8, 8, seed=1), bound=4, slices="always", threads=1, progress=progress, control=control)
    ((now, total),) = done
    assert 0 < now < total


def test_they_are_used_where_they_cost_hardly_more_than_approximation() -> None:
    problem = component(examples.grid(12, 12, seed=1))
    sizes = Sizes(problem)
    chosen = set()
    for bound in (5.0, 6.0, 8.0, 10.0, 11.0):
        approximate, sliced = sizes.costs(bound, slices="never"), sizes.costs(bound, slices="always")
        assert not approximate.exact
        assert approximate.slices is None
        auto = sizes.costs(bound)
        if auto.exact:
            # In passing it is not looked for as long as when slices are certain to be made.
            assert sliced.total <= 1.5 * auto.total <= 3.0 * approximate.total
        chosen.add(auto.exact)
    assert chosen == {False, True}


@pytest.mark.parametrize("choices", [{"order": "elimination"}, {"update": "links"}, {"slices": "never"}])
def test_who_says_how_to_approximate_gets_that(choices: dict[str, str]) -> None:
    model = examples.grid(6, 6, seed=1)
    assert infer(model, bound=5).exact
    assert not infer(model, bound=5, **choices).exact


def test_within_a_time_limit_they_may_take_what_time_there_is() -> None:
    """The whole does not fit the bound, slices of it do, and there is time for them."""
    model = examples.grid(18, 18, seed=1)
    whole = infer(model, bound=30)
    result = infer(model, bound=whole.max_clique_bits - 6, time_limit=600.0)
    assert result.exact
    assert result.slices > 1
    assert "slices" in result.bound_reason
    assert result.log_z == pytest.approx(whole.log_z, abs=1e-9)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(InputError, match="slices is 'maybe'; expected one of auto, never, always"):
        infer(examples.student(), slices="maybe")


def test_the_search_for_slices_ends_where_they_cost_too_much() -> None:
    """Nothing more is held, so that it takes no time, and it goes on from there when more is allowed."""
    slicing = component(examples.grid(12, 12, seed=1)).slicing
    assert slicing.at(6.0, most_entries=1.0) is None
    assert len(slicing._in_passing._levels) == 1
    level = slicing.at(6.0)
    assert level is not None
    assert level.width <= 6.0
    needed = level.count * level.elimination.size
    again = component(examples.grid(12, 12, seed=1)).slicing
    assert again.at(6.0, most_entries=needed / 1e3) is None
    assert len(again._in_passing._levels) < len(slicing._in_passing._levels)


@pytest.mark.parametrize(
    "model",
    [examples.grid(15, 15, seed=1), examples.grid(6, 30, seed=2), examples.diagnosis(50, 80, 3, seed=3)],
    ids=["square", "long", "diagnosis"],
)
def test_no_slices_are_lost_by_giving_up_early(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gives up only at the end comes to the same, at every bound, and looks at more on the way."""
    problem = component(model)
    found: dict[bool, list[bool]] = {True: [], False: []}
    looked_for = {True: 0, False: 0}
    at = Slicing.at
    for early in (True, False):
        if not early:
            monkeypatch.setattr("ibia.costs._LUCK", 1e6)
            monkeypatch.setattr(
                Slicing, "at", lambda slicing, bound, thorough=False, most_entries=0.0: at(slicing, bound, thorough)
            )
        for bound in np.arange(2.0, problem.width, 1.0):
            slicing = component(model).slicing
            monkeypatch.setattr(problem, "slicing", slicing)
            found[early].append(Sizes(problem).costs(bound, thorough=True).slices is not None)
            looked_for[early] += sum(len(way._levels) for way in [slicing._in_passing, *slicing._thorough])
    assert found[True] == found[False]
    assert set(found[True]) == {True, False}
    assert looked_for[True] < looked_for[False]


def test_variables_are_held_where_cliques_are_too_large() -> None:
    """Of a wide part and a long narrow one with more entries in all, the wide one is what has to become narrower."""
    dense = [([first, second], [[2.0, 1.0], [1.0, 3.0]]) for second in range(8) for first in range(second)]
    chain = [([place, place + 1], [[2.0, 1.0], [1.0, 2.0]]) for place in range(7, 400)]
    model = Model.from_arrays([Variable(f"X{number}", 2) for number in range(401)], dense + chain)
    problem = component(model)
    level = problem.slicing.at(5.0)
    assert level is not None
    assert level.count == 8.0
    assert {problem.variables[number] for number in level.held} <= set(range(8))


def test_slices_asked_for_do_not_depend_on_those_found_in_passing() -> None:
    """They are looked for thoroughly at once, and nothing is looked for twice."""
    problem = component(examples.grid(9, 9, seed=1))
    assert Sizes(problem).costs(6.0, slices="always").slices is not None
    assert problem.slicing._thorough
    assert not problem.slicing._in_passing._levels


@pytest.mark.parametrize("threads", [1, 3])
def test_of_several_ways_the_best_is_taken(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked for side by side, and only where slices have many entries; what is found is the same."""
    (problem,) = prepare_model(examples.grid(12, 12, seed=1), {}, Control(threads=threads)).problems
    alone = problem.slicing.at(6.0, True)
    assert alone is not None
    assert len(problem.slicing._thorough) == 1
    monkeypatch.setattr("ibia.slicing._AGAIN_FROM", alone.entries / 15.0)
    best = problem.slicing.at(6.0, True)
    assert best is not None
    ways = problem.slicing._thorough
    assert len(ways) == 4
    found = [level for way in ways if (level := way.at(6.0, math.inf)) is not None]
    assert best.entries == min(level.entries for level in found)
    assert len({level.entries for level in found}) > 1
    assert best.width <= 6.0
    # Where the first has far too many entries, others would have too.
    assert problem.slicing.at(6.0, True, alone.entries / 100.0) is alone


@pytest.mark.parametrize(("threads", "looked_for"), [(1, 1), (2, 2)])
def test_who_has_nothing_to_do_looks_for_a_second_way(
    threads: int, looked_for: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it turns out that the first one was enough, that makes no difference."""
    (problem,) = prepare_model(examples.grid(12, 12, seed=1), {}, Control(threads=threads)).problems
    alone = component(examples.grid(12, 12, seed=1)).slicing.at(6.0, True)
    assert alone is not None
    monkeypatch.setattr("ibia.slicing._AGAIN_FROM", 1.5 * alone.entries)
    found = problem.slicing.at(6.0, True, 100.0 * alone.entries)
    assert found is not None
    assert found.entries == alone.entries
    assert len(problem.slicing._thorough) == looked_for


def test_what_is_wider_than_numbers_reach_has_no_slices() -> None:
    """A clique of 1200 bits: its entries are beyond all floating-point numbers."""
    count = 40
    pairs = [(first, second) for second in range(count) for first in range(second)]
    starts, scopes = np.arange(len(pairs) + 1) * 2, np.array(pairs).reshape(-1)
    cardinalities = np.full(count, 2**30)
    _, graph = graph_of(np.full(len(pairs), 2), scopes)
    whole = search(graph, np.log2(cardinalities), math.inf, 0, 0.0, 0, math.inf)
    assert whole.size == math.inf
    assert Slicing(starts, scopes, cardinalities, whole).at(40.0, True) is None
