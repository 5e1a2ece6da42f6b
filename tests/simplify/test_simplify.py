"""Simplification is exact: components solved by brute force give back the log Z and marginals of the model."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import BUILDERS, Answer, as_markov, bayesian, largest_error, random_evidence, solve
from ibia.errors import ZeroProbabilityError
from ibia.model import Factor, Model, Variable
from ibia.prepare import prepare
from ibia.simplify import Factors, Simplified, Structure, simplify
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.shape import split_products
from ibia.simplify.structure import find_structure
from ibia.simplify.support import prune_support
from ibia.simplify.working import WorkingModel
from strategies import models

SEEDS = range(8)


def draw(kind: str, seed: int) -> tuple[Model, dict[int, int]]:
    """Return a random model and, for odd seeds, possible evidence."""
    generator = np.random.default_rng(seed)
    model = BUILDERS[kind](generator)
    return model, random_evidence(generator, model) if seed % 2 else {}


def sliced(model: Model, evidence: dict[int, int]) -> WorkingModel:
    """Return a model with evidence, not simplified any further."""
    working = WorkingModel.of(model)
    slice_evidence(working, evidence)
    return working


def structure_of(model: Model, evidence: dict[int, int]) -> Structure | None:
    """Return the Bayesian structure of a model."""
    return find_structure(WorkingModel.of(model), model.kind == "bayes", evidence)


def kept_states(working: WorkingModel) -> list[list[int]]:
    """Return the possible states of each variable."""
    return [states.tolist() for states in np.split(working.states, working.state_starts[1:-1])]


def as_model(cardinalities: list[int], factors: Factors) -> Model:
    """Return simplified factors as a model over the states left."""
    variables = tuple(Variable(f"X{number}", size) for number, size in enumerate(cardinalities))
    return Model(variables, tuple(map(Factor, factors.scopes, factors.tables)))


def spread(marginals, states, cardinalities) -> list[np.ndarray]:
    """Return marginals over the original states."""
    result = []
    for marginal, kept, cardinality in zip(marginals, states, cardinalities, strict=True):
        whole = np.zeros(cardinality)
        whole[kept] = marginal
        result.append(whole)
    return result


def check_working(working: WorkingModel, model: Model, answer: Answer) -> None:
    """Check that a working model has the log Z and the marginals of the model it came from."""
    found = solve(as_model(working.sizes.tolist(), working.factors))
    assert found.log_z + working.log_constant == pytest.approx(answer.log_z, abs=1e-9)
    assert largest_error(spread(found.marginals, kept_states(working), model.cardinalities), answer) < 1e-11


def check_simplified(simplified: Simplified, model: Model, answer: Answer) -> None:
    """Solve each component on its own and put the answers together."""
    sizes = [states.size for states in simplified.states]
    marginals = [simplified.marginals[start:stop] for start, stop in pairwise(simplified.state_starts)]
    log_z = simplified.log_constant
    seen: set[int] = set()
    for component in simplified.components:
        own = {variable for scope in component.scopes for variable in scope}
        assert not own & seen
        seen |= own
        # Variables of other components get one state, so that they do not count.
        alone = [size if variable in own else 1 for variable, size in enumerate(sizes)]
        found = solve(as_model(alone, component))
        log_z += found.log_z
        for variable in own:
            marginals[variable] = found.marginals[variable]
    assert log_z == pytest.approx(answer.log_z, abs=1e-9)
    assert largest_error(spread(marginals, simplified.states, model.cardinalities), answer) < 1e-11
    for component in simplified.components:
        for scope, table in zip(component.scopes, component.tables, strict=True):
            assert table.size == math.prod(sizes[variable] for variable in scope)
            assert all(sizes[variable] > 1 for variable in scope)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_components_give_back_the_whole_answer(kind: str, seed: int) -> None:
    model, evidence = draw(kind, seed)
    check_simplified(simplify(model, evidence), model, solve(model, evidence))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(models(entries=st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0])))
def test_any_model_is_simplified_exactly_or_refused(model: Model) -> None:
    answer = solve(model)
    try:
        simplified = simplify(model, {})
    except ZeroProbabilityError:
        assert answer.log_z == -math.inf
        return
    if answer.log_z > -math.inf:
        check_simplified(simplified, model, answer)


@pytest.mark.parametrize("step", [prune_support, split_products])
@pytest.mark.parametrize("kind", BUILDERS)
def test_each_simplification_alone_is_exact(step, kind: str) -> None:
    for seed in SEEDS:
        model, evidence = draw(kind, seed)
        answer = solve(model, evidence)
        working = sliced(model, evidence)
        check_working(working, model, answer)
        step(working)
        check_working(working, model, answer)
        # What is left cannot be simplified any further.
        scopes, states = working.factors.scopes, kept_states(working)
        step(working)
        assert (working.factors.scopes, kept_states(working)) == (scopes, states)


def test_evidence_leaves_no_axis_behind() -> None:
    model = Model.from_arrays([2, 3, 1], [((0, 1, 2), np.arange(6.0)), ((2,), [3.0]), ((1,), [1.0, 2.0, 3.0])])
    working = sliced(model, {0: 1, 2: 0})
    assert working.factors.scopes == [(1,), (1,)]
    np.testing.assert_array_equal(working.factors.tables[0], [3.0, 4.0, 5.0])
    assert working.log_constant == pytest.approx(math.log(3.0))
    assert kept_states(working) == [[1], [0, 1, 2], [0]]


def test_support_pruning_runs_along_a_chain() -> None:
    """X0 cannot be 2, so X1 (its copy) cannot either, so X2 (another copy) cannot; the rest is untouched."""
    equal = np.eye(3)
    model = Model.from_arrays([3, 3, 3], [((0,), [0.3, 0.7, 0.0]), ((0, 1), equal), ((2, 1), equal)])
    working = sliced(model, {})
    prune_support(working)
    assert kept_states(working) == [[0, 1]] * 3


def test_support_pruning_decides_variables_like_evidence() -> None:
    either = [[0.0, 1.0], [1.0, 1.0]]
    scopes = [(0, 1), (1, 2)]
    model = Model.from_arrays([2] * 3, [(scopes[0], either), (scopes[1], [[1.0, 0.0], [0.0, 1.0]])])
    simplified = simplify(model, {0: 0})
    assert [states.tolist() for states in simplified.states] == [[0], [1], [1]]
    assert simplified.components == ()
    assert simplified.log_constant == pytest.approx(0.0)


def test_constants_are_dropped_and_kept_in_the_scale() -> None:
    table = np.repeat(np.array([[1.0, 3.0]]), 4, axis=0).reshape(2, 2, 2)
    model = Model.from_arrays([2] * 4, [((0, 1, 2), table), ((0, 3), np.full(4, 2.5)), ((), [4.0])])
    working = sliced(model, {})
    split_products(working)
    assert working.factors.scopes == [(2,)]
    np.testing.assert_array_equal(working.factors.tables[0], [1.0, 3.0])
    assert working.log_constant == pytest.approx(math.log(10.0))
    simplified = simplify(model, {})
    assert simplified.components == ()
    np.testing.assert_allclose(simplified.marginals, [0.5, 0.5, 0.5, 0.5, 0.25, 0.75, 0.5, 0.5])
    # 8 states of the variables in no factor, the constants, and the sum of what is left.
    assert simplified.log_constant == pytest.approx(math.log(320.0))


def test_variables_alone_are_settled() -> None:
    factors = [((0,), [1e300, 3e300, 0.0]), ((1, 2), [[1.0, 2.0], [3.0, 5.0]]), ((2,), [1.0, 2.0])]
    model = Model.from_arrays([3, 2, 2, 4], factors)
    simplified = simplify(model, {})
    assert [sorted(part.scopes) for part in simplified.components] == [[(1, 2), (2,)]]
    assert [states.tolist() for states in simplified.states] == [[0, 1], [0, 1], [0, 1], [0, 1, 2, 3]]
    np.testing.assert_allclose(simplified.marginals[:2], [0.25, 0.75])
    np.testing.assert_allclose(simplified.marginals[-4:], 0.25)
    assert simplified.log_constant == pytest.approx(math.log(4.0) + math.log(4e300))
    whole = simplified.whole_marginals({1: np.array([0.1, 0.9]), 2: np.array([0.3, 0.7])})
    assert [marginal.tolist() for marginal in whole] == [[0.25, 0.75, 0.0], [0.1, 0.9], [0.3, 0.7], [0.25] * 4]


@pytest.mark.parametrize("seed", SEEDS)
def test_products_fall_into_their_factors(seed: int) -> None:
    generator = np.random.default_rng(seed)
    left, right = generator.random((2, 3)) + 0.1, generator.random((2, 2)) + 0.1
    product = np.einsum("ab,cd->acbd", left, right)
    model = Model.from_arrays([2, 2, 3, 2], [((0, 1, 2, 3), product)])
    simplified = simplify(model, {})
    assert len(simplified.components) == 2
    scopes = {tuple(sorted(scope)) for part in simplified.components for scope in part.scopes}
    assert scopes == {(0, 2), (1, 3)}
    # A last digit more than rounding explains is no product.
    almost = product.copy()
    almost[0, 0, 0, 0] *= 1.0 + 1e-12
    assert len(simplify(Model.from_arrays([2, 2, 3, 2], [((0, 1, 2, 3), almost)]), {}).components) == 1


def test_products_with_zeros_are_split_too() -> None:
    product = np.multiply.outer([0.0, 2.0, 3.0], [0.5, 0.0, 0.25])
    model = Model.from_arrays([3, 3], [((0, 1), product)])
    working = sliced(model, {})
    split_products(working)
    assert sorted(working.factors.scopes) == [(0,), (1,)]


def test_separate_parts_are_separate_components() -> None:
    model, _ = draw("disconnected", 0)
    simplified = simplify(model, {})
    groups = sorted(sorted({v for scope in part.scopes for v in scope}) for part in simplified.components)
    assert groups == [[0, 1, 2], [3, 4], [5], [7, 8, 9, 10]]


@pytest.mark.parametrize("seed", range(20))
def test_bayesian_structure_is_found_in_shuffled_markov_copies(seed: int) -> None:
    generator = np.random.default_rng(seed)
    model = bayesian(generator, most_parents=2)
    copy = as_markov(model, generator)
    for network in (model, copy):
        structure = structure_of(network, {})
        assert structure is not None
        assert sorted(structure.rank) == list(range(1, len(network.factors) + 1))
        assert structure.normalised
        # Every factor in its place: all but one of its variables are the children of earlier factors.
        known: set[int] = set()
        for place in np.argsort(structure.rank):
            new = set(network.factors[place].scope) - known
            assert len(new) == 1
            known |= new


def test_markov_networks_have_no_bayesian_structure() -> None:
    for kind in ("grid", "dense", "chain"):
        model, _ = draw(kind, 0)
        assert structure_of(model, {}) is None
    generator = np.random.default_rng(1)
    network = as_markov(bayesian(generator), generator)
    first = network.factors[0]
    doubled = Model(network.variables, (Factor(first.scope, 2.0 * first.values), *network.factors[1:]))
    assert structure_of(doubled, {}) is None


@pytest.mark.parametrize("seed", range(20))
def test_barren_factors_can_be_left_out(seed: int) -> None:
    """Without the factors from `barren_from` on, the probability of the evidence and the other posteriors stay."""
    generator = np.random.default_rng(seed)
    model = bayesian(generator)
    evidence = random_evidence(generator, model, most=2)
    structure = structure_of(model, evidence)
    assert structure is not None
    whole = solve(model, evidence)
    kept = [f for f, rank in zip(model.factors, structure.rank, strict=True) if rank < structure.barren_from]
    present = {variable for factor in kept for variable in factor.scope}
    assert set(evidence) <= present
    if not evidence:
        assert not kept
    sizes = [size if number in present else 1 for number, size in enumerate(model.cardinalities)]
    part = solve(
        Model(tuple(Variable(f"X{n}", size) for n, size in enumerate(sizes)), tuple(kept)),
        evidence,
    )
    assert part.log_z == pytest.approx(whole.log_z, abs=1e-10)
    for variable in present:
        np.testing.assert_allclose(part.marginals[variable], whole.marginals[variable], atol=1e-12)


def test_rows_that_sum_to_one_only_roughly_are_no_licence_to_skip() -> None:
    model = Model.from_arrays([2, 2], [((0,), [0.5, 0.5]), ((0, 1), [0.3, 0.7, 0.49999, 0.5])], "bayes")
    structure = structure_of(model, {})
    assert structure is not None
    assert not structure.normalised


@pytest.mark.parametrize("seed", range(10))
def test_prepared_problems_hold_the_same_distribution(seed: int) -> None:
    for kind in ("mixed", "bayesian", "grid"):
        model, evidence = draw(kind, seed)
        answer = solve(model, evidence)
        simplified = simplify(model, evidence)
        log_z = simplified.log_constant
        for component in simplified.components:
            problem = prepare(component, simplified, restarts=2)
            assert all(table.scope == tuple(sorted(table.scope)) for table in problem.factors)
            assert len({table.scope for table in problem.factors}) == len(problem.factors)
            assert all(table.values.max() == 1.0 for table in problem.factors)
            variables = [Variable(f"X{n}", size) for n, size in enumerate(problem.space.cardinalities)]
            found = solve(Model(tuple(variables), tuple(Factor(t.scope, t.values) for t in problem.factors)))
            log_z += found.log_z + problem.log_constant
            for number, variable in enumerate(problem.variables):
                expected = answer.marginals[variable][simplified.states[variable]]
                np.testing.assert_allclose(found.marginals[number], expected, atol=1e-11)
        assert log_z == pytest.approx(answer.log_z, abs=1e-9)


@pytest.mark.parametrize(
    ("factors", "evidence"),
    [
        ([((0,), [1.0, 0.0])], {0: 1}),
        ([((0, 1), np.zeros(4))], {}),
        ([((), [0.0])], {}),
        ([((0,), [1.0, 0.0]), ((0, 1), [[0.0, 0.0], [1.0, 1.0]])], {}),
        ([((0, 1), np.eye(2)), ((1, 2), np.eye(2))], {0: 0, 2: 1}),
    ],
)
def test_impossible_evidence_is_an_error(factors: list, evidence: dict[int, int]) -> None:
    with pytest.raises(ZeroProbabilityError, match="probability zero"):
        simplify(Model.from_arrays([2, 2, 2], factors), evidence)


def test_what_is_ruled_out_at_one_end_of_a_long_chain_runs_to_the_other() -> None:
    length = 20_000
    copy = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.25], [0.0, 0.25, 0.5]])
    factors = [((number, number + 1), copy) for number in reversed(range(length - 1))]
    model = Model.from_arrays([3] * length, factors)
    simplified = simplify(model, {length - 1: 0})
    assert all(states.tolist() == [0] for states in simplified.states)
    simplified = simplify(model, {0: 1})
    assert all(states.tolist() == [1, 2] for states in simplified.states[1:])
    assert len(simplified.components) == 1
