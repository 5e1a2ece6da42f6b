"""Work in a process of its own: its memory ends with it, its peak is its own, and it can be stopped.

A task is a function of this folder, named as in ``exact.compare``, called with plain data and returning (or yielding)
rows of plain data. A task that yields has each row printed as it comes, so that what was measured before it was stopped
is not lost. Run as ``python -m ibia.bench.apart TASK``. Knows nothing of what is measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from typing import Any

from ibia.errors import IbiaError

__all__ = ["Job", "Limits", "Row", "compile_once", "main", "peak_memory", "run_apart", "run_jobs"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What a process may use.

    Attributes
    ----------
    seconds
        It is stopped after this time.
    memory
        Bytes of address space; asking for more fails inside the process.
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
    """

    task: str
    arguments: Mapping[str, Any]
    label: Row


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
        Called with each row as it is finished.
    """
    compile_once()
    rows: dict[int, Row] = {}
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        waiting = {pool.submit(run_apart, job, limits): number for number, job in enumerate(jobs)}
        # One at a time they are reported in the given order, several as they end.
        ended = as_completed(waiting) if at_once > 1 else iter(waiting)
        try:
            for future in ended:
                rows[waiting[future]] = row = future.result()
                report(row)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [rows[number] for number in range(len(jobs))]


@cache
def compile_once() -> None:
    """Have the package compiled and kept on disk, so that no limit is spent on it."""
    subprocess.run([sys.executable, "-m", "ibia.compiled"], check=False)


def run_apart(job: Job, limits: Limits) -> Row:
    """Run a job in a process of its own; return its label, its last row and, if it failed, an ``error``."""
    command = [sys.executable, "-m", "ibia.bench.apart", job.task, "--arguments", json.dumps(dict(job.arguments))]
    if limits.memory is not None:
        command += ["--memory", str(int(limits.memory))]
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=limits.environment, timeout=limits.seconds, check=False
        )
    except subprocess.TimeoutExpired as stopped:
        output = stopped.stdout or b""
        row = _last_row(output.decode() if isinstance(output, bytes) else output)
        row["error"] = f"stopped after {limits.seconds:g} s"
    else:
        row = _last_row(done.stdout)
        if done.returncode != 0 or not row:
            said = done.stderr.strip().splitlines()
            # A process ended by the kernel (out of memory, mostly) leaves no word behind.
            row["error"] = said[-1] if said else f"ended with exit status {done.returncode}"
    return {**job.label, **row, "wall_seconds": time.perf_counter() - began}


def _last_row(output: str) -> Row:
    for line in reversed(output.splitlines()):
        try:
            row: Row = json.loads(line)
        except ValueError:
            # The process was stopped in the middle of this line.
            continue
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
    parser.add_argument("--memory", type=int, metavar="BYTES", help="address space this process may use")
    options = parser.parse_args(arguments)
    if options.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (options.memory, options.memory))
    module, function = options.task.split(".")
    task = getattr(importlib.import_module(f"ibia.bench.{module}"), function)
    try:
        result: Row | Iterable[Row] = task(**json.loads(options.arguments))
        for row in [result] if isinstance(result, dict) else result:
            print(json.dumps({**row, "peak_memory_bytes": peak_memory()}), flush=True)
    except (IbiaError, MemoryError) as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
