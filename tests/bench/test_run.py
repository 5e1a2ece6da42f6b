"""Runs of solvers on models: rows, limits, resuming; solvers that misbehave are rows, too."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from bench_programs import answering, script
from ibia import cli, examples
from ibia.bench.apart import RESTART_CLOCK, Limits
from ibia.bench.commands import TimeLeft, run_line
from ibia.bench.run import plan_runs, solve
from ibia.bench.sets import choose, find_sets
from ibia.bench.solvers import parse_solver
from ibia.bench.store import read_results


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("IBIA_DATA", raising=False)


@pytest.fixture
def bench(data, tmp_path, capsys):
    """Run ``ibia bench run`` on the folder of tiny models; return its exit code and what it printed."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.main(["bench", "run", "--data", str(data), "--out", str(tmp_path / "out.jsonl"), *map(str, arguments)])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call


def row_of(data, name, solver, **limits):
    """Run a solver on a model of the folder in this process."""
    (item,) = choose(find_sets(data), ["all"], [name])
    allowed = {"seconds": None, "memory": None, "threads": 1, **limits}
    *before, last = solve(item.plain(), solver, allowed)
    assert RESTART_CLOCK in before[0]
    assert "status" not in before[-1]
    return last


def test_a_row_holds_the_errors_and_the_figures(data):
    row = row_of(data, "wrong", "ibia:bound=10")
    assert row["status"] == "answered"
    assert row["reference"] == "exact"
    difficulty = examples.student().factors[0].values
    assert row["hd_max"] == pytest.approx((1 - difficulty[0] ** 0.5) ** 0.5)
    assert row["hd_avg"] == pytest.approx(row["hd_max"] / 5)
    assert row["largest_absolute_error"] == pytest.approx(difficulty[1])
    assert row["worst_variable"] == 0
    # The reference has put everything on one state.
    assert row["kl_max"] == pytest.approx(-math.log(difficulty[0]))
    assert row["kl_avg"] == pytest.approx(row["kl_max"] / 5)
    assert row["ruled_out"] == 0
    assert row["delta_log10_z"] == pytest.approx(-0.5)
    assert (row["exact"], row["steps"], row["bound"], row["variables"], row["observed"]) == (True, 1, 10, 5, 0)
    assert row["seconds"] > 0
    json.dumps(row)


def test_a_model_without_reference_is_answered_all_the_same(data):
    row = row_of(data, "open", "ibia:bound=10")
    assert row["status"] == "answered"
    assert "hd_max" not in row
    assert row["delta_log10_z"] is None


def test_nonsense_and_what_does_not_suit_are_rows(data, tmp_path):
    row = row_of(data, "right", f"uai:{script(tmp_path, 'nonsense')}")
    assert row["status"] == "nonsense"
    assert row["error"] == "There are 1 marginals for 5 variables."
    assert "hd_max" not in row
    row = row_of(data, "right", f"uai:{script(tmp_path, 'negative')}")
    assert (row["status"], row["error"][:23]) == ("nonsense", "model.uai.MAR, line 2: ")
    line = run_line({**row, "family": "Toys", "name": "right", "solver": "uai"})
    assert "nonsense: model.uai.MAR" in line


def test_runs_are_known_by_model_solver_version_and_limits(data, tmp_path):
    items = choose(find_sets(data), ["Toys"])
    solvers = [parse_solver("ibia:bound=5"), parse_solver("ibia:bound=6")]
    plan = plan_runs(items, solvers, Limits(10.0), {})
    assert len({run.key for run in plan.todo}) == 6
    known = {run.key: run.label for run in plan.todo[:4]}
    again = plan_runs(items, solvers, Limits(10.0), known)
    assert [run.key for run in again.todo] == [run.key for run in plan.todo[4:]]
    assert len(again.done) == 4
    assert len(plan_runs(items, solvers, Limits(20.0), known).todo) == 6
    other = {key: {**row, "version": "older"} for key, row in zip("abcd", known.values(), strict=True)}
    assert len(plan_runs(items, solvers, Limits(10.0), other).todo) == 6
    assert len(plan_runs(items, solvers, Limits(10.0), other, any_version=True).todo) == 2


def test_misbehaving_solvers_are_rows_and_nothing_is_repeated(bench, tmp_path):
    names = ("silent", "endless", "nonsense", "greedy")
    programs = [script(tmp_path, name) for name in names]
    programs.append(answering(tmp_path, "good", examples.student(), {3: 1}))
    arguments = ["--set", "uai2014", "-j", "2", "--time-limit", "4", "--memory-limit", "500MB"]
    for program in programs:
        arguments += ["--solver", f"uai:{program}"]
    began = time.monotonic()
    code, printed, _ = bench(*arguments)
    assert code == 0
    assert time.monotonic() - began < 120
    rows = {row["solver"].rpartition("/")[2]: row for row in read_results([tmp_path / "out.jsonl"])}
    assert {name: row["status"] for name, row in rows.items()} == {
        "silent": "failed",
        "endless": "out of time",
        "nonsense": "nonsense",
        "greedy": "out of memory",
        "good": "answered",
    }
    assert rows["good"]["hd_max"] < 1e-12
    assert rows["greedy"]["peak_memory_bytes"] > 5e8
    assert "no model.uai.MAR" in rows["silent"]["error"]
    assert all(row["limits"]["seconds"] == 4 and row["wall_seconds"] > 0 for row in rows.values())
    assert "HD_max" in printed
    assert "endless" in printed
    # A kill in the middle of a line, and the same command again: one run is repeated, the others are not.
    path = tmp_path / "out.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:40])
    code, printed, complaints = bench(*arguments)
    assert code == 0
    assert "4 of 5 runs are done already" in complaints
    assert len(printed.splitlines()) == 2
    assert len(path.read_text().splitlines()) == 5
    code, printed, _ = bench(*arguments)
    assert (code, printed) == (0, "")


def test_what_cannot_run_is_said_before_anything_runs(bench, tmp_path):
    code, _, complaints = bench("--set", "Toys", "--solver", "uai:/no/such/program")
    assert code == 1
    assert "There is no program /no/such/program" in complaints
    assert bench("--set", "Nothing")[0] == 1
    assert bench("--set", "Toys", "-j", "0")[0] == 1
    assert bench("--set", "Toys", "--time-limit", "soon")[0] == 1
    assert not (tmp_path / "out.jsonl").read_text() if (tmp_path / "out.jsonl").exists() else True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_bench_that_is_ended_leaves_nothing_behind_and_goes_on(data, tmp_path, number):
    mark = tmp_path / "alive"
    text = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)"
    slow = script(tmp_path, "slow", text)
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "ibia", "bench", "run", "--data", str(data), "--set", "uai2014", "-j", "1"]
    command += ["--solver", f"uai:{script(tmp_path, 'nonsense')}", "--solver", f"uai:{slow}", "--out", str(out)]
    # Tests that run in the background may ignore interruptions, and what they start with them.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=heed
    )
    _wait_for(lambda: mark.exists() and mark.read_text())
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    started = int(mark.read_text())
    _wait_for(lambda: not os.path.exists(f"/proc/{started}"))
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
        assert "Interrupted with 1 of 2 runs left" in printed
        assert "Traceback" not in printed
    assert [row["status"] for row in read_results([out])] == ["nonsense"]


def _wait_for(condition, seconds=90.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_the_time_left_is_estimated_from_what_was():
    left = TimeLeft(total=10, jobs=2)
    assert left.words() == ""
    left.add({"wall_seconds": 30.0})
    left.add({"wall_seconds": 10.0})
    assert left.seconds == 80.0
    assert left.words() == "about 1 min 20 s left"
    left = TimeLeft(total=361, jobs=1)
    left.add({"wall_seconds": 61.0})
    assert left.words() == "about 6 h 06 min left"


def test_list_shows_sets_and_solvers(data, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "list", "--data", str(data)])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "uai2014" in printed
    assert "pyagrum-gibbs" in printed


def test_help_is_shown_and_wrong_usage_is_a_sentence(capsys):
    for arguments, code, words in (
        (["bench"], 2, "Commands:"),
        (["bench", "run", "--help"], 0, "--solver"),
        (["bench", "swim"], 2, "No such command"),
        (["bench", "run"], 2, "Missing option '--set'"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        captured = capsys.readouterr()
        assert ended.value.code == code
        assert words in captured.out + captured.err


def test_the_command_line_does_not_load_the_bench():
    code = "import sys, ibia, ibia.cli; assert not [name for name in sys.modules if name.startswith('ibia.bench')]"
    subprocess.run([sys.executable, "-c", code], check=True)
