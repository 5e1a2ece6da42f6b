"""The solvers of the bench, one small module each.

To add one, write a module with a subclass of `Solver` and put it in `SOLVERS`.
"""

from __future__ import annotations

from ibia.bench.solvers.interface import (
    Allowance,
    Answer,
    CrashedError,
    NoMemoryError,
    NonsenseError,
    NoTimeError,
    Solver,
    UnsuitedError,
)
from ibia.bench.solvers.libdai import LibDai
from ibia.bench.solvers.loopy import Loopy
from ibia.bench.solvers.merlin import Merlin
from ibia.bench.solvers.own import Ibia, Paper
from ibia.bench.solvers.pgmpy import PgmpyExact
from ibia.bench.solvers.pyagrum import PyagrumExact, PyagrumGibbs, PyagrumLoopy
from ibia.bench.solvers.uai import UaiProgram
from ibia.errors import InputError

__all__ = [
    "SOLVERS",
    "Allowance",
    "Answer",
    "CrashedError",
    "NoMemoryError",
    "NoTimeError",
    "NonsenseError",
    "Solver",
    "UnsuitedError",
    "parse_solver",
]

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Ibia,
        Paper,
        Loopy,
        PyagrumExact,
        PyagrumLoopy,
        PyagrumGibbs,
        PgmpyExact,
        Merlin,
        LibDai,
        UaiProgram,
    )
}


def parse_solver(text: str) -> Solver:
    """Return the solver that a text like ``ibia:bound=15,order=breadth`` or ``uai:/path/to/program`` stands for."""
    name, _, options = text.partition(":")
    if name not in SOLVERS:
        raise InputError(f"There is no solver {name!r}; expected one of {', '.join(SOLVERS)}.")
    return SOLVERS[name].from_words([word for word in options.split(",") if word])
