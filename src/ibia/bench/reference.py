"""The true answers that solvers are compared with: read from files, or computed exactly and kept.

Where a model has no answer beside it, this package's exact engine computes one if the model is narrow enough. It is
kept in the user's cache folder under the version of the engine and the fingerprint of the model and its evidence, so
that a change of the engine has it computed anew. What came of an attempt is noted there under the digest of an item, so
that nothing has to be read to know it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ibia
from ibia.bench.version import own_version
from ibia.errors import InputError, ZeroProbabilityError
from ibia.model import Model

__all__ = [
    "OWN",
    "WIDEST",
    "Reference",
    "cache_folder",
    "compute_reference",
    "find_obstacle",
    "fingerprint",
    "is_kept",
    "keep_reference",
    "kept_reference",
    "known_reference",
    "note_attempt",
    "noted_attempt",
]

# Bits of the largest clique up to which exact answers are computed.
WIDEST = 23.0
# A change of what is kept, or of how, makes another name.
_FORMAT = "2"


@dataclass(frozen=True)
class Reference:
    """A true answer.

    Attributes
    ----------
    kind
        How good it is: ``"exact"``, or in the words of the folder it is from.
    marginals
        A distribution for each variable, the observed ones included; None if not known.
    log10_z
        Decimal logarithm of the partition function; None if not known.
    fault
        A sentence, if something is known and cannot be used.
    origin
        Who says so: ``"data"``, or ``"ibia"`` if this package's exact engine has computed it.
    """

    kind: str = "none"
    marginals: tuple[NDArray[np.float64], ...] | None = None
    log10_z: float | None = None
    fault: str | None = None
    origin: str = "data"

    @property
    def is_impossible(self) -> bool:
        """Whether Z is 0, so that there are no marginals."""
        return self.marginals is None and self.log10_z == -math.inf


# The origin of references that are computed here.
OWN = "ibia"
_IMPOSSIBLE = Reference("exact", None, -math.inf, origin=OWN)


def fingerprint(model: Model, evidence: Mapping[int, int]) -> str:
    """Return a text that no other model with its evidence has."""
    digest = hashlib.sha256(f"{model.kind} {model.cardinalities} {sorted(evidence.items())}".encode())
    for factor in model.factors:
        digest.update(str(factor.scope).encode())
        digest.update(np.ascontiguousarray(factor.values, dtype="<f8").tobytes())
    return digest.hexdigest()[:32]


def cache_folder() -> Path:
    """Return the folder where computed references are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ibia" / "bench"


def find_obstacle() -> str | None:
    """Return why nothing can be kept in the cache folder, None if it can."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()) as stream:
            stream.write(b"0")
    except OSError as error:
        return error.strerror or str(error)
    return None


def known_reference(model: Model, evidence: Mapping[int, int], folder: Path | None = None) -> Reference:
    """Return the reference of a model: one that was kept, or computed and kept now.

    Parameters
    ----------
    folder
        Where to keep it, if that is not the cache; what the cache has will do all the same.
    """
    mark = fingerprint(model, evidence)
    kept = kept_reference(mark, folder)
    if kept is None:
        kept = compute_reference(model, evidence)
        _keep(mark, kept, folder or cache_folder())
    return kept


def keep_reference(model: Model, evidence: Mapping[int, int], folder: Path | None = None) -> str:
    """Have the reference of a model computed and kept, if that was not done before, and return its fingerprint."""
    known_reference(model, evidence, folder)
    mark = fingerprint(model, evidence)
    if kept_reference(mark, folder) is None:
        raise InputError(f"{folder or cache_folder()} cannot be written.")
    return mark


def compute_reference(model: Model, evidence: Mapping[int, int]) -> Reference:
    """Return the exact answer of a model, and an empty reference if it is too wide."""
    from ibia.answer import prepare_model

    try:
        problems = prepare_model(model, dict(evidence)).problems
    except ZeroProbabilityError:
        # Nothing is approximated there.
        return _IMPOSSIBLE
    width = max((problem.width for problem in problems), default=0.0)
    if width > WIDEST:
        return Reference()
    try:
        # A little more than the width that was found: another search may find another tree.
        result = ibia.infer(model, dict(evidence), bound=max(math.ceil(width) + 1.0, 2.0))
    except ZeroProbabilityError as error:
        if not error.certain:
            raise
        return _IMPOSSIBLE
    if not result.exact:
        return Reference()
    return Reference("exact", result.marginals, result.log10_z, origin=OWN)


def kept_reference(mark: str, folder: Path | None = None) -> Reference | None:
    """Return what this version of the engine has kept for a fingerprint, in the cache or else in a folder.

    None if that is nothing, or nothing that can be read.
    """
    kept = _read(_path(cache_folder(), mark))
    return _read(_path(folder, mark)) if kept is None and folder is not None else kept


def is_kept(digest: str) -> bool:
    """Tell whether the cache has the reference of an item with that digest, be it that there is none."""
    mark = (noted_attempt(digest) or {}).get("mark", digest)
    return kept_reference(str(mark)) is not None


def noted_attempt(digest: str) -> dict[str, Any] | None:
    """Return what was noted of the last attempt to compute the reference of an item, None if nothing."""
    try:
        note = json.loads(_note(digest).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def note_attempt(digest: str, note: Mapping[str, Any]) -> None:
    """Note plain data about an attempt; where there is no cache it is forgotten."""
    _write(_note(digest), json.dumps(dict(note)).encode())


def _read(path: Path) -> Reference | None:
    try:
        with np.load(path, allow_pickle=False) as data:
            if not data["cardinalities"].size:
                return _IMPOSSIBLE if float(data["log10_z"]) == -math.inf else Reference()
            ends = np.cumsum(data["cardinalities"])[:-1]
            marginals = tuple(np.split(data["values"], ends))
            return Reference("exact", marginals, float(data["log10_z"]), origin=OWN)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _keep(mark: str, reference: Reference, folder: Path) -> None:
    marginals = reference.marginals or ()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        cardinalities=np.array([marginal.size for marginal in marginals], dtype=np.int64),
        values=np.concatenate(marginals) if marginals else np.empty(0),
        log10_z=np.array(math.nan if reference.log10_z is None else reference.log10_z),
    )
    _write(_path(folder, mark), buffer.getvalue())


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        # What is lost is made again.
        with suppress(OSError):
            temporary.unlink()


def _path(folder: Path, mark: str) -> Path:
    return folder / f"reference-{_FORMAT}-{own_version()}-{mark}.npz"


def _note(digest: str) -> Path:
    return cache_folder() / f"attempt-{_FORMAT}-{digest}.json"
