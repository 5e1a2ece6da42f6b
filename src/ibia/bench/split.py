"""Where the time of a whole run goes: reading, simplification, graph code, tables, writing.

The functions through which array memory is touched are wrapped by a clock wherever the package refers to them. What
they call among themselves is left alone: compiled functions refer to each other by name. Knows which modules hold such
functions, and the public call of the package.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from ibia.bench.accuracy import warm_up
from ibia.bench.apart import Job, Row, run_jobs
from ibia.bench.instances import find_instance, load
from ibia.bench.options import add_json, add_limits, add_order, add_selection, limits, selected
from ibia.bench.report import geometric_mean, label, mean, write_json
from ibia.control import Control, Stopped
from ibia.errors import InputError

__all__ = ["KERNEL_MODULES", "PARTS", "Clock", "add_command", "clocked", "measure"]

# Every public function of these modules (and every public method of their public classes) counts as table work.
KERNEL_MODULES = ("ibia.tables.kernels", "ibia.tables.contract", "ibia.tables.memory", "ibia.forest.propagate")
_SIMPLIFICATION = ("ibia.simplify", "simplify")

# Runs over this many seconds should be table work for the most part.
_LONG = 2.0

PARTS = ("read", "simplify", "graph", "tables", "write")


def add_command(commands: Any) -> None:
    """Add the command ``split``."""
    parser = commands.add_parser(
        "split",
        help="where the time of a whole run goes",
        description="Seconds of a whole run at a bound, and the shares of reading, simplification, graph code, tables "
        "and writing. Table work is what the functions of the kernel modules take. One thread.",
    )
    add_selection(parser)
    parser.add_argument("--bound", type=float, default=20.0, metavar="BITS", help="of the runs (default: 20)")
    parser.add_argument(
        "--within", type=float, metavar="S", help="stop runs then: their shares so far count (default: never)"
    )
    add_order(parser)
    add_limits(parser, seconds=600.0)
    add_json(parser)
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    jobs = [
        Job(
            "split.measure",
            {
                "data": str(options.data),
                "family": instance.family,
                "name": instance.name,
                "choices": {"bound": options.bound, "order": options.order, "slices": options.slices, "threads": 1},
                "within": options.within,
            },
            {"family": instance.family, "name": instance.name},
        )
        for instance in selected(options)
    ]
    print(f"whole runs at bound {options.bound:g}; table work is that of {', '.join(KERNEL_MODULES)}")
    parts = "".join(f"{part:>10}" for part in PARTS)
    print(f"{'family':<12}{'name':<28}{'seconds':>9}{parts}{'calls':>10}  exact")
    rows = run_jobs(jobs, limits(options), report=lambda row: print(_line(row), flush=True))
    print("", *_summary_lines(rows), sep="\n")
    write_json(options.json, rows)
    return 0


def _line(row: Row) -> str:
    if "error" in row:
        return f"{label(row)} failed: {row['error']}"
    shares = "".join(f"{row[part] / row['seconds']:>10.1%}" for part in PARTS)
    outcome = "unfinished" if row["exact"] is None else "exact" if row["exact"] else "–"
    return f"{label(row)}{row['seconds']:>9.3f}{shares}{row['table_calls']:>10}  {outcome}"


def _summary_lines(rows: Sequence[Row]) -> list[str]:
    measured = [row for row in rows if "error" not in row]
    if not measured:
        return ["no run was measured"]
    total = sum(row["seconds"] for row in measured)
    long = [row for row in measured if row["seconds"] > _LONG]
    under = [row for row in long if row["tables"] < row["seconds"] / 2]
    typical = geometric_mean(row["seconds"] for row in measured)
    return [
        f"{len(measured)} runs, {total:.1f} s in all; geometric mean {typical:.3f} s",
        "share of the sum: " + ", ".join(f"{part} {sum(row[part] for row in measured) / total:.1%}" for part in PARTS),
        "mean of shares:   "
        + ", ".join(f"{part} {mean(row[part] / row['seconds'] for row in measured):.1%}" for part in PARTS),
        f"of {len(long)} runs over {_LONG:g} s tables take less than half in {len(under)}"
        + (f": {', '.join(row['name'] for row in under)}" if under else ""),
    ]


def measure(data: str, family: str, name: str, choices: dict[str, Any], within: float | None = None) -> Row:
    """Run an instance from file to file in this process, and return the seconds of each part.

    Parameters
    ----------
    within
        Stop the run after so many seconds: then what it did until then is measured, and `exact` is None.
    """
    import ibia
    from ibia.formats import write_marginals, write_partition

    instance = find_instance(data, family, name)
    warm_up()
    tables = Clock()
    simplification = Clock(without=tables)
    with clocked(tables, simplification), tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        model, evidence = load(instance)
        read = time.perf_counter()
        control = Control()
        timer = None if within is None else threading.Timer(within, setattr, (control, "stopping", True))
        if timer is not None:
            timer.start()
        result = None
        with suppress(Stopped):
            result = ibia.infer(model, evidence, control=control, **choices)
        solved = time.perf_counter()
        if timer is not None:
            timer.cancel()
        if result is not None:
            write_marginals(Path(folder) / "answer.MAR", result.marginals)
            write_partition(Path(folder) / "answer.PR", result.log10_z)
        ended = time.perf_counter()
    return {
        "seconds": ended - began,
        "read": read - began,
        "simplify": simplification.seconds,
        "graph": solved - read - simplification.seconds - tables.seconds,
        "tables": tables.seconds,
        "write": ended - solved,
        "table_calls": tables.calls,
        "exact": None if result is None else result.exact,
        "settings": choices,
    }


class Clock:
    """The time spent inside a set of functions; one that calls another is counted once.

    Attributes
    ----------
    seconds, calls
        Sum over the outermost calls, and their number.

    Parameters
    ----------
    without
        What this clock counts meanwhile is left out.
    """

    def __init__(self, without: Clock | None = None) -> None:
        self.seconds = 0.0
        self.calls = 0
        self._without = without
        self._inside = False

    def _now(self) -> float:
        return time.perf_counter() - (self._without.seconds if self._without else 0.0)

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time counted."""

        # Compiled functions lack some of what `functools.wraps` copies, which it tolerates.
        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._inside:
                return function(*arguments, **options)
            self._inside = True
            began = self._now()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += self._now() - began
                self.calls += 1
                self._inside = False

        return timed


@contextmanager
def clocked(tables: Clock, simplification: Clock) -> Iterator[None]:
    """Count the time of table work and of simplification while the context lasts."""
    undo: list[tuple[Any, str, Any]] = []
    kernels = [importlib.import_module(name) for name in KERNEL_MODULES]
    package, function = _SIMPLIFICATION
    original = getattr(importlib.import_module(package), function, None)
    if original is None:
        raise InputError(f"{package} has no function {function}: bench/split.py has to be told where it went.")
    replaced: dict[int, Any] = {id(original): simplification.wrap(original)}
    for module in kernels:
        functions = {}
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isclass(member):
                undo += _wrap_methods(member, tables)
            elif callable(member):
                functions[name] = replaced[id(member)] = tables.wrap(member)
        replaced[id(module)] = SimpleNamespace(**{**vars(module), **functions})
    for holder in _holders(kernels, package):
        for name, value in list(vars(holder).items()):
            if id(value) in replaced:
                undo.append((holder, name, value))
                setattr(holder, name, replaced[id(value)])
    try:
        yield
    finally:
        for owner, name, value in undo:
            setattr(owner, name, value)


def _wrap_methods(owner: type, clock: Clock) -> list[tuple[type, str, Any]]:
    methods = [
        (name, value)
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and (name == "__call__" or not name.startswith("_"))
    ]
    for name, value in methods:
        setattr(owner, name, clock.wrap(value))
    return [(owner, name, value) for name, value in methods]


def _holders(kernels: Sequence[ModuleType], simplification: str) -> list[ModuleType]:
    """Return the modules of the package whose references are replaced: not those that define the functions."""
    own = {*(module.__name__ for module in kernels), simplification}
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("ibia.") and name not in own and not name.startswith("ibia.bench") and module is not None
    ]
