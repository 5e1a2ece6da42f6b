"""UAI files: models, evidence, marginals, partition functions; and the real files, where present."""

from __future__ import annotations

import csv
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibia import formats
from ibia.errors import InputError
from ibia.model import Model, Variable
from strategies import models

SMALL = """MARKOV
3
2 2 3

2
1 0
2 2 1

2
 0.25 0.75

6
 1 2 3
 4 5 6e-1
"""


def read_text(tmp_path: Path, text: str, name: str = "model.uai") -> Model:
    path = tmp_path / name
    path.write_text(text)
    return formats.read(path)


def test_a_small_file(tmp_path: Path) -> None:
    model = read_text(tmp_path, SMALL)
    assert model.kind == "markov"
    assert model.name == "model"
    assert model.names == ("X0", "X1", "X2")
    assert model.cardinalities == (2, 2, 3)
    assert [factor.scope for factor in model.factors] == [(0,), (2, 1)]
    np.testing.assert_array_equal(model.factors[1].values, [1, 2, 3, 4, 5, 0.6])


def test_layout_does_not_matter(tmp_path: Path) -> None:
    model = read_text(tmp_path, SMALL)
    assert read_text(tmp_path, "\t".join(SMALL.split())) == model
    assert read_text(tmp_path, "\r\n\r\n".join(SMALL.split())) == model
    assert read_text(tmp_path, "/* a comment */ " + SMALL.replace("MARKOV", "Markov")) == model
    # An unknown suffix: the first word tells.
    assert read_text(tmp_path, SMALL, "model.txt") == model
    assert read_text(tmp_path, SMALL, "model") == model


def test_unusual_but_legal_models(tmp_path: Path) -> None:
    model = read_text(tmp_path, "MARKOV 2 1 4 3 0 1 0 2 1 0 1 3 1 0 4 0 0 0 0")
    assert [factor.scope for factor in model.factors] == [(), (0,), (1, 0)]
    assert read_text(tmp_path, "BAYES 0 0").variables == ()
    assert read_text(tmp_path, "MARKOV 2 5 7 0").cardinalities == (5, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "model.uai is empty"),
        ("/* nothing */", "model.uai is empty"),
        ("NETWORK 1 2 0", "line 1: a UAI file begins with MARKOV or BAYES, not with 'NETWORK'"),
        ("MARKOV", "the number of variables is missing"),
        ("MARKOV\nx", "line 2: the number of variables is 'x'"),
        ("MARKOV\n-1", "line 2: the number of variables is '-1'"),
        ("MARKOV\n2.0 2 2", "line 2: the number of variables is '2.0'"),
        ("MARKOV\n99999999999999\n2 2", "line 3: .* expected 99999999999999 cardinalities, found 2"),
        ("MARKOV 2\n2 0 0", "line 2: variable 1 has cardinality 0"),
        ("MARKOV 1\n99999999999 0", "line 2: the variables have 99999999999 states in all"),
        ("MARKOV 1 1048577 0", "model.uai: Variable X0 has cardinality 1048577"),
        ("MARKOV 1 2", "the number of factors is missing"),
        ("MARKOV 1 2\n-1", "line 2: the number of factors is '-1'"),
        ("MARKOV 1 2 888888888\n1 0", "expected 2666666664 or more words for 888888888 factors"),
        ("MARKOV 1 2 1\n9 0 0 0", "expected 9 variables in the scope of factor 0, found 3"),
        ("MARKOV 1 2 1\n1 1\n2 1 1", "line 2: factor 0 names variable 1, but there are 1 variables"),
        ("MARKOV 1 2 1\n1 a\n2 1 1", "line 2: a variable in the scope of a factor is 'a'"),
        ("MARKOV 1 2 1\n2 0 0\n4 1 1 1 1", r"line 2: Factor 0 \(scope X0, X0\) names X0 more than once"),
        (
            "MARKOV 2 2 3 1\n2 1 0\n5 1 1 1 1 1",
            r"line 3: .* factor 0 \(scope X1, X0\) has 5 entries, expected 6",
        ),
        ("MARKOV 1 2 1 1 0\n2 1", "expected 2 entries in the table of factor 0, found 1"),
        ("MARKOV 1 2 2 1 0 1 0\n2 1 1", "the size of the table of factor 1 is missing"),
        (
            "MARKOV 1 2 1 1 0\n2 1 1\n7 8",
            "line 3: expected the end of the file, found 2 more words from '7' on",
        ),
        ("MARKOV 1 2 1 1 0\n2 1\none", "line 3: an entry of a table is 'one'; expected a number"),
        ("MARKOV 1 2 1 1 0\n2 1\n-1", "line 3: an entry of a table is '-1'; expected a finite number"),
        ("MARKOV 1 2 1 1 0\n2 1\nnan", "line 3: an entry of a table is 'nan'"),
        ("MARKOV 1 2 1 1 0\n2 1\ninf", "line 3: an entry of a table is 'inf'"),
        ("MARKOV 1 2 1 1 0\n2 1\n1e999", "line 3: an entry of a table is '1e999', too large"),
        ("BAYES 1 2 2\n1 0\n1 0\n2 1 1 2 1 1", "line 3: Factor 1 .* already the child of factor 0"),
        (
            "BAYES 2 1 1 2\n2 0 1\n2 1 0\n1 1 1 1",
            "line [23]: The parents of the Bayesian network form a cycle",
        ),
        ("BAYES 1 2 1\n0\n1 1", "line 2: Factor 0 has an empty scope"),
        ("MARKOV 70 " + "2 " * 70 + "1 70 " + " ".join(map(str, range(70))) + " 1 1", "expected more than 2"),
    ],
)
def test_refusals_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_text(tmp_path, text)
    assert "model.uai" in str(caught.value)
    assert str(caught.value).endswith(".")


def test_files_of_pyagrum_are_refused_with_a_way_out(tmp_path: Path) -> None:
    # Their tables are in another order than their scopes.
    with pytest.raises(InputError, match=r"line 2: UAI files have no comments .* BIF .* ibia.from_pyagrum"):
        read_text(tmp_path, SMALL.replace("MARKOV\n", "MARKOV\n # a remark\n", 1))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    words = SMALL.split()
    for length in range(len(words)):
        with pytest.raises(InputError):
            read_text(tmp_path, " ".join(words[:length]))


def test_unknown_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a model file of a known format"):
        read_text(tmp_path, "hello <bif>", "model.xyz")
    with pytest.raises(InputError, match=r"cannot be written to .*model.erg: expected the suffix .uai or .bif"):
        formats.write(Model.from_arrays([2], []), tmp_path / "model.erg")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=models(), suffix=st.sampled_from([".uai", ".uai.gz", ".uai.xz"]))
def test_models_round_trip_bit_for_bit(tmp_path: Path, model: Model, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    formats.write(model, path)
    back = formats.read(path)
    assert back == model
    for ours, theirs in zip(model.factors, back.factors, strict=True):
        assert ours.values.tobytes() == theirs.values.tobytes()


def test_names_are_lost_in_uai(tmp_path: Path) -> None:
    model = Model.from_arrays([Variable("rain", 2, ("no", "yes"))], [((0,), [1, 2])])
    formats.write(model, tmp_path / "model.uai")
    assert formats.read(tmp_path / "model.uai").names == ("X0",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\n \n", {}),
        ("0", {}),
        ("0\n", {}),
        ("1\n0", {}),
        ("2 3 1 5 0", {3: 1, 5: 0}),
        ("1 3 1", {3: 1}),
        ("1\n2 3 1 5 0", {3: 1, 5: 0}),
        ("1\n1 3 1", {3: 1}),
        ("/* Evidence */\n2\n 3   1\n 5   0\n", {3: 1, 5: 0}),
        ("2 3 1 3 1", {3: 1}),
        # Two readings; as many words as a single sample of one pair needs.
        ("1 1 0", {1: 0}),
    ],
)
def test_evidence_variants(tmp_path: Path, text: str, expected: dict[int, int]) -> None:
    path = tmp_path / "model.evid"
    path.write_text(text)
    assert formats.read_evidence(path) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 3 1", "line 1: the file is not evidence: after the count 2, 4 numbers .* but 2 follow"),
        ("1", "not evidence"),
        ("0 1 2", "not evidence"),
        ("2\n1 3 1\n1 3 0", "holds 2 samples of evidence; only one is supported"),
        ("2\n3 1\n3 0", "line 3: variable 3 is given two different states, 1 and 0"),
        ("1\n3 -1", "line 2: a variable or state is '-1'"),
        ("1\n3 x", "line 2: a variable or state is 'x'"),
        ("x", "the number of observed variables is 'x'"),
        ("1 x 2 3", "the number of pairs is 'x'"),
        ("9" * 4000, "too large a number"),
    ],
)
def test_evidence_refusals(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.evid"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        formats.read_evidence(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(evidence=st.dictionaries(st.integers(0, 10**6), st.integers(0, 100), max_size=20))
def test_evidence_round_trips(tmp_path: Path, evidence: dict[int, int]) -> None:
    formats.write_evidence(tmp_path / "model.evid", evidence)
    assert formats.read_evidence(tmp_path / "model.evid") == evidence


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(marginals=st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=4), max_size=5))
def test_marginals_round_trip(tmp_path: Path, marginals: list[list[float]]) -> None:
    formats.write_marginals(tmp_path / "model.MAR", marginals)
    back = formats.read_marginals(tmp_path / "model.MAR")
    assert [marginal.tolist() for marginal in back] == marginals


def test_marginals_of_the_last_solution_count(tmp_path: Path) -> None:
    path = tmp_path / "model.MAR"
    for text in (
        "MAR\n1 2 0.25 0.75",
        "1 2 0.25 0.75",
        "MAR\n1\n1 2 0.25 0.75",
        "MAR 1 2 1 0\n-BEGIN-\nMAR 1 2 0.25 0.75",
        "MAR\n-BEGIN-\n1 2 1 0\n-BEGIN-\n1\n2 0.25 0.75\n",
    ):
        path.write_text(text)
        assert [marginal.tolist() for marginal in formats.read_marginals(path)] == [[0.25, 0.75]]
    formats.write_marginals(path, [np.array([0.1, 0.9])])
    assert path.read_text() == "MAR\n1 2 0.10000000000000001 0.90000000000000002\n"


@pytest.mark.parametrize(
    "end",
    [
        "-BEGIN-",
        "-BEGIN-\n",
        "-BEG",
        "-BEGIN-\nMAR",
        "-BEGIN-\n1",
        "-BEGIN-\n2 2 0.5",
        "-BEGIN-\n2\n2 0.5 0.5 3 0.2 0.",
        "-BEGIN-\n1\n2 2 0.5 0.5",
        "-BEGIN-\n1 2 2 0.5 0.5 3 0.1",
        "-BEGIN-\n-BEGIN-\n2 2 0.5",
    ],
)
def test_a_last_solution_that_is_cut_off_does_not_count_where_there_is_another(tmp_path: Path, end: str) -> None:
    path = tmp_path / "model.MAR"
    path.write_text(f"MAR\n2 2 1 0 3 1 0 0\n-BEGIN-\n2 2 0.25 0.75 3 0 1 0\n{end}")
    assert [marginal.tolist() for marginal in formats.read_marginals(path)] == [[0.25, 0.75], [0, 1, 0]]
    path = tmp_path / "model.PR"
    path.write_text("PR\n-2\n-BEGIN-\n-1.5\n-BEGIN-\n")
    assert formats.read_partition(path) == -1.5


def test_where_all_solutions_are_cut_off_the_last_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.MAR"
    path.write_text("MAR\n-BEGIN-\n2 2 0.5 0.5\n")
    with pytest.raises(InputError, match="line 3: the file ends too early: expected 4 or more words for 2 marginals"):
        formats.read_marginals(path)


def test_a_last_solution_that_is_complete_and_none_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model.MAR"
    path.write_text("MAR\n2 2 1 0 3 1 0 0\n-BEGIN-\n2 2 0.25 nan 3 0 1 0\n")
    with pytest.raises(InputError, match="line 4: a probability is 'nan'"):
        formats.read_marginals(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the number of variables is missing"),
        ("PR 1 2 1 0", "the number of variables is 'PR'"),
        ("MAR 1 2 1", "expected 2 probabilities of variable 0, found 1"),
        ("MAR 1\n0 1", "line 2: variable 0 has cardinality 0"),
        ("MAR 1 2 1 0 5", "expected the end of the file"),
        ("MAR 1 2 1 nan", "a probability is 'nan'"),
        ("MAR 10000000000", "expected 20000000000 or more words"),
    ],
)
def test_marginals_refusals(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "model.MAR"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        formats.read_marginals(path)


def test_marginals_that_are_none_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="marginal of variable 1 is not a distribution"):
        formats.write_marginals(tmp_path / "model.MAR", [[1.0], [math.nan, 1.0]])
    assert not list(tmp_path.iterdir())


def test_partition_functions(tmp_path: Path) -> None:
    path = tmp_path / "model.PR"
    for value in (0.0, -8.8930833764714379, 606.27919898754305, -math.inf):
        formats.write_partition(path, value)
        assert formats.read_partition(path) == value
    for text in ("-1.5", "PR\n-1.5\n", "pr 1 -1.5", "PR\n3\n-BEGIN-\n-1.5"):
        path.write_text(text)
        assert formats.read_partition(path) == -1.5
    for text, message in {
        "": "holds no number",
        "PR": "holds no number",
        "PR\nx": "line 2",
        "nan": "-inf",
    }.items():
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            formats.read_partition(path)
    with pytest.raises(InputError, match="not a logarithm"):
        formats.write_partition(path, math.nan)


def test_a_large_file_loads_quickly(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    factors = [((number, number + 1), generator.random((20, 20))) for number in range(499)]
    path = tmp_path / "large.uai"
    formats.write(Model.from_arrays([20] * 500, factors), path)
    assert path.stat().st_size > 3_600_000
    begin = time.perf_counter()
    formats.read(path)
    # About a tenth of a second; the bound leaves room for a busy machine.
    assert time.perf_counter() - begin < 2


def check_instance(folder: Path, row: dict[str, str]) -> None:
    stem = folder / row["family"] / row["name"]
    model = formats.read(f"{stem}.uai.xz")
    assert model.kind.upper() == row["kind"]
    assert len(model.variables) == int(row["n_vars"])
    assert len(model.factors) == int(row["n_factors"])
    assert max(model.cardinalities) == int(row["max_card"])
    evidence = formats.read_evidence(f"{stem}.evid")
    assert len(evidence) == int(row["n_evidence"])
    assert all(state < model.cardinalities[variable] for variable, state in evidence.items())
    if Path(f"{stem}.MAR.xz").exists():
        marginals = formats.read_marginals(f"{stem}.MAR.xz")
        assert tuple(marginal.size for marginal in marginals) == model.cardinalities
    if row["log10Z"]:
        assert formats.read_partition(f"{stem}.PR") == pytest.approx(float(row["log10Z"]), rel=1e-12)


def instances(folder: Path) -> list[dict[str, str]]:
    with open(folder / "index.csv", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_spread_of_real_files(data_folder: Path) -> None:
    for row in instances(data_folder)[::4]:
        check_instance(data_folder, row)


@pytest.mark.slow
def test_all_real_files(data_folder: Path) -> None:
    for row in instances(data_folder):
        check_instance(data_folder, row)


def test_wild_evidence(data_folder: Path) -> None:
    expected = {"Alchemy_11": 0, "Promedus_11": 8, "relational_1": 17, "rus_20_40_1_1": 784}
    for name, count in expected.items():
        assert len(formats.read_evidence(data_folder / "wild" / f"{name}.uai.evid")) == count
