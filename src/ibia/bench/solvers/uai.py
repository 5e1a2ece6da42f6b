"""Any program with the command line of the UAI competitions: ``PROGRAM MODEL EVIDENCE QUERY TASK``.

It writes its answer to a file named like the model with the task as suffix, in the folder it is run in. As in the
competitions it is ended at the limit of time, and what it has written by then counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ibia.bench.solvers.interface import Allowance, Answer, NonsenseError, NoTimeError, Solver, one_of, option
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

Found = TypeVar("Found")

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
        if allowance.memory is not None:
            environment |= dict.fromkeys(("INF_MEMORY", "UAI_MEMORY"), f"{allowance.memory / 1e9:g}")

        def run(task: str, seconds: float | None, read: Callable[[Path], Found]) -> tuple[Finished, Found]:
            """Run it for a task, and return how it ended and what it has written."""
            limits = environment
            if seconds is not None:
                limits = environment | dict.fromkeys(("INF_TIME", "UAI_TIME"), f"{seconds:g}")
            command = [program, MODEL, EVIDENCE, QUERY, task]
            ended = run_program(command, folder, limits, may_fail=True, seconds=seconds)
            path = folder / f"{MODEL}.{task}"
            if path not in files_of(folder):
                raise ended.failure(path.name)
            try:
                return ended, read(path)
            except InputError as error:
                # The folder will be gone.
                said = str(error).removeprefix(f"{folder}/")
                if ended.limit is not None:
                    raise NoTimeError(f"{ended.failure()} What it had written is no answer: {said}") from None
                raise NonsenseError(said) from None

        def answer() -> Answer:
            began = time.monotonic()
            finished, marginals = run("MAR", allowance.seconds, read_marginals)
            notes = _notes("MAR", finished)
            log10_z = None
            if self.pr:
                left = None
                if allowance.seconds is not None:
                    left = round(allowance.seconds - (time.monotonic() - began), 1)
                try:
                    if left is not None and left <= 0.0:
                        raise NoTimeError("no time was left to ask for it.")
                    ended, log10_z = run("PR", left, read_partition)
                    notes += _notes("PR", ended)
                except InputError as error:
                    # The marginals are an answer without it.
                    notes.append(f"log Z is not known: {error}")
            figures: dict[str, Any] = {"program_memory_bytes": finished.memory}
            if notes:
                figures["note"] = " ".join(notes)
            # What the system took to end it is not the program's.
            return Answer(marginals, log10_z, finished.limit or finished.seconds, figures)

        return answer


def _notes(task: str, finished: Finished) -> list[str]:
    """Return what is to be known of an answer beside it."""
    if finished.limit is None:
        return []
    return [f"{task}: {finished.failure()} What it had written by then counts."]
