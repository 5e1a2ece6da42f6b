"""Work in a process of its own: its memory ends with it, its peak is its own, and it can be stopped.

A task is a function of this folder, named as in ``exact.compare``, called with plain data and returning (or yielding)
rows of plain data. A task that yields has each row printed as it comes, so that what was measured before it was stopped
is not lost. Run as ``python -m ibia.bench.apart TASK``. Knows nothing of what is measured.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from typing import IO, Any

from ibia.bench.processes import adopt_orphans, end_others, end_tree, measure_tree
from ibia.errors import IbiaError
from ibia.limits import size_in_words

__all__ = [
    "CRASHED",
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "OUT_OF_MEMORY",
    "OUT_OF_TIME",
    "RESTART_CLOCK",
    "STOP_CLOCK",
    "Job",
    "Limits",
    "Row",
    "compile_once",
    "finds_no_memory",
    "main",
    "peak_memory",
    "run_apart",
    "run_jobs",
]

Row = dict[str, Any]

# How a process ended: the `status` of its row, unless the task itself says something else.
DONE, FAILED, CRASHED = "done", "failed", "crashed"
OUT_OF_TIME, OUT_OF_MEMORY = "out of time", "out of memory"
# Somebody has ended it: that says nothing of what it did.
INTERRUPTED = "interrupted"
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A row with the first key, and the time by `time.monotonic`, starts the clock of the limit anew: what came before
# (imports, reading) is not what is measured. One with the second ends it: nor is what comes after (comparing).
RESTART_CLOCK, STOP_CLOCK = "restart_clock", "stop_clock"
# Seconds, more than the limit, that a task with a clock of its own may take before, and again after; seconds, and share
# of the limit, by which it may exceed the limit meanwhile.
_BESIDE, _GRACE, _OVERTIME = 60.0, 1.0, 0.05
# What such a task does before, meanwhile and after.
_PREPARING, _SOLVING, _COMPARING = "preparing", "solving", "comparing"
# Seconds between two looks at a process: whether it has ended, and how much memory it holds.
_ENDED_EVERY, _MEMORY_EVERY = 0.02, 0.2
# What libraries of C++ raise where there is no memory left, its mangled name included; not so in names of files.
_NO_MEMORY = re.compile(r"(?<![\w./-])(?:St9|(?:\w+::)*)bad_alloc(?!\.?[\w/-])")
# How a shell says what became of a command, which it repeats: whatever stands in that, nobody has said it.
_OF_A_SHELL = re.compile(r": line \d+: |: \d+: .*: not found$")
# Exit codes of a process that has said in a sentence why there is no answer, of one that had no memory left, and of one
# that met a defect.
_SENTENCE, _NO_MEMORY_LEFT, _DEFECT = 1, 3, 70


@dataclass(frozen=True)
class Limits:
    """What a process may use.

    Attributes
    ----------
    seconds
        It is stopped after this time.
    memory
        Bytes of resident memory of the process and all that it starts; it is stopped when they hold more.
    threads
        Of compiled loops and libraries.
    """

    seconds: float | None = None
    memory: float | None = None
    threads: int = 1

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the process."""
        threads = str(self.threads)
        names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        return {**os.environ, **dict.fromkeys(names, threads)}


@dataclass(frozen=True)
class Job:
    """A task to run apart.

    Attributes
    ----------
    task
        Module of this folder and function, as in ``exact.compare``.
    arguments
        Of the function: plain data.
    label
        What the row starts with, also where the task fails.
    restarts_clock
        Whether the task says by rows with `RESTART_CLOCK` and `STOP_CLOCK` when the limit of time counts.
    """

    task: str
    arguments: Mapping[str, Any]
    label: Row
    restarts_clock: bool = False


def run_jobs(
    jobs: Sequence[Job],
    limits: Limits,
    *,
    at_once: int = 1,
    report: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Run jobs, each in a process of its own, and return their rows in the given order.

    Parameters
    ----------
    limits
        Of each process.
    at_once
        How many run at the same time.
    report
        Called with each row as it is finished. If it raises, or the user interrupts, what is running is stopped.
    """
    if not jobs:
        return []
    compile_once()
    rows: dict[int, Row] = {}
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        waiting = {pool.submit(run_apart, job, limits, stop): number for number, job in enumerate(jobs)}
        # One at a time they are reported in the given order, several as they end.
        ended = as_completed(waiting) if at_once > 1 else iter(waiting)
        try:
            for future in ended:
                rows[waiting[future]] = row = future.result()
                report(row)
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [rows[number] for number in range(len(jobs))]


@cache
def compile_once() -> None:
    """Have the package compiled and kept on disk, so that no limit is spent on it."""
    subprocess.run([sys.executable, "-m", "ibia.compiled"], check=False)


def run_apart(job: Job, limits: Limits, stop: threading.Event | None = None) -> Row:
    """Run a job in a process of its own; return its label, its last row and, if it failed, an ``error``.

    Parameters
    ----------
    stop
        When set, the process is ended.
    """
    command = [sys.executable, "-m", "ibia.bench.apart", job.task, "--arguments", json.dumps(dict(job.arguments))]
    began = time.perf_counter()
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
        # What it leaves behind when it is ended goes with this folder.
        tempfile.TemporaryDirectory(prefix="ibia-bench-", ignore_cleanup_errors=True) as scratch,
    ):
        # In a session of its own, so that it can be ended with all that it has started. The pipe it gets as its input
        # closes when this process ends, however that comes about.
        process = subprocess.Popen(
            [*command, "--guarded", scratch],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=complaints,
            env={**limits.environment, "TMPDIR": scratch},
            start_new_session=True,
        )
        watch = _Watch(process, job, limits, output, stop or threading.Event())
        try:
            watch.wait()
        finally:
            end_tree(process)
        output.seek(0)
        complaints.seek(0)
        row = _last_row(output.read().decode(errors="replace"))
        said = complaints.read().decode(errors="replace").strip().splitlines()
    for key in (RESTART_CLOCK, STOP_CLOCK):
        row.pop(key, None)
    _settle(row, watch, process.returncode, said)
    row["peak_memory_bytes"] = max(row.get("peak_memory_bytes", 0), watch.peak)
    return {**job.label, **row, "wall_seconds": time.perf_counter() - began}


def _settle(row: Row, watch: _Watch, code: int, said: list[str]) -> None:
    """Add to a row how its process ended, and why if it did not end well; what the task itself said of it stays."""
    if "status" in row:
        return
    if watch.stopped is not None:
        row["status"], row["error"] = watch.stopped
        return
    if -code in _ASKED_TO_END:
        row["status"], row["error"] = INTERRUPTED, f"ended by the signal {signal.Signals(-code).name}"
        return
    row["status"] = DONE
    if code == 0 and len(row) > 1:
        return
    # A process ended by the kernel (out of memory, mostly) leaves no word behind.
    row["error"] = said[-1] if said else f"ended with exit status {code}"
    row["status"] = FAILED if code == _SENTENCE else CRASHED
    # A sentence is that of an error that is known; anything may stand in it.
    if code == _NO_MEMORY_LEFT or (code != _SENTENCE and any(map(finds_no_memory, said))):
        row["status"] = OUT_OF_MEMORY


def finds_no_memory(line: str) -> bool:
    """Tell whether a line that a program or a library has printed says that there was no memory left."""
    return _NO_MEMORY.search(line) is not None and _OF_A_SHELL.search(line) is None


class _Watch:
    """Looks after a process until it ends, or has to be ended.

    Attributes
    ----------
    stopped
        Why it has to be ended, if it has: a status and a sentence.
    peak
        Most bytes of memory it was seen to hold, with all that it has started.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], job: Job, limits: Limits, output: IO[bytes], stop: threading.Event
    ) -> None:
        self.stopped: tuple[str, str] | None = None
        self.peak = 0
        self._process = process
        self._limits = limits
        self._output = output
        self._stop = stop
        self._doing = _PREPARING if job.restarts_clock else None
        self._until = float("inf")
        if limits.seconds is not None:
            self._until = time.monotonic() + (self._beside if job.restarts_clock else limits.seconds)

    def wait(self) -> None:
        """Return when the process has ended, or has to be ended."""
        look_at_memory = 0.0
        while self.stopped is None:
            try:
                self._process.wait(_ENDED_EVERY)
                return
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            if self._stop.is_set():
                self.stopped = (INTERRUPTED, "interrupted")
            elif now >= self._until:
                self._check_clock(now)
            elif now >= look_at_memory:
                look_at_memory = now + _MEMORY_EVERY
                self._read_clock()
                self._check_memory()

    def _check_clock(self, now: float) -> None:
        self._read_clock()
        if now >= self._until:
            self.stopped = (OUT_OF_TIME, self._exceeded())

    @property
    def _beside(self) -> float:
        """Seconds that a task with a clock of its own may take before, and again after."""
        assert self._limits.seconds is not None
        return self._limits.seconds + _BESIDE

    def _exceeded(self) -> str:
        """Return a sentence about the time that was exceeded."""
        limit = f"{self._limits.seconds:g} s"
        if self._doing is None:
            return f"stopped after {limit}"
        if self._doing == _SOLVING:
            return f"stopped while solving: no answer within the limit of {limit}"
        return f"stopped while {self._doing}: more than {self._beside:g} s (the limit of {limit}, and {_BESIDE:g} s)"

    def _read_clock(self) -> None:
        """Set the end by what the task has said of its own clock."""
        if self._doing is None:
            return
        size = os.fstat(self._output.fileno()).st_size
        row = _last_row(os.pread(self._output.fileno(), size, 0).decode(errors="replace"))
        if STOP_CLOCK in row:
            self._doing = _COMPARING
            if self._limits.seconds is not None:
                self._until = float(row[STOP_CLOCK]) + self._beside
        elif RESTART_CLOCK in row:
            self._doing = _SOLVING
            if self._limits.seconds is not None:
                self._until = float(row[RESTART_CLOCK]) + self._limits.seconds * (1.0 + _OVERTIME) + _GRACE

    def _check_memory(self) -> None:
        held = measure_tree(self._process.pid)
        self.peak = max(self.peak, held)
        limit = self._limits.memory
        if limit is not None and held > limit:
            while_doing = "" if self._doing is None else f" while {self._doing}"
            self.stopped = (OUT_OF_MEMORY, f"stopped{while_doing} with {size_in_words(held)} of memory")


def _last_row(output: str) -> Row:
    for line in reversed(output.splitlines()):
        try:
            row = json.loads(line)
        except ValueError:
            # The process was stopped in the middle of this line.
            continue
        if isinstance(row, dict):
            return row
    return {}


def peak_memory() -> int:
    """Return the most bytes of memory this process has held so far."""
    # The unit is the kilobyte, but on one system the byte.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(arguments: list[str] | None = None) -> int:
    """Run a task and print its rows, one a line."""
    parser = argparse.ArgumentParser(prog="python -m ibia.bench.apart", description="Run one task of the bench.")
    parser.add_argument("task", help="module and function, as in exact.compare")
    parser.add_argument("--arguments", default="{}", metavar="JSON", help="of the function")
    parser.add_argument(
        "--guarded", metavar="DIR", help="end when the standard input is closed; leave no process behind, nor DIR"
    )
    options = parser.parse_args(arguments)
    if options.guarded is not None:
        adopt_orphans()
        # What is registered first is done last, when everybody had the time to end what is theirs.
        atexit.register(_leave_nothing, options.guarded)
        threading.Thread(target=_end_with_input, args=(options.guarded,), daemon=True).start()
    module, function = options.task.rsplit(".", maxsplit=1)
    with _rows_only() as stream:
        try:
            task = getattr(importlib.import_module(f"ibia.bench.{module}"), function)
            result: Row | Iterable[Row] = task(**json.loads(options.arguments))
            for row in [result] if isinstance(result, dict) else result:
                print(json.dumps({**row, "peak_memory_bytes": peak_memory()}), file=stream, flush=True)
        except IbiaError as error:
            # A sentence for users: the name of the class would tell them nothing.
            print(" ".join(str(error).split()), file=sys.stderr)
            return _SENTENCE
        except MemoryError as error:
            said = " ".join(str(error).split())
            print(f"MemoryError: {said}" if said else "There was not enough memory.", file=sys.stderr)
            return _NO_MEMORY_LEFT
        except Exception:
            traceback.print_exc()
            return _DEFECT
    return 0


def _rows_only() -> IO[str]:
    """Return the standard output for rows, and send there what libraries print with the complaints."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "w", encoding="utf-8")


def _leave_nothing(scratch: str) -> None:
    """End all that this process has started, and remove the folder of what they have written."""
    end_others(os.getpid())
    shutil.rmtree(scratch, ignore_errors=True)


def _end_with_input(scratch: str) -> None:
    """Wait until whoever started this process is gone, and end it then with all that it has started and written."""
    while os.read(0, 1):
        pass
    _leave_nothing(scratch)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
