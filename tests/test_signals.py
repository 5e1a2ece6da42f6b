"""Signals at any time: a complete answer and 0, or a sentence, 130 or 143 and nothing else; never any remains."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import ibia
from ibia import examples, start
from ibia.bench.store import read_results
from ibia.control import Control
from ibia.formats import read_marginals, read_partition, write_evidence
from ibia.process import Ended, Watch

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
# How many processes the long mode starts.
MANY = int(os.environ.get("IBIA_SIGNALS", "60"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models: one that takes long to solve, one that takes long to read and to write."""
    folder = tmp_path_factory.mktemp("models")
    side, states, draw = 10, 6, np.random.default_rng(0)
    factors = []
    for row, column, (down, right) in itertools.product(range(side), range(side), ((0, 1), (1, 0))):
        if row + down < side and column + right < side:
            pair = [row * side + column, (row + down) * side + column + right]
            factors.append((pair, np.exp(draw.normal(size=(states, states)))))
    ibia.write(ibia.Model.from_arrays([states] * side * side, factors), folder / "hard.uai")
    write_evidence(folder / "hard.uai.evid", {0: 1})
    ibia.write(examples.grid(100, 100), folder / "large.uai")
    return folder


def commands(files: Path, out: Path) -> dict[str, tuple[list[str], dict[str, str], float]]:
    """What is run: the arguments of Python, the environment, and about how many seconds it takes."""
    infer = ["-m", "ibia", "infer", str(files / "hard.uai"), "--time-limit", "4"]
    outputs = ["--out", str(out / "a.MAR"), "--pr", str(out / "a.PR"), "--json", str(out / "a.json")]
    uai = ["-m", "ibia.competition", str(files / "hard.uai"), str(files / "hard.uai.evid"), "-"]
    return {
        "infer": ([*infer, *outputs, "--threads", "1"], {}, 4.2),
        "infer on two threads": ([*infer, *outputs, "--threads", "2"], {}, 4.2),
        "infer, quietly": ([*infer, *outputs, "--quiet"], {}, 4.2),
        "convert": (["-m", "ibia", "convert", str(files / "large.uai"), str(out / "a.uai.gz")], {}, 3.0),
        # Nothing is compiled yet: the compilers are processes, which must not stay either.
        "infer, compiling first": ([*infer, *outputs], {"NUMBA_CACHE_DIR": str(out.parent / f"{out.name} cache")}, 8.0),
        "demo": (["-m", "ibia", "demo"], {}, 5.0),
        "bench run": (["-m", "ibia", "bench", "run", "--set", "grid", "--out", "a.jsonl", "-j", "1"], {}, 8.0),
        "ibia-uai MAR": ([*uai, "MAR"], {"INF_TIME": "4"}, 4.2),
        "ibia-uai PR": ([*uai, "PR"], {"INF_TIME": "4"}, 4.2),
    }


READERS = {
    "a.MAR": lambda path: len(read_marginals(path)) == 100,
    "a.PR": lambda path: np.isfinite(read_partition(path)),
    "a.json": lambda path: len(json.loads(path.read_text())["marginals"]) == 100,
    "a.uai.gz": lambda path: len(ibia.read(path).variables) == 10000,
    "a.jsonl": lambda path: all(row["key"] for row in read_results([path])),
    "hard.uai.MAR": lambda path: len(read_marginals(path)) == 100,
    "hard.uai.PR": lambda path: np.isfinite(read_partition(path)),
}


def minds_signals(number: int) -> bool:
    """Whether the process has come as far as our first line: before that, the interpreter is by itself."""
    for line in Path(f"/proc/{number}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def left_behind(group: int) -> list[str]:
    """The processes of a group that are still there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, members = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(members) == group and state != "Z":
                found.append(entry.name)
    return found


def send_signal_after(arguments: list[str], more: dict[str, str], out: Path, number: int, delay: float) -> str:
    """Start a command, send it a signal after a while, and check how it ends; return that in a word."""
    environment = {**os.environ, **more, "PYTHONPATH": str(Path(ibia.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=out,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(delay)
    minding = process.poll() is None and minds_signals(process.pid)
    ended = process.poll() is not None
    process.send_signal(number)
    asked = time.monotonic()
    shown, complaints = process.communicate(timeout=60)
    assert time.monotonic() - asked < 20
    deadline = time.monotonic() + 5
    while (left := left_behind(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
    names = sorted(os.listdir(out))
    situation = (arguments[2:3], number, delay, process.returncode, names, shown[-200:], complaints)
    for name in names:
        # Whatever is there is complete.
        assert READERS[name](out / name), situation
    # What others say: that something is compiled, or how far a bench is.
    said = [line for line in complaints.splitlines() if not line.startswith(("ibia: compiling", "Computing", "Inter"))]
    if process.returncode == 0:
        assert said == [], situation
        assert names or "demo" in arguments, situation
        assert not {"a.MAR", "a.PR", "a.json"} & {*names} or names == ["a.MAR", "a.PR", "a.json"], situation
        return "ended before" if ended else "answered"
    # A bench keeps what it has measured.
    assert names == [] or names == ["a.jsonl"], situation
    if not minding:
        return "in the interpreter's start"
    assert process.returncode == CODES[signal.Signals(number)], situation
    assert len(said) == 1, situation
    assert said[0].startswith("ibia: "), situation
    return "ended with a sentence"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs to see what processes do")
@pytest.mark.parametrize(
    ("name", "number", "part"),
    [
        ("infer", signal.SIGINT, 0.07),
        ("infer on two threads", signal.SIGTERM, 0.6),
        ("convert", signal.SIGTERM, 0.1),
        ("ibia-uai MAR", signal.SIGINT, 0.2),
    ],
)
def test_a_signal(files, tmp_path, name, number, part):
    arguments, more, seconds = commands(files, tmp_path)[name]
    send_signal_after(arguments, more, tmp_path, number, part * seconds)


def test_a_signal_that_had_to_wait_is_not_taken_for_the_clock(monkeypatch):
    before = {number: signal.getsignal(number) for number in (*CODES, signal.SIGALRM)}
    monkeypatch.setattr(start, "noted", [signal.SIGTERM])
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    with pytest.raises(Ended) as ended, Watch(Control(), time.monotonic(), None):
        raise AssertionError
    assert ended.value.number == signal.SIGTERM
    time.sleep(0.04)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.slow
@pytest.mark.parametrize("name", commands(Path(), Path()))
def test_signals_at_random_times(files, tmp_path, name):
    draw = random.Random(name)
    endings = Counter()
    for run in range(MANY):
        out = tmp_path / str(run)
        out.mkdir()
        arguments, more, seconds = commands(files, out)[name]
        # Half of them while the command loads what it needs.
        delay = draw.uniform(0.02, 0.8) if run % 2 else draw.uniform(0.02, seconds)
        endings[send_signal_after(arguments, more, out, draw.choice([*CODES]), delay)] += 1
    print(f"{name}: {dict(endings)}")
    assert endings.total() == MANY
