"""The command line as its users see it: files, exit codes, sentences. Never a traceback, no colours in a pipe."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ibia
from ibia import cli, examples
from ibia.formats import read_marginals, read_partition, write_evidence
from ibia.limits import resident_memory
from ibia.process import _is_delicate

CONTRACT = {
    "log10_z",
    "exact",
    "bound",
    "max_clique_bits",
    "steps",
    "loss_nats",
    "inconsistency",
    "error_estimate",
    "seconds",
    "peak_memory_bytes",
    "marginals",
}
ESCAPE = "\x1b"


@pytest.fixture
def run(capsys):
    """Run the command in this process; return its exit code, output and complaints."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


@pytest.fixture
def complains(run):
    """Run the command, expect one sentence and no answer; return the exit code and the sentence."""

    def call(*arguments: object) -> tuple[int, str]:
        code, output, sentence = run(*arguments)
        assert code != 0
        assert output == ""
        assert sentence.startswith("ibia: ")
        assert sentence.endswith((".\n", "?\n")), sentence
        assert sentence.count("\n") == 1, sentence
        assert "Traceback" not in sentence
        return code, sentence

    return call


@pytest.fixture
def grid_file(tmp_path):
    path = tmp_path / "grid.uai"
    ibia.write(examples.grid(6, 6, seed=1), path)
    return path


@pytest.fixture
def student_file(tmp_path):
    path = tmp_path / "student.uai"
    ibia.write(examples.student(), path)
    return path


def process(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ibia", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options)


# The answer


def test_infer_writes_all_three_files(run, grid_file, tmp_path):
    out, pr, data = tmp_path / "a.MAR", tmp_path / "a.PR", tmp_path / "a.json"
    code, _, complaint = run("infer", grid_file, "--bound", 20, "--out", out, "--pr", pr, "--json", data)
    assert (code, complaint) == (0, "")
    expected = ibia.infer(ibia.read(grid_file), bound=20)
    answer = json.loads(data.read_text())
    assert answer.keys() >= CONTRACT
    assert answer["exact"] is True
    assert answer["model"] == str(grid_file)
    assert answer["bound"] == 20
    assert answer["peak_memory_bytes"] > 2**20
    assert answer["log10_z"] == expected.log10_z
    assert read_partition(pr) == expected.log10_z
    assert list(answer["marginals"]) == list(expected.model.names)
    for name, found, true in zip(expected.model.names, read_marginals(out), expected.marginals, strict=True):
        np.testing.assert_array_equal(found, true)
        assert answer["marginals"][name] == true.tolist()


def test_an_estimate_says_so(run, grid_file, tmp_path):
    data = tmp_path / "a.json"
    code, output, _ = run("infer", grid_file, "--bound", 4, "--slices", "never", "--json", data)
    answer = json.loads(data.read_text())
    assert code == 0
    assert answer["exact"] is False
    assert answer["loss_nats"] > 0
    assert answer["error_estimate"] > 0
    assert answer["max_clique_bits"] <= 4
    assert answer["steps"] > 1
    assert answer["error_words"].split(":")[0] in output
    assert "spin" not in output  # The file format has no names.


def test_the_exact_answer_says_so(run, grid_file):
    code, output, _ = run("infer", grid_file)
    assert code == 0
    assert "exact" in output
    assert "log10 Z" in output


def test_evidence_is_used(run, student_file, tmp_path):
    evidence, data = tmp_path / "passed.evid", tmp_path / "a.json"
    write_evidence(evidence, {3: 1})
    code, _, _ = run("infer", student_file, "--evidence", evidence, "--json", data)
    answer = json.loads(data.read_text())
    expected = ibia.infer(examples.student(), {"test": "passed"})
    assert code == 0
    assert answer["marginals"]["X3"] == [0.0, 1.0]
    np.testing.assert_allclose(answer["marginals"]["X1"], expected["talent"], atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        ["--reduce", "2"],
        ["--reduce", "demand"],
        ["--loss", "mi"],
        ["--update", "links"],
        ["--order", "elimination"],
        ["--order", "reverse"],
        ["--order", "breadth"],
        ["--order", "auto"],
        ["--sweeps", "1"],
        ["--threshold", "0.01"],
        ["--check"],
        ["--update", "links", "--loss", "mi", "--reduce", "2"],
    ],
)
def test_choices_reach_the_engine(run, grid_file, options):
    code, output, complaint = run("infer", grid_file, "--bound", 5, *options)
    assert (code, complaint) == (0, "")
    assert output


def test_topological_order_is_for_bayesian_networks(run, complains, student_file, grid_file):
    assert run("infer", student_file, "--order", "topological")[0] == 0
    assert "Bayesian" in complains("infer", grid_file, "--bound", 5, "--order", "topological")[1]


def test_the_command_line_names_every_choice_of_the_engine(run):
    from ibia.answer import UPDATES
    from ibia.steps.loss import LOSSES
    from ibia.steps.order import ORDERS

    _, text, _ = run("infer", "--help")
    for choice in ("auto", *ORDERS, *UPDATES, *LOSSES, "demand"):
        assert choice in text


def test_quiet_shows_nothing(run, student_file, monkeypatch):
    monkeypatch.setattr("ibia.compiled.kernels_compiled", lambda: False)
    monkeypatch.setattr("ibia.compiled.compile_kernels", lambda: None)
    for command in ("infer", "info"):
        for option in ("--quiet", "-q"):
            assert run(command, student_file, option) == (0, "", "")


def test_few_variables_are_all_shown_and_many_are_not(run, student_file, grid_file):
    _, output, _ = run("infer", student_file)
    assert all(f"X{number} " in output for number in range(5))
    _, output, _ = run("infer", grid_file)
    assert len(re.findall(r"^ *X\d+ ", output, re.MULTILINE)) == 20
    assert "farthest from uniform" in output


def test_output_files_replace_older_ones_whole(run, student_file, tmp_path):
    out = tmp_path / "a.MAR"
    out.write_text("old " * 10000)
    assert run("infer", student_file, "--out", out, "--quiet")[0] == 0
    assert len(read_marginals(out)) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.MAR", "student.uai"]


# Other commands


def test_info_names_a_bound_that_is_exact(run, grid_file, tmp_path):
    data = tmp_path / "info.json"
    code, output, _ = run("info", grid_file, "--json", data)
    figures = json.loads(data.read_text())
    assert code == 0
    assert (figures["variables"], figures["factors"], figures["kind"]) == (36, 36 + 60, "markov")
    assert f"{figures['exact_bound']:g}" in output
    assert ibia.infer(ibia.read(grid_file), bound=figures["exact_bound"]).exact
    assert not ibia.infer(ibia.read(grid_file), bound=figures["exact_bound"] - 1, slices="never").exact


@pytest.mark.parametrize("wanted", [None, "2"])
def test_what_a_command_starts_decides_on_its_threads_itself(wanted):
    """NumPy is loaded without those of linear algebra; whoever wants them is asked first."""
    program = "import os, ibia.process as p; p.load_arrays(); print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if wanted is not None:
        environment["OPENBLAS_NUM_THREADS"] = wanted
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(wanted)


def test_info_counts_what_evidence_leaves(run, student_file, tmp_path):
    evidence, data = tmp_path / "all.evid", tmp_path / "info.json"
    write_evidence(evidence, dict.fromkeys(range(5), 0))
    assert run("info", student_file, "--evidence", evidence, "--json", data)[0] == 0
    figures = json.loads(data.read_text())
    assert (figures["variables_left"], figures["components"]) == (0, 0)
    assert figures["exact_bound"] >= 1


def test_demo_shows_estimate_and_truth(run):
    code, output, complaint = run("demo")
    assert (code, complaint) == (0, "")
    assert "exact" in output
    assert ESCAPE not in output


def test_version(run):
    assert run("--version") == (0, f"ibia {ibia.__version__}\n", "")


def test_help_does_not_load_the_compiler():
    code = "import sys, ibia.cli\nassert 'numba' not in sys.modules and 'rich.table' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# As a process


@pytest.mark.parametrize("wanted", [{}, {"FORCE_COLOR": "1"}])
def test_a_pipe_gets_neither_colours_nor_progress(grid_file, wanted):
    ended = process("infer", grid_file, "--bound", 4, env={**os.environ, "TERM": "xterm-256color", **wanted})
    assert ended.returncode == 0
    assert ended.stderr == ""
    assert ESCAPE not in ended.stdout
    assert "\r" not in ended.stdout


@pytest.mark.parametrize(("name", "codes"), [("TERM", set()), ("NO_COLOR", {"", "0", "1", "2"})])
def test_a_terminal_may_want_no_colours(student_file, name, codes):
    """A terminal that cannot gets plain text; one that wants no colours may still get bold and dim letters."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", name: "dumb"}
    command = [sys.executable, "-m", "ibia", "infer", str(student_file)]
    subprocess.run(command, stdout=theirs, stderr=theirs, env=environment, check=True, timeout=300)
    os.close(theirs)
    shown = read_until(ours, "X4")
    os.close(ours)
    assert set(re.findall(r"\x1b\[([0-9;]*)m", shown)) <= codes


def test_a_terminal_shows_what_is_being_done_and_how_far_it_is(grid_file):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    command = [sys.executable, "-m", "ibia", "infer", str(grid_file), "--bound", "4", "--slices", "never"]
    subprocess.run(command, stdout=theirs, stderr=theirs, env=environment, check=True, timeout=300)
    os.close(theirs)
    shown = read_until(ours, "not certain")
    os.close(ours)
    assert "starting" in shown
    assert "None" not in shown


# Help and completion


def test_every_help_has_examples_that_can_be_read_as_a_command_line(run):
    """Their files are not there, but their options are known: the complaint is about the file."""
    found = 0
    for command in ((), ("infer",), ("info",), ("convert",)):
        code, text, _ = run(*command, "--help")
        assert code == 0
        assert text.startswith("Usage: ibia")
        assert "Exit codes:" in text
        for line in re.findall(r"^    ibia ((?:infer|info|convert) .*)$", text, re.MULTILINE):
            code, _, sentence = run(*shlex.split(line.split("   ")[0]))
            assert code == 1, line
            assert "No such file" in sentence or "not found" in sentence or "no file" in sentence, sentence
            found += 1
    assert found >= 12


def test_help_fits_a_terminal_and_names_the_environment(run):
    _, text, _ = run("--help")
    assert max(map(len, text.splitlines())) <= 80
    for name in ("INF_TIME", "UAI_MEMORY", "IBIA_DATA", "IBIA_TRACEBACK", "NO_COLOR"):
        assert name in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ibia", "in"], ["infer", "info"]),
        (["ibia", "infer", "--o"], ["--observe", "--out", "--order"]),
        (["ibia", "infer", "model.uai", "--order", "b"], ["breadth"]),
        (["ibia", "infer", "model.uai", "--slices", ""], ["auto", "never", "always"]),
    ],
)
def test_the_shell_completes(words, expected):
    line = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1), "_IBIA_COMPLETE": "complete_bash"}
    ended = process(env={**os.environ, **line})
    assert ended.returncode == 0
    assert ended.stdout.split() == expected


def test_the_choices_that_are_completed_are_those_there_are(run):
    from ibia.answer import UPDATES
    from ibia.costs import SLICES
    from ibia.steps.loss import LOSSES
    from ibia.steps.order import ORDERS

    for option, choices in {
        "--order": ("auto", *ORDERS),
        "--update": UPDATES,
        "--loss": LOSSES,
        "--slices": SLICES,
    }.items():
        line = {"COMP_WORDS": f"ibia\ninfer\n{option}\n", "COMP_CWORD": "3", "_IBIA_COMPLETE": "complete_bash"}
        assert set(process(env={**os.environ, **line}).stdout.split()) == set(choices)


def test_bash_gets_a_script_that_works(tmp_path):
    program = tmp_path / "ibia"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ibia "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    # The shell is told: whatever runs the tests need not be one.
    told = {**environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = process("--show-completion", "bash", env=told).stdout
    line = 'COMP_WORDS=(ibia co); COMP_CWORD=1; _ibia_completion ibia; echo "${COMPREPLY[@]}"'
    command = ["bash", "-c", f"{script}\n{line}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert ended.stdout == "convert\n"


def test_a_terminal_without_unicode_still_gets_an_answer(grid_file):
    ended = process("infer", grid_file, "--bound", 4, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_a_missing_file_ends_the_process_with_a_sentence(tmp_path):
    ended = process("infer", tmp_path / "none.uai")
    assert ended.returncode == 1
    assert ended.stderr.startswith("ibia: ")
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


# Bad options


@pytest.mark.parametrize("bound", ["0", "-3", "nan", "inf", "-inf", "abc", "", "1e9"])
def test_nonsense_bounds(complains, student_file, bound):
    assert "bound" in complains("infer", student_file, "--bound", bound)[1]


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--loss", "l2", ["kl", "mi"]),
        ("--update", "magic", ["sweeps", "links"]),
        ("--order", "random", ["auto", "elimination", "reverse", "breadth", "topological"]),
        ("--reduce", "lots", ["demand"]),
        ("--reduce", "-1", ["from 0"]),
        ("--reduce", "nan", ["from 0"]),
        ("--sweeps", "0", ["at least 1"]),
        ("--sweeps", "x", ["--sweeps"]),
        ("--threshold", "-1", ["at least 0"]),
        ("--threshold", "nan", ["at least 0"]),
    ],
)
def test_nonsense_choices_name_what_is_allowed(complains, student_file, option, value, allowed):
    _, sentence = complains("infer", student_file, option, value)
    assert all(word in sentence for word in allowed)


@pytest.mark.parametrize("arguments", [["infer"], ["infer", "a", "b"], ["guess"], ["infer", "a", "--colour"], ["--no"]])
def test_wrong_usage_has_its_own_code(complains, arguments):
    assert complains(*arguments)[0] == 2


def test_no_command_shows_the_help(run):
    code, output, _ = run()
    assert code == 2
    assert "infer" in output
    assert "demo" in output


# Bad files


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HELLO",
        "MARKOV",
        "MARKOV 2 2",
        "MARKOV 1 2 1 1 0 2 0.5",
        "MARKOV 1 2 1 1 0 3 0.5 0.5 0.5",
        "MARKOV 1 2 1 1 0 2 -0.5 0.5",
        "MARKOV 1 2 1 1 0 2 nan 0.5",
        "MARKOV 1 2 1 1 0 2 x 0.5",
        "MARKOV 1 2 1 1 7 2 0.5 0.5",
        "MARKOV 1 2 1 2 0 0 4 1 1 1 1",
        "MARKOV 1 0 0",
        "MARKOV 1 99999999999999999999 0",
        "MARKOV 99999999 2",
        "BAYES 2 2 2 2 2 0 1 2 1 0 4 1 1 1 1 4 1 1 1 1",
    ],
)
def test_broken_models(complains, tmp_path, text):
    path = tmp_path / "broken.uai"
    path.write_text(text)
    for command in ("infer", "info"):
        code, sentence = complains(command, path)
        assert code == 1
        assert "broken.uai" in sentence


def test_binary_and_damaged_files(complains, tmp_path):
    (tmp_path / "binary.uai").write_bytes(bytes(range(256)))
    (tmp_path / "damaged.uai.xz").write_bytes(b"\xfd7zXZ\x00 and no more")
    for name in ("binary.uai", "damaged.uai.xz"):
        assert name in complains("infer", tmp_path / name)[1]


def test_folders_and_missing_files(complains, tmp_path):
    assert complains("infer", tmp_path)[0] == 1
    assert complains("infer", tmp_path / "none.uai")[0] == 1
    assert complains("infer", tmp_path / "no\x01such\nname")[0] == 1
    assert complains("infer", "x" * 5000)[0] == 1


@pytest.mark.parametrize("text", ["1 0 9", "1 99 0", "1 0 0 1", "2 0 0 0 1", "1 0 -1", "x", "1 0 nan"])
def test_broken_evidence(complains, student_file, tmp_path, text):
    path = tmp_path / "broken.evid"
    path.write_text(text)
    for command in ("infer", "info"):
        code, sentence = complains(command, student_file, "--evidence", path)
        assert code == 1
        assert "broken.evid" in sentence


def test_missing_evidence_file(complains, student_file, tmp_path):
    assert "none.evid" in complains("infer", student_file, "--evidence", tmp_path / "none.evid")[1]


@pytest.mark.parametrize("evidence", ["2 0 0 1 1", "2 0 1 1 0"])
def test_impossible_evidence(complains, tmp_path, evidence):
    model, path = tmp_path / "equal.uai", tmp_path / "impossible.evid"
    model.write_text("MARKOV 2 2 2 1 2 0 1 4 1 0 0 1")
    path.write_text(evidence)
    code, sentence = complains("infer", model, "--evidence", path)
    assert code == 1
    assert "zero" in sentence


def test_a_model_that_is_zero_everywhere(complains, tmp_path):
    path = tmp_path / "zero.uai"
    # Only the two factors together are impossible, so it takes more than a look at each.
    path.write_text("MARKOV 2 2 2 2 2 0 1 2 0 1 4 1 0 0 1 4 0 1 1 0")
    assert "zero" in complains("infer", path)[1]


# Bad outputs: found before the work is done


@pytest.mark.parametrize("option", ["--out", "--pr", "--json"])
def test_unwritable_outputs_are_found_before_inference(complains, student_file, tmp_path, option, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("inference started although the answer cannot be written")

    monkeypatch.setattr("ibia.infer", never)
    (tmp_path / "folder").mkdir()
    for path in (
        tmp_path / "missing" / "a",
        student_file / "a",
        tmp_path / "folder",
        tmp_path / ("x" * 300),
        student_file,
        "",
    ):
        code, sentence = complains("infer", student_file, option, path)
        assert code == 1
        assert option in sentence


def test_two_outputs_cannot_share_a_file(complains, student_file, tmp_path):
    assert complains("infer", student_file, "--out", tmp_path / "a", "--pr", tmp_path / "a")[0] == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_costs_one_file_and_not_the_answer(run, student_file, tmp_path):
    code, output, complaint = run(
        "infer", student_file, "--out", "/dev/full", "--pr", tmp_path / "a.PR", "--json", tmp_path / "a.json"
    )
    assert code == 1
    assert "/dev/full cannot be written" in complaint
    assert complaint.count("\n") == 1
    assert "log10 Z" in output
    assert json.loads((tmp_path / "a.json").read_text())["exact"] is True
    assert (tmp_path / "a.PR").exists()


# What the machine does to us


@pytest.mark.parametrize(
    ("error", "code"), [(MemoryError(), 3), (KeyboardInterrupt(), 130), (OSError(5, "Input/output error"), 1)]
)
def test_trouble_has_a_code_each(complains, student_file, monkeypatch, error, code):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("ibia.infer", fail)
    assert complains("infer", student_file)[0] == code


def test_a_defect_is_a_sentence_too(complains, student_file, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("ibia.infer", fail)
    monkeypatch.delenv("IBIA_TRACEBACK", raising=False)
    assert "unforeseen" in complains("infer", student_file)[1]


# Limits


@pytest.fixture
def asked(monkeypatch, student_file):
    """Pretend to infer; return what was asked for."""
    answer = ibia.infer(examples.student())
    calls: list[dict] = []

    def pretend(model, evidence, **options):
        calls.append(options)
        return answer

    monkeypatch.setattr("ibia.infer", pretend)
    for name in ("INF_TIME", "UAI_TIME", "INF_MEMORY", "UAI_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_limits_reach_the_engine(run, asked, student_file):
    limits = ("--time-limit", 30, "--memory-limit", "2GiB", "--threads", 3, "--bound", 12)
    assert run("infer", student_file, *limits)[0] == 0
    options = asked[0]
    assert 25.0 < options["time_limit"] < 30.0
    assert (options["memory_limit"], options["threads"], options["bound"]) == (2.0**31, 3, 12.0)


def test_without_limits_nothing_is_asked_for(run, asked, student_file):
    assert run("infer", student_file)[0] == 0
    assert asked[0].keys().isdisjoint({"time_limit", "memory_limit", "threads", "bound"})


def test_limits_of_the_environment_count_where_there_is_no_option(run, asked, student_file, monkeypatch):
    monkeypatch.setenv("UAI_TIME", "100")
    monkeypatch.setenv("INF_TIME", "50")
    monkeypatch.setenv("INF_MEMORY", "4")
    run("infer", student_file)
    assert 45.0 < asked[0]["time_limit"] < 50.0
    assert asked[0]["memory_limit"] == 4e9
    monkeypatch.setenv("INF_MEMORY", "nonsense")
    run("infer", student_file, "--time-limit", 20, "--memory-limit", "500MB")
    assert 15.0 < asked[1]["time_limit"] < 20.0
    assert asked[1]["memory_limit"] == 5e8


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--time-limit", "0", "positive number of seconds"),
        ("--time-limit", "-5", "positive number of seconds"),
        ("--time-limit", "soon", "positive number of seconds"),
        ("--time-limit", "nan", "positive number of seconds"),
        ("--memory-limit", "much", "8GB"),
        ("--memory-limit", "0", "at least"),
        ("--memory-limit", "5XB", "8GB"),
        ("--memory-limit", "", "8GB"),
        ("--threads", "0", "threads"),
        ("--threads", "-1", "threads"),
        ("--threads", "two", "threads"),
    ],
)
def test_nonsense_limits(complains, student_file, option, value, word):
    assert word in complains("infer", student_file, option, value)[1]


def test_a_nonsense_environment_is_named(complains, student_file, monkeypatch):
    monkeypatch.setenv("INF_TIME", "soon")
    assert "INF_TIME" in complains("infer", student_file)[1]


def test_a_chosen_bound_says_why(run, grid_file, tmp_path):
    data = tmp_path / "a.json"
    code, output, _ = run("infer", grid_file, "--json", data)
    answer = json.loads(data.read_text())
    assert code == 0
    assert answer["exact"] is True
    assert answer["bound"] == 7
    assert answer["bound_reason"] in output
    (attempt,) = answer["attempts"]
    assert attempt["bound"] == 7
    assert attempt["outcome"] == "answered"
    assert attempt["exact"] is True
    assert attempt["predicted_seconds"] > 0
    assert attempt["seconds"] > 0
    assert attempt["predicted_bytes"] > 2**20


def test_a_memory_limit_lowers_the_bound(run, tmp_path):
    model, data = tmp_path / "grid.uai", tmp_path / "a.json"
    ibia.write(examples.grid(18, 18, seed=1), model)
    # What the process holds already counts, so the limit is set a little above it.
    limit = int(resident_memory() + 10e6)
    limits = ("--bound", 25, "--memory-limit", limit)
    code, output, _ = run("infer", model, *limits, "--order", "elimination", "--json", data)
    answer = json.loads(data.read_text())
    assert code == 0
    assert answer["bound"] < 25
    assert "25 bits were asked for" in answer["bound_reason"]
    assert "25 bits were asked for" in output


def test_info_predicts(run, tmp_path):
    model, data = tmp_path / "grid.uai", tmp_path / "info.json"
    ibia.write(examples.grid(20, 20, seed=1), model)
    code, output, _ = run("info", model, "--json", data)
    predictions = json.loads(data.read_text())["predictions"]
    assert code == 0
    exact = [predicted["exact"] for predicted in predictions]
    assert exact == sorted(exact)
    assert exact[-1]
    assert not exact[0]
    assert all(predicted["seconds"] > 0 and predicted["bytes"] > 0 for predicted in predictions)
    assert output.count("predicted for bound") == len(predictions) > 2


def test_the_first_run_announces_the_compilation(run, student_file, monkeypatch):
    monkeypatch.setattr("ibia.compiled.kernels_compiled", lambda: False)
    monkeypatch.setattr("ibia.compiled.compile_kernels", lambda: None)
    for command in ("infer", "info"):
        code, _, sentence = run(command, student_file)
        assert code == 0
        assert sentence.startswith("ibia: compiling the numeric kernels, once")
        assert sentence.count("\n") == 1


# Signals and clocks


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_the_best_answer_so_far(run, student_file, tmp_path, monkeypatch, number):
    answer = ibia.infer(examples.student())
    # As it is set here: who runs the tests in the background has interrupts ignored.
    before = signal.getsignal(number)

    def interrupted(*arguments, control, **options):
        with control.interruptible():
            os.kill(os.getpid(), number)
            time.sleep(60.0)
            raise AssertionError
        return answer

    monkeypatch.setattr("ibia.infer", interrupted)
    code, _, complaint = run("infer", student_file, "--out", tmp_path / "a.MAR")
    assert (code, complaint) == (0, "")
    assert len(read_marginals(tmp_path / "a.MAR")) == 5
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("what", ["ibia.infer", "ibia.read"])
def test_a_signal_before_any_answer_is_a_sentence(complains, student_file, tmp_path, monkeypatch, number, code, what):
    def interrupted(*arguments, control=None, **options):
        os.kill(os.getpid(), number)
        control.check()

    monkeypatch.setattr(what, interrupted)
    assert complains("infer", student_file, "--out", tmp_path / "a.MAR")[0] == code
    assert not (tmp_path / "a.MAR").exists()


def test_a_model_that_takes_too_long_to_read_is_out_of_time(complains, student_file, monkeypatch):
    monkeypatch.setattr("ibia.read", lambda path: time.sleep(60.0))
    began = time.monotonic()
    code, sentence = complains("infer", student_file, "--time-limit", 0.2)
    assert code == 5
    assert "still being read" in sentence
    assert time.monotonic() - began < 30.0


def test_a_first_run_that_takes_too_long_to_compile_says_so(complains, student_file, monkeypatch):
    monkeypatch.setattr("ibia.compiled.kernels_compiled", lambda: False)
    monkeypatch.setattr("ibia.compiled.compile_kernels", lambda: time.sleep(60.0))
    code, sentence = complains("infer", student_file, "--time-limit", 0.3, "--quiet")
    assert code == 5
    assert "kernels were still being compiled" in sentence


def test_loading_is_not_interrupted_and_everything_else_is():
    namespace = {"__name__": "numba.core.something", "sys": sys}
    exec("def call(function): return function()\ndef here(): return sys._getframe()", namespace)
    assert _is_delicate(namespace["here"]())
    assert namespace["call"](lambda: _is_delicate(sys._getframe()))
    namespace["__name__"] = "ibia.tables.threads"
    assert _is_delicate(namespace["here"]())
    assert not _is_delicate(sys._getframe())
    assert not _is_delicate(None)


def test_no_answer_in_time_is_a_sentence_and_a_code(complains, hard_file, tmp_path):
    """Loopy propagation, which is nearly always there in time, does not stand in for the paper's update."""
    limits = ("--time-limit", 0.15, "--update", "links")
    code, sentence = complains("infer", hard_file, *limits, "--out", tmp_path / "a.MAR")
    assert code == 5
    assert "time limit" in sentence
    assert not (tmp_path / "a.MAR").exists()


@pytest.fixture(scope="session")
def hard_file(tmp_path_factory):
    """A grid of variables with six states: 196 variables, and an exact answer needs tables of about 2^39 entries."""
    side, states, random = 14, 6, np.random.default_rng(0)
    factors = []
    for row, column, (down, right) in itertools.product(range(side), range(side), ((0, 1), (1, 0))):
        if row + down < side and column + right < side:
            pair = [row * side + column, (row + down) * side + column + right]
            factors.append((pair, np.exp(random.normal(size=(states, states)))))
    path = tmp_path_factory.mktemp("hard") / "hard.uai"
    ibia.write(ibia.Model.from_arrays([ibia.Variable(f"X{n}", states) for n in range(side * side)], factors), path)
    return path


def test_a_time_limit_is_kept(hard_file, tmp_path):
    """The process ends in time, with an answer; the margin is for machines that do much else as well."""
    began = time.monotonic()
    assert process("infer", hard_file, "--bound", 6, "--order", "elimination", "--sweeps", 1, "--quiet").returncode == 0
    least = time.monotonic() - began
    data, limit = tmp_path / "a.json", max(5.0, 4.0 * least)
    began = time.monotonic()
    ended = process("infer", hard_file, "--time-limit", limit, "--json", data, "--out", tmp_path / "a.MAR")
    elapsed = time.monotonic() - began
    assert ended.returncode == 0, ended.stderr
    assert elapsed < 1.05 * limit + 1.0 + least
    answer = json.loads(data.read_text())
    assert answer["exact"] is False
    assert answer["attempts"][0]["quick"] is True
    assert answer["error_words"].split(":")[0] in ended.stdout
    assert len(read_marginals(tmp_path / "a.MAR")) == 196


def on_a_terminal(*arguments: object) -> tuple[subprocess.Popen[str], int]:
    """Start the command with a terminal for its complaints and progress; also return the other end of it."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ibia", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment)
    os.close(theirs)
    return started, ours


def read_until(terminal: int, text: str, seconds: float = 120.0) -> str:
    """Return what the terminal shows up to `text`."""
    shown, until = "", time.monotonic() + seconds
    while text not in shown and time.monotonic() < until:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    assert text in shown, shown[-500:]
    return shown


def test_a_terminal_shows_the_bound_and_the_best_so_far_and_a_signal_ends_the_run(hard_file, tmp_path):
    out = tmp_path / "a.MAR"
    started, terminal = on_a_terminal("infer", hard_file, "--time-limit", 300, "--out", out)
    shown = read_until(terminal, "best so far: ")
    assert " bits, " in shown
    assert ", elimination order" in shown
    assert not out.exists()
    started.send_signal(signal.SIGTERM)
    output, _ = started.communicate(timeout=60)
    os.close(terminal)
    assert started.returncode == 0
    assert len(read_marginals(out)) == 196
    assert "was stopped" in " ".join(output.split())


def test_a_signal_before_any_answer_ends_the_process_with_a_sentence(hard_file, tmp_path):
    out = tmp_path / "a.MAR"
    started, terminal = on_a_terminal("infer", hard_file, "--bound", 18, "--out", out)
    read_until(terminal, "18 bits")
    started.send_signal(signal.SIGTERM)
    read_until(terminal, "ibia: Terminated before there was an answer.")
    started.communicate(timeout=60)
    os.close(terminal)
    assert started.returncode == 143
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == []


# Names: BIF files, observations, conversions


@pytest.fixture
def student_bif(tmp_path):
    path = tmp_path / "student.bif"
    ibia.write(examples.student(), path)
    return path


def test_observations_by_name(run, student_bif, tmp_path):
    (tmp_path / "seen.json").write_text('{"test": "passed", "letter": [0.3, 0.9]}')
    arguments = ("infer", student_bif, "--bound", 20, "--json", tmp_path / "a.json")
    model, evidence = ibia.observe(examples.student(), {"test": "passed", "letter": [0.3, 0.9], "difficulty": "hard"})
    expected = ibia.infer(model, evidence, bound=20)
    for given in (
        ["-E", "test=passed", "-E", "letter=0.3,0.9", "--observe", "difficulty=hard"],
        ["--evidence", tmp_path / "seen.json", "-E", "difficulty=1"],
        ["--evidence", tmp_path / "seen.json", "-E", "difficulty=hard", "-E", "test=passed"],
    ):
        code, _, complaint = run(*arguments, *given)
        assert (code, complaint) == (0, "")
        answer = json.loads((tmp_path / "a.json").read_text())
        assert answer["log_z"] == expected.log_z
        assert answer["marginals"]["talent"] == expected["talent"].tolist()


def test_only_the_variables_asked_for_are_shown(run, student_bif):
    code, output, _ = run("infer", student_bif, "--bound", 20, "-E", "test=passed", "--show", "grade, test")
    assert code == 0
    assert "grade" in output
    assert re.search(r"test +failed 0.0000 +passed 1.0000", output)
    assert "talent" not in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-E", "test=maybe"], "-E test=maybe: Variable test has no state 'maybe'; its states are failed, passed."),
        (["-E", "exam=1"], "-E exam=1: There is no variable named 'exam'"),
        (["-E", "test"], "-E test: expected VARIABLE=STATE"),
        (["-E", "grade=0.5,0.5"], "-E grade=0.5,0.5: The likelihood of variable grade has 2 numbers"),
        (["-E", "test=passed", "-E", "test=failed"], "Variable test is observed in two ways, as passed and as failed."),
        (["--show", "grade,exam"], "--show: There is no variable named 'exam'"),
        (["--evidence", "seen.json"], "seen.json: Variable test has no state 'maybe'"),
    ],
)
def test_bad_observations(complains, student_bif, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seen.json").write_text('{"test": "maybe"}')
    code, sentence = complains("infer", student_bif, *arguments)
    assert code == 1
    assert words in sentence


def test_convert(run, complains, student_bif, tmp_path):
    code, output, complaint = run("convert", student_bif, tmp_path / "again.bif.gz")
    assert (code, output, complaint) == (0, "", "")
    assert ibia.read(tmp_path / "again.bif.gz") == examples.student()
    code, _, _ = run("convert", student_bif, tmp_path / "student.uai")
    assert code == 0
    assert ibia.read(tmp_path / "student.uai").factors == examples.student().factors
    assert complains("convert", student_bif, tmp_path / "student.erg")[1].endswith("also with .gz or .xz.\n")
    assert "would overwrite the model" in complains("convert", student_bif, student_bif)[1]


def test_the_help_names_the_formats(run):
    _, output, _ = run("infer", "--help")
    assert "BIF" in output
    assert "JSON" in output
