"""Files that pyAgrum reads for us: Hugin's NET and the older DSL of GeNIe. They are read, not written.

pyAgrum keeps single precision of their numbers. This module must not know about inference.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ibia.errors import InputError, UnavailableError
from ibia.formats.text import PathLike
from ibia.model import Model
from ibia.optional import require

__all__ = ["parse_dsl", "parse_net"]

# How its parser says what is wrong, and where.
_SYNTAX = re.compile(r":(\d+):\s*\d+\s*: error : (?:Syntax error : )?(.+)")
_PREFIX = re.compile(r"^\[pyAgrum\] [\w/ ]+: ")
# Its parser ends the whole process at a word or a text in quotes of this many bytes. Comments are none of these.
_LONGEST_WORD = 16_000
_WORD = re.compile(rb'%[^\n]*|//[^\n]*|/\*.*?\*/|"[^"]*"?|[^\s"%(){}=,;|]+', re.DOTALL)
_COMMENTS = (b"%", b"//", b"/*")


def parse_net(path: PathLike, data: bytes) -> Model:
    """Read a Bayesian network from the text of a NET file."""
    return _parse(path, data, "model.net")


def parse_dsl(path: PathLike, data: bytes) -> Model:
    """Read a Bayesian network from the text of a DSL file."""
    return _parse(path, data, "model.dsl")


def _parse(path: PathLike, data: bytes, name: str) -> Model:
    try:
        gum = require("pyagrum", "pyAgrum", "formats")
    except UnavailableError as error:
        raise UnavailableError(f"{path} takes pyAgrum to read: {error}") from None
    import tempfile

    from ibia.adapters.pyagrum import from_pyagrum

    _refuse_long_words(path, data)

    with tempfile.TemporaryDirectory(prefix="ibia-") as folder:
        plain = Path(folder) / name
        plain.write_bytes(data)
        network = _load(gum, plain, path)
    try:
        return from_pyagrum(network)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _refuse_long_words(path: PathLike, data: bytes) -> None:
    for word in _WORD.finditer(data):
        if word.end() - word.start() > _LONGEST_WORD and not word[0].startswith(_COMMENTS):
            line = data.count(b"\n", 0, word.start()) + 1
            raise InputError(
                f"{path}, line {line}: a word or a text in quotes has more than {_LONGEST_WORD} characters; "
                f"perhaps a quote is missing."
            )


def _load(gum: Any, plain: Path, path: PathLike) -> Any:
    # What is wrong with a file comes as any of its exceptions, of Python's, or not at all.
    try:
        network = gum.loadBN(str(plain))
    except Exception as error:
        place, reason = _explain(str(error))
        raise InputError(f"{path}{place} cannot be read by pyAgrum: {reason}.") from None
    if network.size() == 0:
        raise InputError(f"{path} holds no variables.")
    return network


def _explain(message: str) -> tuple[str, str]:
    """Return the line of a complaint, in words, and the complaint."""
    found = _SYNTAX.search(message)
    if found is not None:
        return f", line {found[1]}", found[2].strip().rstrip(".")
    first = next((line for line in message.splitlines() if line.strip()), "no reason given")
    return "", _PREFIX.sub("", first).strip().rstrip(".")
