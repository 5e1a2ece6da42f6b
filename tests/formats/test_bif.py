"""Bayesian networks in the interchange format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ibia
from ibia import examples
from ibia.errors import InputError

RAIN = """
network "weather" { property author somebody; }
// A comment, and a name in quotes.
variable rain { type discrete [ 2 ] { yes, no }; property of = "the variable"; }
variable "wet grass" { type discrete [3] { dry, damp, wet }; }
variable sprinkler {
  type discrete [ 2 ] { on, off };
}
probability ( rain ) { table 0.2, 0.8; }
probability ( sprinkler | rain ) { (yes) 0.01, 0.99; (no) 0.4, 0.6; }
probability ( "wet grass" | sprinkler, rain ) {
  (on, yes) 0.0, 0.1, 0.9;
  (off, yes) 0.1, 0.2, 0.7;
  default 0.5, 0.25, 0.25;
}
"""


@pytest.fixture
def write(tmp_path):
    def write_text(text, name="rain.bif"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_text


def test_a_network_is_read(write):
    model = ibia.read(write(RAIN))
    assert model.kind == "bayes"
    assert model.name == "weather"
    assert model.names == ("rain", "wet grass", "sprinkler")
    assert model.variables[1].states == ("dry", "damp", "wet")
    rain, grass, sprinkler = model.factors
    assert rain.scope == (0,)
    assert sprinkler.scope == (0, 2)
    assert sprinkler.values.tolist() == [0.01, 0.99, 0.4, 0.6]
    assert grass.scope == (2, 0, 1)
    expected = [[[0.0, 0.1, 0.9], [0.5, 0.25, 0.25]], [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]]
    assert np.array_equal(grass.values.reshape(2, 2, 3), expected)


def test_a_table_of_all_numbers_has_the_child_slowest(write):
    text = RAIN.replace("(yes) 0.01, 0.99; (no) 0.4, 0.6;", "table 0.01 0.4 0.99 0.6;")
    assert ibia.read(write(text)).factors[2].values.tolist() == [0.01, 0.99, 0.4, 0.6]


def test_the_first_word_tells_the_format(write):
    assert len(ibia.read(write(RAIN, "rain.txt")).variables) == 3


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("(no) 0.4, 0.6;", "", "has no row for (no)"),
        ("(no) 0.4", "(maybe) 0.4", "line 10: the variable rain has no state maybe"),
        ("0.01, 0.99;", "0.01;", "expected 2 numbers, found 1"),
        ("0.01, 0.99;", "0.01, x;", "expected numbers"),
        ("0.01, 0.99;", "0.01, nan;", "not a finite number"),
        ("[3]", "[2]", "has 2 states, but 3 are named"),
        ("( rain ) { table", "( snow ) { table", "there is no variable snow"),
        ("| rain )", "; rain )", "expected | or )"),
        ("(on, yes)", "(on)", "states of 2 parents, found 1"),
        ("probability ( rain ) { table 0.2, 0.8; }", "", "the variable rain has no table"),
        ("default 0.5, 0.25, 0.25;\n}", "default 0.5", "ends too early"),
        ("network", "netz", "expected network, variable or probability"),
    ],
)
def test_what_is_wrong_is_a_sentence(write, before, after, words):
    assert before in RAIN
    path = write(RAIN.replace(before, after, 1))
    with pytest.raises(InputError) as raised:
        ibia.read(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_bad_names_come_with_a_line(write):
    path = write(RAIN.replace("{ dry, damp, wet }", "{ dry, damp, dry }"))
    with pytest.raises(InputError, match=r"rain.bif, line 5: Variable wet grass has two states named 'dry'\.$"):
        ibia.read(path)


# Writing


@pytest.mark.parametrize("name", ["rain.bif", "rain.bif.gz", "rain.bif.xz"])
def test_a_network_comes_back_as_it_was(write, tmp_path, name):
    model = ibia.read(write(RAIN))
    ibia.write(model, tmp_path / name)
    again = ibia.read(tmp_path / name)
    assert again == model
    assert again.name == "weather"


names = st.text(
    st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
).filter(lambda name: not any(part in name for part in ('"', "//", "/*")))
numbers = st.floats(min_value=0, max_value=1)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_names_and_numbers_survive(tmp_path, data):
    labels = data.draw(st.lists(names, min_size=3, max_size=3, unique=True))
    states = [tuple(data.draw(st.lists(names, min_size=1, max_size=3, unique=True))) for _ in labels]
    variables = [ibia.Variable(label, len(own), own) for label, own in zip(labels, states, strict=True)]
    scopes = [(2,), (2, 0), (0, 2, 1)]
    sizes = [np.prod([len(states[variable]) for variable in scope]) for scope in scopes]
    tables = [data.draw(st.lists(numbers, min_size=size, max_size=size)) for size in map(int, sizes)]
    model = ibia.Model.from_arrays(variables, list(zip(scopes, tables, strict=True)), kind="bayes")
    ibia.write(model, tmp_path / "model.bif")
    again = ibia.read(tmp_path / "model.bif")
    assert again.variables == model.variables
    assert sorted(again.factors, key=lambda factor: len(factor.scope)) == list(model.factors)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (examples.grid(2, 2), "BIF holds Bayesian networks, and this is a Markov network"),
        (ibia.Model.from_arrays([2, 2], [([0], [0.5, 0.5])], kind="bayes"), "the variable X1 has no table"),
        (
            ibia.Model.from_arrays([ibia.Variable('a"b', 1)], [([0], [1.0])], kind="bayes"),
            "BIF cannot hold the name 'a\"b'",
        ),
        (
            ibia.Model.from_arrays([ibia.Variable("a", 1, ("x//y",))], [([0], [1.0])], kind="bayes"),
            "BIF cannot hold the name 'x//y'",
        ),
    ],
)
def test_what_cannot_be_written_is_a_sentence(tmp_path, model, words):
    path = tmp_path / "model.bif"
    with pytest.raises(InputError) as raised:
        ibia.write(model, path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
    assert not path.exists()


def test_all_networks_of_the_data_folder_come_back(data_folder, tmp_path):
    for path in sorted((data_folder / "Bnlearn").glob("*.bif.gz")):
        model = ibia.read(path)
        ibia.write(model, tmp_path / "model.bif")
        assert ibia.read(tmp_path / "model.bif") == model, path


def test_a_network_without_variables_is_not_written(tmp_path):
    with pytest.raises(InputError, match="this model has none"):
        ibia.write(ibia.Model((), (), "bayes"), tmp_path / "a.bif")
    assert list(tmp_path.iterdir()) == []


def test_a_default_row_and_missing_rows(tmp_path):
    text = "variable a { type discrete [ 2 ] { n, y }; } variable b { type discrete [ 3 ] { u, v, w }; }\n"
    text += "variable c { type discrete [ 2 ] { n, y }; } probability ( a ) { table 1, 0; }\n"
    text += "probability ( b ) { table 1, 0, 0; } probability ( c | a, b ) { (y, v) 0.25, 0.75; %s }"
    path = tmp_path / "a.bif"
    path.write_text(text % "default 0.5, 0.5;")
    assert ibia.read(path).factors[2].values.tolist() == [0.5] * 8 + [0.25, 0.75] + [0.5] * 2
    path.write_text(text % "")
    with pytest.raises(InputError, match=r"the table of c has no row for \(n, u\)"):
        ibia.read(path)
    path.write_text(text.replace("c | a, b", "c | a, a") % "")
    with pytest.raises(InputError, match="the table of c names a variable twice"):
        ibia.read(path)
    path.write_text(text % "default 1_0, 0.5;")
    with pytest.raises(InputError, match=r"expected numbers, found '1_0 0\.5'"):
        ibia.read(path)
