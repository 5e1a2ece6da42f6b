"""The portfolio against its parts: every fixed order and reduction, and the automatic choice among them, at one bound.

Each instance and setting is an accuracy run in a process of its own. Knows the rows of `accuracy` and the names of the
orders, nothing of how the choice is made.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ibia.bench.accuracy import Choices, accuracy_job
from ibia.bench.apart import Row, run_jobs
from ibia.bench.claims import is_exact
from ibia.bench.options import add_json, add_limits, add_selection, limits, positive, reduction, selected
from ibia.bench.report import HEADER, append_row, geometric_mean, instance_line, mean, read_rows, row_key, write_json

__all__ = ["add_command", "summary_lines"]

# Added to every distance before the geometric mean is taken: an answer that is right does not decide alone.
_FLOOR = 1e-5
# Distances within this of the best are the best, up to rounding.
_ALIKE = 1e-6


def add_command(commands: Any) -> None:
    """Add the command ``portfolio``."""
    parser = commands.add_parser(
        "portfolio",
        help="fixed orders and reductions against the automatic choice",
        description="Runs every order with every reduction, and the automatic choice with and without slices, at one "
        "bound. Rows are appended to --out; what is there already is not run again.",
    )
    add_selection(parser)
    parser.add_argument("--bound", type=float, default=15.0, metavar="BITS", help="of the runs (default: 15)")
    parser.add_argument("--orders", nargs="+", metavar="NAME", help="fixed orders to try (default: all)")
    parser.add_argument(
        "--reductions", nargs="+", type=reduction, default=[1.0, 2.0], metavar="BITS", help="or demand (default: 1 2)"
    )
    parser.add_argument("--jobs", type=positive, default=1, help="processes at the same time (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="append a line of JSON for each run")
    add_limits(parser, seconds=600.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    from ibia.steps.order import ORDERS

    settings = [
        Choices(bound=options.bound),
        # Fixed orders are never solved in slices: this is the choice alone.
        Choices(bound=options.bound, slices="never"),
        *(
            Choices(bound=options.bound, reduce=bits, order=order)
            for order in options.orders or ORDERS
            for bits in options.reductions
        ),
    ]
    # Models that fit have one answer, whatever the order.
    instances = selected(options, with_marginals=True, narrowest=math.nextafter(options.bound, math.inf))
    jobs = [accuracy_job(options.data, instance, choices) for instance in instances for choices in settings]
    known = {row_key(row): row for row in read_rows(options.out)} if options.out and options.out.exists() else {}
    todo = [job for job in jobs if row_key(job.label) not in known]
    if len(todo) < len(jobs):
        print(f"{len(jobs) - len(todo)} of {len(jobs)} runs are in {options.out} already")

    def report(row: Row) -> None:
        print(f"{instance_line(row)}  [{_setting(row)}]", flush=True)
        append_row(options.out, row)
        known[row_key(row)] = row

    print(f"{HEADER}  [setting]", flush=True)
    run_jobs(todo, limits(options), at_once=options.jobs, report=report)
    rows = [known[row_key(job.label)] for job in jobs]
    print("", *summary_lines(rows), sep="\n")
    write_json(options.json, rows)
    return 0


def _setting(row: Row) -> str:
    settings = row["settings"]
    if settings["order"] == "auto":
        return "automatic, no slices" if settings.get("slices") == "never" else "automatic"
    bits = settings["reduce"]
    return f"{settings['order']}, {bits if isinstance(bits, str) else f'{bits:g}'}"


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each setting beside the automatic choice on the same instances."""
    answers: dict[str, dict[tuple[str, str], float]] = {}
    exact = {(row["family"], row["name"]) for row in rows if is_exact(row)}
    exact -= {(row["family"], row["name"]) for row in rows if "error" not in row and not is_exact(row)}
    for row in rows:
        instance = (row["family"], row["name"])
        if "error" not in row and instance not in exact:
            answers.setdefault(_setting(row), {})[instance] = row["hd_max"]
    automatic = answers.pop("automatic", {})
    # In slices answers are exact, which is no merit of an order: the best is that of the other settings then.
    sliced = {(row["family"], row["name"]) for row in rows if is_exact(row) and _setting(row) == "automatic"}
    chosen = {instance: error for instance, error in automatic.items() if instance not in sliced}
    best = {
        instance: min([found[instance] for found in (chosen, *answers.values()) if instance in found] or [error])
        for instance, error in automatic.items()
    }
    lines = [
        f"HD_max: mean and geometric mean ({_FLOOR:g} added); {len(exact)} instances that were exact are left out",
        f"{'setting':<24}{'instances':>10}{'mean':>10}{'automatic':>11}{'geometric':>11}{'automatic':>11}{'best':>7}",
    ]
    for setting, found in [("automatic", automatic), *answers.items(), ("best in hindsight", best)]:
        common = [instance for instance in found if instance in automatic]
        ours = [automatic[instance] for instance in common]
        theirs = [found[instance] for instance in common]
        winner = sum(1 for instance in common if found[instance] <= best[instance] + _ALIKE)
        lines.append(
            f"{setting:<24}{len(common):>10}{mean(theirs):>10.2e}{mean(ours):>11.2e}"
            f"{geometric_mean(theirs, _FLOOR):>11.2e}{geometric_mean(ours, _FLOOR):>11.2e}{winner:>7}"
        )
    return lines
