"""The example models: shapes, names, reproducibility, and answers that can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ibia
from ibia import examples


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: examples.grid(3, 4, seed=seed),
        lambda seed: examples.diagnosis(5, 7, 2, seed=seed),
        lambda seed: examples.chain(6, 3, seed=seed),
        lambda seed: examples.tree(9, 3, seed=seed),
        lambda seed: examples.clique_chain(9, 4, seed=seed),
    ],
)
def test_the_seed_decides_the_model(make):
    assert make(3) == make(3)
    assert make(3) != make(4)


def test_grid_has_a_field_per_spin_and_a_coupling_per_pair():
    model = examples.grid(3, 4, coupling=0.7, field=0.2)
    assert model.kind == "markov"
    assert len(model.variables) == 12
    assert model.names[5] == "spin_1_1"
    pairs = [factor for factor in model.factors if len(factor.scope) == 2]
    assert len(pairs) == 3 * 3 + 2 * 4
    assert len(model.factors) == 12 + len(pairs)
    assert all(abs(math.log(value)) <= 0.7 for factor in pairs for value in factor.values)


def test_grid_is_the_same_as_ever():
    # Documents show figures of grids by seed; this one was worked out by the first version of the generator.
    model = examples.grid(2, 2, seed=3)
    assert [factor.scope for factor in model.factors[4:]] == [(0, 1), (0, 2), (1, 3), (2, 3)]
    random = np.random.default_rng(3)
    fields = [random.uniform(-0.3, 0.3) for _ in range(4)]
    couplings = [random.uniform(-1.0, 1.0) for _ in range(4)]
    for factor, field in zip(model.factors[:4], fields, strict=True):
        np.testing.assert_array_equal(factor.values, np.exp(field * np.array([-1.0, 1.0])))
    for factor, coupling in zip(model.factors[4:], couplings, strict=True):
        np.testing.assert_array_equal(factor.values, np.exp(coupling * np.array([1.0, -1.0, -1.0, 1.0])))


def test_grid_of_one_spin_and_of_one_column():
    assert len(examples.grid(1, 1).factors) == 1
    assert len(examples.grid(5, 1).factors) == 5 + 4


def test_attractive_grid_couples_like_with_like():
    model = examples.grid(4, 4, coupling=0.7, seed=1, attractive=True)
    pairs = [factor.values for factor in model.factors if len(factor.scope) == 2]
    assert all(1.0 <= values[0] == values[3] <= math.exp(0.7) for values in pairs)
    assert all(math.exp(-0.7) <= values[1] == values[2] <= 1.0 for values in pairs)


def test_clique_chain_of_pairs_has_each_pair_of_a_clique_once():
    model = examples.clique_chain(7, 4, together=2, coupling=0.5)
    scopes = {factor.scope for factor in model.factors}
    assert len(scopes) == len(model.factors)
    assert scopes == {
        (first, second)
        for begin in (0, 2, 3)
        for first in range(begin, begin + 4)
        for second in range(first + 1, begin + 4)
    }
    assert all(abs(math.log(value)) <= 0.5 for factor in model.factors for value in factor.values)


def test_diagnosis_rows_sum_to_one():
    model = examples.diagnosis(6, 9, 3, seed=1)
    assert model.kind == "bayes"
    assert model.names[:2] == ("disease_0", "disease_1")
    assert model.names[-1] == "finding_8"
    assert model.variables[0].states == ("no", "yes")
    for factor in model.factors:
        np.testing.assert_allclose(factor.values.reshape(-1, 2).sum(axis=1), 1.0, atol=1e-15)


def test_diagnosis_is_a_noisy_or():
    absent = examples.diagnosis(3, 1, 2, seed=5).factors[-1].values.reshape(2, 2, 2)[..., 0]
    assert 0.9 < absent[0, 0] < 1.0
    assert absent[1, 1] * absent[0, 0] == pytest.approx(absent[0, 1] * absent[1, 0])


def test_student_agrees_with_bayes_rule():
    model = examples.student()
    talent = model.factors[1].values
    passed = model.factors[3].values.reshape(2, 2)[:, 1]
    prior = ibia.infer(model)
    assert prior.log_z == pytest.approx(0.0, abs=1e-12)
    assert prior["test"][1] == pytest.approx(float(talent @ passed))
    posterior = ibia.infer(model, {"test": "passed"})
    np.testing.assert_allclose(posterior["talent"], talent * passed / (talent @ passed), atol=1e-12)


def test_chain_marginals_are_matrix_products():
    model = examples.chain(5, 3, seed=2)
    result = ibia.infer(model)
    expected = model.factors[0].values
    for factor in model.factors[1:]:
        expected = expected @ factor.values.reshape(3, 3)
    np.testing.assert_allclose(result["step_4"], expected, atol=1e-12)


def test_tree_rows_sum_to_one_and_every_variable_has_an_earlier_parent():
    model = examples.tree(50, 3, seed=4)
    assert model.kind == "bayes"
    assert len(model.factors) == 50
    for number, factor in enumerate(model.factors):
        assert factor.scope[-1] == number
        assert all(parent < number for parent in factor.scope[:-1])
        np.testing.assert_allclose(factor.values.reshape(-1, 3).sum(axis=1), 1.0, atol=1e-15)
    assert len({factor.scope[0] for factor in model.factors[1:]}) > 10
    assert ibia.infer(model).log_z == pytest.approx(0.0, abs=1e-12)


def test_cliques_of_a_chain_overlap_by_half_and_reach_the_end():
    model = examples.clique_chain(11, 4)
    assert [factor.scope[0] for factor in model.factors] == [0, 2, 4, 6, 7]
    assert all(factor.scope == tuple(range(factor.scope[0], factor.scope[0] + 4)) for factor in model.factors)
    assert examples.clique_chain(3, 8).factors[0].scope == (0, 1, 2)
    assert len(examples.clique_chain(5, 1).factors) == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: examples.tree(0),
        lambda: examples.tree(3, 0),
        lambda: examples.clique_chain(0),
        lambda: examples.clique_chain(3, 0),
        lambda: examples.clique_chain(3, 2, together=0),
        lambda: examples.grid(0, 3),
        lambda: examples.chain(0),
        lambda: examples.chain(2, 0),
        lambda: examples.diagnosis(0),
        lambda: examples.diagnosis(3, 2, 4),
        lambda: examples.diagnosis(3, 2, -1),
    ],
)
def test_nonsense_sizes_are_sentences(make):
    with pytest.raises(ibia.InputError, match="expected at"):
        make()
