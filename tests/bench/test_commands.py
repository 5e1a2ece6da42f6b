"""The commands kernels, accuracy and table of ``python -m ibia.bench`` on a benchmark folder of tiny models.

And what ``ibia bench list`` says.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_rows import row
from ibia import cli, examples
from ibia.bench.__main__ import main
from ibia.bench.commands import run_line
from ibia.bench.instances import find_instance, find_instances
from ibia.bench.report import average_by_family, read_rows
from ibia.errors import InputError


def test_instances_are_found_by_family_name_and_source(data):
    assert [instance.name for instance in find_instances(data)] == ["right", "wrong", "open", "spins"]
    assert [instance.name for instance in find_instances(data) if not instance.has_marginals] == ["open"]
    assert [instance.name for instance in find_instances(data, only_uai2014=True)] == ["right"]
    assert [instance.name for instance in find_instances(data, ["Toys"], ["wrong"])] == ["wrong"]
    assert find_instance(data, "Spins", "spins").width == 6
    with pytest.raises(InputError, match="no instance right in family Spins"):
        find_instance(data, "Spins", "right")


def test_unknown_families_and_folders_are_sentences(data, tmp_path):
    with pytest.raises(InputError, match="has no family Toy"):
        find_instances(data, ["Toy"])
    with pytest.raises(InputError, match=r"index\.csv"):
        find_instances(tmp_path)


def test_accuracy_writes_a_row_for_each_and_table_averages_them(data, tmp_path, capsys):
    out = tmp_path / "ours.jsonl"
    arguments = ["accuracy", "--data", str(data), "--family", "Toys", "--out", str(out), "--jobs", "2", "--bound", "10"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "right" in printed
    assert "HD_max" in printed
    rows = {row["name"]: row for row in read_rows(out)}
    assert rows["right"]["hd_max"] < 1e-12
    assert abs(rows["right"]["delta_log10_z"]) < 1e-12
    assert rows["right"]["exact"] is True
    assert rows["right"]["settings"]["bound"] == 10
    assert rows["right"]["peak_memory_bytes"] > 2**20
    difficulty = examples.student().factors[0].values
    assert rows["wrong"]["hd_max"] == pytest.approx(np.sqrt(1 - np.sqrt(difficulty[0])))
    assert rows["wrong"]["hd_avg"] == pytest.approx(rows["wrong"]["hd_max"] / 5)
    assert rows["wrong"]["largest_absolute_error"] == pytest.approx(difficulty[1])
    assert rows["wrong"]["delta_log10_z"] == pytest.approx(-0.5)
    (average,) = average_by_family(rows.values())
    # The one whose reference is another was not exact, whatever it says.
    assert (average.instances, average.exact, average.failed) == (2, 1, 0)
    assert average.hd_max == pytest.approx(rows["wrong"]["hd_max"] / 2, abs=1e-12)
    assert average.delta_log10_z == pytest.approx(0.5)

    assert main(["table", str(out), str(out)]) == 0
    header, rule, line = capsys.readouterr().out.splitlines()
    assert header.count("|") - header.count("\\|") == rule.count("|") == line.count("|")
    assert line.startswith("| Toys | 2 |")


def test_a_bar_in_a_name_does_not_end_a_cell(tmp_path, capsys):
    path = tmp_path / "one|two.jsonl"
    path.write_text(json.dumps({**row(family="A|B", exact=True), "settings": {}}) + "\n")
    assert main(["table", str(path)]) == 0
    header, rule, line = capsys.readouterr().out.splitlines()
    assert line.startswith("| A\\|B | 1 |")
    assert "one\\|two: seconds" in header
    assert all(text.count("|") - text.count("\\|") == rule.count("|") for text in (header, line))


def test_a_line_of_a_run_says_if_its_claim_is_refuted():
    assert run_line(row(exact=True)).split()[-3] == "exact"
    assert run_line(row(exact=True, hd_max=0.1)).split()[-3] == "refuted"


def test_a_failing_instance_is_a_row_and_not_the_end(data, tmp_path, capsys):
    (data / "Toys" / "right.uai.xz").write_bytes(b"nonsense")
    out = tmp_path / "ours.jsonl"
    assert main(["accuracy", "--data", str(data), "--family", "Toys", "--out", str(out)]) == 0
    rows = {row["name"]: row for row in read_rows(out)}
    assert "right.uai.xz" in rows["right"]["error"]
    assert "hd_max" in rows["wrong"]
    assert "1 failed" in capsys.readouterr().out


def test_a_slow_instance_is_stopped(data, tmp_path):
    out = tmp_path / "ours.jsonl"
    main(["accuracy", "--data", str(data), "--only", "right", "--limit-seconds", "0.01", "--out", str(out)])
    (row,) = read_rows(out)
    assert "stopped" in row["error"]


def test_a_damaged_results_file_is_a_sentence(tmp_path, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"family": "A"}\n')
    assert main(["table", str(path)]) == 1
    assert "line 1" in capsys.readouterr().err


def test_kernels_measures_every_operation(tmp_path, capsys):
    path = tmp_path / "kernels.json"
    assert main(["kernels", "--smallest", "6", "--largest", "6", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())
    assert {row["operation"] for row in rows} == {"multiply_in", "marginalise", "gather", "entropy"}
    assert all(row["ratio"] > 0 for row in rows)
    assert "\x1b" not in capsys.readouterr().out


def test_list_says_which_solvers_are_here(capsys, monkeypatch):
    monkeypatch.delenv("IBIA_DATA", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "list"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    here = {words[0]: words[1] for words in map(str.split, printed.partition("\nsolver")[2].splitlines()[1:])}
    assert (here["ibia"], here["merlin"], here["libdai"], here["uai"]) == ("yes", "no", "no", "depends")
    assert "–: computed when needed" in printed


def test_a_table_of_some_models_says_how_many_it_leaves_out(data, tmp_path, capsys):
    (data / "Spins").rename(data / "Grids")
    for path in (data / "Grids").iterdir():
        path.with_name(path.name.replace("spins", "twin")).write_bytes(path.read_bytes())
    index = (data / "index.csv").read_text().replace("Spins", "Grids").replace("25,65,2,1,6", "25,65,2,0,6")
    (data / "index.csv").write_text(f"{index}Grids,twin,MARKOV,25,65,2,0,6,small,exact,0,made\n")
    (tmp_path / "out.jsonl").write_text("")
    arguments = ["bench", "table", "smallInst", "--no-run", "--data", str(data), "--out", str(tmp_path / "out.jsonl")]
    for only, said in ((["--only", "twin"], True), ([], False)):
        with pytest.raises(SystemExit) as ended:
            cli.main([*arguments, *only])
        assert ended.value.code == 0
        assert ("Left out by --only: 1 model of 2." in capsys.readouterr().out) is said
