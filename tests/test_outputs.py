"""Outputs that cannot be written: no part of a file, what was there stays, a sentence, and the answer is shown.

A small file system that is full stands for a full disk; where none can be mounted, a limit on the size of files does.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ibia
from bench_rows import row
from ibia import examples
from ibia.errors import InputError
from ibia.formats.text import write_text

PACKAGE = str(Path(ibia.__file__).parents[1])
SOLVER = ("-m", "ibia.competition")
# Adds rows to a results file as long as there is room.
FILL = """
from pathlib import Path
from ibia.bench.store import Store
from ibia.process import run_command

def fill(arguments, started):
    with Store(Path("a.jsonl")) as store:
        for number in range(1000):
            store.append({"key": str(number), "words": "x" * 999})

run_command(fill, None)
"""
# Bytes that the small disk has, and that files may have where there is none.
ROOM = 16384


@pytest.fixture
def files(tmp_path):
    """A model whose answer does not fit on the small disk, its evidence, and results of a bench."""
    folder = tmp_path / "files"
    folder.mkdir()
    ibia.write(examples.grid(2, 900), folder / "long.uai")
    (folder / "long.evid").write_text("0")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row(name=f"m{n}")) + "\n" for n in range(100)))
    return folder


@pytest.fixture
def start(tmp_path):
    """Return a function that runs a command where there is little room, and the folder to write to."""
    folder = tmp_path / "small"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "TMPDIR": str(tmp_path)}
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    mounted = shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False).returncode == 0

    def limit() -> None:
        if not mounted:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))

    def run(*arguments: object, program: tuple[str, str] = ("-m", "ibia")) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *program, *map(str, arguments)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            preexec_fn=limit,
        )

    yield run, folder
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


def check_failed(ended: subprocess.CompletedProcess[str], name: str) -> None:
    assert ended.returncode == 1, ended
    assert ended.stderr.startswith("ibia: ")
    assert ended.stderr.count("\n") == 1
    assert name in ended.stderr
    assert "cannot be written" in ended.stderr


def test_infer(start, files):
    run, folder = start
    (folder / "a.MAR").write_text("old")
    ended = run("infer", files / "long.uai", "--out", "a.MAR", "--pr", "a.PR", "--json", "a.json")
    check_failed(ended, "a.MAR")
    # The answer is shown all the same, and what does fit is written.
    assert "log10 Z" in ended.stdout
    assert sorted(os.listdir(folder)) == ["a.MAR", "a.PR"]
    assert (folder / "a.MAR").read_text() == "old"
    assert (folder / "a.PR").read_text().startswith("PR\n")


def test_convert(start, files):
    run, folder = start
    (folder / "a.uai").write_text("old")
    check_failed(run("convert", files / "long.uai", "a.uai"), "a.uai")
    assert os.listdir(folder) == ["a.uai"]
    assert (folder / "a.uai").read_text() == "old"


def test_the_solver_of_the_competitions(start, files):
    run, folder = start
    ended = run(files / "long.uai", files / "long.evid", "-", "MAR", program=SOLVER)
    check_failed(ended, "long.uai.MAR")
    assert os.listdir(folder) == []
    # A short answer does fit.
    assert run(files / "long.uai", files / "long.evid", "-", "PR", program=SOLVER).returncode == 0
    assert os.listdir(folder) == ["long.uai.PR"]


def test_a_report(start, files):
    run, folder = start
    (folder / "a.html").write_text("old")
    check_failed(run("bench", "report", files / "rows.jsonl", "-o", "a.html"), "a.html")
    assert os.listdir(folder) == ["a.html"]
    assert (folder / "a.html").read_text() == "old"


def test_results_keep_whole_rows(start):
    run, folder = start
    check_failed(run(program=("-c", FILL)), "a.jsonl")
    lines = (folder / "a.jsonl").read_text().split("\n")
    assert lines.pop() == ""
    assert len(lines) >= ROOM // 2 // 1024
    assert [json.loads(line)["key"] for line in lines] == [str(number) for number in range(len(lines))]
    # There is no more room, and nothing is lost.
    check_failed(run(program=("-c", FILL)), "a.jsonl")
    assert (folder / "a.jsonl").read_text().split("\n")[:-1] == lines


@pytest.mark.parametrize("place", ["/proc/a", "/sys/a", "student.uai/a", "/dev/full", "folder", "/nowhere/a"])
def test_places_where_nothing_can_be_written(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    ibia.write(examples.student(), "student.uai")
    before = sorted(os.listdir())
    with pytest.raises(InputError, match=f"{place} (cannot be written|is a folder)"):
        write_text(place, "text")
    assert sorted(os.listdir()) == before


def test_the_previous_file_survives_whatever_fails(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")
    for name in ("os.replace", "os.chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(name, lambda *arguments: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(InputError, match=r"a\.txt cannot be written: no space left on device"):
                write_text(path, "new")
        assert os.listdir(tmp_path) == ["a.txt"]
        assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("redirection", "code"), [(">/dev/full", 1), (">&-", 0), ("2>&-", 0)]
)
def test_standard_streams_that_do_not_work(tmp_path, redirection, code):
    ibia.write(examples.student(), tmp_path / "student.uai")
    line = f'"{sys.executable}" -m ibia infer student.uai --out a.MAR {redirection}'
    ended = subprocess.run(
        line,
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == code, ended
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == code, ended
    # The answer is where it was asked for.
    assert (tmp_path / "a.MAR").exists()
