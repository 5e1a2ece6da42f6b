"""Observations by name: states and likelihoods, from several sources that may not contradict each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.errors import InputError
from ibia.observations import parse_observation


@pytest.fixture
def student():
    return examples.student()


def brute_force(model, likelihoods):
    """Return all marginals and Z by summing over everything."""
    joint = np.ones(model.cardinalities)
    for factor in model.factors:
        order = np.argsort(factor.scope)
        table = factor.values.reshape([model.cardinalities[variable] for variable in factor.scope]).transpose(order)
        shape = [size if variable in factor.scope else 1 for variable, size in enumerate(model.cardinalities)]
        joint = joint * table.reshape(shape)
    for name, values in likelihoods.items():
        axis = model.index(name)
        joint = joint * np.reshape(values, [-1 if place == axis else 1 for place in range(joint.ndim)])
    axes = range(joint.ndim)
    return [joint.sum(tuple(set(axes) - {axis})) / joint.sum() for axis in axes], joint.sum()


def test_likelihoods_weigh_the_states(student):
    likelihoods = {"grade": [0.2, 0.5, 0.9], "talent": [1.0, 3.0]}
    weighted = student.with_likelihoods(likelihoods)
    assert weighted.kind == "markov"
    assert len(weighted.factors) == len(student.factors) + 2
    result = ibia.infer(weighted, bound=20)
    marginals, z = brute_force(student, likelihoods)
    assert result.log_z == pytest.approx(math.log(z))
    for found, true in zip(result.marginals, marginals, strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-12)


def test_a_certain_likelihood_is_the_state(student):
    certain = ibia.infer(student.with_likelihoods({"grade": [0, 1, 0]}), bound=20)
    observed = ibia.infer(student, {"grade": "fair"}, bound=20)
    assert certain.log_z == pytest.approx(observed.log_z)
    np.testing.assert_allclose(certain["talent"], observed["talent"])


def test_without_likelihoods_the_model_stays_as_it_is(student):
    model, evidence = ibia.observe(student, {"test": "passed"}, {3: 1})
    assert model is student
    assert evidence == {3: 1}


def test_sources_are_put_together(student):
    model, evidence = ibia.observe(student, {"test": "passed"}, {"grade": [0.1, 0.2, 0.3]}, {"grade": (0.1, 0.2, 0.3)})
    assert evidence == {3: 1}
    assert model.factors[-1].scope == (2,)
    assert len(model.factors) == 6


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ([{"test": "passed"}, {"test": "failed"}], "test is observed in two ways, as passed and as failed"),
        ([{"test": "passed"}, {"test": [0, 1]}], "as passed and as the likelihood 0.0, 1.0"),
        ([{"grade": [0.5, 0.5]}], "grade has 2 numbers; expected one for each of its 3 states (good, fair, poor)"),
        ([{"test": [0, 0]}], "not all zero"),
        ([{"test": [-1, 2]}], "not negative"),
        ([{"test": [math.nan, 2]}], "finite"),
        ([{"test": ["a", "b"]}], "The likelihood of variable test must be an array of real numbers"),
        ([{"test": None}], "likelihood of variable test"),
        ([{"tset": "passed"}], "did you mean test"),
        ([{"test": "pased"}], "did you mean passed"),
    ],
)
def test_what_is_wrong_is_a_sentence(student, sources, words):
    with pytest.raises(InputError) as raised:
        ibia.observe(student, *sources)
    assert words in str(raised.value)


def test_text_of_a_command_line():
    model = ibia.Model.from_arrays(
        [ibia.Variable("a=b", 2, ("x=y", "0.5,0.5")), ibia.Variable("c", 2)], [(["a=b", "c"], np.ones((2, 2)))]
    )
    assert parse_observation(model, "a=b=x=y") == {"a=b": "x=y"}
    assert parse_observation(model, "a=b=0.5,0.5") == {"a=b": "0.5,0.5"}
    assert parse_observation(model, "a=b=1,0.5") == {"a=b": [1.0, 0.5]}
    assert parse_observation(model, "c=1") == {"c": "1"}
    assert parse_observation(model, "1=1") == {"1": "1"}
    with pytest.raises(InputError, match="VARIABLE=STATE"):
        parse_observation(model, "c")
    with pytest.raises(InputError, match="no variable named 'd'"):
        parse_observation(model, "d=1")
