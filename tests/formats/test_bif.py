"""Bayesian networks in the interchange format."""

from __future__ import annotations

import numpy as np
import pytest

import ibia
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
