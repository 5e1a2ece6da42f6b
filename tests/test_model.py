"""The model: construction, its refusals and its lookups."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import given

from ibia.errors import IbiaError, InputError, UnavailableError, ZeroProbabilityError
from ibia.model import Factor, FactorError, Model, Variable, check_evidence
from strategies import models


def chain() -> Model:
    return Model.from_arrays(
        [Variable("rain", 2, ("no", "yes")), Variable("grass", 3, ("dry", "damp", "wet")), 2],
        [
            (["rain"], [0.8, 0.2]),
            (["rain", "grass"], [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]),
            ((1, 2), np.ones(6)),
        ],
        kind="bayes",
        name="lawn",
    )


def test_errors_are_input_errors_and_value_errors() -> None:
    assert issubclass(InputError, IbiaError)
    assert issubclass(InputError, ValueError)
    assert issubclass(ZeroProbabilityError, InputError)
    assert issubclass(UnavailableError, IbiaError)
    assert not issubclass(UnavailableError, InputError)


def test_from_arrays_resolves_names_and_flattens_tables() -> None:
    model = chain()
    assert model.names == ("rain", "grass", "X2")
    assert model.cardinalities == (2, 3, 2)
    assert model.children == (0, 1, 2)
    assert model.factors[1].scope == (0, 1)
    np.testing.assert_array_equal(model.factors[1].values, [0.7, 0.2, 0.1, 0.1, 0.2, 0.7])
    assert repr(model) == (
        "Model('lawn', bayes, 3 variables of at most 3 states, 3 factors of at most 6 entries)"
    )


def test_a_transposed_table_is_flattened_in_scope_order() -> None:
    table = np.arange(6.0).reshape(2, 3).T
    model = Model.from_arrays([3, 2], [((0, 1), table)])
    np.testing.assert_array_equal(model.factors[0].values, [0, 3, 1, 4, 2, 5])


def test_everything_is_immutable() -> None:
    table = np.ones(2)
    model = Model.from_arrays([2], [((0,), table)])
    table[0] = 7
    assert model.factors[0].values[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        model.factors[0].values[0] = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.kind = "bayes"  # type: ignore[misc]


def test_a_read_only_array_is_not_copied() -> None:
    table = np.ones(2)
    table.setflags(write=False)
    assert Factor((0,), table).values is table


def test_unusual_models_are_legal() -> None:
    assert Model.from_arrays([], []).cardinalities == ()
    model = Model.from_arrays([1, 2, 4], [((), 3.0), ((0,), [0]), ((1, 0), [0, 0])])
    assert model.factors[0].values.tolist() == [3.0]
    assert Model.from_arrays([2, 2], [((1,), [1, 2])], kind="bayes").children == (1,)
    assert Model.from_arrays([2], [((0,), np.array([True, False]))]).factors[0].values.tolist() == [1, 0]


@given(models())
def test_equality_is_by_content(model: Model) -> None:
    factors = [(factor.scope, factor.values.copy()) for factor in model.factors]
    copy = Model.from_arrays(model.variables, factors, model.kind, "copy")
    assert copy == model
    assert hash(copy) == hash(model)


@pytest.mark.parametrize(
    ("variables", "factors", "kind", "message"),
    [
        ([2], [], "tree", '"markov" or "bayes", not \'tree\''),
        ([0], [], "markov", "X0 has cardinality 0; expected at least 1"),
        ([-3], [], "markov", "X0 has cardinality -3"),
        ([2.5], [], "markov", "X0 has the cardinality 2.5; expected a whole number"),
        ([2**21], [], "markov", "X0 has cardinality 2097152; at most"),
        ([Variable("a", 2), Variable("a", 3)], [], "markov", "Two variables are named 'a'"),
        ([2, 2], [((0, 0), np.ones(4))], "markov", r"Factor 0 \(scope X0, X0\) names X0 more than once"),
        ([2, 2], [((0,), [1, 1]), ((0, 2), np.ones(4))], "markov", "Factor 1: There is no variable 2"),
        ([2, 2], [((-1,), [1, 1])], "markov", "Factor 0: There is no variable -1"),
        ([2, 2], [(("X9",), [1, 1])], "markov", "Factor 0: There is no variable named 'X9'"),
        ([2, 2], [((0.5,), [1, 1])], "markov", "given by its name or number, not by 0.5"),
        ([2, 2], [("X0", [1, 1])], "markov", "a scope is a sequence of variables, not a string"),
        ([2, 3], [((0, 1), np.ones(5))], "markov", r"\(scope X0, X1\) has a table of 5 entries, expected 6"),
        ([2, 3], [((0, 1), np.ones((3, 2)))], "markov", r"table of shape \(3, 2\), expected \(2, 3\)"),
        ([2], [((), [1, 1])], "markov", r"\(scope empty\) has a table of 2 entries, expected 1"),
        ([2], [((0,), [1, -0.5])], "markov", r"Factor 0 \(scope X0\) has the entry -0.5 at position 1"),
        ([2], [((0,), [np.nan, 1])], "markov", "has the entry nan at position 0"),
        ([2], [((0,), [1, 1]), ((0,), [1, np.inf])], "markov", "Factor 1 .* has the entry inf"),
        ([2], [((0,), ["a", "b"])], "markov", "must be an array of real numbers"),
        ([2], [((0,), [1j, 1])], "markov", "must be an array of real numbers"),
        ([2], [((0,), [[1], [1, 2]])], "markov", "must be an array of real numbers"),
        ([2] * 41, [(range(41), [1.0])], "markov", r"X5, ...\) needs a table of at least 2\*\*41"),
        ([2], [((), [1])], "bayes", "Factor 0 has an empty scope"),
        ([2], [((0,), [1, 1]), ((0,), [1, 1])], "bayes", "Factor 1 .* X0, already the child of factor 0"),
        ([2, 2], [((0, 1), np.ones(4)), ((1, 0), np.ones(4))], "bayes", "cycle: X0 -> X1 -> X0"),
    ],
)
def test_refusals_are_sentences(variables: list, factors: list, kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Model.from_arrays(variables, factors, kind)  # type: ignore[arg-type]
    assert str(caught.value).endswith((".", "?"))


def test_a_cycle_behind_other_variables_is_found() -> None:
    factors = [((0,), np.ones(2)), ((0, 3, 1), np.ones(8)), ((1, 2), np.ones(4)), ((2, 3), np.ones(4))]
    with pytest.raises(FactorError, match="cycle: X1 -> X2 -> X3 -> X1"):
        Model.from_arrays([2] * 5, [*factors, ((3, 4), np.ones(4))], "bayes")
    assert Model.from_arrays([2] * 4, factors[:3], "bayes").children == (0, 1, 2)


def test_too_many_states_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibia.model.MOST_STATES", 10)
    assert len(Model.from_arrays([5, 5], []).variables) == 2
    with pytest.raises(InputError, match="have 11 states in all; at most 10"):
        Model.from_arrays([5, 6], [])


def test_direct_construction_is_checked_too() -> None:
    with pytest.raises(InputError, match="Variable objects"):
        Model((2,), ())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a Factor object"):
        Model((Variable("a", 2),), (3,))  # type: ignore[arg-type]
    with pytest.raises(FactorError, match="Factor 0 names variable 1, but") as caught:
        Model((Variable("a", 2),), (Factor((1,), np.ones(2)),))
    assert caught.value.factor == 0
    with pytest.raises(InputError, match="sequence of variable numbers"):
        Factor(("a",), np.ones(2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", 2), "needs a name"),
        ((3, 2), "needs a name"),
        (("a", 2, ("x",)), "has cardinality 2 but 1 state names"),
        (("a", 2, ("x", "x")), "has two states named 'x'"),
    ],
)
def test_variable_refusals(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Variable(*arguments)


def test_index_by_name_and_number() -> None:
    model = chain()
    assert [model.index(key) for key in ("rain", 1, "X2", "2", np.int64(0))] == [0, 1, 2, 2, 0]
    with pytest.raises(InputError, match="no variable named 'gras'; did you mean grass"):
        model.index("gras")
    with pytest.raises(InputError, match="no variable 3: the model has 3 variables"):
        model.index(3)
    with pytest.raises(InputError, match="given by its name or number"):
        model.index("9" * 5000)
    with pytest.raises(InputError, match="Markov network has no children"):
        _ = Model.from_arrays([2], []).children


def test_a_digit_string_is_no_number_where_names_are_numbers() -> None:
    model = Model.from_arrays([Variable("7", 2), Variable("b", 2, ("1", "2"))], [])
    assert model.index("7") == 0
    with pytest.raises(InputError, match="no variable named '1'"):
        model.index("1")
    with pytest.raises(InputError, match="has no state '0'"):
        model.variables[1].state_index("0")
    assert model.variables[1].state_index("1") == 0
    assert model.variables[1].state_index(1) == 1


def test_check_evidence() -> None:
    model = chain()
    assert check_evidence(model, {"grass": "wet", 0: 1, "X2": "1"}) == {1: 2, 0: 1, 2: 1}
    assert check_evidence(model, {"rain": "yes", 0: 1}) == {0: 1}
    assert check_evidence(model, {"rain": "1"}) == {0: 1}
    assert check_evidence(model, {}) == {}


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"sun": 0}, "no variable named 'sun'"),
        ({"rain": 2}, "rain has no state 2: its states are numbered 0 to 1"),
        ({"rain": -1}, "rain has no state -1"),
        ({"grass": "dri"}, r"grass has no state 'dri'; did you mean dry\?$"),
        ({"rain": "zzz"}, "rain has no state 'zzz'; its states are no, yes"),
        ({"rain": 0.5}, "rain was given the state 0.5"),
        ({"rain": "no", 0: 1}, "rain two different states, no and yes"),
    ],
)
def test_evidence_refusals(evidence: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_evidence(chain(), evidence)


def test_validation_of_many_factors_is_fast() -> None:
    count = 100_000
    table = np.ones(4)
    table.setflags(write=False)
    variables = tuple(Variable(f"v{number}", 2) for number in range(count))
    factors = tuple(Factor((number - 1, number), table) for number in range(1, count))
    begin = time.perf_counter()
    Model(variables, factors, "bayes")
    # A few tenths of a second; the bound leaves room for a busy machine.
    assert time.perf_counter() - begin < 5
