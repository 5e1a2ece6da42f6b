"""Programs outside of Python as solvers: run in a folder of their own, with the model in it as a UAI file."""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import ibia
from ibia.bench.apart import finds_no_memory
from ibia.bench.solvers import measured
from ibia.bench.solvers.interface import CrashedError, NoMemoryError, NoTimeError
from ibia.errors import InputError, UnavailableError
from ibia.formats import write_evidence
from ibia.limits import size_in_words
from ibia.model import Model

__all__ = [
    "EVIDENCE",
    "MODEL",
    "Finished",
    "files_of",
    "find_program",
    "name_of",
    "new_folder",
    "run_program",
    "version_of",
    "write_problem",
]

MODEL, EVIDENCE = "model.uai", "model.uai.evid"
# Bytes that a program may write to a file, or print, at most: answers have some millions, and disks have an end.
_MOST_WRITTEN = 2**28
# Characters of its last words that are shown.
_MOST_SAID = 300


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
        Most bytes of memory it, or one of those it waited for, held; not less than an empty Python, which starts it.
    limit
        The seconds after which it was killed; None if it has ended before.
    """

    program: str
    code: int
    output: str
    complaints: str
    seconds: float
    memory: int
    limit: float | None = None

    def failure(self, missing: str | None = None) -> InputError:
        """Return the error that says how it ended, and its last words, or those about memory it did not find.

        Parameters
        ----------
        missing
            What it should have written and has not.
        """
        start = self.program if missing is None else f"{self.program} has not written {missing} and"
        if self.limit is not None:
            return NoTimeError(f"{start} was ended at its limit of {self.limit:g} s.")
        said = (self.complaints.strip() or self.output.strip()).splitlines()[-1:]
        # Of a program that a script has started the script has the last word.
        lacking = [line for text in (self.output, self.complaints) for line in _lines_about_memory(text)]
        said = lacking[-1:] or said
        ended = f"ended with exit status {self.code}" if self.code >= 0 else f"was ended by {_signal_name(-self.code)}"
        kind = NoMemoryError if lacking else InputError if self.code >= 0 else CrashedError
        return kind(f"{start} {ended}{f': {said[0].strip()[:_MOST_SAID]}' if said else '.'}")


def _lines_about_memory(text: str) -> list[str]:
    # One by one: there may be millions.
    return [line for line in io.StringIO(text) if finds_no_memory(line)]


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


def name_of(program: str) -> str:
    """Return what labels call a program: its name, and for one given by its path a mark of the folder it is in."""
    folder, name = os.path.split(program)
    if not folder:
        return program
    # Where it is concerns nobody, but two of the same name are two programs.
    return f"{name}~{hashlib.sha256(os.path.abspath(folder).encode()).hexdigest()[:4]}"


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
    starter, most = [sys.executable, "-I", "-S", measured.__file__], _most_written()
    # Not to pipes: something that it leaves running in the background may hold these open.
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
        tempfile.TemporaryFile() as report,
    ):
        # Its input closes when this process ends, however that comes about; then it ends the program. For that it has
        # to outlive the group of this process.
        with subprocess.Popen(
            [*starter, str(report.fileno()), str(most), str(seconds or 0.0), *command],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=complaints,
            env={**os.environ, **(environment or {})},
            pass_fds=[report.fileno()],
            process_group=0,
        ) as process:
            process.wait()
        name = Path(command[0]).name
        code, taken, memory, is_late = _read_report(name, _text(report))
        written = [os.fstat(stream.fileno()).st_size for stream in (output, complaints)]
        # Nothing grows beyond it; larger is only what was there before.
        if code == -signal.SIGXFSZ or most in (*written, *_sizes(folder)):
            raise InputError(f"{name} has written {size_in_words(most)}, which is the most it may.")
        limit = seconds if is_late else None
        finished = Finished(name, code, _text(output), _text(complaints), taken, memory, limit)
    if finished.code != 0 and not may_fail:
        raise finished.failure()
    return finished


def files_of(folder: Path) -> list[Path]:
    """Return the files in a folder by their names; none if a program has left nothing of the folder."""
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.is_file())
    return []


def _sizes(folder: Path) -> Iterator[int]:
    for path in files_of(folder):
        # Something in the background may still tidy up.
        with suppress(OSError):
            yield path.stat().st_size


def _most_written() -> int:
    """Return how many bytes a program may write to a file: ours, or less where the user has said so."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return _MOST_WRITTEN if allowed == resource.RLIM_INFINITY else min(_MOST_WRITTEN, allowed)


def _read_report(name: str, report: str) -> tuple[int, float, int, bool]:
    """Return how a program ended, its seconds, most bytes of memory, and if its time was up, as `measured` says it."""
    words = report.split()
    if not words:
        raise CrashedError(f"{name} was ended together with the process that started it.")
    if words[0] == "cannot":
        raise InputError(f"{name} cannot be run: {os.strerror(int(words[1]))}.")
    return int(words[0]), float(words[1]), int(words[2]), words[3] == "1"


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")
