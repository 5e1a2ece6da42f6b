"""The table of solvers beside each other: what each cell says, and what is said below it."""

from __future__ import annotations

import json

import pytest

from bench_rows import row
from ibia.bench.commands import app
from ibia.bench.peers import peer_lines
from ibia.bench.summary import order_rows
from ibia.errors import InputError


def run(arguments):
    app(arguments, standalone_mode=False)


def table(rows):
    """Return the cells by family and column, and the lines below the table."""
    header, _, *lines = peer_lines(order_rows(rows))
    ends = lines.index("")
    columns = [cell.strip() for cell in header.strip("|").split("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:ends]]
    return {line[0]: dict(zip(columns, line, strict=True)) for line in cells}, lines[ends:]


def test_a_cell_is_a_mean_or_a_number_of_exact_answers():
    found, _ = table(
        [
            row("m1", "ibia", exact=True, hd_avg=0.0, hd_max=0.0),
            row("m2", "ibia", exact=True, hd_avg=0.0, hd_max=0.0),
            row("m1", "loopy", hd_avg=0.1, hd_max=0.25),
            row("m2", "loopy", hd_avg=0.2, hd_max=0.75),
            row("m1", "exact", exact=True, hd_avg=0.0, hd_max=0.0),
            row("m2", "exact", status="out of memory"),
            row("m1", "gibbs", hd_avg=1e-4, hd_max=0.00123),
            row("m2", "gibbs", status="out of time"),
            row("m1", "bayes", status="unsuited"),
            row("m2", "bayes", status="unsuited"),
            row("m1", "slow", status="out of time"),
            row("m1", "half", exact=True, hd_avg=0.0, hd_max=0.0),
            row("c", "loopy", "CSP", exact=False),
        ]
    )
    assert found["Grids"] == {
        "family": "Grids",
        "models": "2",
        "ibia": "all exact",
        "loopy": "0.15 / 0.50",
        "exact": "1 of 2",
        "gibbs": "1.0E-4 / 0.0012 (1 of 2)",
        "bayes": "–",
        "slow": "0 of 1, 1 not run",
        "half": "1 of 1, 1 not run",
        "Merlin, mini-buckets": "0.098 / 0.23",
        "IJGP-SampleSearch": "0.23 / 0.58",
    }
    assert found["CSP"]["ibia"] == "not run"
    # Whatever the order of the rows.
    assert list(found) == ["CSP", "Grids"]


def test_answers_that_wrongly_say_they_are_exact_are_means_and_named():
    rows = [row("m1", "ibia", exact=True), row("m2", "ibia", exact=True, hd_avg=0.02, hd_max=0.5)]
    found, below = table(rows)
    assert found["Grids"]["ibia"] == "0.010 / 0.25"
    assert "- ibia says it is exact, and is not by the reference: Grids/m2: HD_max 0.5" in below
    assert not any("says it is exact" in line for line in table(rows[:1])[1])


def test_a_bar_in_the_name_of_a_family_does_not_end_a_cell():
    line = next(line for line in peer_lines(order_rows([row(family="A|B")])) if line.startswith("| A"))
    assert line == "| A\\|B | 1 | 0.0010 / 0.010 |"


def test_results_without_anything_to_compare_are_a_sentence():
    unknown, failed = row("m1", hd_avg=None, hd_max=None), row("m2", status="out of time")
    with pytest.raises(InputError, match="1 model answered and not compared, 1 model without an answer"):
        peer_lines(order_rows([unknown, failed]))
    with pytest.raises(InputError, match="0 models answered and not compared, 1 model without an answer"):
        peer_lines(order_rows([failed]))


def test_models_without_known_marginals_are_not_in_it():
    found, _ = table(
        [row("m1", "ibia"), row("m2", "ibia", hd_avg=None, hd_max=None), row("m2", "loopy", status="out of time")]
    )
    assert found["Grids"]["models"] == "1"
    assert "loopy" not in found["Grids"]


FAULT = {"hd_avg": None, "hd_max": None, "reference": "none", "reference_error": "m1.MAR: 2 marginals, expected 9."}


def test_an_answer_that_was_not_compared_takes_its_model_from_nobody():
    rows = [
        row("m1", "ibia", hd_avg=0.1, hd_max=0.2),
        row("m2", "ibia", hd_avg=0.3, hd_max=0.4),
        row("m1", "loopy", **FAULT),
        row("m2", "loopy", hd_avg=0.5, hd_max=0.6),
        row("m1", "slow", **FAULT),
        row("m2", "slow", status="out of time"),
        row("m1", "late", **FAULT),
    ]
    found, _ = table(rows)
    assert found["Grids"]["models"] == "2"
    assert found["Grids"]["ibia"] == "0.20 / 0.30"
    assert found["Grids"]["loopy"] == "0.50 / 0.60 (1 of 2, 1 not compared)"
    assert found["Grids"]["slow"] == "not compared (1 of 2)"
    assert found["Grids"]["late"] == "not compared (1 of 1, 1 not run)"
    # What is at hand and cannot be used is known of the model.
    assert table([*rows, row("m3", "late", **FAULT)])[0]["Grids"]["models"] == "3"
    # What could not be computed is not.
    unknown = {**FAULT, "reference_error": "The exact answer could not be computed: stopped."}
    assert table([*rows, row("m3", "late", **unknown)])[0]["Grids"]["models"] == "2"


def test_exact_answers_that_were_not_compared_say_so():
    unproven = {**FAULT, "exact": True}
    known = [row(name, "known", exact=True) for name in ("m1", "m2", "m3")]
    found, _ = table([*known, row("m1", "all", exact=True), *(row(name, "all", **unproven) for name in ("m2", "m3"))])
    assert found["Grids"]["known"] == "all exact"
    assert found["Grids"]["all"] == "all exact (2 not compared)"
    found, _ = table([*known, row("m1", "some", exact=True), row("m2", "some", **unproven)])
    assert found["Grids"]["some"] == "2 of 2, 1 not compared, 1 not run"
    found, _ = table([*known, *(row(name, "bare", **unproven) for name in ("m1", "m2")), row("m3", "bare", **FAULT)])
    assert found["Grids"]["bare"] == "not compared"


def test_rows_say_of_models_without_answers_whether_anything_is_known():
    rows = [row("m1"), *(row(f"m{number}", status="out of time", marginals_known=number < 4) for number in range(2, 9))]
    found, _ = table(rows)
    assert found["Grids"]["models"] == "3"
    assert found["Grids"]["ibia:bound=12"] == "0.0010 / 0.010 (1 of 3)"


def test_wrong_claims_about_models_without_known_marginals_are_named():
    open_model = {"hd_avg": None, "hd_max": None, "reference": "official-PR-only", "log10_z": -30.0}
    wrong = row("big", "cte", exact=True, **{**open_model, "delta_log10_z": 0.5})
    found, below = table([row("m1", "ibia"), wrong])
    assert "cte" not in found["Grids"]
    assert "- cte says it is exact, and is not by the reference: Grids/big: log10 Z off by 0.5" in below


def test_seconds_and_limits_stand_below_and_figures_from_elsewhere_say_so():
    found, below = table([row("m1", "ibia", seconds=0.5), row("m2", "ibia", seconds=1.5), row("m3", status="crashed")])
    assert "- ibia: 2 answers; 1.0 s and 1.5 s; limits 120 s, 8 GB, 1 thread" in below
    assert "- ibia:bound=12: 0 answers; limits 120 s, 8 GB, 1 thread" in below
    assert any(line.startswith("- Merlin, mini-buckets: run elsewhere") for line in below)
    unlimited = {"seconds": None, "memory": None, "threads": 2}
    found, below = table([row("m1", "ibia", "Toys", limits=unlimited, seconds=121.4)])
    assert "- ibia: 1 answer; 121 s and 121 s; limits no time limit, no memory limit, 2 threads" in below
    assert set(found["Toys"]) == {"family", "models", "ibia"}


def test_the_command_shows_the_solvers_that_are_named(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    rows = [row("m1", "ibia", exact=True), row("m1", "loopy", hd_avg=0.1, hd_max=0.2)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    run(["peers", str(path), "--solver", "loopy"])
    assert "| Grids | 1 | 0.10 / 0.20 | 0.098 / 0.23 | 0.23 / 0.58 |" in capsys.readouterr().out
    with pytest.raises(InputError, match="no results of nobody"):
        run(["peers", str(path), "--solver", "nobody"])
