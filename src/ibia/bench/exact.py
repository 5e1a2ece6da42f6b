"""Exact speed: against pyAgrum in the same process, and against published seconds of other exact engines.

Both engines get the model already loaded and one thread, take turns, and return all posteriors; the best of a few
repetitions counts. Knows the public call of the package, the peer and the benchmark folder.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

from ibia.bench.accuracy import warm_up
from ibia.bench.apart import Job, Row, run_jobs
from ibia.bench.instances import Instance, find_instance, find_instances, load
from ibia.bench.options import add_json, add_limits, add_selection, limits, positive
from ibia.bench.report import geometric_mean, label, write_json
from ibia.errors import InputError

__all__ = ["add_command", "compare", "published", "published_lines", "summary_lines"]

# Posteriors of two exact engines in double precision differ by less, unless one of them is wrong.
_AGREEMENT = 1e-6
# Below this neither engine is worth a complaint.
_NOTICEABLE = 0.05
# ibia's own triangulation may be this much wider than the index says.
_SLACK_BITS = 4.0
_LARGEST_BOUND = 40.0
# Very short runs are repeated for so many seconds: the first ones find cold caches.
_SETTLING = 0.3


def add_command(commands: Any) -> None:
    """Add the command ``exact``."""
    parser = commands.add_parser(
        "exact",
        help="exact speed against pyAgrum and published seconds",
        description="Seconds for all posteriors: ibia and pyAgrum in the same process, taking turns; then ibia's CPU "
        "seconds against the published ones of libDAI, Merlin and pyAgrum.",
    )
    add_selection(parser)
    parser.add_argument("--width", type=float, default=24.0, metavar="BITS", help="widest models (default: 24)")
    parser.add_argument(
        "--against", choices=("both", "pyagrum", "published"), default="both", help="compare with (default: both)"
    )
    parser.add_argument("--repetitions", type=positive, default=3, metavar="N", help="the best of so many (default: 3)")
    parser.add_argument(
        "--short", type=float, default=2.0, metavar="S", help="repeat only what takes less than this (default: 2 s)"
    )
    add_limits(parser, seconds=300.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    if options.against != "published":
        from ibia.bench.pyagrum_peer import import_pyagrum

        print(f"pyAgrum {import_pyagrum().__version__}; seconds of inference, one thread, all posteriors")
    known = published()["cpu_seconds"] if options.against != "pyagrum" else {}
    jobs = [
        _job(options, instance)
        for instance in find_instances(options.data, options.family, options.only, only_uai2014=options.only_uai2014)
        if _is_compared(options, instance) or instance.name in known
    ][: options.limit]
    if not jobs:
        raise InputError("no instance is left by these options")
    print(f"{'family':<12}{'name':<28}{'ibia s':>10}{'pyAgrum s':>11}{'pyAgrum/ibia':>14}{'difference':>12}  engine")
    rows = run_jobs(jobs, limits(options), report=lambda row: print(_line(row), flush=True))
    if options.against != "published":
        print("", *summary_lines(rows), sep="\n")
    if any(row["name"] in known for row in rows):
        print("", *published_lines(rows), sep="\n")
    write_json(options.json, rows)
    return 0


def _is_compared(options: argparse.Namespace, instance: Instance) -> bool:
    return bool(options.against != "published" and instance.width <= options.width)


def _job(options: argparse.Namespace, instance: Instance) -> Job:
    widest = max(options.width, instance.width) if math.isfinite(instance.width) else options.width
    arguments = {
        "data": str(options.data),
        "family": instance.family,
        "name": instance.name,
        "bound": min(_LARGEST_BOUND, widest + _SLACK_BITS),
        "with_pyagrum": _is_compared(options, instance),
        "repetitions": options.repetitions,
        "short": options.short,
    }
    return Job("exact.compare", arguments, {"family": instance.family, "name": instance.name})


def compare(
    data: str, family: str, name: str, bound: float, with_pyagrum: bool, repetitions: int, short: float
) -> Iterator[Row]:
    """Time both engines on an instance in this process; yield what is known so far.

    Parameters
    ----------
    bound
        Bits that should be enough for an exact answer.
    with_pyagrum
        Whether to run pyAgrum too.
    repetitions, short
        Runs of less than `short` seconds are repeated at least so often; the best counts.
    """
    import numpy as np

    import ibia

    model, evidence = load(find_instance(data, family, name))
    warm_up()
    ours = _Stopwatch(lambda: ibia.infer(model, evidence, bound=bound, slices="never"))
    # The first run of a process also pays the system for new memory, which on virtual machines can be most of all.
    ours.run()
    result = ours.run()
    row: Row = {"bits": result.max_clique_bits}
    if not result.exact:
        row["ibia_error"] = f"not exact at bound {bound:g}"
    row |= {"ibia_seconds": ours.seconds, "ibia_cpu_seconds": ours.cpu_seconds}
    yield row
    theirs = None
    if with_pyagrum:
        from ibia.bench.pyagrum_peer import Peer

        try:
            peer = Peer(model)
            row |= {"engine": peer.engine}
            yield row
            theirs = _Stopwatch(lambda: peer.solve(evidence))
            posteriors = peer.arrays(theirs.run())
            if not all(np.isfinite(posterior).all() for posterior in posteriors):
                raise ArithmeticError("not a number")
        except Exception as error:  # Whatever the peer raises is a figure about the peer.
            row["pyagrum_error"] = " ".join(f"{type(error).__name__}: {error}".split())
            theirs = None
        else:
            differences = [abs(one - two).max() for one, two in zip(result.marginals, posteriors, strict=True)]
            row["difference"] = float(max(differences, default=0.0))
    watches = [watch for watch in (ours, theirs) if watch is not None and watch.seconds < short]
    ends = time.perf_counter() + _SETTLING
    done = 1
    while done < repetitions or (repetitions > 1 and watches and time.perf_counter() < ends):
        for watch in watches:
            watch.run()
        done += 1
    row |= {"ibia_seconds": ours.seconds, "ibia_cpu_seconds": ours.cpu_seconds}
    if theirs is not None:
        row |= {"pyagrum_seconds": theirs.seconds, "ratio": theirs.seconds / ours.seconds}
        row |= {"pyagrum_cpu_seconds": theirs.cpu_seconds, "cpu_ratio": theirs.cpu_seconds / ours.cpu_seconds}
    yield row


class _Stopwatch:
    """The shortest of several calls.

    Attributes
    ----------
    seconds, cpu_seconds
        Least time on the clock, and least processor time, of the calls so far.
    """

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.seconds = self.cpu_seconds = math.inf

    def run(self) -> Any:
        """Call, and return what comes back."""
        began, cpu_began = time.perf_counter(), time.process_time()
        result = self._call()
        self.seconds = min(self.seconds, time.perf_counter() - began)
        self.cpu_seconds = min(self.cpu_seconds, time.process_time() - cpu_began)
        return result


def _line(row: Row) -> str:
    ours = f"{row['ibia_seconds']:>10.3f}" if "ibia_seconds" in row else f"{'–':>10}"
    theirs = f"{row['pyagrum_seconds']:>11.3f}{row['ratio']:>13.2f}×" if "ratio" in row else f"{'–':>11}{'–':>14}"
    difference = f"{row['difference']:>12.0e}" if "difference" in row else f"{'–':>12}"
    problems = [f"{who}: {row[key]}" for who, key in _PROBLEMS if key in row]
    return f"{label(row)}{ours}{theirs}{difference}  {row.get('engine', '')} {'; '.join(problems)}".rstrip()


_PROBLEMS = (("ibia", "ibia_error"), ("pyAgrum", "pyagrum_error"), ("failed", "error"))


def summary_lines(rows: Sequence[Row]) -> list[str]:
    """Return what the comparison with pyAgrum comes to."""
    both = [row for row in rows if "ratio" in row and "ibia_error" not in row]
    alone = [row for row in rows if "ibia_seconds" in row and "ibia_error" not in row and "ratio" not in row]
    failed = [row for row in rows if "ibia_seconds" not in row or "ibia_error" in row]
    noticed = [row for row in both if max(row["ibia_seconds"], row["pyagrum_seconds"]) > _NOTICEABLE]
    slower = [row for row in noticed if row["ratio"] < 1.0]
    apart = [row for row in both if row["difference"] > _AGREEMENT]
    lines = [f"{len(both)} instances solved by both, {len(alone)} by ibia only, {len(failed)} not by ibia"]
    if both:
        largest = max(row["difference"] for row in both)
        ratio = geometric_mean(row["ratio"] for row in both)
        cpu_ratio = geometric_mean(row["cpu_ratio"] for row in both)
        lines += [
            f"geometric mean of pyAgrum/ibia: {ratio:.2f}× (above 1: ibia is faster), by CPU seconds {cpu_ratio:.2f}×",
            f"either takes over {_NOTICEABLE * 1000:.0f} ms: {len(noticed)}; of these ibia is slower on {len(slower)}"
            f"{_named(slower)}",
            f"largest difference of a marginal: {largest:.0e}; over {_AGREEMENT:.0e}: {len(apart)}{_named(apart)}",
        ]
    return lines


def _named(rows: Sequence[Row]) -> str:
    return f" ({', '.join(row['name'] for row in rows)})" if rows else ""


@cache
def published() -> dict[str, Any]:
    """Return the published figures: where they are from, options, and CPU seconds by instance and solver."""
    figures: dict[str, Any] = json.loads(resources.files("ibia.bench").joinpath("peers.json").read_text("utf-8"))
    return figures


def published_lines(rows: Sequence[Row]) -> list[str]:
    """Return ibia's CPU seconds beside the published ones of other engines."""
    figures = published()
    solvers = list(figures["options"])
    lines = [
        "CPU seconds: ibia's are those of inference alone, in a warm process with one thread, on this machine.",
        f"The others: {figures['source']}",
        *(f"  {solver}: {words}" for solver, words in figures["options"].items()),
        f"{'family':<12}{'name':<28}{'ibia':>9}" + "".join(f"{solver:>9}" for solver in solvers) + f"{'best/ibia':>12}",
    ]
    ratios = []
    for row in rows:
        known = figures["cpu_seconds"].get(row["name"])
        if known is None:
            continue
        cells = "".join(f"{'–':>9}" if known[solver] is None else f"{known[solver]:>9.2f}" for solver in solvers)
        if "ibia_cpu_seconds" in row and "ibia_error" not in row:
            ratios.append(min(value for value in known.values() if value is not None) / row["ibia_cpu_seconds"])
            lines.append(f"{label(row)}{row['ibia_cpu_seconds']:>9.2f}{cells}{ratios[-1]:>11.2f}×")
        else:
            lines.append(f"{label(row)}{'–':>9}{cells}{'–':>12}")
    lines.append(
        f"geometric mean of best/ibia over {len(ratios)} instances: {geometric_mean(ratios):.2f}× "
        "(above 1: ibia needs less than the best of the others)"
    )
    return lines
