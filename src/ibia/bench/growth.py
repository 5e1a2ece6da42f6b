"""Growth: time against the bound, and against the number of variables at fixed width.

The first on models of a benchmark folder that fit none of the bounds, as a ratio per bit; the second on generated
models (`ibia.examples`), as seconds and memory per variable. Knows the public call of the package.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ibia.bench.accuracy import warm_up
from ibia.bench.apart import Job, Row, peak_memory, run_jobs
from ibia.bench.instances import Instance, find_instance, find_instances, load
from ibia.bench.options import add_json, add_limits, add_order, add_selection, limits, positive
from ibia.bench.report import geometric_mean, label, write_json
from ibia.errors import InputError

if TYPE_CHECKING:
    from ibia.model import Model

__all__ = ["SHAPES", "add_command", "measure_bound", "measure_size", "ratio_per_bit"]

_BOUNDS = (14.0, 16.0, 18.0, 20.0, 22.0)
_SIZES = (1_000, 10_000, 100_000)
_HANDFUL = 5
_GRID_ROWS = 8
# More than any of the generated models is wide.
_ENOUGH_BITS = 20.0
# Simplification makes many models narrower than the index says.
_MARGIN = 2.0


def _clique_chain(size: int) -> Model:
    from ibia import examples

    return examples.clique_chain(size, width=8)


def _tree(size: int) -> Model:
    from ibia import examples

    return examples.tree(size)


def _grid(size: int) -> Model:
    from ibia import examples

    return examples.grid(min(_GRID_ROWS, size), max(1, size // _GRID_ROWS))


# Models of about so many variables whose width does not depend on their number.
SHAPES: dict[str, Callable[[int], Model]] = {"cliques": _clique_chain, "tree": _tree, "grid": _grid}


def add_command(commands: Any) -> None:
    """Add the command ``growth``."""
    parser = commands.add_parser(
        "growth",
        help="time against the bound and against the number of variables",
        description="With --data: seconds at several bounds of models that fit none of them, and the ratio per bit. "
        "Then seconds and memory of generated models of fixed width: chains of 8-bit cliques, trees, grids of 8 rows.",
    )
    add_selection(parser, required=False)
    parser.add_argument(
        "--bounds", type=float, nargs="+", default=_BOUNDS, metavar="BITS", help="bounds (default: 14 16 18 20 22)"
    )
    add_order(parser)
    parser.add_argument(
        "--sizes", type=positive, nargs="+", default=_SIZES, metavar="N", help="variables (default: 1000 10000 100000)"
    )
    parser.add_argument(
        "--shapes", nargs="*", choices=tuple(SHAPES), default=tuple(SHAPES), help="generated models (default: all)"
    )
    add_limits(parser, seconds=600.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    if not options.data and not options.shapes:
        raise InputError("nothing to measure: expected --data or --shapes")
    by_bound = _command_bounds(options) if options.data else []
    by_size = _command_sizes(options) if options.shapes else []
    write_json(options.json, {"bounds": by_bound, "sizes": by_size})
    return 0


def _command_bounds(options: argparse.Namespace) -> list[Row]:
    bounds = sorted(set(options.bounds))
    jobs = [
        Job(
            "growth.measure_bound",
            {"data": str(options.data), "family": instance.family, "name": instance.name, "choices": choices},
            {"family": instance.family, "name": instance.name, "settings": choices},
        )
        for instance in _handful(options, bounds[-1])
        for bound in bounds
        for choices in [{"bound": bound, "order": options.order, "slices": options.slices}]
    ]
    print("seconds at each bound (*: exact, not counted), and in brackets how many times the ones before, per bit")
    print(f"{'family':<12}{'name':<28}" + "".join(f"{bound:>16g}" for bound in bounds) + f"{'per bit':>10}")
    rows: list[Row] = []
    line: list[Row] = []

    def report(row: Row) -> None:
        line.append(row)
        if len(line) == len(bounds):
            print(_bound_line(line), flush=True)
            rows.extend(line)
            line.clear()

    run_jobs(jobs, limits(options), report=report)
    groups = [rows[start : start + len(bounds)] for start in range(0, len(rows), len(bounds))]
    whole = [ratio for group in groups if (ratio := ratio_per_bit(group)) is not None]
    print(f"\ngeometric mean of the ratio per bit over {len(whole)} instances: {geometric_mean(whole):.2f}×\n")
    return rows


def _handful(options: argparse.Namespace, bound: float) -> list[Instance]:
    """Return instances wider than the bound: those asked for, else the narrowest of each family, a few of them."""
    every = find_instances(options.data, options.family, options.only, only_uai2014=options.only_uai2014)
    found = [instance for instance in every if bound < instance.width < math.inf]
    if not options.only:
        found = [instance for instance in found if instance.width >= bound + _MARGIN]
        narrowest: dict[str, Instance] = {}
        for instance in sorted(found, key=lambda instance: (instance.width, instance.variables, instance.name)):
            narrowest.setdefault(instance.family, instance)
        found = list(narrowest.values())[:_HANDFUL]
    if not found:
        raise InputError(f"no instance is wider than {bound:g} bits: expected smaller bounds or other instances")
    return found[: options.limit]


def ratio_per_bit(rows: Sequence[Row]) -> float | None:
    """Return the growth of time per bit between the first and the last bound at which the model did not fit."""
    measured = [row for row in rows if "seconds" in row and not row["exact"]]
    if len(measured) < 2:
        return None
    first, last = measured[0], measured[-1]
    bits = last["settings"]["bound"] - first["settings"]["bound"]
    return float((last["seconds"] / first["seconds"]) ** (1.0 / bits))


def _bound_line(rows: Sequence[Row]) -> str:
    cells = []
    for number, row in enumerate(rows):
        step = ratio_per_bit(rows[number - 1 : number + 1]) if number else None
        seconds = f"{row['seconds']:.2f}{'*' if row['exact'] else ''}" if "seconds" in row else "failed"
        cells.append(f"{seconds:>8}{'' if step is None else f'({step:.2f}×)':>8}")
    whole = ratio_per_bit(rows)
    problems = {row["error"] for row in rows if "error" in row}
    ratio = "–" if whole is None else f"{whole:.2f}×"
    return f"{label(rows[0])}{''.join(cells)}{ratio:>10}  {'; '.join(sorted(problems))}".rstrip()


def measure_bound(data: str, family: str, name: str, choices: dict[str, Any]) -> Row:
    """Solve an instance at a bound in this process."""
    import ibia

    model, evidence = load(find_instance(data, family, name))
    warm_up()
    began = time.perf_counter()
    result = ibia.infer(model, evidence, **choices)
    return {"seconds": time.perf_counter() - began, "exact": result.exact, "steps": result.sequence_length}


def _command_sizes(options: argparse.Namespace) -> list[Row]:
    sizes = sorted(set(options.sizes))
    jobs = [
        Job("growth.measure_size", {"shape": shape, "size": size}, {"shape": shape, "size": size})
        for shape in options.shapes
        for size in sizes
    ]
    print("generated models of fixed width; growth: time over time divided by variables over variables (1: linear)")
    print(
        f"{'shape':<10}{'variables':>10}{'factors':>9}{'bits':>6}{'build s':>9}{'seconds':>10}{'µs/variable':>13}"
        f"{'growth':>8}{'peak MiB':>10}{'KiB/variable':>14}"
    )
    before: list[Row] = []

    def report(row: Row) -> None:
        print(_size_line(row, before[-1] if before else None), flush=True)
        before.append(row)

    return run_jobs(jobs, limits(options), report=report)


def _size_line(row: Row, before: Row | None) -> str:
    if "seconds" not in row:
        return f"{row['shape']:<10}{row['size']:>10} failed: {row['error']}"
    growth = "–"
    if before is not None and before["shape"] == row["shape"] and "seconds" in before:
        growth = f"{row['seconds'] / before['seconds'] / (row['variables'] / before['variables']):.2f}×"
    added = row["peak_memory_bytes"] - row["memory_before_bytes"]
    return (
        f"{row['shape']:<10}{row['variables']:>10}{row['factors']:>9}{row['bits']:>6.1f}{row['build_seconds']:>9.2f}"
        f"{row['seconds']:>10.3f}{row['seconds'] / row['variables'] * 1e6:>13.1f}{growth:>8}"
        f"{row['peak_memory_bytes'] / 2**20:>10.0f}{added / row['variables'] / 1024:>14.2f}"
        f"{'' if row['exact'] else '  not exact'}"
    )


def measure_size(shape: str, size: int) -> Iterator[Row]:
    """Make and solve a generated model in this process."""
    import ibia

    warm_up()
    began = time.perf_counter()
    model = SHAPES[shape](size)
    row = {
        "variables": len(model.variables),
        "factors": len(model.factors),
        "build_seconds": time.perf_counter() - began,
        "memory_before_bytes": peak_memory(),
    }
    yield row
    began = time.perf_counter()
    result = ibia.infer(model, bound=_ENOUGH_BITS)
    yield row | {"seconds": time.perf_counter() - began, "exact": result.exact, "bits": result.max_clique_bits}
