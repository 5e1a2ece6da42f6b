"""Ergo files: the layout of the UAI-2006 evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibia import formats
from ibia.errors import InputError
from ibia.model import Model

SMALL = """2
2 3
0
1  0

/* Probabilities */
2
 0.25 0.75

6
 0.1 0.2 0.7
 0.3 0.3 0.4
"""
NAMES = "/* Names */\nrain\ngrass\n"
LABELS = "/* Labels */\nno yes\ndry damp wet\n"


def read_text(tmp_path: Path, text: str, name: str = "model.erg") -> Model:
    path = tmp_path / name
    path.write_text(text)
    return formats.read(path)


def test_a_small_file(tmp_path: Path) -> None:
    model = read_text(tmp_path, SMALL + NAMES + LABELS)
    assert model.kind == "bayes"
    assert model.name == "model"
    assert model.names == ("rain", "grass")
    assert model.variables[1].states == ("dry", "damp", "wet")
    assert [factor.scope for factor in model.factors] == [(0,), (0, 1)]
    np.testing.assert_array_equal(model.factors[1].values, [0.1, 0.2, 0.7, 0.3, 0.3, 0.4])
    # An unknown suffix: a file that begins with a number is an Ergo file.
    assert read_text(tmp_path, SMALL + NAMES + LABELS, "model.txt") == model


def test_names_and_labels_are_optional(tmp_path: Path) -> None:
    assert read_text(tmp_path, SMALL).names == ("X0", "X1")
    assert read_text(tmp_path, SMALL + NAMES).variables[0].states == ("0", "1")
    assert read_text(tmp_path, SMALL + LABELS).variables[0].states == ("no", "yes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "model.erg is empty"),
        ("BAYES 1 2", "line 1: the number of variables is 'BAYES'"),
        ("2\n2 3\n0\n1 2\n", "line 4: variable 1 has the parent 2, but there are 2 variables"),
        ("2\n2 3\n0\n7 0\n", "expected 7 parents of variable 1, found 1"),
        ("2\n2 3\n0\n1 1\n2 1 1 9 1 1 1 1 1 1 1 1 1", r"Factor 1|factor 1 \(scope X1, X1\)"),
        ("2 2 2\n1 1\n1 0\n4 1 1 1 1 4 1 1 1 1", "form a cycle"),
        (
            SMALL.replace("6\n", "5\n"),
            r"line 10: the table of factor 1 \(scope X0, X1\) has 5 entries, expected 6",
        ),
        (SMALL + "what is this thing", "line 13: after the tables, 2 names .* but there are 4 words"),
        (SMALL + "rain\nrain\n", "model.erg: Two variables are named 'rain'"),
        (SMALL + NAMES + "no no dry damp wet", "model.erg: Variable rain has two states named 'no'"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, text)


def test_ergo_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected the suffix .uai"):
        formats.write(Model.from_arrays([2], []), tmp_path / "model.erg")


def test_the_same_network_in_both_formats(data_folder: Path) -> None:
    ergo = formats.read(data_folder / "wild" / "BN_0.erg.gz")
    uai = formats.read(data_folder / "BN" / "BN_0.uai.xz")
    assert ergo.factors == uai.factors
    assert ergo.cardinalities == uai.cardinalities
    assert ergo.names[:2] == ("V0", "V1")
    assert formats.read_evidence(data_folder / "wild" / "BN_0.erg.evid.gz") == formats.read_evidence(
        data_folder / "BN" / "BN_0.evid"
    )
