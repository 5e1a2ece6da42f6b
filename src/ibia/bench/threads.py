"""The same run with one thread and with several: how much faster, and whether the answers have the same bits.

Both are called from one process, taking turns; the best of a few repetitions counts. In the first one other processes
that help have to start, so it is shown as well. Knows the public call of the package.
"""

from __future__ import annotations

import argparse
import inspect
import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ibia.bench.accuracy import warm_up
from ibia.bench.apart import Job, Row, run_jobs
from ibia.bench.instances import find_instance, load
from ibia.bench.options import add_json, add_limits, add_order, add_selection, limits, positive, selected
from ibia.bench.report import geometric_mean, label, write_json

if TYPE_CHECKING:
    from ibia.result import Result

__all__ = ["add_command", "measure", "supported"]


def add_command(commands: Any) -> None:
    """Add the command ``threads``."""
    parser = commands.add_parser(
        "threads",
        help="the same run with one thread and with several",
        description="Seconds with one thread and with several, in the same process, and whether the marginals and "
        "log Z have the same bits.",
    )
    add_selection(parser)
    parser.add_argument(
        "--threads", type=positive, default=os.cpu_count() or 1, metavar="N", help="compare with (default: all cores)"
    )
    parser.add_argument("--bound", type=float, default=20.0, metavar="BITS", help="of the runs (default: 20)")
    add_order(parser)
    parser.add_argument("--repetitions", type=positive, default=3, metavar="N", help="the best of so many (default: 3)")
    parser.add_argument(
        "--short", type=float, default=10.0, metavar="S", help="repeat only what takes less than this (default: 10 s)"
    )
    add_limits(parser, seconds=600.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def supported() -> bool:
    """Tell whether this version of the package can use several threads."""
    import ibia

    return "threads" in inspect.signature(ibia.infer).parameters


def _command(options: argparse.Namespace) -> int:
    jobs = [
        Job(
            "threads.measure",
            {"data": str(options.data), "family": instance.family, "name": instance.name}
            | {"choices": {"bound": options.bound, "order": options.order, "slices": options.slices}}
            | {"threads": options.threads, "repetitions": options.repetitions, "short": options.short},
            {"family": instance.family, "name": instance.name, "threads": options.threads},
        )
        for instance in selected(options)
    ]
    if not supported():
        print("This version of ibia.infer has no parameter 'threads': both columns are runs with one.")
    several = f"{options.threads} threads"
    print(f"{'family':<12}{'name':<28}{'1 thread':>10}{several:>12}{'ratio':>8}{'at first':>9}  bits")
    rows = run_jobs(
        jobs, limits(options, threads=options.threads), report=lambda row: print(_line(row), flush=True)
    )
    print("", *_summary_lines(rows), sep="\n")
    write_json(options.json, rows)
    return 0


def _line(row: Row) -> str:
    if "ratio" not in row:
        return f"{label(row)} failed: {row['error']}"
    same = "same" if row["same_bits"] else f"DIFFERENT (by {row['difference']:.0e})"
    ratios = f"{row['ratio']:>7.2f}×{row['ratio_at_first']:>8.2f}×"
    return f"{label(row)}{row['seconds_one']:>10.3f}{row['seconds_several']:>12.3f}{ratios}  {same}"


def _summary_lines(rows: Sequence[Row]) -> list[str]:
    measured = [row for row in rows if "ratio" in row]
    different = [row["name"] for row in measured if not row["same_bits"]]
    return [
        f"{len(measured)} runs; geometric mean of the ratio: {geometric_mean(row['ratio'] for row in measured):.2f}× "
        "(above 1: several threads are faster)",
        f"different bits: {', '.join(different)}" if different else "all answers have the same bits",
    ]


def measure(
    data: str, family: str, name: str, choices: dict[str, Any], threads: int, repetitions: int, short: float
) -> Iterator[Row]:
    """Solve an instance with one thread and with several, in turn, in this process."""
    import numpy as np

    import ibia

    model, evidence = load(find_instance(data, family, name))
    arguments = [choices | ({"threads": count} if supported() else {}) for count in (1, threads)]
    for given in arguments:
        warm_up({key: value for key, value in given.items() if key == "threads"})
    seconds = [math.inf, math.inf]
    at_first = math.inf
    answers: list[Any] = [None, None]
    for repetition in range(repetitions):
        for number, given in enumerate(arguments):
            began = time.perf_counter()
            result = ibia.infer(model, evidence, **given)
            seconds[number] = min(seconds[number], time.perf_counter() - began)
            answers[number] = _numbers(result)
        if repetition == 0:
            at_first = seconds[1]
        yield {
            "seconds_one": seconds[0],
            "seconds_several": seconds[1],
            "ratio": seconds[0] / seconds[1],
            "ratio_at_first": seconds[0] / at_first,
            "same_bits": answers[0].tobytes() == answers[1].tobytes(),
            "difference": float(np.abs(answers[0] - answers[1]).max()),
            "exact": result.exact,
            "repetitions": repetition + 1,
        }
        if max(seconds) > short:
            break


def _numbers(result: Result) -> Any:
    import numpy as np

    return np.concatenate([*result.marginals, [result.log_z]])
