"""Any program with the command line of the UAI competitions: ``PROGRAM MODEL EVIDENCE QUERY TASK``.

It writes its answer to a file named like the model with the task as suffix, in the folder it is run in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ibia.bench.solvers.interface import Allowance, Answer, NonsenseError, Solver, one_of, option
from ibia.bench.solvers.program import (
    EVIDENCE,
    MODEL,
    Finished,
    files_of,
    find_program,
    name_of,
    run_program,
    version_of,
    write_problem,
)
from ibia.errors import InputError
from ibia.formats import read_marginals, read_partition
from ibia.model import Model

__all__ = ["UaiProgram"]

QUERY = f"{MODEL}.query"


def _yes(text: str) -> bool:
    return one_of(("yes", "no"))(text) == "yes"


@dataclass(frozen=True)
class UaiProgram(Solver):
    """A program of the UAI competitions; the limits are in its environment, as there."""

    name: ClassVar[str] = "uai"
    about: ClassVar[str] = "any program with the command line of the UAI competitions: uai:/path/to/program"
    bare_option: ClassVar[str | None] = "program"

    program: str = option("", str, "its path", shown=name_of)
    pr: bool = option(False, _yes, "yes: run it for log Z, too")

    def version(self) -> str:
        """Return what tells one build from another."""
        if not self.program:
            raise InputError("Which program? Expected uai:/path/to/program.")
        return version_of(self.program)

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        program = find_program(self.program)
        folder = write_problem(model, evidence)
        (folder / QUERY).write_text("0\n")
        environment: dict[str, str] = {}
        if allowance.seconds is not None:
            environment |= dict.fromkeys(("INF_TIME", "UAI_TIME"), f"{allowance.seconds:g}")
        if allowance.memory is not None:
            environment |= dict.fromkeys(("INF_MEMORY", "UAI_MEMORY"), f"{allowance.memory / 1e9:g}")

        def run(task: str) -> Finished:
            ended = run_program([program, MODEL, EVIDENCE, QUERY, task], folder, environment, may_fail=True)
            if folder / f"{MODEL}.{task}" not in files_of(folder):
                raise ended.failure(f"{MODEL}.{task}")
            return ended

        def answer() -> Answer:
            finished = run("MAR")
            if self.pr:
                run("PR")
            try:
                marginals = read_marginals(folder / f"{MODEL}.MAR")
                log10_z = read_partition(folder / f"{MODEL}.PR") if self.pr else None
            except InputError as error:
                # The folder will be gone.
                raise NonsenseError(str(error).removeprefix(f"{folder}/")) from None
            return Answer(marginals, log10_z, finished.seconds, {"program_memory_bytes": finished.memory})

        return answer
