"""The results file: a line of JSON for each run, appended as it ends, read again to go on where a bench was stopped.

Knows nothing of what the rows say but their key.
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
from ibia.errors import InputError
from ibia.formats.text import read_data

__all__ = ["Row", "Store", "read_results"]


class Store:
    """A results file, open for appending; nobody else may write to it meanwhile.

    A line that a killed bench has left half-written is taken off.

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
            data = self._stream.read()
            self.rows = {row["key"]: row for row in _parse(path, data)}
            self._complete(data)
        except BaseException:
            self._stream.close()
            raise

    def _complete(self, data: bytes) -> None:
        """End the last line, or take it off if it is only half a row."""
        if data and not data.endswith(b"\n"):
            start = data.rfind(b"\n") + 1
            if _is_row(data[start:]):
                self._write(b"\n")
            else:
                self._stream.truncate(start)

    def append(self, row: Row) -> None:
        """Add a row; when this returns it is on disk."""
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
    """Return the rows of results files; of rows with the same key the last counts. Half a last line is left out."""
    rows: dict[str, Row] = {}
    for path in paths:
        rows.update((row["key"], row) for row in _parse(path, read_data(path)))
    return list(rows.values())


def _parse(path: Path, data: bytes) -> list[Row]:
    lines = data.split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if _is_row(line):
            rows.append(json.loads(line))
        elif line.strip() and number < len(lines):
            raise InputError(f"{path}, line {number}: not a row of results (an object of JSON with a key).")
    return rows


def _is_row(line: bytes) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and isinstance(row.get("key"), str)


def _plain(value: Any) -> Any:
    """Return data that JSON can hold: a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
