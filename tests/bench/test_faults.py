"""Faults of the data are no faults of solvers, answers outlive what comes after them, limits say what they mean."""

from __future__ import annotations

import math
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import ibia
from bench_programs import answering, companion, runs, script
from ibia import examples
from ibia.bench import apart, processes
from ibia.bench.apart import RESTART_CLOCK, STOP_CLOCK, Job, Limits, run_apart
from ibia.bench.commands import carry_out
from ibia.bench.reference import cache_folder, kept_reference
from ibia.bench.run import plan_runs, run_plan, solve
from ibia.bench.sets import choose, find_sets
from ibia.bench.solvers import parse_solver
from ibia.bench.store import Store
from ibia.formats import write_evidence, write_marginals
from ibia.model import Model

LIMITS = {"seconds": None, "memory": None, "threads": 1}


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("IBIA_DATA", raising=False)


def right(data):
    (item,) = choose(find_sets(data), ["uai2014"])
    return item


def rows_of(item, solver="ibia:bound=10", **more):
    return list(solve(item.plain(), solver, LIMITS, **more))


def run(item, tmp_path, limits=Limits(60.0), solver="ibia:bound=10", **more):  # noqa: B008
    """Run a solver on an item as the bench does, in processes of their own."""
    with Store(tmp_path / "out.jsonl") as store:
        (row,) = run_plan(plan_runs([item], [parse_solver(solver)], limits, []), store, **more)
    return row


def _spoil_partition(toys: Path) -> None:
    (toys / "right.PR").write_text("PR\nnonsense\n")


def _spoil_marginals(toys: Path) -> None:
    (toys / "right.MAR.xz").unlink()
    (toys / "right.MAR").write_text("MAR\n5 2 0.5\n")


def _shorten_marginals(toys: Path) -> None:
    write_marginals(toys / "right.MAR.xz", [np.array([0.5, 0.5])] * 4)


def _widen_a_marginal(toys: Path) -> None:
    sizes = [2, 2, 4, 2, 2]
    write_marginals(toys / "right.MAR.xz", [np.full(size, 1.0 / size) for size in sizes])


def _unbalance_a_marginal(toys: Path) -> None:
    (toys / "right.MAR.xz").unlink()
    (toys / "right.MAR").write_text("MAR\n5 2 0.5 0.6 2 0.5 0.5 3 1 0 0 2 0 1 2 0.5 0.5\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_spoil_partition, "right.PR, line 2: "),
        (_spoil_marginals, "right.MAR, line 2: "),
        (_shorten_marginals, "right.MAR.xz: There are 4 marginals for 5 variables."),
        (_widen_a_marginal, "right.MAR.xz: The marginal of variable 2 has 4 states instead of 3."),
        (_unbalance_a_marginal, "right.MAR: The marginal of variable 0 is not a distribution"),
    ],
)
def test_a_reference_that_cannot_be_used_leaves_the_answer_in_place(data, spoil, words):
    spoil(data / "Toys")
    row = rows_of(right(data))[-1]
    assert row["status"] == "answered"
    assert row["reference"] == "none"
    assert words in row["reference_error"]
    assert "hd_max" not in row
    assert row["delta_log10_z"] is None
    assert row["exact"] is True
    assert row["seconds"] > 0.0
    assert math.isfinite(row["log10_z"])


def test_nothing_is_said_about_a_reference_that_can_be_used(data):
    assert "reference_error" not in rows_of(right(data))[-1]


@pytest.mark.parametrize(
    ("evidence", "words"),
    [({3: 7}, "state 7"), ({9: 0}, "There is no variable 9: the model has 5 variables")],
)
@pytest.mark.parametrize("solver", ["ibia:bound=10", "loopy", "uai:/bin/true"])
def test_evidence_that_is_not_of_the_model_is_a_fault_of_the_data(data, evidence, words, solver):
    write_evidence(data / "Toys" / "right.evid", evidence)
    (row,) = rows_of(right(data), solver)
    assert row["status"] == "unusable"
    assert row["error"].startswith(f"{data}/Toys/right.evid: ")
    assert words in row["error"]


def test_a_model_that_cannot_be_read_is_a_fault_of_the_data(data):
    item = right(data)
    (data / "Toys" / "right.uai.xz").write_bytes(b"nonsense")
    (row,) = rows_of(item)
    assert row["status"] == "unusable"
    assert "right.uai.xz" in row["error"]


def _folder_of(tmp_path, model):
    folder = tmp_path / "mine"
    folder.mkdir()
    ibia.write(model, folder / "alone.uai")
    (item,) = find_sets(folder)["all"].items
    return folder, item


UNLIKE = [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    "factors",
    [
        [([0], [1.0, 0.0]), ([0, 1], [[0.0, 0.0], [1.0, 1.0]])],
        # No two of them show it.
        [([0, 1], UNLIKE), ([1, 2], UNLIKE), ([2, 0], UNLIKE)],
    ],
)
def test_a_model_in_which_nothing_is_possible_is_a_fault_of_the_data(tmp_path, factors):
    _, item = _folder_of(tmp_path, Model.from_arrays([2, 2, 2], factors, kind="markov"))
    row = run(item, tmp_path)
    assert row["status"] == "unusable"
    assert "Z is 0" in row["error"]
    (kept,) = cache_folder().glob("reference-*")
    reference = kept_reference(kept.name.split("-")[-1].removesuffix(".npz"))
    assert reference.is_impossible


def test_a_reference_of_zero_is_a_fault_of_the_data(data):
    (data / "Toys" / "open.PR").write_text("PR\n-inf\n")
    (item,) = choose(find_sets(data), ["Toys"], ["open"])
    (row,) = rows_of(item)
    assert row["status"] == "unusable"


def test_without_a_cache_references_are_kept_for_the_runs(tmp_path, monkeypatch):
    _, item = _folder_of(tmp_path, examples.student())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    said = []
    row = run(item, tmp_path, announce=said.append)
    assert (row["status"], row["reference"], row["reference_from"]) == ("answered", "exact", "ibia")
    assert row["hd_max"] < 1e-12
    assert f"for these runs only, as {cache_folder()} cannot be written (Not a directory)." in said[0]
    assert not list((tmp_path / "scratch").iterdir())


def test_who_says_what_the_truth_is_stands_in_the_row(data):
    assert rows_of(right(data))[-1]["reference_from"] == "data"
    (generated,) = choose(find_sets(), ["grid:rows=3,columns=3"])
    assert rows_of(generated)[-1]["reference_from"] == "ibia"
    # Kept by now.
    assert rows_of(generated)[-1]["reference_from"] == "ibia"


HASTY = "import time\nimport ibia.bench.reference as found\nfound.compute_reference = lambda *_: time.sleep(1000)\n"
GREEDY = "import time\nimport ibia.bench.reference\nhoard = []\n"
GREEDY += "def compute(*_):\n    hoard.append(b'x' * 10**9)\n    time.sleep(1000)\n"
GREEDY += "ibia.bench.reference.compute_reference = compute\n"


@pytest.mark.parametrize(
    ("lines", "limits", "words"),
    [
        (HASTY, Limits(1.0), "stopped while solving: no answer within the limit of 1 s"),
        (GREEDY, Limits(60.0, 7e8), "stopped while solving with "),
    ],
)
def test_references_are_computed_within_the_limits_and_not_again(tmp_path, patched, monkeypatch, lines, limits, words):
    patched(lines)
    _, item = _folder_of(tmp_path, examples.student())
    row = run(item, tmp_path, limits)
    assert row["status"] == "answered"
    assert row["reference"] == "none"
    assert row["reference_error"].startswith(f"The exact answer could not be computed: {words}")
    said, counts = [], []
    more = {"announce": said.append, "prepared": lambda *count: counts.append(count)}
    # Another solver, the same limits: it would only fail again.
    row = run(item, tmp_path, limits, "ibia:bound=9", **more)
    assert words in row["reference_error"]
    assert not said
    assert not counts
    # With other limits, and on request, it is tried again, and what is kept stays.
    (tmp_path / "sitecustomize.py").write_text("")
    plan = plan_runs([item], [parse_solver("ibia:bound=9")], limits, [row], retry=True)
    with Store(tmp_path / "out.jsonl") as store:
        (row,) = run_plan(plan, store, **more)
    assert row["hd_max"] < 1e-12
    assert len(said) == 1
    assert counts == [(0, 1), (1, 1)]
    row = run(item, tmp_path, limits, "ibia:bound=8", **more)
    assert row["hd_max"] < 1e-12
    assert len(said) == 1


def test_other_limits_are_another_attempt(tmp_path, patched):
    patched(HASTY)
    _, item = _folder_of(tmp_path, examples.student())
    assert "limit of 1 s" in run(item, tmp_path, Limits(1.0))["reference_error"]
    assert "limit of 2 s" in run(item, tmp_path, Limits(2.0))["reference_error"]


def test_runs_of_a_model_whose_reference_somebody_ends_are_left_for_another_time(data, tmp_path, patched, capsys):
    lines = "import os, signal\nimport ibia.bench.reference as found\n"
    patched(f"{lines}found.compute_reference = lambda *_: os.kill(os.getpid(), signal.SIGTERM)\n")
    _, item = _folder_of(tmp_path, examples.student())
    items, solvers = [item, right(data)], [parse_solver("ibia:bound=9"), parse_solver("loopy")]
    plan = plan_runs(items, solvers, Limits(60.0), [])
    with Store(tmp_path / "out.jsonl") as store:
        rows = carry_out(plan, store, 1)
        assert list(store.rows.values()) == rows
        assert [(row["name"], row["status"], "hd_max" in row) for row in rows] == [("right", "answered", True)] * 2
        printed = capsys.readouterr().out
        assert printed.count("The exact answer could not be computed: ended by the signal SIGTERM") == 2
        assert "Ended by somebody: 2 runs; the same command repeats them." in printed
        # Nothing is known against it: the next one computes it.
        (tmp_path / "sitecustomize.py").write_text("")
        again = plan_runs(items, solvers, Limits(60.0), store.rows.values())
        rows = carry_out(again, store, 1)
    assert [(row["name"], row["status"], row["reference"]) for row in rows] == [("alone", "answered", "exact")] * 2
    assert all("hd_max" in row for row in rows)


@pytest.mark.parametrize(
    "lines",
    [
        # As it comes out of libraries that know Python, and of others.
        "def fail(*_):\n    raise RuntimeError('std::bad_alloc')\n",
        "import os, sys\ndef fail(*_):\n    print(\"  what():  std::bad_alloc\", file=sys.stderr)\n    os.abort()\n",
    ],
)
def test_a_library_that_finds_no_memory_is_out_of_memory(data, patched, lines):
    patched(f"{lines}import ibia.bench.solvers.own\nibia.bench.solvers.own._figures = fail\n")
    row = run_apart(_job(data), Limits(60.0))
    assert row["status"] == "out of memory"
    assert "bad_alloc" in row["error"]


@pytest.mark.parametrize(
    ("raised", "status", "error"),
    [
        ("ibia.InputError('The model\\nis no good.')", "failed", "The model is no good."),
        # Of others, the name of the class is what there is to know.
        ("IndexError('too far')", "crashed", "IndexError: too far"),
        ("MemoryError('Unable to allocate')", "out of memory", "MemoryError: Unable to allocate"),
        ("MemoryError", "out of memory", "There was not enough memory."),
    ],
)
def test_sentences_for_users_have_no_name_of_a_class_before_them(data, patched, raised, status, error):
    patched(f"import ibia, ibia.bench.solvers.own as own\ndef fail(*_):\n    raise {raised}\nown._figures = fail\n")
    row = run_apart(_job(data), Limits(60.0))
    assert (row["status"], row["error"]) == (status, error)


def test_a_program_that_is_called_like_an_error_is_none(data, tmp_path):
    row = run(right(data), tmp_path, solver=f"uai:{script(tmp_path, 'MemoryError', 'raise SystemExit(1)')}")
    assert row["status"] == "failed"
    assert row["error"] == "MemoryError has not written model.uai.MAR and ended with exit status 1."


def test_a_program_that_finds_no_memory_is_out_of_memory(data, tmp_path):
    text = "import os, sys\nsys.stderr.write('  what():  std::bad_alloc')\nsys.stderr.flush()\nos.abort()"
    row = rows_of(right(data), f"uai:{script(tmp_path, 'greedy', text)}")[-1]
    assert row["status"] == "out of memory"
    assert row["error"].endswith("was ended by the signal SIGABRT: what():  std::bad_alloc")


def _shell_script(folder, name, text):
    (folder / name).write_text(f"#!/bin/bash\n{text}\nexit $?\n")
    (folder / name).chmod(0o755)
    return folder / name


GREEDY_WORDS = "terminate called after throwing an instance of 'std::bad_alloc'"


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_a_program_that_finds_no_memory_behind_a_script_is_out_of_memory(data, tmp_path, stream):
    text = f"import os, sys\nprint({GREEDY_WORDS!r}, file=sys.{stream}, flush=True)\nos.abort()"
    around = _shell_script(tmp_path, "around", script(tmp_path, "greedy", text))
    row = run(right(data), tmp_path, solver=f"uai:{around}")
    assert row["status"] == "out of memory"
    assert row["error"] == f"around has not written model.uai.MAR and ended with exit status 134: {GREEDY_WORDS}"


@pytest.mark.parametrize("name", ["bad_alloc", "bad_alloc.sh"])
@pytest.mark.parametrize(
    "text",
    [
        # The shell says which command was aborted, and what it was given.
        "{0}",
        "sh -c 'kill -ABRT $$ # std::bad_alloc'",
        "bad_alloc",
        "exec {0}",
        "echo {0} cannot read a model >&2; exit 5",
    ],
)
def test_a_file_that_is_called_like_the_lack_of_memory_is_none(data, tmp_path, name, text):
    (tmp_path / "inner").mkdir()
    inner = script(tmp_path / "inner", name, "import os; os.abort()")
    program = _shell_script(tmp_path, name, text.format(inner))
    row = run(right(data), tmp_path, solver=f"uai:{program}")
    assert row["status"] == ("crashed" if "exec" in text else "failed")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("  what():  std::bad_alloc", True),
        ("RuntimeError: std::bad_alloc.", True),
        ("terminate called after throwing an instance of 'St9bad_alloc'", True),
        ("caught bad_alloc, giving up", True),
        ("./bad_alloc: no such model", False),
        ("cannot read bad_alloc.uai", False),
        ("not_bad_alloc", False),
        ("sh: 2: bad_alloc: not found", False),
    ],
)
def test_which_lines_say_that_there_is_no_memory(line, found):
    assert apart.finds_no_memory(line) is found


def test_a_program_that_is_ended_at_its_limit_has_answered_what_it_has_written(data, tmp_path):
    program = answering(tmp_path, "endless", examples.student(), {3: 1})
    program.write_text(f"{program.read_text()}time.sleep(1000)\n")
    row = run(right(data), tmp_path, Limits(2.0), f"uai:{program}")
    assert (row["status"], row["seconds"]) == ("answered", 2.0)
    assert row["hd_max"] < 1e-12
    assert row["note"] == "MAR: endless was ended at its limit of 2 s. What it had written by then counts."
    row = run(right(data), tmp_path, Limits(1.0), f"uai:{script(tmp_path, 'endless')}")
    assert row["status"] == "out of time"
    assert row["error"] == "endless has not written model.uai.MAR and was ended at its limit of 1 s."


def test_an_answer_is_a_row_before_it_is_compared_and_says_so(data):
    _, begun, *rest = rows_of(right(data))
    assert RESTART_CLOCK in begun
    # Whoever watches may miss all but the last of them.
    assert all(STOP_CLOCK in row for row in rest)
    *_, before, last = rest
    assert (before["status"], before["reference"], before["exact"]) == ("answered", "none", True)
    assert "comparison" in before["reference_error"]
    assert (last["status"], last["reference"]) == ("answered", "exact")
    assert before["marginals_known"]
    assert last["marginals_known"]
    assert before["prepare_seconds"] == last["prepare_seconds"] >= 0.0


def _job(data) -> Job:
    arguments = {"item": right(data).plain(), "solver": "ibia:bound=10", "limits": {**LIMITS, "seconds": 1.0}}
    return Job("run.solve", arguments, {}, restarts_clock=True)


def test_a_run_that_does_not_come_to_its_clock_says_that_it_was_preparing(data, monkeypatch):
    monkeypatch.setattr(apart, "_BESIDE", 2.0)
    (data / "Toys" / "right.evid").unlink()
    # Whoever reads it waits for somebody to write.
    os.mkfifo(data / "Toys" / "right.evid")
    row = run_apart(_job(data), Limits(1.0))
    assert row["status"] == "out of time"
    assert row["error"] == "stopped while preparing: more than 3 s (the limit of 1 s, and 2 s)"


@pytest.fixture
def patched(tmp_path, monkeypatch):
    """Have processes of the bench begin with some lines of Python."""

    def patch(lines: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(lines)
        paths = [str(tmp_path), str(Path(ibia.__file__).parent.parent)]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    return patch


SLOW = "import time\nimport ibia.bench.{0}\nibia.bench.{0}.{1} = lambda *_: time.sleep(1000)\n"


def test_a_run_that_does_not_answer_within_its_clock_says_so(data, patched):
    patched(SLOW.format("solvers.own", "_figures"))
    row = run_apart(_job(data), Limits(1.0))
    assert row["status"] == "out of time"
    assert row["error"] == "stopped while solving: no answer within the limit of 1 s"
    assert row["prepare_seconds"] >= 0.0


BROKEN = "import os\nimport ibia.bench.{0}\nibia.bench.{0}.{1} = lambda *_: os.abort()\n"
PREPARING = "import time\nimport ibia.bench.solvers.own as own\nown.Ibia.{0} = lambda *_: {1}\n"


@pytest.mark.parametrize(
    ("lines", "status", "name", "reference", "known"),
    [
        (SLOW.format("solvers.own", "_figures"), "out of time", "right", "exact", True),
        (BROKEN.format("solvers.own", "_figures"), "crashed", "right", "exact", True),
        (PREPARING.format("prepare", "time.sleep(1000)"), "out of time", "right", "exact", True),
        (PREPARING.format("warm_up", "1 / 0"), "crashed", "right", "exact", True),
        (PREPARING.format("prepare", "bytearray(10**15)"), "out of memory", "open", "none", False),
    ],
)
def test_what_is_known_of_the_truth_is_in_rows_without_an_answer(
    data, patched, monkeypatch, lines, status, name, reference, known
):
    monkeypatch.setattr(apart, "_BESIDE", 4.0)
    patched(lines)
    (item,) = choose(find_sets(data), ["Toys"], [name])
    arguments = {"item": item.plain(), "solver": "ibia:bound=10", "limits": {**LIMITS, "seconds": 1.0}}
    row = run_apart(Job("run.solve", arguments, {}, restarts_clock=True), Limits(1.0))
    assert row["status"] == status
    assert (row["reference"], row["marginals_known"]) == (reference, known)


def test_the_truth_is_known_where_it_was_computed_and_not_where_it_cannot_be_used(data, tmp_path):
    _, item = _folder_of(tmp_path, examples.student())
    silent = f"uai:{script(tmp_path, 'silent')}"
    row = run(item, tmp_path, solver=silent)
    assert (row["status"], row["reference"], row["marginals_known"]) == ("failed", "exact", True)
    _widen_a_marginal(data / "Toys")
    row = run(right(data), tmp_path, solver=silent)
    assert (row["status"], row["reference"], row["marginals_known"]) == ("failed", "none", False)
    row = rows_of(right(data))[-1]
    assert (row["status"], row["marginals_known"]) == ("answered", False)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        # The comparison does not end.
        (SLOW.format("run", "score"), "did not come to an end"),
        # It fails.
        ("import ibia.bench.run\nibia.bench.run.score = None\n", "did not come to an end"),
        # The process ends badly when all is said.
        ("import atexit, os\natexit.register(lambda: os._exit(77))\n", None),
    ],
)
def test_an_answer_outlives_what_comes_after_it(data, patched, monkeypatch, lines, words):
    monkeypatch.setattr(apart, "_BESIDE", 12.0)
    patched(lines)
    row = run_apart(_job(data), Limits(1.0))
    assert row["status"] == "answered"
    assert row["exact"] is True
    assert "error" not in row
    if words is None:
        assert row["hd_max"] < 1e-12
    else:
        assert words in row["reference_error"]
        assert row["reference"] == "none"


def test_a_process_that_may_not_be_ended_is_left(monkeypatch):
    denied = []

    def deny(number, sent):
        denied.append(number)
        raise PermissionError

    monkeypatch.setattr(processes, "_tree", lambda root: [processes._Process(1, 0, 1, has_ended=False)])
    monkeypatch.setattr(processes, "_LOOKS", 2)
    monkeypatch.setattr(processes.os, "kill", deny)
    processes.end_others(12345)
    assert denied == [1, 1]


@pytest.mark.parametrize(("seconds", "status"), [(0.0, "answered"), (1000.0, "out of time")])
def test_where_nobody_knows_of_processes_what_a_program_has_started_is_ended(
    data, tmp_path, patched, monkeypatch, seconds, status
):
    patched("import ibia.bench.processes\nibia.bench.processes._processes = lambda: []\n")
    monkeypatch.setattr(processes, "_processes", list)
    mark = tmp_path / "other"
    program = answering(tmp_path, "lively", examples.student(), {3: 1}, before=companion(mark), seconds=seconds)
    row = run(right(data), tmp_path, Limits(3.0), f"uai:{program}")
    assert row["status"] == status
    ends = time.monotonic() + 20.0
    while runs(int(mark.read_text())):
        assert time.monotonic() < ends
        time.sleep(0.05)
