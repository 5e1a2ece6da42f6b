"""Merlin (weighted mini-buckets, join-graph propagation, clique trees), if its program is on the PATH."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ibia.bench.solvers.interface import Allowance, Answer, NonsenseError, Solver, at_least, one_of, option
from ibia.bench.solvers.program import EVIDENCE, MODEL, find_program, run_program, version_of, write_problem
from ibia.model import Model

__all__ = ["Merlin"]


@dataclass(frozen=True)
class Merlin(Solver):
    """Merlin with one of its algorithms."""

    name: ClassVar[str] = "merlin"
    about: ClassVar[str] = "Merlin, if its program is on the PATH: algorithm=wmb, ijgp or cte"

    algorithm: str = option("wmb", one_of(("wmb", "ijgp", "cte")), "wmb, ijgp or cte")
    ibound: int = option(10, at_least(1), "variables in a mini-bucket")
    iterations: int = option(10, at_least(1), "at most so many")
    program: str = option("merlin", str, "path of the program")

    def version(self) -> str:
        """Return what tells one build from another."""
        return version_of(self.program)

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        command = [find_program(self.program), "--input-file", MODEL, "--evidence-file", EVIDENCE, "--task", "MAR"]
        command += ["--algorithm", self.algorithm, "--ibound", str(self.ibound), "--iterations", str(self.iterations)]
        command += ["--output-file", "answer", "--output-format", "json"]
        folder = write_problem(model, evidence)

        def answer() -> Answer:
            finished = run_program(command, folder)
            # Versions differ in the suffix they add.
            written = sorted(path for path in folder.iterdir() if path.name.startswith("answer"))
            if not written:
                raise finished.failure("an answer")
            marginals, log_z = _read(written[0].read_text(errors="replace"))
            for variable, state in evidence.items():
                marginals[variable] = np.eye(model.cardinalities[variable])[state]
            return Answer(
                [marginals[variable] for variable in sorted(marginals)],
                log_z / math.log(10.0) if math.isfinite(log_z) else None,
                finished.seconds,
                {"program_memory_bytes": finished.memory, "exact": self.algorithm == "cte"},
            )

        return answer


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
