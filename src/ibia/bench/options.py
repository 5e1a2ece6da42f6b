"""Options that several commands share: which instances, and what a process may use."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from ibia.bench.apart import Limits
from ibia.bench.instances import Instance, find_instances
from ibia.errors import InputError

__all__ = ["add_json", "add_limits", "add_order", "add_selection", "limits", "positive", "reduction", "selected"]


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def reduction(text: str) -> float | str:
    """Return a number of bits, or the word for reducing on demand."""
    return text if text == "demand" else float(text)


def add_selection(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options that choose instances of a benchmark folder."""
    parser.add_argument("--data", type=Path, required=required, metavar="DIR", help="folder with index.csv")
    parser.add_argument("--family", nargs="+", action="extend", default=[], help="only these families")
    parser.add_argument(
        "--only", "--instance", nargs="+", action="extend", default=[], metavar="NAME", help="only these instances"
    )
    parser.add_argument("--only-uai2014", action="store_true", help="only marginals problems of UAI-2014")
    parser.add_argument("--limit", type=positive, metavar="N", help="at most so many instances")


def add_order(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how components are solved that do not fit the bound."""
    parser.add_argument("--order", default="auto", help="of the factors; one name means no portfolio (default: auto)")
    parser.add_argument("--slices", default="auto", help="exact answers in slices: auto, never, always (default: auto)")


def selected(
    options: argparse.Namespace, *, with_marginals: bool = False, narrowest: float = 0.0, widest: float = math.inf
) -> list[Instance]:
    """Return the instances that the options of `add_selection` choose; none is a mistake of the user.

    Parameters
    ----------
    with_marginals
        Take only those with reference marginals.
    narrowest, widest
        Take only those whose width in bits lies between these.
    """
    found = [
        instance
        for instance in find_instances(options.data, options.family, options.only, only_uai2014=options.only_uai2014)
        if narrowest <= instance.width <= widest and (instance.has_marginals or not with_marginals)
    ][: options.limit]
    if not found:
        raise InputError("no instance is left by these options")
    return found


def add_limits(parser: argparse.ArgumentParser, seconds: float | None = None) -> None:
    """Add the options that limit what a process may use."""
    shown = "never" if seconds is None else f"{seconds:g}"
    parser.add_argument(
        "--limit-seconds", type=float, default=seconds, metavar="S", help=f"stop a process then (default: {shown})"
    )
    parser.add_argument(
        "--limit-memory",
        type=float,
        metavar="GIB",
        help="memory of a process and its helpers (default: ¾ of the machine)",
    )


def limits(options: argparse.Namespace, threads: int = 1) -> Limits:
    """Return the limits that the options of `add_limits` set."""
    if options.limit_memory is None:
        memory = 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:
        memory = options.limit_memory * 2.0**30
    return Limits(options.limit_seconds, memory, threads)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option to write measurements to a file."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements here too")
