"""The command ``ibia-uai``: a solver as the UAI competitions call it.

``ibia-uai MODEL EVIDENCE QUERY PR|MAR`` writes the answer to ``<name of the model file>.<task>`` in the working folder.
Each better answer is added after a line ``-BEGIN-``, and the file is complete at any time: a new one takes its place
whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ibia.process import BAD_USAGE, Watch, check_output, compile_first, complain, load_arrays, run_command

if TYPE_CHECKING:
    from ibia.result import Result

__all__ = ["main"]

_USAGE = """\
Usage: ibia-uai MODEL EVIDENCE QUERY PR|MAR

  A solver as the UAI competitions call it. PR is log10 of the partition
  function, MAR the marginals of all variables. The answer goes to <name of the
  model file>.<task> in the working folder; each better one is added after
  -BEGIN-, and the last one counts. The query file is for other tasks, and is
  not read. Ended by SIGTERM or SIGINT, the best answer so far is in the file.

  Example:
    INF_TIME=1200 INF_MEMORY=8 ibia-uai grid.uai grid.uai.evid - MAR

  Environment:
    INF_TIME, UAI_TIME          limit of time in seconds
    INF_MEMORY, UAI_MEMORY      limit of memory in gigabytes

  Exit codes: 0 with an answer, 1 bad input, 2 wrong usage, 3 out of memory,
  4 a defect, 5 out of time, 130 interrupted, 143 terminated.\
"""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the solver and end the process with its exit code."""
    run_command(_run, arguments)


def _run(arguments: list[str], started: float) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(_USAGE)
        return 0
    if len(arguments) != 4:
        return complain(f"Expected MODEL EVIDENCE QUERY PR|MAR, found {len(arguments)} arguments.", BAD_USAGE)
    model, evidence, _, task = arguments
    if task not in _TASKS:
        return complain(f"The task is {task}; expected PR or MAR.", BAD_USAGE)
    _solve(model, evidence, task, started)
    return 0


def _solve(model: str, evidence: str, task: str, started: float) -> None:
    from ibia.control import Control
    from ibia.limits import environment_memory, environment_time

    time_limit, memory_limit = environment_time(os.environ), environment_memory(os.environ)
    control = Control()
    with Watch(control, started, time_limit) as watch:
        load_arrays()

        import ibia
        from ibia.model import check_evidence

        loaded, given = ibia.read(model), ibia.read_evidence(evidence)
        try:
            observed = check_evidence(loaded, given)
        except ibia.InputError as error:
            raise ibia.InputError(f"{evidence}: {error}") from None
        answers = _Answers(Path(f"{Path(model).name}.{task}"), task)
        compile_first(watch=watch)
        # Loading the engine takes time, too.
        infer = ibia.infer
        if time_limit is not None:
            time_limit = watch.time_left(sum(loaded.cardinalities))
        watch.doing = ""
        try:
            result = infer(
                loaded,
                observed,
                time_limit=time_limit,
                memory_limit=memory_limit,
                control=control,
                improved=answers.try_to_add,
            )
        except ibia.ZeroProbabilityError:
            # Loopy propagation does not notice that, and may have answered.
            answers.take_back()
            raise
        # Where the last one could not be written, this says so.
        answers.add(result)


def _marginals(result: Result) -> str:
    from ibia.formats.uai import format_marginals

    return format_marginals(result.marginals)


def _partition(result: Result) -> str:
    from ibia.formats.uai import format_partition

    return format_partition(result.log10_z)


_TASKS: dict[str, Callable[[Result], str]] = {"MAR": _marginals, "PR": _partition}


class _Answers:
    """The file of answers, the best one last. What an earlier run left there is removed."""

    def __init__(self, path: Path, task: str) -> None:
        # Better now than when there is an answer to lose.
        check_output(str(path))
        path.unlink(missing_ok=True)
        self._path = path
        self._task = task
        self._written: list[str] = []

    def take_back(self) -> None:
        """Remove the answers, which are none."""
        self._path.unlink(missing_ok=True)

    def try_to_add(self, result: Result) -> None:
        """Add an answer if it can be written: if not, there may be a better one to come, and more room for it."""
        from ibia.errors import InputError

        with suppress(InputError):
            self.add(result)

    def add(self, result: Result) -> None:
        """Add an answer that is better than those before, if it says anything else."""
        from ibia.formats.uai import write_solutions

        solution = _TASKS[self._task](result)
        if self._written[-1:] != [solution]:
            write_solutions(self._path, self._task, [*self._written, solution])
            self._written.append(solution)


if __name__ == "__main__":
    main()
