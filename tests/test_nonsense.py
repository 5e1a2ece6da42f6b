"""Nonsense on the command line: every option of every command gets some. A sentence and a code, nothing left behind."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
import typer

import ibia
from ibia import cli, competition, examples
from ibia.bench import commands
from ibia.formats import write_evidence

# With an answer, bad input, wrong usage: nonsense is never out of memory, out of time or a defect of ours.
CODES = {0, 1, 2}
LONG = int(os.environ.get("IBIA_NONSENSE", "2000"))

VALUES = [
    *("", " ", "0", "-1", "1", "1.5", "nan", "inf", "-inf", "1e308", "1e-308", "1e400", "9" * 30, "9" * 5000, "0x10"),
    *("1_0", "٣", "½", "--", "-", "--help", "-q", "=", "a=", "=b", "a=b=c", ",", ",,,", "a,b", "*", "?", "~", "$HOME"),
    *("x" * 300, "x" * 5000, "\x1b[31m", "\u009b1m", "\u202e", "a\tb", "a\nb", "\udcff\udcfe", "%s%n", "{}"),
    *("..", ".", "/", "/dev/null", "/dev/full", "/dev/zero", "/proc/self/mem", "/proc/nothing", "folder", "folder/"),
    *("student.uai", "student.uai/a", "student.bif", "missing", "missing/a", "evidence.evid", "empty", "binary"),
    *("loop", "talent=low", "talent=nan,inf", "talent", "grade=1,2,3", "X0=0", "0=0", "all", "grid:n=1e9", "kl"),
    *("auto", "ibia", "ibia:bound=nan", "ibia:bound=", "ibia:nonsense=1", "loopy:x", "smallInst", "1GB", "1e30GB"),
    *("-1GB", "nanGB", "rows.jsonl", "grid:", ":", "::", "uai:", "uai:/dev/null", "pyagrum-exact:x=1", "merlin"),
    *("grid:rows=nan,columns=2", "grid:rows=2,columns=2,seed=-1", "grid:rows=2,columns=2,coupling=1e400"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with all that is needed for good input, and much that is bad."""
    for name in ("INF_TIME", "UAI_TIME", "INF_MEMORY", "UAI_MEMORY", "IBIA_TRACEBACK", "IBIA_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    ibia.write(examples.student(), "student.uai")
    ibia.write(examples.student(), "student.bif")
    write_evidence("evidence.evid", {3: 1})
    Path("folder").mkdir()
    Path("empty").write_text("")
    Path("binary").write_bytes(bytes(range(256)))
    Path("loop").symlink_to("loop")
    Path("rows.jsonl").write_text('{"key": "a"}\n{"key": "b", "solver": 3}\n')
    # A bench is not to begin.
    monkeypatch.setattr(commands, "carry_out", lambda plan, store, jobs, quiet=False: None)
    return tmp_path


@pytest.fixture
def call(folder, capfd):
    """Run a command here; check what must hold, and return its exit code."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def run(main, arguments: list[str]) -> int:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        code = ended.value.code or 0
        shown, complaints = capfd.readouterr()
        situation = (arguments, code, shown[-300:], complaints[-2000:])
        assert code in CODES, situation
        assert "Traceback" not in complaints + shown, situation
        assert "should not have happened" not in complaints, situation
        left = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        if code:
            assert complaints.rstrip("\n").rpartition("\n")[2].startswith("ibia: ") or shown, situation
            assert all(character.isprintable() or character == "\n" for character in complaints), situation
            assert left == before, situation
        for name in {*left} - {*before}:
            (folder / name).unlink()
        for name in before:
            if left.get(name) != before[name]:
                # Somebody asked for it: an output may take the place of a file.
                assert code == 0, situation
                (folder / name).write_bytes(before[name])
        for path in folder.iterdir():
            if path.is_dir() and path.name != "folder":
                assert code == 0, situation
                shutil.rmtree(path)
        return code

    return run


# What is good, by command: nonsense is added to it, or takes the place of a part of it
GOOD = {
    "infer": ["student.uai"],
    "info": ["student.uai"],
    "convert": ["student.uai", "out.bif"],
    "demo": [],
    "bench list": [],
    "bench run": ["--set", "grid:rows=2,columns=3", "--out", "out.jsonl"],
    "bench table": ["smallInst", "--no-run", "--out", "rows.jsonl"],
    "bench report": ["rows.jsonl", "-o", "out.html"],
    "bench peers": ["rows.jsonl"],
    "bench gauge": ["rows.jsonl"],
}


def options_of(command: str) -> list[tuple[str, bool]]:
    """The options of a command, by their longest names, and whether they take no value."""
    *group, name = command.split()
    found = typer.main.get_command(commands.app if group else cli.app).commands[name].params
    return [(max(each.opts, key=len), each.is_flag) for each in found if each.param_type_name == "option"]


@pytest.mark.parametrize("command", [command for command in GOOD if command != "demo"])
def test_every_option_gets_nonsense(call, command):
    draw = random.Random(command)
    codes = Counter()
    for option, is_flag in options_of(command):
        if option == "--help":
            continue
        for value in draw.sample(VALUES, 2):
            extra = [option] if is_flag else [option, value]
            codes[call(cli.main, [*command.split(), *GOOD[command], *extra])] += 1
        # Given twice.
        call(cli.main, [*command.split(), *GOOD[command], *extra, *extra])
    for value in draw.sample(VALUES, 3):
        codes[call(cli.main, [*command.split(), value, *GOOD[command][1:]])] += 1
        codes[call(cli.main, [*command.split(), *GOOD[command], value])] += 1
    assert codes[1] + codes[2] > 0


def random_line(draw: random.Random) -> list[str]:
    command = draw.choice([*GOOD, "nonsense"])
    good = list(GOOD.get(command, []))
    if good and draw.random() < 0.5:
        good[draw.randrange(len(good))] = draw.choice(VALUES)
    known = [*(options_of(command) if command in GOOD else []), ("--nonsense", False)]
    for _ in range(draw.randrange(1, 4)):
        option, is_flag = draw.choice(known)
        good += [option] if is_flag or draw.random() < 0.1 else [option, draw.choice(VALUES)]
    # Nobody waits for a demonstration, unless something is wrong with the line.
    return [*command.split(), *good, *(["more"] if command == "demo" else [])]


@pytest.mark.slow
def test_random_lines_at_length(call):
    draw = random.Random(0)
    codes = Counter(call(cli.main, random_line(draw)) for _ in range(LONG))
    print(f"{LONG} lines: {dict(codes)}")
    assert codes[1] > 0


def test_the_solver_of_the_competitions_gets_nonsense(call, monkeypatch):
    draw = random.Random(1)
    good = ["student.uai", "evidence.evid", "query", "MAR"]
    for place in range(4):
        for value in draw.sample(VALUES, 4):
            call(competition.main, [*good[:place], value, *good[place + 1 :]])
    for count in (0, 1, 2, 3, 5, 50):
        assert call(competition.main, ["a"] * count) == 2
    for name in ("INF_TIME", "UAI_TIME", "INF_MEMORY", "UAI_MEMORY"):
        for value in ("nan", "1e400", "9" * 300, "\udcff"):
            monkeypatch.setenv(name, value)
            assert call(competition.main, good) in ({1} if value != "9" * 300 else {0, 1})
            assert call(cli.main, ["infer", "student.uai"]) in ({1} if value != "9" * 300 else {0, 1})
        monkeypatch.delenv(name)
