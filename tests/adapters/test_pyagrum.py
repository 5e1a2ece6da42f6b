"""pyAgrum's networks and life cycle: the same answers as its exact engines, under the same names."""

from __future__ import annotations

import numpy as np
import pytest

import ibia
from ibia.errors import InputError

gum = pytest.importorskip("pyagrum", reason="pyAgrum is not installed")

EVIDENCE = [
    {},
    {"a": "yes"},
    {"a": 1, "d": "5"},
    {"c": [0.2, 0.4, 0.7]},
    {"a": "no", "c": [0.2, 0.4, 0.0], "e": 0},
]


@pytest.fixture
def network():
    gum.initRandom(7)
    made = gum.fastBN("a{no|yes}->b[3]->c[3];d[4,6]->c;a->e{x.y|z};e->d")
    made.generateCPTs()
    return made


@pytest.fixture
def field():
    gum.initRandom(7)
    made = gum.fastMRF("a{no|yes}--b[3]--c[3];c[3]--d[4,6];d[4,6]--e{x.y|z};e{x.y|z}--a{no|yes}")
    made.generateFactors()
    return made


@pytest.mark.parametrize("evidence", EVIDENCE)
@pytest.mark.parametrize("kind", ["bayes", "markov"])
def test_answers_are_those_of_the_exact_engines(network, field, kind, evidence):
    source = network if kind == "bayes" else field
    engine = gum.LazyPropagation(source) if kind == "bayes" else gum.ShaferShenoyMRFInference(source)
    ours = ibia.IBIAInference(source, bound=20)
    for inference in (engine, ours):
        inference.setEvidence(evidence)
        inference.makeInference()
    for name in "abcde":
        expected, found = engine.posterior(name), ours.posterior(name)
        assert type(found) is type(expected)
        assert found.names == expected.names
        assert found.variable(0).labels() == source.variable(name).labels()
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-7, atol=1e-12)
    assert ours.evidenceProbability() == pytest.approx(engine.evidenceProbability(), rel=1e-7)
    assert ours.nbrEvidence() == len(evidence)


def test_joint_posteriors(network):
    engine, ours = gum.LazyPropagation(network), ibia.IBIAInference(network, bound=20)
    for inference in (engine, ours):
        inference.setEvidence({"e": "z", "a": [0.3, 0.4]})
    engine.addJointTarget({"b", "c", "d"})
    expected, found = engine.jointPosterior({"b", "c", "d"}), ours.jointPosterior({"b", "c", "d"})
    assert set(found.names) == set(expected.names)
    order = [found.names[::-1].index(name) for name in expected.names[::-1]]
    np.testing.assert_allclose(found.toarray().transpose(order), expected.toarray(), rtol=1e-7)


def test_the_life_cycle(network):
    ours = ibia.IBIAInference(network, bound=20)
    before = ours.posterior("b").toarray()
    ours.addEvidence("a", "yes")
    with pytest.raises(InputError, match="chgEvidence"):
        ours.addEvidence("a", "no")
    observed = ours.posterior("b").toarray()
    assert not np.allclose(before, observed)
    np.testing.assert_allclose(observed, network.cpt("b")[{"a": "yes"}])
    ours.chgEvidence("a", 0)
    np.testing.assert_allclose(ours.posterior("b").toarray(), network.cpt("b")[{"a": "no"}])
    ours.updateEvidence({network.idFromName("e"): 1})
    assert ours.hasEvidence("e")
    assert ours.nbrEvidence() == 2
    ours.eraseEvidence("e")
    assert not ours.hasEvidence("e")
    ours.eraseAllEvidence()
    np.testing.assert_array_equal(ours.posterior("b").toarray(), before)
    with pytest.raises(InputError, match="addEvidence"):
        ours.chgEvidence("a", 0)


def test_models_keep_names_and_orders(network):
    network.erase("e")
    model = ibia.from_pyagrum(network)
    assert model.kind == "bayes"
    assert model.names == ("a", "b", "c", "d")
    assert model.variables[3].states == ("4", "5", "6")
    table = model.factors[2]
    assert set(table.scope[:-1]) == {1, 3}
    for state in range(3):
        for label in ("4", "5", "6"):
            row = ibia.infer(model, {"b": state, "d": label}, bound=20)["c"]
            np.testing.assert_allclose(row, network.cpt("c")[{"b": state, "d": label}])


def test_an_erased_node_leaves_a_gap(network):
    network.erase("b")
    network.add(gum.LabelizedVariable("f", "", ["p", "q"]))
    network.addArc("a", "f")
    network.generateCPTs()
    ours, engine = ibia.IBIAInference(network, bound=20), gum.LazyPropagation(network)
    for node in network.nodes():
        np.testing.assert_allclose(ours.posterior(node).toarray(), engine.posterior(node).toarray(), rtol=1e-7)


def test_what_is_wrong_is_a_sentence(network):
    ours = ibia.IBIAInference(network)
    with pytest.raises(InputError, match="no variable named 'x'"):
        ours.setEvidence({"x": 1})
    with pytest.raises(InputError, match="Variable a has no state 'maybe'; its states are no, yes"):
        ours.setEvidence({"a": "maybe"})
    with pytest.raises(InputError, match="There is no node 99"):
        ours.posterior(99)
    with pytest.raises(InputError, match="not InfluenceDiagram"):
        ibia.from_pyagrum(gum.InfluenceDiagram())
