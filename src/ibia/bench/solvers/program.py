"""Programs outside of Python as solvers: run in a folder of their own, with the model in it as a UAI file."""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ibia
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
    output
        What it printed.
    seconds
        The time it took.
    memory
        Most bytes of memory it held.
    """

    output: str
    seconds: float
    memory: int


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
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None, *, may_fail: bool = False
) -> Finished:
    """Run a program in a folder and wait for its end; one that ends badly is an error.

    Parameters
    ----------
    environment
        Variables to set beside those there are.
    may_fail
        Whether its exit code counts for nothing: what it has written does.
    """
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run: {error.strerror}.") from None
    seconds = time.perf_counter() - began
    if done.returncode != 0 and not may_fail:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise InputError(f"{Path(command[0]).name} ended with exit status {done.returncode}: {' '.join(said[-1:])}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Finished(done.stdout, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)
