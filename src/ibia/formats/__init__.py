"""Model files: `read` and `write` choose the format by the suffix of the path.

A format is an entry of `FORMATS` and a module of its own. Nothing in this package knows about inference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ibia.errors import InputError
from ibia.formats import bif, erg, foreign, uai, xml
from ibia.formats.evidence import read_observations
from ibia.formats.text import PathLike, Tokens, inner_suffix, read_data, split_tokens
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
    "read_observations",
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
        Reads a model from the text of a file, whose path is for messages only.
    begins
        Whether a file whose first word is this one, in upper case, may be of this kind.
    write
        Writes a model, where the format can be written.
    """

    parse: Callable[[PathLike, bytes], Model]
    begins: Callable[[bytes], bool]
    write: Callable[[Model, PathLike], None] | None = None


def _of_words(parse: Callable[[Tokens], Model]) -> Callable[[PathLike, bytes], Model]:
    """Return a reader of text for one of words."""
    return lambda path, data: parse(split_tokens(path, data))


_XML = Format(xml.parse_model, lambda word: word.startswith(b"<"))
FORMATS: dict[str, Format] = {
    ".uai": Format(_of_words(uai.parse_model), lambda word: word in (b"MARKOV", b"BAYES"), uai.write_model),
    ".erg": Format(_of_words(erg.parse_model), bytes.isdigit),
    ".bif": Format(_of_words(bif.parse_model), lambda word: word in (b"NETWORK", b"VARIABLE"), bif.write_model),
    ".xmlbif": _XML,
    ".bifxml": _XML,
    ".xml": _XML,
    ".xdsl": _XML,
    # Both begin with the word "net".
    ".net": Format(foreign.parse_net, lambda word: False),
    ".dsl": Format(foreign.parse_dsl, lambda word: False),
}


def read(path: PathLike) -> Model:
    """Read a model file: UAI, BIF, Ergo, XMLBIF, XDSL, and with pyAgrum NET and DSL.

    Parameters
    ----------
    path
        The file; `.gz` and `.xz` are decompressed. The suffix tells the format; where it is not one of
        `FORMATS`, the first word does.

    Raises
    ------
    InputError
        The file is not a model; the message says where and what was expected.
    """
    data = read_data(path)
    known = FORMATS.get(inner_suffix(path))
    if known is None:
        tokens = split_tokens(path, data)
        first = tokens.words[0].upper() if len(tokens) else b""
        known = next((entry for entry in FORMATS.values() if entry.begins(first)), None)
    if known is None:
        raise InputError(
            f"{path} is not a model file of a known format ({', '.join(FORMATS)}, also with .gz or .xz)."
        )
    return known.parse(path, data)


def write(model: Model, path: PathLike) -> None:
    """Write a model file in the format its suffix tells, UAI or BIF; `.gz` and `.xz` compress it.

    The file is written whole or not at all. UAI has no names, so these are lost there; BIF holds Bayesian networks.

    Parameters
    ----------
    model
        The model.
    path
        The file.
    """
    known = FORMATS.get(inner_suffix(path))
    if known is None or known.write is None:
        writable = [suffix for suffix, entry in FORMATS.items() if entry.write]
        raise InputError(
            f"A model cannot be written to {path}: expected the suffix {' or '.join(writable)}, "
            f"also with .gz or .xz."
        )
    known.write(model, path)
