"""The commands of ``python -m ibia.bench``: kernels, accuracy, table, and those of the modules in `_MODULES`.

Reads the command line and prints; what is measured and how stands in the other modules of this folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ibia.bench import anytime, exact, growth, memory, portfolio, split, threads
from ibia.bench.apart import Row
from ibia.bench.options import add_json, add_limits, add_order, add_selection, limits, positive, reduction, selected
from ibia.errors import IbiaError, InputError

__all__ = ["main"]

# Each adds a command of its own name.
_MODULES = (exact, split, growth, threads, memory, anytime, portfolio)


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except (IbiaError, OSError) as error:
        print(f"ibia.bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("ibia.bench: interrupted", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ibia.bench", description="Measure speed and accuracy.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    kernels = commands.add_parser("kernels", help="time of the table operations against a memory copy")
    kernels.add_argument("--smallest", type=int, default=10, metavar="BITS", help="smallest table (default: 2^10)")
    kernels.add_argument("--largest", type=int, default=24, metavar="BITS", help="largest table (default: 2^24)")
    add_json(kernels)
    kernels.set_defaults(command=_kernels)

    accuracy = commands.add_parser("accuracy", help="errors and times on models with known answers")
    add_selection(accuracy)
    accuracy.add_argument("--bound", type=float, default=20.0, metavar="BITS")
    accuracy.add_argument("--reduce", type=reduction, metavar="BITS|demand")
    accuracy.add_argument("--loss", default="kl")
    accuracy.add_argument("--update", default="sweeps")
    add_order(accuracy)
    accuracy.add_argument("--jobs", type=positive, default=1, help="processes at the same time (default: 1)")
    add_limits(accuracy)
    accuracy.add_argument("--out", type=Path, metavar="FILE", help="append a line of JSON for each instance")
    accuracy.set_defaults(command=_accuracy)

    table = commands.add_parser("table", help="family averages of several results files side by side, as Markdown")
    table.add_argument("results", type=Path, nargs="+", metavar="FILE")
    table.add_argument("--only-uai2014", action="store_true", help="only marginals problems of UAI-2014")
    table.set_defaults(command=_table)

    for module in _MODULES:
        module.add_command(commands)
    return parser


def _kernels(options: argparse.Namespace) -> int:
    from ibia.bench.kernels import measure, print_measurements
    from ibia.bench.report import write_json

    if not 1 <= options.smallest <= options.largest <= 30:
        raise InputError("expected 1 ≤ smallest ≤ largest ≤ 30 bits")
    measurements = list(print_measurements(measure(range(options.smallest, options.largest + 1, 2))))
    write_json(options.json, [{**vars(entry), "ratio": entry.ratio} for entry in measurements])
    return 0


def _accuracy(options: argparse.Namespace) -> int:
    from ibia.bench.accuracy import Choices, run_instances
    from ibia.bench.report import HEADER, append_row, family_lines, instance_line

    choices = Choices(options.bound, options.reduce, options.loss, options.update, options.order, options.slices)
    instances = selected(options, with_marginals=True)

    def report(row: Row) -> None:
        print(instance_line(row), flush=True)
        append_row(options.out, row)

    print(HEADER, flush=True)
    rows = run_instances(options.data, instances, choices, jobs=options.jobs, limits=limits(options), report=report)
    print("", *family_lines(rows), sep="\n")
    return 0


def _table(options: argparse.Namespace) -> int:
    from ibia.bench.report import markdown, read_rows

    runs = []
    for path in options.results:
        rows = [row for row in read_rows(path) if row.get("uai2014") or not options.only_uai2014]
        runs.append((path.stem, rows))
    print(markdown(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
