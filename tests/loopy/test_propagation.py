"""Loopy belief propagation: exact on trees, the known fixed point on a loop, and every kind of odd model."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import brute_force
import ibia
from ibia import examples
from ibia.loopy import SCHEDULES, LoopyResult, loopy_marginals, propagation
from ibia.model import Factor, Model, Variable

CLOSE = 1e-9
STRICT = 1e-12


def largest_difference(first: LoopyResult, second: LoopyResult) -> float:
    return max(float(np.abs(one - other).max()) for one, other in zip(first.marginals, second.marginals, strict=True))


def factor_tree(generator: np.random.Generator) -> Model:
    """Return factors of up to four variables that have one variable in common with those before, zeros among them."""
    cardinalities = [int(generator.integers(1, 5))]
    scopes: list[list[int]] = []
    while math.prod(cardinalities) < 3000:
        count = int(generator.integers(1, 4))
        new = range(len(cardinalities), len(cardinalities) + count)
        scopes.append([int(generator.integers(len(cardinalities))), *new])
        cardinalities += generator.integers(1, 4, count).tolist()
    model = brute_force.build_model(generator, cardinalities, [*scopes, [0], []], zeros=0.3)
    # A state of all variables that no factor rules out.
    states = [int(generator.integers(cardinality)) for cardinality in cardinalities]
    factors = []
    for factor in model.factors:
        shaped = factor.values.reshape([cardinalities[variable] for variable in factor.scope]).copy()
        shaped[tuple(states[variable] for variable in factor.scope)] += 0.5
        factors.append(Factor(factor.scope, shaped.reshape(-1)))
    return Model((*model.variables, Variable("nowhere", 3)), tuple(factors))


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("make", [brute_force.tree, brute_force.chain, factor_tree])
def test_exact_on_trees(make, schedule, damping):
    for seed in range(15):
        generator = np.random.default_rng(seed)
        model = make(generator)
        evidence = brute_force.random_evidence(generator, model)
        found = loopy_marginals(model, evidence, schedule=schedule, damping=damping, tolerance=STRICT)
        exact = brute_force.solve(model, evidence)
        assert found.converged
        assert brute_force.largest_error(found.marginals, exact) < CLOSE
        assert found.log_z == pytest.approx(exact.log_z, abs=CLOSE)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_exact_on_a_large_tree(schedule):
    model = examples.tree(2000, 4, seed=3)
    evidence = dict.fromkeys(range(100, 2000, 7), 1)
    found = loopy_marginals(model, evidence, schedule=schedule, damping=0.0, tolerance=STRICT)
    exact = ibia.infer(model, evidence, bound=10)
    assert exact.exact
    assert found.log_z == pytest.approx(exact.log_z, abs=CLOSE)
    for one, other in zip(found.marginals, exact.marginals, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=CLOSE)


def test_residuals_need_fewer_messages_than_floods():
    model = examples.chain(500, 3, seed=1)
    flooding, residual = (loopy_marginals(model, schedule=schedule, damping=0.0) for schedule in SCHEDULES)
    assert residual.messages < 0.1 * flooding.messages


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_loop_has_the_eigenvectors_of_its_matrices(schedule):
    # Weiss, 2000: messages around a single loop converge to principal eigenvectors of the product of its tables, and
    # the Bethe partition function is the eigenvalue.
    generator = np.random.default_rng(5)
    sizes = [2, 3, 4, 3, 2]
    tables = [np.exp(generator.standard_normal((size, sizes[(place + 1) % 5]))) for place, size in enumerate(sizes)]
    model = Model.from_arrays(sizes, [([place, (place + 1) % 5], table) for place, table in enumerate(tables)])
    found = loopy_marginals(model, schedule=schedule, tolerance=STRICT)
    assert found.converged
    for place, marginal in enumerate(found.marginals):
        product = np.linalg.multi_dot(tables[place:] + tables[:place])
        values, right = np.linalg.eig(product)
        right_vector = right[:, values.real.argmax()].real
        values_left, left = np.linalg.eig(product.T)
        belief = right_vector * left[:, values_left.real.argmax()].real
        np.testing.assert_allclose(marginal, belief / belief.sum(), rtol=0, atol=CLOSE)
        assert found.log_z == pytest.approx(math.log(values.real.max()), abs=CLOSE)
    assert found.log_z != pytest.approx(brute_force.solve(model).log_z, abs=1e-3)


@pytest.mark.parametrize("name", brute_force.BUILDERS)
def test_schedules_reach_the_same_fixed_point(name):
    for seed in range(5):
        generator = np.random.default_rng(seed)
        model = brute_force.BUILDERS[name](generator)
        evidence = brute_force.random_evidence(generator, model)
        flooding, residual = (
            loopy_marginals(model, evidence, schedule=schedule, tolerance=1e-10) for schedule in SCHEDULES
        )
        assert flooding.converged
        assert residual.converged
        assert largest_difference(flooding, residual) < 1e-6
        assert flooding.log_z == pytest.approx(residual.log_z, abs=1e-6)
        for variable, marginal in enumerate(residual.marginals):
            assert marginal.size == model.cardinalities[variable]
            assert marginal.sum() == pytest.approx(1.0)
        for variable, state in evidence.items():
            assert residual.marginals[variable][state] == 1.0


def test_near_the_truth_on_a_weak_grid():
    model = examples.grid(8, 8, coupling=0.3, seed=1)
    found, exact = loopy_marginals(model), ibia.infer(model, bound=20)
    assert found.log_z == pytest.approx(exact.log_z, abs=0.05)
    assert all(np.abs(one - other).max() < 0.02 for one, other in zip(found.marginals, exact.marginals, strict=True))


def test_states_that_are_ruled_out_are_found_before_any_message():
    # Not equal, equal, equal: the first two together leave one state to each.
    differ, same = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    model = Model.from_arrays([2, 2, 2], [([0, 1], differ), ([1, 2], same), ([0], [1.0, 3.0])])
    assert loopy_marginals(model, {2: 0}).marginals[0].tolist() == [0.0, 1.0]
    assert loopy_marginals(model, {2: 0}).log_z == pytest.approx(math.log(3.0))


@pytest.mark.parametrize("evidence", [{0: 0, 1: 0}, {0: 0, 2: 0}])
def test_contradictory_evidence(evidence):
    differ, same = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    model = Model.from_arrays([2, 2, 2], [([0, 1], differ), ([1, 2], same)])
    with pytest.raises(ibia.ZeroProbabilityError):
        loopy_marginals(model, evidence)


def test_a_table_of_zeros():
    with pytest.raises(ibia.ZeroProbabilityError):
        loopy_marginals(Model.from_arrays([2], [([], 0.0), ([0], [1.0, 1.0])]))


def test_messages_of_extreme_strength():
    # A thousand findings for a state, or against it: the ratio is far beyond what a double can hold.
    for favour in (1.0, -1.0):
        tables = [([0], np.exp([0.0, 5.0 * favour]))] * 1000 + [([0, 1], [[0.9, 0.1], [0.1, 0.9]])]
        found = loopy_marginals(Model.from_arrays([2, 2], tables))
        assert found.marginals[1][1] == pytest.approx(0.9 if favour > 0 else 0.1, abs=1e-6)
        assert math.isfinite(found.log_z)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_models_without_factors(schedule):
    found = loopy_marginals(Model.from_arrays([2, 1, 3], [([], 2.0)]), schedule=schedule)
    assert [marginal.tolist() for marginal in found.marginals] == [[0.5, 0.5], [1.0], [1 / 3, 1 / 3, 1 / 3]]
    assert found.log_z == pytest.approx(math.log(12.0))
    assert found.converged
    assert found.sweeps == 0
    assert loopy_marginals(Model((), ()), schedule=schedule).marginals == ()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_limits(schedule):
    model = examples.grid(10, 10, coupling=3.0, seed=2)
    late = loopy_marginals(model, schedule=schedule, deadline=time.monotonic())
    assert (late.converged, late.sweeps, late.messages) == (False, 0, 0)
    few = loopy_marginals(model, schedule=schedule, sweeps=3)
    assert (few.converged, few.sweeps) == (False, 3)
    again = loopy_marginals(model, schedule=schedule, sweeps=3, deadline=time.monotonic() + 600.0)
    assert all(np.array_equal(one, other) for one, other in zip(few.marginals, again.marginals, strict=True))
    assert few.log_z == again.log_z


@pytest.mark.parametrize(
    "options", [{"damping": 1.0}, {"damping": -0.1}, {"schedule": "sideways"}, {"tolerance": 0.0}, {"sweeps": 0}]
)
def test_nonsense_arguments_are_sentences(options):
    with pytest.raises(ibia.InputError, match="expected"):
        loopy_marginals(examples.student(), **options)


def test_the_portions_do_not_matter(monkeypatch):
    model = examples.grid(6, 6, seed=1)
    whole = loopy_marginals(model)
    monkeypatch.setattr(propagation, "_ENTRIES_AT_ONCE", 1)
    assert largest_difference(whole, loopy_marginals(model)) == 0.0
