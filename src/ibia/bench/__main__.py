"""The commands of ``python -m ibia.bench``: kernels, accuracy, table.

Reads the command line and prints; what is measured and how stands in the other modules of this folder.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ibia.errors import IbiaError, InputError

__all__ = ["main"]


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
    kernels.add_argument("--json", type=Path, metavar="FILE", help="write the measurements here too")
    kernels.set_defaults(command=_kernels)

    accuracy = commands.add_parser("accuracy", help="errors and times on models with known answers")
    accuracy.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with index.csv")
    accuracy.add_argument("--family", nargs="+", action="extend", default=[], help="only these families")
    accuracy.add_argument("--instance", nargs="+", action="extend", default=[], metavar="NAME", help="only these")
    accuracy.add_argument("--only-uai2014", action="store_true", help="only marginals problems of UAI-2014")
    accuracy.add_argument("--bound", type=float, default=20.0, metavar="BITS")
    accuracy.add_argument("--reduce", type=_reduce, metavar="BITS|demand")
    accuracy.add_argument("--loss", default="kl")
    accuracy.add_argument("--update", default="sweeps")
    accuracy.add_argument("--order", default="auto")
    accuracy.add_argument("--jobs", type=_positive, default=1, help="processes at the same time (default: 1)")
    accuracy.add_argument("--limit-seconds", type=float, metavar="S", help="stop an instance after this time")
    accuracy.add_argument("--out", type=Path, metavar="FILE", help="append a line of JSON for each instance")
    accuracy.set_defaults(command=_accuracy)

    table = commands.add_parser("table", help="family averages of several results files side by side, as Markdown")
    table.add_argument("results", type=Path, nargs="+", metavar="FILE")
    table.add_argument("--only-uai2014", action="store_true", help="only marginals problems of UAI-2014")
    table.set_defaults(command=_table)

    instance = commands.add_parser("instance", help="solve one model and print its row of results")
    instance.add_argument("family")
    instance.add_argument("name")
    instance.add_argument("--data", type=Path, required=True, metavar="DIR")
    instance.add_argument("--choices", default="{}", metavar="JSON", help='options, as in {"bound": 15}')
    instance.set_defaults(command=_instance)
    return parser


def _reduce(text: str) -> float | str:
    return text if text == "demand" else float(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _kernels(options: argparse.Namespace) -> int:
    from ibia.bench.kernels import measure, print_measurements

    if not 1 <= options.smallest <= options.largest <= 30:
        raise InputError("expected 1 ≤ smallest ≤ largest ≤ 30 bits")
    measurements = list(print_measurements(measure(range(options.smallest, options.largest + 1, 2))))
    if options.json:
        _write_json(options.json, [{**vars(entry), "ratio": entry.ratio} for entry in measurements])
    return 0


def _accuracy(options: argparse.Namespace) -> int:
    from ibia.bench.accuracy import Choices, Row, find_instances, run_instances
    from ibia.bench.report import HEADER, family_lines, instance_line

    choices = Choices(options.bound, options.reduce, options.loss, options.update, options.order)
    instances = find_instances(options.data, options.family, options.instance, only_uai2014=options.only_uai2014)
    if not instances:
        raise InputError("no instance with reference marginals is left by these options")

    def report(row: Row) -> None:
        print(instance_line(row), flush=True)
        if options.out:
            with open(options.out, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")

    print(HEADER, flush=True)
    rows = run_instances(
        options.data, instances, choices, jobs=options.jobs, limit_seconds=options.limit_seconds, report=report
    )
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


def _instance(options: argparse.Namespace) -> int:
    from ibia.bench.accuracy import instance_main

    return instance_main(options.data, options.family, options.name, options.choices)


def _write_json(path: Path, data: Any) -> None:
    from ibia.formats.text import write_text

    write_text(path, json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
