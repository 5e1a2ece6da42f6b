"""Model files: `read` and `write` choose the format by the suffix of the path.

A format is an entry of `FORMATS` and a module of its own. Nothing in this package knows about inference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ibia.errors import InputError
from ibia.formats import bif, erg, uai
from ibia.formats.text import PathLike, Tokens, inner_suffix, read_tokens
from ibia.formats.uai import (
    read_evidence,
    read_marginals,
    read_partition,
    write_evidence,
    write_marginals,
    write_partition,
)
from ibia.model import Model

__all__ = [
    "FORMATS",
    "Format",
    "read",
    "read_evidence",
    "read_marginals",
    "read_partition",
    "write",
    "write_evidence",
    "write_marginals",
    "write_partition",
]


@dataclass(frozen=True)
class Format:
    """How to read, recognise and write one kind of model file.

    Parameters
    ----------
    parse
        Reads a model from the words of a file.
    begins
        Whether a file whose first word is this one, in upper case, may be of this kind.
    write
        Writes a model, where the format can be written.
    """

    parse: Callable[[Tokens], Model]
    begins: Callable[[bytes], bool]
    write: Callable[[Model, PathLike], None] | None = None


FORMATS: dict[str, Format] = {
    ".uai": Format(uai.parse_model, lambda word: word in (b"MARKOV", b"BAYES"), uai.write_model),
    ".erg": Format(erg.parse_model, bytes.isdigit),
    ".bif": Format(bif.parse_model, lambda word: word in (b"NETWORK", b"VARIABLE")),
}


def read(path: PathLike) -> Model:
    """Read a model file.

    Parameters
    ----------
    path
        The file; `.gz` and `.xz` are decompressed. The suffix tells the format; where it is not one of
        `FORMATS`, the first word does.
    """
    tokens = read_tokens(path)
    known = FORMATS.get(inner_suffix(path))
    if known is None:
        first = tokens.words[0].upper() if len(tokens) else b""
        known = next((entry for entry in FORMATS.values() if entry.begins(first)), None)
    if known is None:
        raise InputError(
            f"{tokens.path} is not a model file of a known format "
            f"({', '.join(FORMATS)}, also with .gz or .xz)."
        )
    return known.parse(tokens)


def write(model: Model, path: PathLike) -> None:
    """Write a model file in the format its suffix tells; `.gz` and `.xz` compress it.

    The file is written whole or not at all.
    """
    known = FORMATS.get(inner_suffix(path))
    if known is None or known.write is None:
        writable = [suffix for suffix, entry in FORMATS.items() if entry.write]
        raise InputError(
            f"A model cannot be written to {path}: expected the suffix {' or '.join(writable)}, "
            f"also with .gz or .xz."
        )
    known.write(model, path)
