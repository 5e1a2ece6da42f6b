"""The results file: a line of JSON for each run, appended as it ends, read again to go on where a bench was stopped.

Knows nothing of what the rows say but what they are known by.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ibia.bench.apart import Row
from ibia.bench.keys import identity, labelled
from ibia.errors import InputError
from ibia.formats.text import read_data

__all__ = ["Row", "Store", "read_results"]

# What every row begins with.
_BEGINNING = b'{"key": "'


class Store:
    """A results file, open for appending; nobody else may write to it meanwhile.

    A line that a killed bench has left half-written is taken off when the first row is added; before that the file is
    as it was.

    Attributes
    ----------
    rows
        The rows by key; of rows with the same key the last counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_new = not path.exists()
        try:
            # Open as long as the bench runs; nothing is kept back, so that a row is written or not.
            self._stream = open(path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}.") from None
        if not stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode):
            self._stream.close()
            raise InputError(f"{path} is not a file that results can be added to.")
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._stream.close()
            raise InputError(f"{path} is being written by another bench.") from None
        try:
            self._stream.seek(0)
            self._found = self._stream.read()
            self.rows = {row["key"]: row for row in _parse(path, self._found)}
        except BaseException:
            self._stream.close()
            raise

    def _complete(self) -> None:
        """End the last line of what was found, or take it off if it is only half a row."""
        found, self._found = self._found, b""
        start = found.rfind(b"\n") + 1
        if _read(found[start:]) is not None:
            self._write(b"\n")
        elif found[start:]:
            self._stream.truncate(start)

    def append(self, row: Row) -> None:
        """Add a row; when this returns it is on disk."""
        self._complete()
        self._write(json.dumps(_plain(row), allow_nan=False).encode() + b"\n")
        self.rows[row["key"]] = row

    def _write(self, data: bytes) -> None:
        size = os.fstat(self._stream.fileno()).st_size
        try:
            written = self._stream.write(data)
            if written < len(data):
                # The disk is almost full; the rest says so.
                self._stream.write(data[written:])
            os.fsync(self._stream.fileno())
        except OSError as error:
            # Half a row is none.
            with suppress(OSError):
                self._stream.truncate(size)
            raise InputError(f"{self._path} cannot be written: {error.strerror}.") from None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_new and not os.fstat(self._stream.fileno()).st_size:
            # Nothing came of it.
            self._path.unlink(missing_ok=True)
        self._stream.close()


def read_results(paths: Iterable[Path]) -> list[Row]:
    """Return the rows of results files, with the labels that solvers have now; half a last line is left out.

    Of rows with the same key the last counts, by the key that older rows would have now.
    """
    rows: dict[str, Row] = {}
    for path in paths:
        rows.update((identity(row), row) for row in map(labelled, _parse(path, read_data(path))))
    return list(rows.values())


def _parse(path: Path, data: bytes) -> list[Row]:
    lines = data.split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        row = _read(line)
        if row is not None:
            rows.append(row)
        elif line.strip() and not (number == len(lines) and _is_half(line)):
            raise InputError(f"{path}, line {number}: not a row of results (an object of JSON with a key).")
    return rows


def _read(line: bytes) -> Row | None:
    """Return the row that a line holds, if it holds one."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and isinstance(row.get("key"), str) else None


def _is_half(line: bytes) -> bool:
    """Tell whether a line can be the beginning of a row: what others have written is not ours to take off."""
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)


def _plain(value: Any) -> Any:
    """Return data that JSON can hold: a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
