"""Programs outside of Python as solvers: run in a folder of their own, with the model in it as a UAI file."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import ibia
from ibia.bench.solvers.interface import CrashedError
from ibia.errors import InputError, UnavailableError
from ibia.formats import write_evidence
from ibia.model import Model

__all__ = ["EVIDENCE", "MODEL", "Finished", "find_program", "new_folder", "run_program", "version_of", "write_problem"]

MODEL, EVIDENCE = "model.uai", "model.uai.evid"


@dataclass(frozen=True)
class Finished:
    """What came of a program.

    Attributes
    ----------
    program
        Its name.
    code
        Its exit status; if a signal has ended it, the number of that below zero.
    output, complaints
        What it printed.
    seconds
        The time it took.
    memory
        Most bytes of memory it held.
    """

    program: str
    code: int
    output: str
    complaints: str
    seconds: float
    memory: int

    def failure(self, missing: str | None = None) -> InputError:
        """Return the error that says how it ended, and its last words.

        Parameters
        ----------
        missing
            What it should have written and has not.
        """
        said = (self.complaints.strip() or self.output.strip()).splitlines()
        ended = f"ended with exit status {self.code}" if self.code >= 0 else f"was ended by {_signal_name(-self.code)}"
        start = self.program if missing is None else f"{self.program} has not written {missing} and"
        kind = InputError if self.code >= 0 else CrashedError
        return kind(f"{start} {ended}{f': {said[-1]}' if said else '.'}")


def _signal_name(number: int) -> str:
    try:
        return f"the signal {signal.Signals(number).name}"
    except ValueError:
        return f"the signal {number}"


def find_program(name: str) -> str:
    """Return the path of a program given by its path or by a name that is on the PATH."""
    found = shutil.which(name)
    if found is None:
        raise UnavailableError(f"There is no program {name}; it has to be on the PATH, or given by its path.")
    return os.path.abspath(found)


def version_of(program: str) -> str:
    """Return what tells one build of a program from another: its size and date."""
    status = os.stat(find_program(program))
    return f"{status.st_size}-{int(status.st_mtime)}"


def new_folder() -> Path:
    """Return an empty folder that is gone when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="ibia-bench-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def write_problem(model: Model, evidence: Mapping[int, int]) -> Path:
    """Write the model and the evidence to a new folder, and return that."""
    folder = new_folder()
    ibia.write(model, folder / MODEL)
    write_evidence(folder / EVIDENCE, evidence)
    return folder


def run_program(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    may_fail: bool = False,
    seconds: float | None = None,
) -> Finished:
    """Run a program in a folder and wait for its end; one that ends badly is an error.

    Parameters
    ----------
    environment
        Variables to set beside those there are.
    may_fail
        Whether its exit code counts for nothing: what it has written does.
    seconds
        It is killed after this time, which is how it ends badly then; None: it may take as long as it likes.
    """
    began = time.perf_counter()
    # Not to pipes: something that it leaves running in the background may hold these open.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                env={**os.environ, **(environment or {})},
                check=False,
                timeout=seconds,
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        except OSError as error:
            raise InputError(f"{command[0]} cannot be run: {error.strerror}.") from None
        taken = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        name = Path(command[0]).name
        finished = Finished(name, code, _text(output), _text(complaints), taken, memory)
    if finished.code != 0 and not may_fail:
        raise finished.failure()
    return finished


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")
