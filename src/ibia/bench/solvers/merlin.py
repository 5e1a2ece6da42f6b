"""Merlin (weighted mini-buckets, join-graph propagation, clique trees), if its program is on the PATH."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ibia.bench.solvers.interface import Allowance, Answer, NonsenseError, Solver, at_least, one_of, option
from ibia.bench.solvers.program import (
    EVIDENCE,
    MODEL,
    files_of,
    find_program,
    name_of,
    run_program,
    version_of,
    write_problem,
)
from ibia.errors import InputError
from ibia.model import Model

__all__ = ["Merlin"]

_AUTO = "auto"
# The first of the i-bounds that are tried, and after how many that changed nothing the next ones will not either.
_SMALLEST, _SETTLED = 2, 3
# Of the time it may take, so much is kept back for what comes after the last run.
_KEPT_BACK = 0.05


def _ibound(text: str) -> int | str:
    if text == _AUTO:
        return text
    try:
        return at_least(1)(text)
    except InputError:
        raise InputError(f"expected a whole number of at least 1, or {_AUTO}") from None


@dataclass(frozen=True)
class Merlin(Solver):
    """Merlin with one of its algorithms."""

    name: ClassVar[str] = "merlin"
    about: ClassVar[str] = "Merlin, if its program is on the PATH: algorithm=wmb, ijgp or cte"

    algorithm: str = option("wmb", one_of(("wmb", "ijgp", "cte")), "wmb, ijgp or cte")
    ibound: int | str = option(_AUTO, _ibound, "variables in a mini-bucket, or auto: as many as time and memory allow")
    iterations: int = option(10, at_least(1), "at most so many")
    program: str = option("merlin", str, "path of the program", shown=name_of)

    def version(self) -> str:
        """Return what tells one build from another."""
        return version_of(self.program)

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        program = find_program(self.program)
        folder = write_problem(model, evidence)

        def run(ibound: int, seconds: float | None = None) -> _Found:
            command = [program, "--input-file", MODEL, "--evidence-file", EVIDENCE, "--task", "MAR"]
            command += ["--algorithm", self.algorithm, "--ibound", str(ibound), "--iterations", str(self.iterations)]
            command += ["--output-file", "answer", "--output-format", "json"]
            for path in _written(folder):
                path.unlink()
            finished = run_program(command, folder, seconds=seconds)
            written = _written(folder)
            if not written:
                raise finished.failure("an answer")
            marginals, log_z = _read(written[0].read_text(errors="replace"))
            return _Found(ibound, marginals, log_z, finished.seconds, finished.memory)

        def answer() -> Answer:
            began = time.monotonic()
            if self.ibound != _AUTO:
                found = run(int(self.ibound))
            elif self.algorithm == "cte":
                # It has no use for one.
                found = run(_SMALLEST)
            else:
                found = _raised(run, len(model.variables) - len(evidence), allowance)
            taken = time.monotonic() - began
            marginals = dict(found.marginals)
            for variable, state in evidence.items():
                marginals[variable] = np.eye(model.cardinalities[variable])[state]
            return Answer(
                [marginals[variable] for variable in sorted(marginals)],
                found.log_z / math.log(10.0) if math.isfinite(found.log_z) else None,
                taken if self.ibound == _AUTO else found.seconds,
                {"program_memory_bytes": found.memory, "exact": self.algorithm == "cte", "ibound": found.ibound},
            )

        return answer


@dataclass(frozen=True)
class _Found:
    """What Merlin answered with an i-bound; log Z is the natural logarithm."""

    ibound: int
    marginals: dict[int, NDArray[np.float64]]
    log_z: float
    seconds: float
    memory: int

    @property
    def finite(self) -> bool:
        """Whether all of it are numbers."""
        return all(np.isfinite(values).all() for values in self.marginals.values())

    def is_as(self, other: _Found) -> bool:
        """Tell whether the answers are the same to the last digit."""
        return self.marginals.keys() == other.marginals.keys() and all(
            np.array_equal(values, other.marginals[variable]) for variable, values in self.marginals.items()
        )


def _raised(run: Callable[[int, float | None], _Found], largest: int, allowance: Allowance) -> _Found:
    """Return the last answer of an i-bound that is raised until the next run would not fit into what is left.

    The next run is taken to need as much more than the last one as that needed more than the one before, and at least
    twice as much. One that takes longer all the same, or comes to nothing, leaves the last answer as it is.

    Parameters
    ----------
    largest
        The i-bound that needs no raising.
    """
    until = math.inf if allowance.seconds is None else time.monotonic() + (1.0 - _KEPT_BACK) * allowance.seconds
    room = math.inf if allowance.memory is None else allowance.memory
    found = run(min(_SMALLEST, max(largest, 1)), None)
    growth, unchanged = 2.0, 0
    while found.ibound < largest and unchanged < _SETTLED:
        left = until - time.monotonic()
        if growth * found.seconds > left or 2.0 * found.memory > room:
            break
        try:
            following = run(found.ibound + 1, None if left == math.inf else left)
        except InputError:
            break
        if found.finite and not following.finite:
            break
        unchanged = unchanged + 1 if following.is_as(found) else 0
        growth = max(following.seconds / found.seconds, 2.0)
        found = following
    return found


def _written(folder: Path) -> list[Path]:
    """Return the files of answers in a folder: versions differ in the suffix they add."""
    return [path for path in files_of(folder) if path.name.startswith("answer")]


def _read(text: str) -> tuple[dict[int, NDArray[np.float64]], float]:
    """Return the marginals by variable, and log Z: its numbers can be nan, and a comma may follow the last entry."""
    text = text.replace("-nan", "nan").replace("nan", "NaN")
    try:
        answer = json.loads(_without_last_commas(text))
        marginals = {int(entry["variable"]): np.array(entry["marginal"], float) for entry in answer["solution"]}
        return marginals, float(answer["value"])
    except (ValueError, KeyError, TypeError) as error:
        raise NonsenseError(f"Merlin's answer cannot be read: {error}.") from None


def _without_last_commas(text: str) -> str:
    squeezed = "".join(text.split())
    for closing in "}]":
        squeezed = squeezed.replace(f",{closing}", closing)
    return squeezed
