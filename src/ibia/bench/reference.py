"""The true answers that solvers are compared with: read from files, or computed exactly and kept.

Where a model has no answer beside it, this package's exact engine computes one if the model is narrow enough. It is
kept in the user's cache folder under the fingerprint of the model and its evidence.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ibia
from ibia.errors import InputError, ZeroProbabilityError
from ibia.model import Model

__all__ = [
    "WIDEST",
    "Reference",
    "cache_folder",
    "compute_reference",
    "fingerprint",
    "keep_reference",
    "kept_reference",
    "known_reference",
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
    """

    kind: str = "none"
    marginals: tuple[NDArray[np.float64], ...] | None = None
    log10_z: float | None = None
    fault: str | None = None

    @property
    def is_impossible(self) -> bool:
        """Whether Z is 0, so that there are no marginals."""
        return self.marginals is None and self.log10_z == -math.inf


_IMPOSSIBLE = Reference("exact", None, -math.inf)


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


def known_reference(model: Model, evidence: Mapping[int, int]) -> Reference:
    """Return the reference of a model, from the cache or computed and kept there."""
    mark = fingerprint(model, evidence)
    kept = kept_reference(mark)
    if kept is None:
        kept = compute_reference(model, evidence)
        _keep(mark, kept)
    return kept


def keep_reference(model: Model, evidence: Mapping[int, int]) -> None:
    """Have the reference of a model computed and kept, if that was not done before."""
    known_reference(model, evidence)
    if kept_reference(fingerprint(model, evidence)) is None:
        raise InputError(f"{cache_folder()} cannot be written.")


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
    return Reference("exact", result.marginals, result.log10_z)


def kept_reference(mark: str) -> Reference | None:
    """Return what the cache has for a fingerprint, None if nothing, or nothing that can be read."""
    try:
        with np.load(_path(mark), allow_pickle=False) as data:
            if not data["cardinalities"].size:
                return _IMPOSSIBLE if float(data["log10_z"]) == -math.inf else Reference()
            ends = np.cumsum(data["cardinalities"])[:-1]
            return Reference("exact", tuple(np.split(data["values"], ends)), float(data["log10_z"]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _keep(mark: str, reference: Reference) -> None:
    marginals = reference.marginals or ()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        cardinalities=np.array([marginal.size for marginal in marginals], dtype=np.int64),
        values=np.concatenate(marginals) if marginals else np.empty(0),
        log10_z=np.array(math.nan if reference.log10_z is None else reference.log10_z),
    )
    path = _path(mark)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(buffer.getvalue())
        os.replace(temporary, path)
    except OSError:
        # Without a cache it is computed again.
        with suppress(OSError):
            temporary.unlink()


def _path(mark: str) -> Path:
    return cache_folder() / f"reference-{_FORMAT}-{mark}.npz"
