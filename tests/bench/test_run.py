"""Runs of solvers on models: rows, limits, resuming; solvers that misbehave are rows, too."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from bench_programs import answering, daemon, script
from bench_rows import row as bench_row
from ibia import cli, examples
from ibia.bench import commands
from ibia.bench.apart import RESTART_CLOCK, Limits
from ibia.bench.commands import TimeLeft, run_line
from ibia.bench.run import known_rows, plan_runs, run_plan, solve
from ibia.bench.sets import FileItem, choose, find_sets
from ibia.bench.solvers import parse_solver
from ibia.bench.store import Store, read_results
from ibia.formats import write_evidence


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
    assert RESTART_CLOCK in before[1]
    assert not [begun for begun in before[:2] if "status" in begun]
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
    plan = plan_runs(items, solvers, Limits(10.0), [])
    assert len({run.key for run in plan.todo}) == 6
    known = [run.label for run in plan.todo[:4]]
    again = plan_runs(items, solvers, Limits(10.0), known)
    assert [run.key for run in again.todo] == [run.key for run in plan.todo[4:]]
    assert len(again.done) == 4
    assert len(plan_runs(items, solvers, Limits(20.0), known).todo) == 6
    # Rows whose keys were made in another way.
    assert plan_runs(items, solvers, Limits(10.0), [{**row, "key": "a"} for row in known]).todo == again.todo
    other = [{**row, "version": "older"} for row in known]
    assert len(plan_runs(items, solvers, Limits(10.0), other).todo) == 6
    assert len(plan_runs(items, solvers, Limits(10.0), other, any_version=True).todo) == 2


def test_programs_of_one_name_in_two_folders_are_two_solvers(bench, tmp_path):
    programs = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        programs.append(script(tmp_path / name, "solver", f"import sys; sys.exit('{name}')"))
    arguments = ["--set", "uai2014", *(word for program in programs for word in ("--solver", f"uai:{program}"))]
    code, printed, _ = bench(*arguments)
    assert code == 0
    out = tmp_path / "out.jsonl"
    rows = read_results([out])
    assert [row["error"][-5:].strip(": ") for row in sorted(rows, key=lambda row: row["error"])] == ["one", "other"]
    assert len({row["solver"] for row in rows}) == 2
    assert str(tmp_path) not in printed + "".join(row["solver"] for row in rows)
    # A report of one of them is asked for as it was run.
    assert [row["error"][-3:] for row in commands._read([out], [f"uai:{programs[0]}"])] == ["one"]
    # Rows that were written when labels had paths are known all the same.
    paths = {parse_solver(f"uai:{program}").label: f"uai:program={program}" for program in programs}
    out.write_text("".join(json.dumps({**row, "solver": paths[row["solver"]]}) + "\n" for row in rows))
    assert bench(*arguments)[1] == ""


def test_what_has_no_answer_is_run_again_on_request(data):
    (item,) = choose(find_sets(data), ["uai2014"])
    statuses = ["answered", "failed", "crashed", "out of time", "out of memory", "unusable", "nonsense", "unsuited"]
    solvers = [parse_solver(f"ibia:bound={bound}") for bound in range(5, 5 + len(statuses))]
    todo = plan_runs([item], solvers, Limits(10.0), []).todo
    known = [{**run.label, "status": status} for run, status in zip(todo, statuses, strict=True)]
    # It has answered, but what was to be compared with it could not be had.
    lacking = {**known[0], "reference": "none", "reference_error": "The exact answer could not be computed: stopped"}
    assert plan_runs([item], solvers[:1], Limits(10.0), [lacking]).todo == ()
    assert plan_runs([item], solvers[:1], Limits(10.0), [lacking], retry=True).todo == todo[:1]
    assert plan_runs([item], solvers, Limits(10.0), known).todo == ()
    again = plan_runs([item], solvers, Limits(10.0), known, retry=True)
    assert again.todo == todo[1:6]
    assert [row["status"] for row in again.done] == ["answered", "nonsense", "unsuited"]


def test_a_row_that_was_retried_takes_the_place_of_the_one_before(bench, tmp_path):
    arguments = ["--set", "uai2014", "--solver", "ibia:bound=5"]
    assert bench(*arguments)[0] == 0
    out = tmp_path / "out.jsonl"
    row = json.loads(out.read_text())
    assert row["machine"]["cores"] >= 1
    out.write_text(json.dumps({**row, "status": "failed", "error": "No."}) + "\n")
    assert bench(*arguments)[1] == ""
    assert bench(*arguments, "--retry")[0] == 0
    assert [row["status"] for row in read_results([out])] == ["answered"]
    assert len(out.read_text().splitlines()) == 2


def test_the_same_contents_under_two_names_are_two_runs(data):
    (item,) = choose(find_sets(data), ["uai2014"])
    for path in (data / "Toys").glob("right.*"):
        shutil.copy(path, path.with_name(path.name.replace("right", "twin")))
    twin = FileItem(replace(item.instance, name="twin"))
    assert twin.digest() == item.digest()
    solvers = [parse_solver("ibia:bound=5")]
    plan = plan_runs([item, twin], solvers, Limits(10.0), [])
    assert len({run.key for run in plan.todo}) == 2
    rest = plan_runs([item, twin], solvers, Limits(10.0), [plan.todo[0].label], any_version=True)
    assert [run.item.name for run in rest.todo] == ["twin"]
    # One that two sets have is one run.
    assert len(plan_runs([item, item], solvers, Limits(10.0), []).todo) == 1


def test_rows_that_are_known_are_those_of_the_same_contents_and_the_version_that_is_here(data, monkeypatch):
    (item,) = choose(find_sets(data), ["uai2014"])
    solvers = [parse_solver("ibia:bound=5"), parse_solver("pgmpy-exact")]
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    (run,) = plan_runs([item], solvers[:1], Limits(10.0), []).todo
    here, older = run.label, {**run.label, "version": "older"}
    foreign = [
        {**here, "digest": "another"},
        {**here, "limits": {**here["limits"], "threads": 2}},
        # Not installed: any version will do.
        {**here, "solver": "pgmpy-exact", "version": "1"},
    ]
    assert known_rows([item], solvers, Limits(10.0), [older, *foreign]) == [older, foreign[-1]]
    assert known_rows([item], solvers[:1], Limits(10.0), [here, older, *foreign]) == [here]


def test_a_row_says_which_version_has_run(data, tmp_path):
    program = answering(tmp_path, "good", examples.student(), {3: 1})
    items, solvers = choose(find_sets(data), ["uai2014"]), [parse_solver(f"uai:{program}")]
    plan = plan_runs(items, solvers, Limits(60.0), [])
    program.write_text(program.read_text() + "# A new build.\n")
    with Store(tmp_path / "out.jsonl") as store:
        (row,) = run_plan(plan, store)
    assert row["status"] == "answered"
    assert row["version"] == solvers[0].version() != plan.todo[0].label["version"]
    (again,) = plan_runs(items, solvers, Limits(60.0), []).todo
    assert again.key == row["key"]
    assert list(store.rows) == [row["key"]]


def test_misbehaving_solvers_are_rows_and_nothing_is_repeated(bench, tmp_path):
    names = ("silent", "endless", "nonsense", "greedy", "broken")
    programs = [script(tmp_path, name) for name in names]
    programs.append(answering(tmp_path, "good", examples.student(), {3: 1}))
    arguments = ["--set", "uai2014", "-j", "2", "--time-limit", "4", "--memory-limit", "500MB"]
    for program in programs:
        arguments += ["--solver", f"uai:{program}"]
    began = time.monotonic()
    code, printed, _ = bench(*arguments)
    assert code == 0
    assert time.monotonic() - began < 120
    found = read_results([tmp_path / "out.jsonl"])
    rows = {row["solver"].removeprefix("uai:program=").partition("~")[0]: row for row in found}
    assert {name: row["status"] for name, row in rows.items()} == {
        "silent": "failed",
        "endless": "out of time",
        "nonsense": "nonsense",
        "greedy": "out of memory",
        "broken": "crashed",
        "good": "answered",
    }
    assert rows["good"]["hd_max"] < 1e-12
    assert rows["greedy"]["peak_memory_bytes"] > 5e8
    assert "not written model.uai.MAR" in rows["silent"]["error"]
    assert rows["broken"]["error"].endswith("by the signal SIGSEGV.")
    assert all(row["limits"]["seconds"] == 4 and row["wall_seconds"] > 0 for row in rows.values())
    assert "HD_max" in printed
    assert "endless" in printed
    # A kill in the middle of a line, and the same command again: one run is repeated, the others are not.
    path = tmp_path / "out.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]) + lines[-1][:40])
    code, printed, complaints = bench(*arguments)
    assert code == 0
    assert "5 of 6 runs are done already" in complaints
    assert len(printed.splitlines()) == 2
    assert len(path.read_text().splitlines()) == 6
    code, printed, _ = bench(*arguments)
    assert (code, printed) == (0, "")


def test_what_is_wrong_with_a_model_is_said_once_and_no_method_is_blamed(bench, data, tmp_path, capsys):
    write_evidence(data / "Toys" / "open.evid", {3: 7})
    (data / "Toys" / "right.PR").write_text("PR\nnonsense\n")
    solvers = ["--solver", "ibia:bound=5", "--solver", "ibia:bound=6"]
    code, printed, _ = bench("--set", "Toys", "--only", "open", "--only", "right", *solvers)
    assert code == 0
    rows = read_results([tmp_path / "out.jsonl"])
    assert sorted((row["name"], row["status"]) for row in rows) == [
        *[("open", "unusable")] * 2,
        *[("right", "answered")] * 2,
    ]
    assert printed.count("Toys/open cannot be used and is left out: ") == 1
    assert printed.count("Toys/right is not compared with a reference: ") == 1
    assert len(printed.splitlines()) == 5
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "report", str(tmp_path / "out.jsonl"), "-o", str(tmp_path / "report.html")])
    captured = capsys.readouterr()
    assert ended.value.code == 0
    assert captured.err.count("Toys/open cannot be used and is left out: ") == 1
    assert captured.err.count("Toys/right is not compared with a reference: ") == 1
    assert "1 of 1" in (tmp_path / "report.html").read_text()
    assert "unusable" not in (tmp_path / "report.html").read_text()


def test_results_of_unusable_models_alone_are_a_sentence(tmp_path, capsys):
    made = bench_row(status="unusable")
    (tmp_path / "out.jsonl").write_text(json.dumps(made) + "\n")
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "report", str(tmp_path / "out.jsonl"), "-o", str(tmp_path / "report.html")])
    assert ended.value.code == 1
    assert "there is nothing to show" in capsys.readouterr().err


def test_names_of_any_length_do_not_run_into_each_other():
    name = "grid:rows=15,columns=15,coupling=2,field=0.1,seed=3"
    assert f"{name} ibia:bound=8 " in run_line(bench_row(name, "ibia:bound=8"))


def test_what_cannot_run_is_said_before_anything_runs(bench, tmp_path):
    code, _, complaints = bench("--set", "Toys", "--solver", "uai:/no/such/program")
    assert code == 1
    assert "There is no program /no/such/program" in complaints
    assert bench("--set", "Nothing")[0] == 1
    assert bench("--set", "Toys", "-j", "0")[0] == 1
    assert bench("--set", "Toys", "--time-limit", "soon")[0] == 1
    assert not (tmp_path / "out.jsonl").read_text() if (tmp_path / "out.jsonl").exists() else True


@pytest.mark.parametrize(
    "solver", ["ibia:loss=foo", "paper:bound=4", "loopy:damping=7", "merlin:algorithm=nope", "uai:/no/program"]
)
def test_a_refused_run_leaves_the_results_as_they_were(bench, tmp_path, solver):
    out = tmp_path / "out.jsonl"
    out.write_text('{"key": "half a')
    assert bench("--set", "Toys", "--solver", solver)[0] == 1
    assert out.read_text() == '{"key": "half a'


@pytest.mark.parametrize("text", ['{"results": [1]}', '{"key": "x"}\n'])
@pytest.mark.parametrize("options", [[], ["--any-version"]])
def test_results_of_others_are_a_sentence_and_left_alone(bench, tmp_path, text, options):
    out = tmp_path / "out.jsonl"
    out.write_text(text)
    code, _, complaints = bench("--set", "uai2014", "--solver", "ibia:bound=5", *options)
    assert code == 1
    assert "not a row of results" in complaints or "it has no family" in complaints
    assert out.read_text() == text


def test_options_reach_the_run_and_nothing_that_was_started_is_left(bench, tmp_path):
    answer = partial(answering, tmp_path, model=examples.student(), evidence={3: 1})
    lingering = answer("lingering", before=daemon(tmp_path / "lingering-alive"))
    endless = answer("endless", before=daemon(tmp_path / "endless-alive"), seconds=1000.0)
    arguments = ["--set", "uai2014", "-j", "1", "--time-limit", "3", "--solver", f"uai:{endless}"]
    # The same solver in two ways.
    arguments += ["--solver", f"uai:{lingering},pr=yes", "--solver", f"uai:program={lingering},pr=yes"]
    assert bench(*arguments)[0] == 0
    late, answered = read_results([tmp_path / "out.jsonl"])
    assert (late["status"], answered["status"]) == ("out of time", "answered")
    assert abs(answered["delta_log10_z"]) < 1e-9
    started = [(tmp_path / f"{name}-alive").read_text() for name in ("lingering", "endless")]
    _wait_for(lambda: not any(os.path.exists(f"/proc/{number}") for number in started), seconds=20.0)


def test_models_that_are_not_there_are_left_out_and_named(bench, data, tmp_path):
    (data / "Toys" / "wrong.uai.xz").unlink()
    code, _, complaints = bench("--set", "Toys", "--solver", "loopy:sweeps=3", "--only", "right")
    assert code == 0
    assert complaints.splitlines()[0] == f"{data} lacks 1 model of its index, left out: Toys/wrong."
    assert [row["name"] for row in read_results([tmp_path / "out.jsonl"])] == ["right"]


def test_what_is_to_be_known_of_a_folder_is_said_to_those_who_ask_for_it(bench, data, tmp_path, monkeypatch):
    (data / "Toys" / "wrong.uai.xz").unlink()
    (data / "Spins").rename(data / "grid")
    (data / "index.csv").write_text((data / "index.csv").read_text().replace("Spins", "grid"))
    monkeypatch.setenv("IBIA_DATA", str(data))
    generated = ["--set", "grid:rows=2,columns=2", "--solver", "loopy:sweeps=3"]
    _, _, complaints = bench(*generated)
    assert "left out" not in complaints
    code, _, complaints = bench("--set", "grid", "--only", "spins")
    assert code == 1
    assert complaints.startswith("The set grid is that of the bench")
    assert "have no model spins" in complaints
    assert bench("--set", "data/grid", "--solver", "loopy:sweeps=3")[0] == 0
    rows = read_results([tmp_path / "out.jsonl"])
    assert [(row["family"], row["name"]) for row in rows] == [("grid", "grid:rows=2,columns=2"), ("grid", "spins")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_bench_that_is_ended_leaves_nothing_behind_and_goes_on(data, tmp_path, number):
    mark = tmp_path / "alive"
    slow = script(tmp_path, "slow", f"{daemon(mark)}\ntime.sleep(1000)")
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "ibia", "bench", "run", "--data", str(data), "--set", "uai2014", "-j", "1"]
    command += ["--solver", f"uai:{script(tmp_path, 'nonsense')}", "--solver", f"uai:{slow}", "--out", str(out)]
    # Tests that run in the background may ignore interruptions, and what they start with them.
    heed = partial(signal.signal, signal.SIGHUP if number == signal.SIGHUP else signal.SIGINT, signal.SIG_DFL)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    _wait_for(lambda: mark.exists() and mark.read_text())
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    started = int(mark.read_text())
    _wait_for(lambda: not os.path.exists(f"/proc/{started}"))
    _wait_for(lambda: not list(scratch.iterdir()))
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}[number]
        assert "Interrupted with 1 of 2 runs left" in printed
        assert "Traceback" not in printed
        assert "before there was an answer" not in printed
    assert [row["status"] for row in read_results([out])] == ["nonsense"]


def _take_terminal():
    """Have the standard input be the terminal of the session, so that processes are told when it is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_bench_whose_terminal_is_closed_leaves_nothing_behind(tmp_path):
    mark, out = tmp_path / "alive", tmp_path / "out.jsonl"
    slow = script(tmp_path, "slow", f"{daemon(mark)}\ntime.sleep(1000)")
    command = [sys.executable, "-m", "ibia", "bench", "run", "--set", "grid:rows=2,columns=2", "--out", str(out)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*command, "--solver", f"uai:{slow}"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    os.set_blocking(ours, False)

    def is_running():
        with suppress(BlockingIOError):
            # A terminal that nobody reads from would hold it up.
            os.read(ours, 100_000)
        return mark.exists() and mark.read_text()

    _wait_for(is_running)
    assert out.exists()
    os.close(ours)
    assert process.wait(timeout=60) == 129
    _wait_for(lambda: not os.path.exists(f"/proc/{mark.read_text()}"))
    # It would be empty.
    assert not out.exists()


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def heeded(request):
    """Return a signal that processes heed which are started now: tests in the background may ignore some."""
    before = signal.signal(request.param, lambda *_: None)
    yield request.param
    signal.signal(request.param, before)


def test_a_run_that_somebody_ends_is_no_row_and_is_repeated(bench, tmp_path, heeded):
    # The process that the program is run for, twice removed: that of the bench which starts it is between them.
    text = f"""import os, time
parent = int(open(f"/proc/{{os.getppid()}}/stat").read().rpartition(")")[2].split()[1])
os.kill(parent, {heeded.value})
time.sleep(1000)"""
    program = script(tmp_path, "fatal", text)
    arguments = ["--set", "uai2014", "--solver", f"uai:{program}", "--solver", "loopy"]
    code, printed, _ = bench(*arguments)
    assert code == 0
    assert f"interrupted: ended by the signal {heeded.name}" in printed
    assert "Ended by somebody: 1 run; the same command repeats them." in printed
    assert [row["solver"] for row in read_results([tmp_path / "out.jsonl"])] == ["loopy"]
    answering(tmp_path, "fatal", examples.student(), {3: 1})
    assert bench(*arguments)[0] == 0
    assert [row["status"] for row in read_results([tmp_path / "out.jsonl"])] == ["answered"] * 2


def test_a_program_that_signals_its_own_group_ends_nobody_else(bench, tmp_path):
    program = answering(tmp_path, "loud", examples.student(), {3: 1})
    program.write_text(f"{program.read_text()}import os, signal\nos.kill(0, signal.SIGTERM)\n")
    code, printed, _ = bench("--set", "uai2014", "--solver", f"uai:{program}")
    assert code == 0
    assert "Ended by somebody" not in printed
    (row,) = read_results([tmp_path / "out.jsonl"])
    assert row["status"] == "answered"
    assert row["hd_max"] < 1e-12


def test_runs_threads_and_cores_are_counted(bench, monkeypatch):
    monkeypatch.setattr(commands, "usable_cores", lambda: 1)
    monkeypatch.setattr(commands, "available_memory", lambda: 2.0**30)
    _, _, complaints = bench("--set", "uai2014", "--solver", "loopy", "-j", "2", "--memory-limit", "2GiB")
    assert "2 runs of 1 thread on 1 core: the times will not mean much." in complaints
    assert "2 runs of up to 2 GiB on 1 GiB of free memory." in complaints


def _wait_for(condition, seconds=90.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_lines_for_a_file_go_there_while_a_bar_is_on_the_terminal(tmp_path):
    code = "from ibia.bench.commands import _progress\n"
    code += "with _progress(2, 1) as (show, say, prepare):\n    prepare(1, 3)\n    say('a line')\n"
    code += "    show({'wall_seconds': 1.0})\n"
    ours, theirs = pty.openpty()
    out = tmp_path / "printed"
    try:
        with open(out, "wb") as stream:
            subprocess.run([sys.executable, "-c", code], stdout=stream, stderr=theirs, check=True)
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert out.read_text() == "a line\n"
    assert "1/2 runs" in shown
    assert "1 of 3 exact answers" in shown
    assert "a line" not in shown


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
