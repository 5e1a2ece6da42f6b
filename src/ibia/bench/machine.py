"""The machine that runs are measured on: what times depend on, and nothing that says whose it is.

Knows nothing of runs but that a row may have a machine.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ibia.bench.report import counted
from ibia.limits import size_in_words, usable_cores

__all__ = ["describe_machine", "machine_lines", "machine_sentences"]

Row = dict[str, Any]

# Packages whose version times depend on.
_PACKAGES = ("numpy", "numba")


@cache
def describe_machine() -> Row:
    """Return the processor, its cores, the memory in bytes, and the versions of Python and of what computes."""
    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def machine_lines(rows: Iterable[Row]) -> list[str]:
    """Return a line for each machine that rows were measured on, with how many, most first; older rows do not say."""
    counts = Counter(_in_words(row["machine"]) for row in rows if row.get("machine"))
    return [f"Measured on {words}: {counted(count, 'run')}" for words, count in counts.most_common()]


def machine_sentences(rows: Iterable[Row]) -> list[str]:
    """Return sentences about what rows were measured on, and if any do not say, about the machine that this runs on."""
    rows = list(rows)
    silent = sum(1 for row in rows if not row.get("machine"))
    sentences = [f"{words}." for words in machine_lines(rows)]
    if silent:
        here = _in_words(describe_machine())
        sentences.append(f"Not said where measured: {counted(silent, 'run')}; this is written on {here}.")
    return sentences


def _in_words(machine: Row) -> str:
    versions = [f"Python {machine['python']}", f"NumPy {machine['numpy']}", f"numba {machine['numba']}"]
    cores = f"{machine['cores']} core" + ("" if machine["cores"] == 1 else "s")
    return ", ".join([machine["processor"], cores, size_in_words(machine["memory"]), *versions])


def _processor() -> str:
    """Return the model of the processor, or at least its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, models), platform.machine())
