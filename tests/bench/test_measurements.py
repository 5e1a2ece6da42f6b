"""The commands exact, split, growth, threads, memory, anytime and portfolio on tiny models."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.bench import anytime, exact, growth, portfolio, split
from ibia.bench.__main__ import main
from ibia.bench.apart import Job, Limits, run_apart, run_jobs
from ibia.bench.instances import find_instance
from ibia.bench.pyagrum_peer import Peer, import_pyagrum
from ibia.bench.report import geometric_mean, mean, read_rows
from ibia.errors import InputError, UnavailableError
from ibia.tables import kernels, table


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_process_says_why_it_ended():
    label = {"family": "F", "name": "n"}
    row = run_apart(Job("growth.measure_size", {"shape": "tree", "size": 0}, label), Limits())
    assert row["family"] == "F"
    assert row["error"].startswith("size is 0")
    row = run_apart(Job("growth.measure_size", {"shape": "tree", "size": 5}, label), Limits(seconds=0.01))
    assert row["error"] == "stopped after 0.01 s"
    row = run_apart(Job("growth.measure_size", {"shape": "tree", "size": 10**9}, label), Limits(memory=2.0**28))
    assert row["error"].startswith("stopped with ")
    assert row["status"] == "out of memory"


def test_rows_come_in_the_given_order_and_with_their_peak():
    jobs = [Job("growth.measure_size", {"shape": "tree", "size": size}, {"size": size}) for size in (6, 3)]
    reported = []
    rows = run_jobs(jobs, Limits(), report=reported.append)
    assert [row["variables"] for row in rows] == [6, 3]
    assert rows == reported
    assert all(row["exact"] and row["peak_memory_bytes"] > 2**20 and row["wall_seconds"] > 0 for row in rows)


def test_means():
    assert mean([]) != mean([])
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([0.0, 0.0], floor=1e-5) == pytest.approx(0.0, abs=1e-15)


def test_nothing_selected_is_a_sentence(data, capsys):
    assert main(["split", "--data", str(data), "--family", "Toys", "--only", "spins"]) == 1
    assert "no instance is left" in capsys.readouterr().err


def test_exact_says_that_pyagrum_is_missing(data, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyagrum", None)
    assert main(["exact", "--data", str(data)]) == 1
    assert "pyAgrum is not installed" in capsys.readouterr().err
    with pytest.raises(UnavailableError, match="pip install"):
        import_pyagrum()


def test_exact_against_published_seconds(data, tmp_path, capsys, monkeypatch):
    seconds = {"right": {"A": 4.0, "B": None}}
    figures = {"source": "somewhere.", "options": {"A": "-a", "B": "-b"}, "cpu_seconds": seconds}
    monkeypatch.setattr(exact, "published", lambda: figures)
    out = tmp_path / "exact.json"
    assert main(["exact", "--data", str(data), "--against", "published", "--json", str(out)]) == 0
    (row,) = read(out)
    assert row["name"] == "right"
    assert 0 < row["ibia_cpu_seconds"] < 4
    assert "ibia_error" not in row
    printed = capsys.readouterr().out
    assert "somewhere." in printed
    assert f"over 1 instances: {4.0 / row['ibia_cpu_seconds']:.2f}×" in printed


def test_published_figures_have_a_source_and_a_best():
    figures = exact.published()
    assert "2-core" in figures["source"]
    for known in figures["cpu_seconds"].values():
        assert known.keys() == figures["options"].keys()
        assert any(known.values())


def test_exact_summary_counts_what_is_slower():
    rows = [
        {"name": "a", "ibia_seconds": 0.2, "pyagrum_seconds": 0.1, "ratio": 0.5, "cpu_ratio": 0.5, "difference": 1e-3},
        {"name": "b", "ibia_seconds": 0.02, "pyagrum_seconds": 0.01, "ratio": 0.5, "cpu_ratio": 2.0, "difference": 0.0},
        {"name": "c", "ibia_seconds": 0.1, "pyagrum_seconds": 1.6, "ratio": 16.0, "cpu_ratio": 1.0, "difference": 0.0},
        {"name": "d", "ibia_seconds": 0.1, "error": "stopped after 1 s"},
        {"name": "e", "ibia_seconds": 0.1, "ibia_error": "not exact at bound 3"},
    ]
    lines = "\n".join(exact.summary_lines(rows))
    assert "3 instances solved by both, 1 by ibia only, 1 not by ibia" in lines
    assert "pyAgrum/ibia: 1.59×" in lines
    assert "by CPU seconds 1.00×" in lines
    assert "ibia is slower on 1 (a)" in lines
    assert "over 1e-06: 1 (a)" in lines


def test_a_bound_that_is_too_small_is_not_exact(data):
    row = list(exact.compare(str(data), "Spins", "spins", 3.0, False, 1, 1.0))[-1]
    assert row["ibia_error"] == "not exact at bound 3"


def test_exact_agrees_with_pyagrum(data, tmp_path, capsys):
    pytest.importorskip("pyagrum", reason="pyAgrum (the extra 'pyagrum') is not installed")
    out = tmp_path / "exact.json"
    assert main(["exact", "--data", str(data), "--only", "right", "spins", "--json", str(out)]) == 0
    rows = {row["name"]: row for row in read(out)}
    assert rows["right"]["engine"] == "LazyPropagation"
    assert rows["spins"]["engine"] == "ShaferShenoyMRFInference"
    assert all(row["difference"] < 1e-12 and row["ratio"] > 0 for row in rows.values())
    assert "2 instances solved by both, 0 by ibia only, 0 not by ibia" in capsys.readouterr().out


def test_pyagrum_gets_the_same_model():
    pytest.importorskip("pyagrum", reason="pyAgrum (the extra 'pyagrum') is not installed")
    random = np.random.default_rng(5)
    # Unsorted scopes, two factors over the same variables, a constant, a variable in no factor, one with one state.
    scopes = [(1, 0), (0, 1), (2, 1), ()]
    states = [2, 3, 1, 4]
    model = ibia.Model.from_arrays(
        states, [(scope, random.random([states[variable] for variable in scope])) for scope in scopes]
    )
    peer = Peer(model)
    for one, other in zip(peer.arrays(peer.solve({0: 1})), ibia.infer(model, {0: 1}).marginals, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    # Rows that do not sum to one: tables are multiplied as written.
    unnormalised = ibia.Model.from_arrays([2, 2], [([0], [0.5, 0.5]), ([0, 1], [[0.9, 0.0], [0.0, 0.1]])], kind="bayes")
    peer = Peer(unnormalised)
    assert peer.engine == "ShaferShenoyMRFInference"
    np.testing.assert_allclose(peer.arrays(peer.solve({}))[0], [0.9, 0.1])


def test_split_shares_add_up(data, tmp_path, capsys):
    out = tmp_path / "split.json"
    arguments = ["split", "--data", str(data), "--only", "spins", "--bound", "3", "--json", str(out)]
    assert main(arguments) == 0
    (row,) = read(out)
    assert all(row[part] > 0 for part in split.PARTS)
    assert sum(row[part] for part in split.PARTS) == pytest.approx(row["seconds"])
    assert row["table_calls"] > 0
    assert "tables take less than half" in capsys.readouterr().out


def test_clocks_count_functions_once_and_go_away():
    model = examples.grid(4, 4)
    tables = split.Clock()
    simplification = split.Clock(without=tables)
    with split.clocked(tables, simplification):
        assert table.kernels is not kernels
        counted = ibia.infer(model, bound=3, slices="never")
    assert table.kernels is kernels
    assert simplification.calls == 1
    assert tables.calls > 100
    calls, seconds = tables.calls, tables.seconds
    plain = ibia.infer(model, bound=3, slices="never")
    assert (tables.calls, tables.seconds) == (calls, seconds)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(plain.marginals, counted.marginals, strict=True))


def test_every_kernel_module_exists_and_names_its_functions():
    for name in split.KERNEL_MODULES:
        module = __import__(name, fromlist=["__all__"])
        members = [getattr(module, member) for member in module.__all__]
        assert any(callable(member) for member in members)


def test_a_clock_inside_a_clock_counts_once():
    clock = split.Clock()
    inner = clock.wrap(lambda: 1)
    assert clock.wrap(lambda: inner() + 1)() == 2
    assert clock.calls == 1


def test_growth_with_the_bound_and_with_the_size(data, tmp_path, capsys):
    out = tmp_path / "growth.json"
    bounds = ["--data", str(data), "--only", "spins", "--bounds", "3", "2", "--slices", "never"]
    assert main(["growth", *bounds, "--shapes", "tree", "grid", "--sizes", "16", "--json", str(out)]) == 0
    measured = read(out)
    assert [row["settings"]["bound"] for row in measured["bounds"]] == [2, 3]
    assert all(row["seconds"] > 0 and not row["exact"] for row in measured["bounds"])
    assert [(row["shape"], row["variables"]) for row in measured["sizes"]] == [("tree", 16), ("grid", 16)]
    assert all(row["exact"] and row["peak_memory_bytes"] >= row["memory_before_bytes"] for row in measured["sizes"])
    assert "ratio per bit over 1 instances" in capsys.readouterr().out
    assert main(["growth", "--data", str(data), "--shapes"]) == 1
    assert "no instance is wider than 22 bits" in capsys.readouterr().err


def test_ratio_per_bit_leaves_out_what_fitted_or_failed():
    rows = [
        {"settings": {"bound": 10}, "seconds": 1.0, "exact": False},
        {"settings": {"bound": 12}, "seconds": 9.0, "exact": False},
        {"settings": {"bound": 14}, "seconds": 0.1, "exact": True},
        {"settings": {"bound": 16}, "error": "stopped"},
    ]
    assert growth.ratio_per_bit(rows) == pytest.approx(3.0)
    assert growth.ratio_per_bit(rows[1:]) is None


def test_generated_models_have_the_size_asked_for():
    for shape, make in growth.SHAPES.items():
        assert len(make(40).variables) == 40, shape


def test_threads_compares_bits(data, tmp_path, capsys):
    out = tmp_path / "threads.json"
    arguments = ["threads", "--data", str(data), "--only", "spins", "--threads", "2", "--bound", "3", "--touch", "0.01"]
    assert main([*arguments, "--repetitions", "2", "--json", str(out)]) == 0
    (row,) = read(out)
    assert row["same_bits"]
    assert {threads: len(times) for threads, times in row["runs"].items()} == {"1": 2, "2": 2}
    assert row["seconds_one"] == min(row["runs"]["1"])
    assert row["ratio"] == pytest.approx(row["seconds_one"] / row["seconds_several"])
    assert "same bits" in capsys.readouterr().out
    assert main([*arguments, "--longer-than", "1000"]) == 0
    assert "0 runs" in capsys.readouterr().out


def test_memory_is_compared_with_each_limit(data, tmp_path, capsys):
    out = tmp_path / "memory.json"
    arguments = ["memory", "--data", str(data), "--only", "spins", "--bound", "4", "--memory-limit", "2000", "9000"]
    assert main([*arguments, "--threads", "2", "--json", str(out)]) == 0
    rows = read(out)
    assert [row["memory_limit_bytes"] for row in rows] == [2000 * 2**20, 9000 * 2**20]
    assert all(2**20 < row["memory_before_bytes"] <= row["peak_memory_bytes"] for row in rows)
    assert "over the limit: 0 of 2" in capsys.readouterr().out


@pytest.fixture
def program(tmp_path):
    """Make a program that answers like the command line at a bound of 4, whatever its limits, but not on one model."""
    script = tmp_path / "program.py"
    script.write_text(
        "import sys\n"
        "from ibia.cli import main\n"
        "given = sys.argv[1:]\n"
        "assert given[given.index('--time-limit') + 1] == '7.5'\n"
        "for option in ('--time-limit', '--memory-limit'):\n"
        "    del given[given.index(option) : given.index(option) + 2]\n"
        "if 'wrong' in given[0]:\n"
        "    sys.exit('no answer today')\n"
        "main(['infer', *given, '--bound', '4'])\n"
    )
    return f"{sys.executable} {script}"


def test_anytime_scores_answers_and_goes_on_where_it_stopped(data, tmp_path, capsys, program):
    out, summary, baseline = tmp_path / "any.jsonl", tmp_path / "any.json", tmp_path / "fixed.jsonl"
    fixed = [{"family": "Spins", "name": "spins", "settings": {}, "hd_max": 0.5}]
    baseline.write_text("".join(json.dumps(row) + "\n" for row in fixed))
    arguments = ["anytime", "--data", str(data), "--time-limit", "7.5", "--memory-limit", "4GB", "--program", program]
    arguments += ["--out", str(out), "--baseline", str(baseline), "--json", str(summary), "--jobs", "2"]
    assert main([*arguments, "--only", "right", "wrong"]) == 0
    capsys.readouterr()
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "2 of 3 are in" in printed
    assert len(out.read_text().splitlines()) == 3
    rows = {row["name"]: row for row in read_rows(out)}
    assert rows["right"]["exact"] is True
    assert rows["right"]["hd_max"] < 1e-12
    assert rows["spins"]["bound"] == 4
    assert 0 < rows["spins"]["hd_max"] < 0.5
    assert rows["wrong"]["error"] == "no answer today"
    assert rows["right"]["settings"] == {"time_limit": 7.5, "memory_limit": "4GB"}
    assert {row["name"] for row in read(summary)} == rows.keys()
    lines = {line.split()[0]: line.split() for line in printed.split("\n\n")[-1].splitlines()}
    assert lines["Toys"][1:3] == ["1/2", "1"]
    assert lines["all"][1] == "2/3"
    assert lines["Spins"][-5:] == ["1", f"{rows['spins']['hd_max']:.1e}", "5.0e-01", "1", "0"]
    # What failed is run again only when asked for.
    assert main([*arguments, "--only", "wrong", "--again"]) == 0
    assert len(out.read_text().splitlines()) == 4


def test_anytime_stops_a_program_that_does_not_stop(data):
    trial = anytime.Trial((sys.executable, "-c", "import time; time.sleep(60)"), 0.2, None, 0.3)
    row = anytime.run(find_instance(data, "Toys", "right"), trial)
    assert row["error"] == "stopped after 0.5 s"
    assert 0.2 < row["overshoot_seconds"] < 30


def test_portfolio_compares_settings_and_goes_on_where_it_stopped(data, tmp_path, capsys):
    out = tmp_path / "portfolio.jsonl"
    arguments = ["portfolio", "--data", str(data), "--bound", "4", "--orders", "elimination", "--out", str(out)]
    assert main([*arguments, "--reductions", "1"]) == 0
    assert len(read_rows(out)) == 3
    capsys.readouterr()
    assert main([*arguments, "--reductions", "1", "demand", "--jobs", "2"]) == 0
    assert "3 of 4 runs are in" in (printed := capsys.readouterr().out)
    settings = {(row["settings"]["order"], row["settings"].get("reduce")) for row in read_rows(out)}
    assert settings == {("auto", None), ("elimination", 1.0), ("elimination", "demand")}
    assert "elimination, demand" in printed.split("\n\n")[-1]
    assert "automatic, no slices" in printed.split("\n\n")[-1]


def test_portfolio_summary_counts_the_best():
    def row(name, order, hd_max, exact=False):
        settings = {"bound": 4, "order": order} | ({} if order == "auto" else {"reduce": 1.0})
        return {"family": "F", "name": name, "settings": settings, "hd_max": hd_max, "exact": exact}

    rows = [row("a", "auto", 0.1), row("a", "breadth", 0.2), row("b", "auto", 0.3), row("b", "breadth", 0.1)]
    rows += [row("c", "auto", 0.0, exact=True), row("c", "breadth", 0.0, exact=True)]
    rows += [{"family": "F", "name": "a", "settings": {"bound": 4, "order": "reverse", "reduce": 1.0}, "error": "none"}]
    lines = portfolio.summary_lines(rows)
    assert "1 instances that were exact" in lines[0]
    cells = {line.rsplit(maxsplit=6)[0]: line.split()[-6:] for line in lines[2:]}
    assert cells.keys() == {"automatic", "breadth, 1", "best in hindsight"}
    assert cells["automatic"][:2] == ["2", "2.00e-01"]
    assert cells["automatic"][-1] == cells["breadth, 1"][-1] == "1"
    assert float(cells["breadth, 1"][3]) == pytest.approx(math.sqrt(0.02), rel=0.01)
    assert cells["best in hindsight"][1] == "1.00e-01"
    # Slices are exact, whatever the order: they do not keep the others from being the best.
    rows += [row("d", "auto", 0.0, exact=True), row("d", "breadth", 0.2)]
    counted = {line.rsplit(maxsplit=6)[0]: line.split()[-1] for line in portfolio.summary_lines(rows)[2:]}
    assert counted == {"automatic": "2", "breadth, 1": "2", "best in hindsight": "3"}


def test_a_missing_simplification_is_a_sentence(monkeypatch):
    monkeypatch.setattr(split, "_SIMPLIFICATION", ("ibia.simplify", "gone"))
    with pytest.raises(InputError, match="has no function gone"), split.clocked(split.Clock(), split.Clock()):
        pass
