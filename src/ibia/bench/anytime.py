"""Answers within a time and a memory limit: the command line as a user would call it, each in a process of its own.

Records how long it really took, what bound was reached, and how far the answer is off; compares with a file of results
at a fixed bound. Knows the command line and the JSON it writes, nothing of how inference works.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibia.bench.accuracy import compare
from ibia.bench.apart import Row, compile_once
from ibia.bench.claims import is_exact
from ibia.bench.instances import Instance
from ibia.bench.options import add_json, add_selection, positive, selected
from ibia.bench.report import append_row, estimate, label, mean, read_rows, row_key, short, write_json
from ibia.errors import IbiaError

__all__ = ["Trial", "add_command", "run", "summary_lines"]

_KEPT = (
    "exact",
    "loopy",
    "bound",
    "max_clique_bits",
    "steps",
    "error_estimate",
    "error_upper",
    "seconds",
    "peak_memory_bytes",
)


@dataclass(frozen=True)
class Trial:
    """How instances are run.

    Attributes
    ----------
    command
        The command and its first arguments.
    time_limit
        Seconds it is given.
    memory_limit
        Memory it is given, as the command line takes it; None leaves it to the command.
    patience
        Seconds over the limit after which it is stopped.
    """

    command: tuple[str, ...]
    time_limit: float
    memory_limit: str | None
    patience: float

    @property
    def settings(self) -> Row:
        """What tells this trial from others."""
        return {"time_limit": self.time_limit, "memory_limit": self.memory_limit}


def add_command(commands: Any) -> None:
    """Add the command ``anytime``."""
    parser = commands.add_parser(
        "anytime",
        help="answers within a time and a memory limit",
        description="Runs the command line with a time and a memory limit on each instance and scores its answer. Rows "
        "are appended to --out; instances that are there already, with the same limits, are not run again.",
    )
    add_selection(parser)
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S", help="given to each run (default: 20)")
    parser.add_argument("--memory-limit", metavar="SIZE", help="given to each run, as in 8GB (default: none)")
    parser.add_argument(
        "--patience", type=float, default=60.0, metavar="S", help="stop a run so long after its limit (default: 60)"
    )
    parser.add_argument(
        "--program", metavar="COMMAND", help="what to run (default: this installation's 'ibia infer')"
    )
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="results of 'accuracy' to compare with")
    parser.add_argument("--jobs", type=positive, default=1, help="processes at the same time (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append a line of JSON for each instance")
    parser.add_argument("--again", action="store_true", help="run what failed once more")
    add_json(parser)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    program = shlex.split(options.program) if options.program else [sys.executable, "-m", "ibia", "infer"]
    trial = Trial(tuple(program), options.time_limit, options.memory_limit, options.patience)
    baseline = read_rows(options.baseline) if options.baseline else []
    instances = selected(options, with_marginals=True)
    known = {row_key(row): row for row in read_rows(options.out)} if options.out and options.out.exists() else {}
    rows: dict[str, Row] = {}
    waiting = []
    for instance in instances:
        key = row_key(_label(instance, trial))
        if key in known and not (options.again and "error" in known[key]):
            rows[key] = known[key]
        else:
            waiting.append(instance)
    if rows:
        print(f"{len(rows)} of {len(instances)} are in {options.out} already")
    if waiting:
        compile_once()
    print(_HEADER, flush=True)
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        futures = [pool.submit(run, instance, trial) for instance in waiting]
        try:
            for future in as_completed(futures):
                row = future.result()
                rows[row_key(row)] = row
                append_row(options.out, row)
                print(_line(row), flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    every = list(rows.values())
    print("", *summary_lines(every, baseline), sep="\n")
    write_json(options.json, every)
    return 0


def run(instance: Instance, trial: Trial) -> Row:
    """Run the command line on an instance in a process of its own and score its answer."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [*trial.command, str(instance.path(".uai.xz")), "--json", str(answer), "--quiet"]
        if instance.path(".evid").exists():
            command += ["--evidence", str(instance.path(".evid"))]
        command += ["--time-limit", f"{trial.time_limit:g}"]
        if trial.memory_limit is not None:
            command += ["--memory-limit", trial.memory_limit]
        began = time.perf_counter()
        problem = _problem(command, trial.time_limit + trial.patience)
        wall = time.perf_counter() - began
        row = _label(instance, trial) | {"wall_seconds": wall, "overshoot_seconds": max(0.0, wall - trial.time_limit)}
        if problem is None:
            try:
                row |= _scored(instance, json.loads(answer.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, IbiaError) as error:
                problem = f"no usable answer: {error}"
    return row if problem is None else row | {"error": problem}


def _problem(command: list[str], limit_seconds: float) -> str | None:
    """Run a command; return what went wrong."""
    # Runs that take turns on few cores must not each use all of them.
    environment = {**os.environ, "NUMBA_NUM_THREADS": os.environ.get("NUMBA_NUM_THREADS", "1")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=limit_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {limit_seconds:g} s"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"ended with exit status {done.returncode}"


def _label(instance: Instance, trial: Trial) -> Row:
    return {
        "family": instance.family,
        "name": instance.name,
        "reference": instance.reference,
        "uai2014": instance.from_uai2014,
        "settings": trial.settings,
    }


def _scored(instance: Instance, answer: Row) -> Row:
    import ibia

    path = instance.path(".evid")
    observed = ibia.read_evidence(path) if path.exists() else {}
    marginals = list(answer["marginals"].values())
    return compare(instance, marginals, answer["log10_z"], observed) | {key: answer.get(key) for key in _KEPT}


_HEADER = (
    f"{'family':<12}{'name':<28}{'HD_avg':>9}{'HD_max':>9}{'Δ log10 Z':>11}{'estimate':>10}{'bound':>7}{'seconds':>9}"
    f"{'over':>7}{'MiB':>7}"
)


def _line(row: Row) -> str:
    if "error" in row:
        return f"{label(row)} failed after {row['wall_seconds']:.1f} s: {row['error']}"
    stated = "loopy" if row["loopy"] else estimate(row)
    bound = "–" if row["bound"] is None else f"{row['bound']:.1f}"
    memory = "–" if row["peak_memory_bytes"] is None else f"{row['peak_memory_bytes'] / 2**20:.0f}"
    return (
        f"{label(row)}{short(row['hd_avg']):>9}{short(row['hd_max']):>9}{short(row['delta_log10_z']):>11}{stated:>10}"
        f"{bound:>7}{row['wall_seconds']:>9.2f}{row['overshoot_seconds']:>7.2f}{memory:>7}"
    )


def summary_lines(rows: Sequence[Row], baseline: Sequence[Row] = ()) -> list[str]:
    """Return a line for each family, beside the baseline where it has the same instances."""
    fixed = {(row["family"], row["name"]): row for row in baseline if "error" not in row}
    lines = [
        f"{'family':<12}{'answered':>10}{'exact':>7}{'HD_avg':>10}{'HD_max':>10}{'seconds':>9}{'most over':>11}"
        + (f"{'common':>9}{'HD_max':>10}{'baseline':>10}{'better':>8}{'worse':>7}" if baseline else "")
    ]
    families = sorted({row["family"] for row in rows})
    for family in [*families, None]:
        members = [row for row in rows if family in (None, row["family"])]
        answered = [row for row in members if "error" not in row]
        share = f"{len(answered)}/{len(members)}"
        line = (
            f"{'all' if family is None else family:<12}{share:>10}{sum(1 for row in answered if is_exact(row)):>7}"
            f"{mean(row['hd_avg'] for row in answered):>10.1e}{mean(row['hd_max'] for row in answered):>10.1e}"
            f"{mean(row['wall_seconds'] for row in members):>9.2f}"
            f"{max((row['overshoot_seconds'] for row in members), default=0.0):>11.2f}"
        )
        pairs = [(row, fixed[key]) for row in answered if (key := (row["family"], row["name"])) in fixed]
        if baseline:
            line += _against(pairs)
        lines.append(line)
    return lines


# Distances that differ by less are the same answer to a reader, and mostly rounding.
_ALIKE = 1e-6


def _against(pairs: Sequence[tuple[Row, Row]]) -> str:
    better = sum(1 for row, other in pairs if row["hd_max"] < other["hd_max"] - _ALIKE)
    worse = sum(1 for row, other in pairs if row["hd_max"] > other["hd_max"] + _ALIKE)
    ours, theirs = mean(row["hd_max"] for row, _ in pairs), mean(other["hd_max"] for _, other in pairs)
    return f"{len(pairs):>9}{ours:>10.1e}{theirs:>10.1e}{better:>8}{worse:>7}"
