"""The same run with one thread and with several: how much faster, and whether the answers have the same bits.

Each run has a process of its own, as a user's has: memory that a process has used before costs less than memory that is
new to it, so one process for all would favour some of the runs. They take turns; the best of each counts. Memory that
is new to a virtual machine costs far more still (2 s a GB instead of 0.05, where it was measured), and hosts take back
what was free for some seconds: before each run another process has used as much as it may need.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any

from ibia.bench.accuracy import warm_up
from ibia.bench.apart import Job, Limits, Row, compile_once, run_apart
from ibia.bench.instances import Instance, find_instance, load
from ibia.bench.options import add_json, add_limits, add_order, add_selection, limits, positive, selected
from ibia.bench.report import counted, geometric_mean, label, write_json

__all__ = ["add_command", "solve", "touch"]

# A machine has memory in pages of at least so many bytes.
_PAGE = 4096


def add_command(commands: Any) -> None:
    """Add the command ``threads``."""
    parser = commands.add_parser(
        "threads",
        help="the same run with one thread and with several",
        description="Seconds with one thread and with several, each run in a process of its own, and whether the "
        "marginals and log Z have the same bits.",
    )
    add_selection(parser)
    parser.add_argument(
        "--threads", type=positive, default=os.cpu_count() or 1, metavar="N", help="compare with (default: all cores)"
    )
    parser.add_argument("--bound", type=float, default=20.0, metavar="BITS", help="of the runs (default: 20)")
    add_order(parser)
    parser.add_argument("--repetitions", type=positive, default=2, metavar="N", help="the best of so many (default: 2)")
    parser.add_argument(
        "--longer-than", type=float, default=0.0, metavar="S", help="only runs that take longer with one thread"
    )
    parser.add_argument(
        "--touch", type=float, default=8.0, metavar="GIB", help="memory used and freed before each run (default: 8)"
    )
    add_limits(parser, seconds=600.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    several = counted(options.threads, "thread")
    print(f"{'family':<12}{'name':<28}{'1 thread':>10}{several:>12}{'ratio':>8}  bits")
    rows = []
    compile_once()
    for instance in selected(options):
        row = _compare(instance, options)
        if row is not None:
            rows.append(row)
            print(_line(row), flush=True)
    print("", *_summary_lines(rows), sep="\n")
    write_json(options.json, rows)
    return 0


def _compare(instance: Instance, options: argparse.Namespace) -> Row | None:
    """Return the best times of an instance and whether all bits are the same; None: it is too short to be compared."""
    allowed = limits(options, threads=options.threads)
    row: Row = {"family": instance.family, "name": instance.name, "threads": options.threads}
    seconds: dict[int, list[float]] = {1: [], options.threads: []}
    bits = set()
    for _ in range(options.repetitions):
        for threads, times in seconds.items():
            run_apart(Job("threads.touch", {"gibibytes": options.touch}, {}), Limits(allowed.seconds, allowed.memory))
            run = run_apart(_job(instance, options, threads), Limits(allowed.seconds, allowed.memory, threads))
            if "seconds" not in run:
                return {**row, "error": run["error"]}
            times.append(run["seconds"])
            bits.add(run["bits"])
            if threads == 1 and run["seconds"] < options.longer_than:
                return None
    one, several = min(seconds[1]), min(seconds[options.threads])
    return row | {
        "seconds_one": one,
        "seconds_several": several,
        "ratio": one / several,
        "same_bits": len(bits) == 1,
        "runs": seconds,
    }


def _job(instance: Instance, options: argparse.Namespace, threads: int) -> Job:
    choices = {"bound": options.bound, "order": options.order, "slices": options.slices, "threads": threads}
    arguments = {"data": str(options.data), "family": instance.family, "name": instance.name, "choices": choices}
    return Job("threads.solve", arguments, {})


def _line(row: Row) -> str:
    if "ratio" not in row:
        return f"{label(row)} failed: {row['error']}"
    same = "same" if row["same_bits"] else "DIFFERENT"
    return f"{label(row)}{row['seconds_one']:>10.3f}{row['seconds_several']:>12.3f}{row['ratio']:>7.2f}×  {same}"


def _summary_lines(rows: Sequence[Row]) -> list[str]:
    measured = [row for row in rows if "ratio" in row]
    different = [row["name"] for row in measured if not row["same_bits"]]
    return [
        f"{len(measured)} runs; geometric mean of the ratio: {geometric_mean(row['ratio'] for row in measured):.2f}×, "
        f"least {min((row['ratio'] for row in measured), default=float('nan')):.2f}× (above 1: several threads are "
        "faster)",
        f"different bits: {', '.join(different)}" if different else "all answers have the same bits",
    ]


def solve(data: str, family: str, name: str, choices: dict[str, Any]) -> Row:
    """Solve an instance, and return the seconds of inference and a digest of the answer's bits."""
    import numpy as np

    import ibia

    model, evidence = load(find_instance(data, family, name))
    warm_up({"threads": choices["threads"]})
    began = time.perf_counter()
    result = ibia.infer(model, evidence, **choices)
    seconds = time.perf_counter() - began
    numbers = np.concatenate([*result.marginals, [result.log_z]])
    return {"seconds": seconds, "bits": hashlib.sha256(numbers.tobytes()).hexdigest(), "exact": result.exact}


def touch(gibibytes: float) -> Row:
    """Use so much memory, or half of what is free if that is less."""
    import numpy as np

    from ibia.limits import available_memory

    size = int(min(gibibytes * 2.0**30, 0.5 * available_memory()))
    np.empty(size, np.uint8)[::_PAGE] = 1
    return {"bytes": size}
