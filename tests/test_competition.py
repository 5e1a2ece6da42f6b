"""The solver of the UAI competitions, called as they call it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ibia
import ibia.pipeline
from ibia import competition, examples
from ibia.formats import read_marginals, read_partition, write_evidence

LIMITS = ("INF_TIME", "UAI_TIME", "INF_MEMORY", "UAI_MEMORY")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with models in another one, some small, some hard, and no limits."""
    for name in LIMITS:
        monkeypatch.delenv(name, raising=False)
    files = tmp_path / "files"
    files.mkdir()
    ibia.write(examples.student(), files / "student.uai")
    ibia.write(examples.grid(18, 18, seed=1), files / "grid.uai")
    ibia.write(examples.grid(40, 40, seed=1), files / "large.uai")
    write_evidence(files / "student.uai.evid", {3: 1})
    write_evidence(files / "grid.uai.evid", {0: 1})
    write_evidence(files / "large.uai.evid", {0: 1})
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return files


@pytest.fixture
def run(capsys):
    def call(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            competition.main([str(argument) for argument in arguments])
        return ended.value.code, capsys.readouterr().err

    return call


def arguments(folder, name, task):
    return [folder / f"{name}.uai", folder / f"{name}.uai.evid", folder / "no query", task]


def start(folder, name, task, **limits):
    """Start the solver in a process of its own."""
    command = [sys.executable, "-m", "ibia.competition", *map(str, arguments(folder, name, task))]
    # The working folder is another one, so a relative path to the package would lead nowhere.
    here = {"PYTHONPATH": str(Path(ibia.__file__).parents[1])}
    return subprocess.Popen(command, env={**os.environ, **here, **limits}, stderr=subprocess.PIPE, text=True)


def wait_for(path, process):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_answers_are_in_the_working_folder(folder, run, tmp_path):
    expected = ibia.infer(examples.student(), {"test": "passed"}, bound=20)
    work = tmp_path / "work"
    assert run(*arguments(folder, "student", "MAR")) == (0, "")
    assert run(*arguments(folder, "student", "PR")) == (0, "")
    assert sorted(os.listdir(work)) == ["student.uai.MAR", "student.uai.PR"]
    for found, true in zip(read_marginals(work / "student.uai.MAR"), expected.marginals, strict=True):
        np.testing.assert_allclose(found, true, rtol=1e-12)
    assert read_partition(work / "student.uai.PR") == pytest.approx(expected.log10_z)
    assert (work / "student.uai.MAR").read_text().startswith("MAR\n5 2 ")
    assert (work / "student.uai.PR").read_text().splitlines()[0] == "PR"
    assert "-BEGIN-" not in (work / "student.uai.PR").read_text()


@pytest.mark.parametrize("names", [("INF_TIME", "INF_MEMORY"), ("UAI_TIME", "UAI_MEMORY")])
def test_better_answers_are_added_within_the_limits(folder, tmp_path, names):
    path = tmp_path / "work" / "grid.uai.MAR"
    began = time.monotonic()
    # Enough for an exact answer, unless the machine is very busy.
    process = start(folder, "grid", "MAR", **dict(zip(names, ("30", "1"), strict=True)))
    wait_for(path, process)
    seen = set()
    while process.poll() is None:
        # Whenever one looks, the file is complete.
        text = path.read_text()
        assert text.endswith("\n")
        marginals = read_marginals(path)
        assert len(marginals) == 324
        seen.add(text)
        time.sleep(0.05)
    assert process.returncode == 0, process.stderr.read()
    assert time.monotonic() - began < 35
    solutions = path.read_text().removeprefix("MAR\n").split("-BEGIN-\n")
    assert len(solutions) == len(set(solutions))
    for earlier in seen:
        assert path.read_text().startswith(earlier)
    assert os.listdir(path.parent) == ["grid.uai.MAR"]


def test_better_answers_follow_a_line_of_their_own(folder, run, tmp_path, monkeypatch):
    def infer(model, evidence, *, improved, **options):
        rough = ibia.pipeline.infer(model, bound=2)
        for answer in (rough, rough, ibia.pipeline.infer(model, evidence)):
            improved(answer)
        return answer

    monkeypatch.setattr(ibia, "infer", infer)
    expected = ibia.pipeline.infer(examples.student(), {"test": "passed"})
    assert run(*arguments(folder, "student", "PR")) == (0, "")
    assert run(*arguments(folder, "student", "MAR")) == (0, "")
    work = tmp_path / "work"
    task, rough, separator, good = (work / "student.uai.PR").read_text().splitlines()
    assert (task, separator) == ("PR", "-BEGIN-")
    assert float(rough) > float(good)
    assert read_partition(work / "student.uai.PR") == expected.log10_z
    assert (work / "student.uai.MAR").read_text().count("-BEGIN-\n") == 1
    np.testing.assert_array_equal(read_marginals(work / "student.uai.MAR")[1], expected["talent"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_best_answer(folder, tmp_path, number):
    path = tmp_path / "work" / "large.uai.PR"
    process = start(folder, "large", "PR", INF_TIME="300")
    wait_for(path, process)
    process.send_signal(number)
    assert process.wait(timeout=20) == 0, process.stderr.read()
    assert np.isfinite(read_partition(path))
    assert path.read_text().startswith("PR\n")
    assert os.listdir(path.parent) == ["large.uai.PR"]


def test_an_old_answer_is_not_taken_for_a_new_one(folder, run, tmp_path):
    path = tmp_path / "work" / "student.uai.PR"
    path.write_text("PR\n-99\n")
    assert run(*arguments(folder, "student", "PR")) == (0, "")
    assert "-99" not in path.read_text()


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({3: "MPE"}, 2, "The task is MPE; expected PR or MAR."),
        ({0: "none.uai"}, 1, "There is no file none.uai."),
        ({1: "none.evid"}, 1, "There is no file none.evid."),
    ],
)
def test_what_is_wrong_is_a_sentence(folder, run, tmp_path, change, code, words):
    given = arguments(folder, "student", "PR")
    for place, value in change.items():
        given[place] = value
    assert run(*given) == (code, f"ibia: {words}\n")
    assert os.listdir(tmp_path / "work") == []


def test_evidence_that_does_not_fit(folder, run):
    write_evidence(folder / "student.uai.evid", {3: 7})
    code, sentence = run(*arguments(folder, "student", "PR"))
    assert code == 1
    assert "student.uai.evid: Variable X3 has no state 7" in sentence


def test_limits_that_are_none(folder, run, monkeypatch):
    monkeypatch.setenv("INF_TIME", "soon")
    code, sentence = run(*arguments(folder, "student", "PR"))
    assert code == 1
    assert "INF_TIME" in sentence


def test_a_place_that_cannot_be_written_is_found_before_inference(folder, run, tmp_path, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("inference started although the answer cannot be written")

    monkeypatch.setattr(ibia, "infer", never)
    (tmp_path / "work" / "student.uai.PR").mkdir()
    code, sentence = run(*arguments(folder, "student", "PR"))
    assert code == 1
    assert sentence == "ibia: student.uai.PR is not the name of a file to write.\n"


def test_an_answer_that_cannot_be_written_does_not_cost_the_next_one(folder, run, tmp_path, monkeypatch):
    from ibia.formats import whole

    true, tried = whole.replace_file, []

    def full_at_first(target, data):
        tried.append(data)
        if len(tried) == 1:
            raise OSError(28, "No space left on device")
        true(target, data)

    def infer(model, evidence, *, improved, **options):
        improved(ibia.pipeline.infer(model, bound=2))
        return ibia.pipeline.infer(model, evidence)

    monkeypatch.setattr("ibia.formats.text.replace_file", full_at_first)
    monkeypatch.setattr(ibia, "infer", infer)
    assert run(*arguments(folder, "student", "PR")) == (0, "")
    assert len(tried) == 2
    assert (tmp_path / "work" / "student.uai.PR").read_text().count("\n") == 2


def test_an_answer_to_what_is_impossible_is_taken_back(folder, run, tmp_path, monkeypatch):
    def not_noticed_at_first(model, evidence, *, improved, **options):
        improved(ibia.pipeline.infer(model, evidence))
        raise ibia.ZeroProbabilityError("Nothing is possible.", certain=True)

    monkeypatch.setattr(ibia, "infer", not_noticed_at_first)
    assert run(*arguments(folder, "student", "MAR")) == (1, "ibia: Nothing is possible.\n")
    assert not list((tmp_path / "work").iterdir())


def test_help(folder, capsys):
    with pytest.raises(SystemExit) as ended:
        competition.main(["--help"])
    assert ended.value.code == 0
    assert "ibia-uai MODEL EVIDENCE QUERY PR|MAR" in capsys.readouterr().out
