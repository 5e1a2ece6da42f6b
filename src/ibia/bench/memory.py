"""Peak resident memory of whole runs, each in a process of its own, against the limit it was given.

Knows the public call of the package.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ibia.bench.accuracy import warm_up
from ibia.bench.apart import Job, Row, peak_memory, run_jobs
from ibia.bench.instances import find_instance, load
from ibia.bench.options import add_json, add_limits, add_order, add_selection, limits, positive, selected
from ibia.bench.report import label, write_json

__all__ = ["add_command", "measure", "supported"]

_MEBIBYTE = 2.0**20


def add_command(commands: Any) -> None:
    """Add the command ``memory``."""
    parser = commands.add_parser(
        "memory",
        help="peak memory of runs against their limit",
        description="Peak resident memory of each run before inference (interpreter, compiled code, model) and after "
        "it, against the limit that inference was given. With several threads it is that of all processes that help.",
    )
    add_selection(parser)
    parser.add_argument("--bound", type=float, default=20.0, metavar="BITS", help="of the runs (default: 20)")
    add_order(parser)
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="cores to use (default: 1)")
    parser.add_argument(
        "--memory-limit", type=float, nargs="+", metavar="MIB", help="limits to try (default: run without a limit)"
    )
    add_limits(parser, seconds=600.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def supported() -> bool:
    """Tell whether this version of the package keeps to a limit of memory."""
    import ibia

    return "memory_limit" in inspect.signature(ibia.infer).parameters


def _command(options: argparse.Namespace) -> int:
    if options.memory_limit and not supported():
        print("This version of ibia.infer has no parameter 'memory_limit': runs are compared with it, not told of it.")
    jobs = [
        Job(
            "memory.measure",
            {"data": str(options.data), "family": instance.family, "name": instance.name}
            | {"choices": {name: getattr(options, name) for name in ("bound", "order", "slices", "threads")}}
            | {"memory_limit": limit},
            {"family": instance.family, "name": instance.name, "memory_limit_bytes": limit},
        )
        for instance in selected(options)
        for limit in [size * _MEBIBYTE for size in options.memory_limit or []] or [None]
    ]
    print("MiB of resident memory")
    print(f"{'family':<12}{'name':<28}{'before':>8}{'peak':>9}{'limit':>9}{'peak/limit':>12}{'seconds':>10}  answer")
    rows = run_jobs(jobs, limits(options, options.threads), report=lambda row: print(_line(row), flush=True))
    print("", *_summary_lines(rows), sep="\n")
    write_json(options.json, rows)
    return 0


def _line(row: Row) -> str:
    if "seconds" not in row:
        return f"{label(row)} failed: {row['error']}"
    limit = row["memory_limit_bytes"]
    compared = f"{'–':>9}{'–':>12}"
    if limit is not None:
        compared = f"{limit / _MEBIBYTE:>9.0f}{row['peak_memory_bytes'] / limit:>12.2f}"
    answer = "exact" if row["exact"] else f"approximate, largest clique {row['bits']:.1f} bits"
    before, peak = row["memory_before_bytes"] / _MEBIBYTE, row["peak_memory_bytes"] / _MEBIBYTE
    return f"{label(row)}{before:>8.0f}{peak:>9.0f}{compared}{row['seconds']:>10.2f}  {answer}"


def _summary_lines(rows: Sequence[Row]) -> list[str]:
    measured = [row for row in rows if "seconds" in row]
    limited = [row for row in measured if row["memory_limit_bytes"] is not None]
    over = [row["name"] for row in limited if row["peak_memory_bytes"] > row["memory_limit_bytes"]]
    lines = [f"{len(measured)} runs, {len(rows) - len(measured)} failed"]
    if measured:
        lines.append(f"largest peak: {max(row['peak_memory_bytes'] for row in measured) / _MEBIBYTE:.0f} MiB")
    if limited:
        lines.append(" ".join([f"over the limit: {len(over)} of {len(limited)}:", *over]).rstrip(":"))
    return lines


def measure(data: str, family: str, name: str, choices: dict[str, Any], memory_limit: float | None) -> Iterator[Row]:
    """Solve an instance in this process; its peak is added to every row."""
    import ibia

    model, evidence = load(find_instance(data, family, name))
    warm_up()
    row: Row = {"memory_before_bytes": peak_memory()}
    yield row
    if memory_limit is not None and supported():
        choices = choices | {"memory_limit": memory_limit}
    began = time.perf_counter()
    result = ibia.infer(model, evidence, **choices)
    yield row | {"seconds": time.perf_counter() - began, "exact": result.exact, "bits": result.max_clique_bits}
