"""Text files as tokens: opening plain, gzip and xz files, splitting, converting in bulk, atomic writing.

Positions are worked out only when an error needs a line number. This module must not know about models or
about any particular file format.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import stat
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.formats.whole import replace_file

__all__ = [
    "CutOffError",
    "PathLike",
    "Tokens",
    "inner_suffix",
    "read_data",
    "read_tokens",
    "split_tokens",
    "write_text",
]

PathLike = str | os.PathLike[str]

_COMPRESSED_SUFFIXES = (".gz", ".xz")
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
# Bytes no text file contains: the control characters that are not white space.
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\v\f\r")
# A device is looked at so far before it is read to the end.
_FIRST = 2**16
# A text that is larger than this, and so many times larger than its file, is hardly a model.
_LARGE_TEXT, _MOST_COMPRESSION = 2**28, 100
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_WHOLE = re.compile(rb"\+?\d+|-0+")
_TOKEN = re.compile(rb"\S+")


class CutOffError(InputError):
    """A file ends in the middle of what it holds."""


@dataclass(frozen=True)
class Tokens:
    """The white-space separated words of a file, comments left out.

    Parameters
    ----------
    path
        The file, as the user named it.
    data
        The text, each comment replaced by white space of as many lines.
    words
        The words of the text.
    """

    path: str
    data: bytes
    words: list[bytes]

    def __len__(self) -> int:
        return len(self.words)

    def word(self, position: int) -> str:
        """Return a word for display or as a name."""
        return self.words[position].decode("utf-8", errors="replace")

    def line(self, position: int) -> int:
        """Return the line of a word, counted from 1; past the end, the last line that has a word."""
        start = 0
        # The pattern splits exactly as bytes.split() does.
        for number, match in enumerate(_TOKEN.finditer(self.data)):
            start = match.start()
            if number == position:
                break
        return self.data.count(b"\n", 0, start) + 1

    def error(self, position: int, message: str) -> InputError:
        """Return an error that points at a word."""
        return InputError(f"{self.path}, line {self.line(position)}: {message}")

    def cut_off(self, message: str) -> CutOffError:
        """Return an error that points at the end."""
        return CutOffError(f"{self.path}, line {self.line(len(self.words))}: the file ends too early: {message}")

    def quote(self, position: int) -> str:
        """Return a word, shortened, to show in a message."""
        word = self.word(position)
        return repr(word if len(word) <= 30 else word[:27] + "...")

    def require(self, start: int, count: int, what: str) -> None:
        """Raise unless `count` words follow from `start` on; `what` names them in the plural."""
        left = len(self.words) - start
        if count > left:
            raise self.cut_off(f"expected {count} {what}, found {max(left, 0)}.")

    def integer(self, position: int, what: str) -> int:
        """Return a word as a whole number that is not negative; `what` says what it is."""
        if position >= len(self.words):
            raise self.cut_off(f"{what} is missing.")
        word = self.words[position]
        if word.isdigit() and len(word) < 19:
            return int(word)
        return self.integers(position, position + 1, what)[0]

    def integers(self, start: int, stop: int, what: str) -> list[int]:
        """Return the words from `start` to `stop` as whole numbers that are not negative."""
        words = self.words[start:stop]
        # One test of all words together: the usual file has nothing but digits here.
        if b"".join(words).isdigit() and len(max(words, key=len)) < 19:
            return list(map(int, words))
        for position in range(start, stop):
            if not _WHOLE.fullmatch(self.words[position]):
                raise self.error(
                    position, f"{what} is {self.quote(position)}; expected a whole number, not negative."
                )
            if len(self.words[position]) > 18:
                raise self.error(position, f"{what} is {self.quote(position)}, too large a number.")
        return list(map(int, words))

    def numbers(self, start: int, stop: int, what: str) -> NDArray[np.float64]:
        """Return the words from `start` to `stop` as numbers, which may be negative, infinite or NaN."""
        words = self.words[start:stop]
        try:
            # Large tables repeat few words (0, 1, 0.5); converting each of these once is three times as fast.
            distinct = set(words)
            if len(distinct) * 8 < len(words):
                known = dict(zip(distinct, map(float, distinct), strict=True))
                numbers = np.fromiter(map(known.__getitem__, words), np.float64, len(words))
            else:
                numbers = np.fromiter(map(float, words), np.float64, len(words))
        except ValueError:
            numbers = None
        # float() reads "1_000" as a number, which no file format means.
        if numbers is not None and not (b"_" in self.data and any(b"_" in word for word in distinct)):
            return numbers
        for position in range(start, stop):
            word = self.words[position]
            try:
                float(word)
            except ValueError:
                break
            if b"_" in word:
                break
        raise self.error(position, f"{what} is {self.quote(position)}; expected a number.")

    def weights(self, start: int, stop: int, what: str) -> NDArray[np.float64]:
        """Return the words from `start` to `stop` as finite numbers that are not negative, read-only."""
        numbers = self.numbers(start, stop, what)
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < np.inf):
            wrong = start + int(np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))[0])
            word = self.quote(wrong)
            if numbers[wrong - start] == np.inf and "inf" not in word.lower():
                raise self.error(wrong, f"{what} is {word}, too large for double precision.")
            raise self.error(wrong, f"{what} is {word}; expected a finite number, not negative.")
        numbers.setflags(write=False)
        return numbers

    def finish(self, position: int) -> None:
        """Raise when words are left from `position` on."""
        left = len(self.words) - position
        if left > 0:
            raise self.error(
                position,
                f"expected the end of the file, found {left} more words from {self.quote(position)} on.",
            )


def inner_suffix(path: PathLike) -> str:
    """Return the suffix of a path in lower case, that of a compressed file before its `.gz` or `.xz`."""
    name = Path(path)
    if name.suffix.lower() in _COMPRESSED_SUFFIXES:
        name = name.with_suffix("")
    return name.suffix.lower()


def read_data(path: PathLike) -> bytes:
    """Read a text file, plain or compressed; compression is recognised by the suffix or by the first bytes."""
    shown = os.fspath(path)
    data = _decompress(shown, _read_bytes(shown))
    data = data.removeprefix(b"\xef\xbb\xbf")
    if len(data.translate(None, _CONTROL)) != len(data):
        raise InputError(f"{shown} is not a text file.")
    return data


def read_tokens(path: PathLike) -> Tokens:
    """Read a text file and split it into words; comments, `/* ... */`, are white space."""
    return split_tokens(path, read_data(path))


def split_tokens(path: PathLike, data: bytes) -> Tokens:
    """Split the text of a file into words."""
    shown = os.fspath(path)
    # Files from old systems end their lines with a carriage return alone.
    if b"\r" in data and b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    if b"/*" in data:
        # Behind the last end of a comment nothing is looked for: that would take time for each beginning.
        last = data.rfind(b"*/") + 2
        data = _COMMENT.sub(lambda match: b" " + b"\n" * match.group().count(b"\n"), data[:last]) + data[last:]
        opening = data.find(b"/*")
        if opening >= 0:
            line = data.count(b"\n", 0, opening) + 1
            raise InputError(f"{shown}, line {line}: a comment begins with /* and does not end.")
    return Tokens(shown, data, data.split())


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return stream.read()
            # A pipe will do, but some devices never end.
            data = stream.read(_FIRST)
            if b"\0" in data and not data.startswith((_GZIP_MAGIC, _XZ_MAGIC)):
                raise InputError(f"{path} is not a text file.")
            return data + stream.read()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read: {_reason(error)}.") from None


def _decompress(path: str, data: bytes) -> bytes:
    suffix = Path(path).suffix.lower()
    if suffix == ".gz" or data.startswith(_GZIP_MAGIC):
        kind = "gzip"
    elif suffix == ".xz" or data.startswith(_XZ_MAGIC):
        kind = "xz"
    else:
        return data
    most = max(_LARGE_TEXT, _MOST_COMPRESSION * len(data))
    source = BytesIO(data)
    try:
        with gzip.GzipFile(fileobj=source) if kind == "gzip" else lzma.LZMAFile(source) as stream:
            text = stream.read(most + 1)
        if not data:
            raise EOFError
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError):
        raise InputError(f"{path} is not a complete {kind} file: it is truncated or damaged.") from None
    if len(text) > most:
        raise InputError(
            f"{path} is over {_MOST_COMPRESSION} times as large when decompressed, which no model should be; "
            f"if it is one, decompress it first."
        )
    return text


def write_text(path: PathLike, text: str) -> None:
    """Write a text file whole or not at all; a suffix `.gz` or `.xz` compresses it.

    The text goes to a new file in the same folder, which then takes the place of the old one.
    """
    shown = os.fspath(path)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{shown} is not written: a name in it is no proper text.") from None
    suffix = Path(shown).suffix.lower()
    if suffix == ".gz":
        # No time stamp: the same model gives the same file.
        data = gzip.compress(data, mtime=0)
    elif suffix == ".xz":
        data = lzma.compress(data)
    try:
        # Replacing a link would leave the file it points to as it was.
        target = Path(os.path.realpath(shown))
        if target.is_dir():
            raise InputError(f"{shown} is a folder, not a file.")
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            # A device or a pipe takes the bytes; putting a file in its place would destroy it.
            target.write_bytes(data)
        else:
            replace_file(target, data)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{shown} cannot be written: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason[:1].lower() + reason[1:]
