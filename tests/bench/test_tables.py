"""The paper's tables: what runs for them, what they show, what they say is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ibia import cli
from ibia.bench.instances import Instance
from ibia.bench.sets import FileItem
from ibia.bench.solvers import parse_solver
from ibia.bench.tables import MEMORY, TABLES, published
from ibia.errors import InputError


class Known(FileItem):
    """A model whose reference is said to be there, without a file."""

    @property
    def has_reference(self):
        return self.instance.reference == "exact"


def model(family, name, reference="exact", observed=0):
    return Known(Instance(Path("nowhere"), family, name, reference, "", observed=observed))


def row(item, column, status="answered", **figures):
    return {
        "family": item.family,
        "name": item.name,
        "solver": column.solver,
        "version": "1",
        "limits": {"seconds": column.minutes * 60, "memory": MEMORY, "threads": 1},
        "status": status,
        "seconds": 1.0,
        "delta_log10_z": 0.0,
        **figures,
    }


def cells(text, start):
    """Return the cells of the line of a table that begins with a cell."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_model_that_cannot_be_used_counts_for_nobody():
    table = TABLES["arb"]
    members = [model("Grids", name) for name in list(published()["tables"]["arb"]["instances"])[:2]]
    members = [item for item in members if table.takes(item)]
    (column, *_) = table.chosen(20.0, [])
    spoilt = row(members[0], column, "unusable", error="Its evidence is of another model.")
    text = table.markdown(members, [column], iter([spoilt, row(members[1], column, hd_max=0.1)]))
    assert f"Left out, since it cannot be used: Grids/{members[0].name} (Its evidence is of another model.)" in text
    assert "Missing for" not in text


def test_published_figures_are_those_of_the_paper():
    tables = published()["tables"]
    assert list(tables) == ["smallInst", "ijgpss", "mnVsBn", "numInst", "arb"]
    assert set(tables) == set(TABLES)
    small = tables["smallInst"]
    # The paper's last row: how many of the 493 instances each method solved.
    assert sum(family["instances"] for family in small["families"].values()) == 493
    assert small["solved"][small["columns"].index({"minutes": 2, "method": "IBIA20"})] == 493
    for name in ("smallInst", "ijgpss"):
        count = len(tables[name]["columns"])
        for family in tables[name]["families"].values():
            assert len(family["hd_avg"]) == len(family["hd_max"]) == count
    # The same figures stand in two tables, rounded.
    for family, figures in tables["ijgpss"]["families"].items():
        assert float(figures["hd_max"][2]) == pytest.approx(float(small["families"][family]["hd_max"][4]), abs=9.9e-3)
    assert tables["mnVsBn"]["families"]["Pedigree"]["hd_max"] == {"NTP": "0.098", "TP": "0.204"}
    assert tables["arb"]["instances"]["Grids_13"]["hd_max"]["IBIA15"] == "0.962"
    assert tables["numInst"]["families"]["Type4b"]["solved_percent"] == {"2": 0, "20": 9, "60": 29}


def test_published_figures_are_shown_digit_by_digit():
    columns = TABLES["smallInst"].chosen()
    lines = TABLES["smallInst"].markdown([], columns, []).splitlines()
    short, long = (next(line for line in lines[place:] if line.startswith("| BN ")) for place in (0, len(lines) // 2))
    assert "| – / – | 0.037 / 0.228 | – / – | – / – | 2E-4 / 9E-3 |" in short
    assert "| 0.023 / 0.230 | 0.025 / 0.170 | – / – | – / – | 6E-5 / 2E-3 |" in long
    text = TABLES["mnVsBn"].markdown([], TABLES["mnVsBn"].chosen(), [])
    assert cells(text, "Bnlearn")[2:4] == ["0.02 / 0.023", "0 / 0.002"]
    text = TABLES["arb"].markdown([], TABLES["arb"].chosen(), [])
    assert cells(text, "Grids_12")[1:5] == ["0.645", "0.432", "3E-7 (0.0 s)", "3E-7 (0.0 s)"]
    assert cells(text, "Promedus_11")[1] == "1.000"


def test_columns_are_solvers_that_there_are():
    for table in TABLES.values():
        for column in table.columns:
            assert parse_solver(column.solver).label == column.solver


def test_columns_are_chosen_by_time_and_more_can_be_added():
    table = TABLES["smallInst"]
    assert {column.minutes for column in table.chosen(2)} == {2}
    assert [column.minutes for column in table.chosen(more=["pyagrum-exact"])[-2:]] == [2, 20]
    assert len(table.chosen(more=["ibia"])) == len(table.columns)


def test_a_limit_that_leaves_nothing_is_a_sentence_and_what_it_leaves_out_is_named():
    with pytest.raises(InputError, match=r"smallInst has no column of at most 1 min: .* of 2 and 20 min\."):
        TABLES["smallInst"].chosen(1)
    with pytest.raises(InputError, match=r"of at most 2 min: its columns are of 10 min\."):
        TABLES["arb"].chosen(2)
    table = TABLES["numInst"]
    text = table.markdown([model("BN", "b", "none")], table.chosen(20), [])
    assert "Columns left out: paper:bound=20 within 60 minutes, ibia:bound=20 within 60 minutes" in text
    assert "Columns left out" not in table.markdown([model("BN", "b", "none")], table.chosen(), [])


@pytest.mark.parametrize(("name", "family"), [("smallInst", "Grids"), ("ijgpss", "Grids"), ("mnVsBn", "BN")])
def test_answers_that_were_not_compared_are_named_and_in_no_mean(name, family):
    table = TABLES[name]
    one, two = model(family, "g1"), model(family, "g2")
    column = table.chosen()[-1]
    bare = {**row(two, column), "delta_log10_z": None, "reference": "none", "reference_error": "Cannot be read."}
    text = table.markdown([one, two], [column], [row(one, column, hd_avg=0.1, hd_max=0.2), bare])
    assert cells(text, family)[-1].endswith(" / 0.200 (1 of 2)")
    where = f"{column.solver} within {column.minutes:g} minutes"
    assert f"Answered but not compared, for want of a reference, by {where}: g2\n" in text
    assert "Missing for" not in text
    alone = table.markdown([two], [column], [bare])
    assert cells(alone, family)[-1] == "–"


def test_large_models_need_no_reference():
    table = TABLES["numInst"]
    item, column = model("BN", "b", "none"), table.chosen()[0]
    assert "not compared" not in table.markdown([item], [column], [row(item, column)])


def test_answers_that_wrongly_say_they_are_exact_are_named():
    table = TABLES["arb"]
    items = [model("CSP", "CSP_11"), model("CSP", "CSP_12")]
    column = table.chosen()[-1]
    rows = [row(items[0], column, hd_max=0.0, exact=True), row(items[1], column, hd_max=0.5, exact=True)]
    text = table.markdown(items, [column], rows)
    where = "ibia:bound=20 within 10 minutes"
    assert f"Said to be exact, and not so by the reference, by {where}: CSP/CSP_12: HD_max 0.5\n" in text
    assert "CSP_11: HD_max" not in text
    assert "Said to be exact" not in table.markdown(items, [column], rows[:1])


def test_small_models_averaged_and_what_is_missing_named():
    table = TABLES["smallInst"]
    one, two, other = model("Grids", "g1"), model("Grids", "g2"), model("CSP", "c1")
    large, foreign = model("Grids", "g3", "none"), model("Toys", "t")
    columns = table.chosen(2)
    ours = next(column for column in columns if column.solver == "ibia")
    loopy = next(column for column in columns if column.solver == "loopy")
    rows = [
        row(one, ours, hd_avg=0.002, hd_max=0.1),
        row(two, ours, hd_avg=0.004, hd_max=0.3),
        row(one, loopy, hd_avg=0.5, hd_max=0.9),
        row(two, loopy, "out of time"),
        # Of another limit, and of a model that does not belong here.
        row(one, replace(ours, minutes=20), hd_avg=1.0, hd_max=1.0),
        row(foreign, ours, hd_avg=1.0, hd_max=1.0),
    ]
    text = table.markdown([one, two, other, large, foreign], columns, rows)
    assert "Within 2 minutes" in text
    assert "Within 20 minutes" not in text
    line = cells(text, "Grids")
    assert line[1] == "2 / 8"
    assert line[2:7] == ["0.433 / 0.905", "0.146 / 0.343", "0.247 / 0.713", "– / –", "0.088 / 0.300"]
    assert line[7] == "0.500 / 0.900 (1 of 2)"
    assert line[-1] == "0.003 / 0.200"
    assert cells(text, "CSP")[-1] == "–"
    assert cells(text, "BN")[1] == "0 / 97"
    assert cells(text, "answered") == ["answered", "3 / 493", "481", "493", "487", "485", "493", "1", "0", "2"]
    assert "Missing for loopy within 2 minutes: out of time: g2; not run: c1" in text
    assert "Missing for ibia within 2 minutes: not run: c1" in text
    assert "NeurIPS 2023" in text
    assert "g3" not in text


def test_rows_of_other_limits_are_not_taken_and_those_of_other_versions_are_named():
    table = TABLES["arb"]
    items = [model("CSP", "CSP_11"), model("CSP", "CSP_12"), model("CSP", "CSP_13")]
    column = table.chosen()[-1]
    rows = [row(item, column, hd_max=0.5) for item in items]
    rows[1]["version"] = "older"
    rows[2]["limits"] = {**rows[2]["limits"], "threads": 2}
    text = table.markdown(items, [column], rows, {column.solver: "1"})
    assert cells(text, "CSP_12")[-1] == "0.500 (1.0 s)"
    assert cells(text, "CSP_13")[-1] == "missing"
    assert "Not of the version 1 of ibia:bound=20 within 10 minutes: older: CSP_12" in text
    # Not known: nothing to say.
    assert "Not of the version" not in table.markdown(items, [column], rows, {column.solver: None})


def test_models_of_one_name_in_two_families_are_told_apart():
    table = TABLES["smallInst"]
    one, other = model("Grids", "m"), model("CSP", "m")
    column = table.chosen(2)[-1]
    rows = [row(one, column, hd_avg=0.1, hd_max=0.2), row(other, column, hd_avg=0.3, hd_max=0.4)]
    text = table.markdown([one, other], [column], rows)
    assert cells(text, "Grids")[-1] == "0.100 / 0.200"
    assert cells(text, "CSP")[-1] == "0.300 / 0.400"


def test_networks_with_evidence_are_left_out_where_the_paper_has_none():
    takes = TABLES["smallInst"].takes
    assert takes(model("Bnlearn", "asia"))
    assert not takes(model("Bnlearn", "asia_e1", observed=1))
    assert takes(model("BN", "BN_0", observed=26))


def test_orders_are_compared_by_the_largest_error_of_z():
    table = TABLES["mnVsBn"]
    one, two = model("Promedas", "p1"), model("Promedas", "p2")
    columns = table.chosen()
    rows = [
        row(one, columns[1], hd_max=0.1, delta_log10_z=-0.4),
        row(two, columns[1], hd_max=0.2, delta_log10_z=0.3),
    ]
    line = cells(table.markdown([one, two], columns, rows), "Promedas")
    assert line[1:4] == ["2 / 64", "1.5 / 0.322", "0.4 / 0.086"]
    assert line[5] == "0.400 / 0.150"


def test_shares_of_large_models_count_those_that_failed():
    table = TABLES["numInst"]
    items = [model("BN", f"b{number}", "none") for number in range(4)]
    columns = table.chosen()
    fixed = columns[-1]
    rows = [
        row(items[0], fixed, seconds=30.0),
        row(items[1], fixed, seconds=600.0),
        row(items[2], fixed, "out of memory"),
        row(items[3], fixed, "out of time"),
    ]
    text = table.markdown(items, columns, rows)
    line = cells(text, "BN")
    assert line[1:5] == ["4 / 22", "64", "100", "100"]
    assert line[-3:] == ["25", "50", "50"]
    assert cells(text, "Type4b")[1] == "0 / 82"
    # Of three that were run.
    assert cells(table.markdown(items, columns, rows[:3]), "BN")[-1] == "67 (3 of 4)"
    # What loopy propagation answered for want of anything better is none of ours.
    text = table.markdown(items, columns, [{**rows[0], "loopy": True}, *rows[1:]])
    assert cells(text, "BN")[-3:] == ["0", "25", "25"]
    assert "loopy propagation alone: b0" in text


def test_named_instances_that_are_not_there_are_listed():
    table = TABLES["arb"]
    items = [model("CSP", "CSP_11"), model("CSP", "CSP_12")]
    columns = table.chosen()
    rows = [
        row(items[0], columns[-1], hd_max=3e-5, seconds=2.04),
        row(items[1], columns[-1], "crashed"),
    ]
    text = table.markdown(items, columns, rows)
    assert cells(text, "CSP_11")[-1] == "3E-5 (2.0 s)"
    assert cells(text, "CSP_12")[-1] == "crashed"
    assert cells(text, "Grids_11")[1:5] == ["0.543", "0.420", "0.590 (1.1 s)", "0.166 (3.5 s)"]
    assert cells(text, "Grids_11")[-1] == "missing"
    assert "Not among the models here: Alchemy_11, CSP_13," in text


def test_named_instances_that_are_not_wanted_are_told_from_those_that_are_not_there():
    table = TABLES["arb"]
    items = [model("CSP", "CSP_11"), model("CSP", "CSP_12")]
    text = table.markdown(items, table.chosen(), [], only=["CSP_12"])
    assert "Left out by --only: CSP_11\n" in text
    assert "Not among the models here: Alchemy_11, CSP_13," in text
    assert "not run: CSP_12\n" in text
    assert "Left out" not in table.markdown(items, table.chosen(), [])


def test_named_instances_without_true_marginals_show_their_time():
    table = TABLES["arb"]
    item = model("CSP", "CSP_11", "none")
    text = table.markdown([item], table.chosen(), [row(item, table.chosen()[0], seconds=2.04)])
    assert cells(text, "CSP_11")[5] == "– (2.0 s)"


def test_the_command_runs_what_is_missing_and_shows_the_table(data, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("IBIA_DATA", raising=False)
    out = str(tmp_path / "out.jsonl")

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main(["bench", "table", *arguments, "--out", out])
        return ended.value.code, capsys.readouterr()

    assert call("unknown")[0] == 1
    code, printed = call("arb")
    assert code == 1
    assert "expected --data or IBIA_DATA" in printed.err
    # None of the paper's models is there: nothing is run, everything is missing.
    code, printed = call("arb", "--data", str(data))
    assert code == 0
    assert "Not among the models here: Alchemy_11" in printed.out
    index = data / "index.csv"
    index.write_text(index.read_text().replace("Toys,right", "Toys,CSP_11"))
    for path in (data / "Toys").glob("right.*"):
        path.rename(path.with_name(path.name.replace("right", "CSP_11")))
    code, printed = call("arb", "--data", str(data), "-j", "2")
    assert code == 0
    errors = [cell.partition(" ")[0] for cell in cells(printed.out, "CSP_11")[-4:]]
    assert all(float(error) < 1e-6 for error in errors)
    code, printed = call("arb", "--data", str(data), "--no-run")
    assert [float(cell.partition(" ")[0]) for cell in cells(printed.out, "CSP_11")[-4:]] == [*map(float, errors)]
    assert "run" not in printed.err
    assert "Not of the version" not in printed.out
    # Another engine, and then another model: the rows are shown with a word about them, and not at all.
    path = tmp_path / "out.jsonl"
    path.write_text(path.read_text().replace('"version": "', '"version": "9'))
    code, printed = call("arb", "--data", str(data), "--no-run")
    assert [float(cell.partition(" ")[0]) for cell in cells(printed.out, "CSP_11")[-4:]] == [*map(float, errors)]
    assert printed.out.count("Not of the version") == 4
    (data / "Toys" / "CSP_11.evid").write_text("0\n")
    code, printed = call("arb", "--data", str(data), "--no-run")
    assert cells(printed.out, "CSP_11")[-4:] == ["missing"] * 4
    for options in (["-j", "0"], ["--minutes", "0"], ["--minutes", "-1"], ["--minutes", "nan"]):
        code, printed = call("arb", "--data", str(data), *options)
        assert code == 1
        assert "expected at least one job" in printed.err

    code, printed = call("arb", "--data", str(data), "--minutes", "2")
    assert code == 1
    assert "arb has no column of at most 2 min: its columns are of 10 min." in printed.err
