"""pgmpy's models and vocabulary: the same answers as its exact inference, under the same names."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.errors import InputError

pytest.importorskip("pgmpy", reason="pgmpy is not installed")
factors = pytest.importorskip("pgmpy.factors.discrete")
models = pytest.importorskip("pgmpy.models")
inference = pytest.importorskip("pgmpy.inference")


@pytest.fixture
def clinic():
    """A network whose states are texts, numbers and truth values, and whose parents are not in the order of nodes."""
    network = models.DiscreteBayesianNetwork([("flu", "fever"), ("age", "fever"), ("fever", "test"), ("flu", "cough")])
    network.add_cpds(
        factors.TabularCPD("flu", 2, [[0.9], [0.1]], state_names={"flu": [False, True]}),
        factors.TabularCPD("age", 3, [[0.3], [0.5], [0.2]], state_names={"age": ["young", "adult", "old"]}),
        factors.TabularCPD(
            "fever",
            3,
            [[0.9, 0.2, 0.8, 0.3, 0.7, 0.1], [0.1, 0.3, 0.1, 0.3, 0.1, 0.2], [0.0, 0.5, 0.1, 0.4, 0.2, 0.7]],
            evidence=["age", "flu"],
            evidence_card=[3, 2],
            state_names={"fever": ["no", "some", "high"], "flu": [False, True], "age": ["young", "adult", "old"]},
        ),
        factors.TabularCPD(
            "test",
            2,
            [[0.99, 0.5, 0.05], [0.01, 0.5, 0.95]],
            evidence=["fever"],
            evidence_card=[3],
            state_names={"test": [10, 20], "fever": ["no", "some", "high"]},
        ),
        factors.TabularCPD(
            "cough",
            2,
            [[0.8, 0.25], [0.2, 0.75]],
            evidence=["flu"],
            evidence_card=[2],
            state_names={"cough": ["no", "yes"], "flu": [False, True]},
        ),
    )
    return network


def triangle(kind):
    tables = [
        factors.DiscreteFactor(["a", "b"], [2, 3], np.arange(1.0, 7.0), state_names={"a": ["n", "y"], "b": [0, 1, 2]}),
        factors.DiscreteFactor(["b", "c"], [3, 2], [3.0, 1, 2, 2, 0, 5], state_names={"b": [0, 1, 2], "c": ["u", "d"]}),
        factors.DiscreteFactor(["c", "a"], [2, 2], [1.0, 4, 2, 1], state_names={"c": ["u", "d"], "a": ["n", "y"]}),
    ]
    if kind == "markov":
        network = models.DiscreteMarkovNetwork([("a", "b"), ("b", "c"), ("c", "a")])
        network.add_factors(*tables)
        return network
    graph = models.FactorGraph()
    graph.add_nodes_from(["a", "b", "c"])
    graph.add_factors(*tables)
    graph.add_edges_from([(name, table) for table in tables for name in table.variables])
    return graph


def assert_same(found, expected):
    """The same distribution over the same variables and states, in the same order."""
    assert found.variables == expected.variables
    assert found.state_names == expected.state_names
    expected = expected.normalize(inplace=False)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(
    ("variables", "evidence"),
    [
        (["flu"], None),
        (["fever"], {"test": 20}),
        (["flu", "age"], {"test": 20, "cough": "yes"}),
        (["age", "fever", "flu"], {"cough": "no"}),
        (["test", "fever"], {"flu": True, "age": "old"}),
        (["flu", "age", "fever", "test", "cough"], {}),
    ],
)
def test_answers_are_those_of_variable_elimination(clinic, variables, evidence, joint):
    expected = inference.VariableElimination(clinic).query(variables, evidence, joint=joint, show_progress=False)
    found = ibia.IBIA(clinic, bound=20).query(variables, evidence, joint=joint, show_progress=False)
    if joint:
        assert_same(found, expected)
    else:
        assert list(found) == list(expected)
        for name in variables:
            assert_same(found[name], expected[name])


def test_virtual_evidence(clinic):
    fever = factors.TabularCPD("fever", 3, [[0.1], [0.3], [0.9]], state_names={"fever": ["no", "some", "high"]})
    expected = inference.VariableElimination(clinic.copy()).query(
        ["flu", "age"], {"cough": "yes"}, virtual_evidence=[fever], show_progress=False
    )
    engine = ibia.IBIA(clinic, bound=20)
    assert_same(engine.query(["flu", "age"], {"cough": "yes"}, [fever]), expected)
    turned = factors.DiscreteFactor(["fever"], [3], [0.9, 0.3, 0.1], state_names={"fever": ["high", "some", "no"]})
    assert_same(engine.query(["flu", "age"], {"cough": "yes"}, [turned]), expected)
    # A query leaves the model as it was.
    plain = inference.VariableElimination(clinic).query(["flu"], show_progress=False)
    assert_same(engine.query(["flu"]), plain)


@pytest.mark.parametrize("kind", ["markov", "factor graph"])
@pytest.mark.parametrize("evidence", [{}, {"b": 1}])
def test_models_without_direction(kind, evidence):
    # pgmpy's own inference in factor graphs is of another kind; the Markov network is the same model.
    engine = ibia.IBIA(triangle(kind), bound=20)
    expected = inference.VariableElimination(triangle("markov")).query(["c", "a"], evidence, show_progress=False)
    assert_same(engine.query(["c", "a"], evidence), expected)
    total = np.einsum("ab,bc,ca->b", *(table.values for table in triangle("markov").get_factors()))
    assert engine.result.log_z == pytest.approx(math.log(total[evidence["b"]] if evidence else total.sum()))


def test_junction_trees(clinic):
    expected = inference.VariableElimination(clinic).query(["flu", "test"], show_progress=False)
    assert_same(ibia.IBIA(clinic.to_junction_tree(), bound=20).query(["flu", "test"]), expected)


def test_models_keep_names_and_orders(clinic):
    model = ibia.from_pgmpy(clinic)
    assert model.kind == "bayes"
    assert model.names == tuple(clinic.nodes())
    assert model.variables[model.index("flu")].states == ("False", "True")
    assert model.variables[model.index("test")].states == ("10", "20")
    marginal = ibia.infer(model, {"age": "old", "flu": "True"}, bound=20)["fever"]
    np.testing.assert_allclose(marginal, [0.1, 0.2, 0.7])


def test_names_that_are_no_texts():
    network = models.DiscreteBayesianNetwork([((0, 1), 7)])
    network.add_cpds(
        factors.TabularCPD((0, 1), 2, [[0.3], [0.7]], state_names={(0, 1): [1, "1"]}),
        factors.TabularCPD(
            7,
            2,
            [[0.9, 0.4], [0.1, 0.6]],
            evidence=[(0, 1)],
            evidence_card=[2],
            state_names={7: [0, 1], (0, 1): [1, "1"]},
        ),
    )
    found = ibia.IBIA(network, bound=20).query([7], {(0, 1): "1"})
    np.testing.assert_allclose(found.values, [0.4, 0.6])
    assert found.state_names == {7: [0, 1]}


def test_states_in_another_order_are_told_by_name():
    network = models.DiscreteMarkovNetwork([("a", "b")])
    network.add_factors(
        factors.DiscreteFactor(["a", "b"], [2, 2], [1.0, 2, 3, 4], state_names={"a": ["n", "y"], "b": ["p", "q"]}),
        factors.DiscreteFactor(["a"], [2], [10.0, 1.0], state_names={"a": ["y", "n"]}),
    )
    found = ibia.IBIA(network, bound=20).query(["a"])
    assert found.get_value(a="y") == pytest.approx(70 / 73)


def test_a_network_of_ours_and_back():
    student = examples.student()
    network = models.DiscreteBayesianNetwork()
    for factor in student.factors:
        *parents, child = (student.variables[number] for number in factor.scope)
        table = factor.values.reshape(-1, child.cardinality).T
        network.add_node(child.name)
        network.add_edges_from([(parent.name, child.name) for parent in parents])
        network.add_cpds(
            factors.TabularCPD(
                child.name,
                child.cardinality,
                table,
                evidence=[parent.name for parent in parents] or None,
                evidence_card=[parent.cardinality for parent in parents] or None,
                state_names={variable.name: list(variable.states) for variable in (*parents, child)},
            )
        )
    model = ibia.from_pgmpy(network)
    assert model.names == student.names
    assert model.variables == student.variables
    assert {factor.scope for factor in model.factors} == {factor.scope for factor in student.factors}


def test_what_is_wrong_is_a_sentence(clinic):
    engine = ibia.IBIA(clinic, bound=20)
    with pytest.raises(InputError, match="no variable named 'fevr'; did you mean fever"):
        engine.query(["fevr"])
    with pytest.raises(InputError, match="Variable fever has no state 'hot'; its states are no, some, high"):
        engine.query(["flu"], {"fever": "hot"})
    with pytest.raises(InputError, match="'flu' is both asked for and observed"):
        engine.query(["flu"], {"flu": True})
    with pytest.raises(InputError, match="no variable is asked for"):
        engine.query([])
    with pytest.raises(InputError, match="none twice"):
        engine.query(["flu", "flu"])
    with pytest.raises(InputError, match=r"a list, as in \['flu'\], not the text 'flu'"):
        engine.query("flu")
    with pytest.raises(InputError, match="not DynamicBayesianNetwork"):
        ibia.from_pgmpy(models.DynamicBayesianNetwork())
