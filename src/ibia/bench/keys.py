"""What a run is known by: its model, the solver as it is called now, its version and limits.

Rows of older benches called programs by their whole paths; here they get the label that the same solver has now, so
that older and newer rows of it are of one. Knows these columns of rows and no others.
"""

from __future__ import annotations

import hashlib
import json

from ibia.bench.apart import Row
from ibia.bench.solvers import parse_solver
from ibia.errors import InputError

__all__ = ["identity", "key_of", "label_of", "labelled"]

# What a run is known by, its version aside.
_KNOWN_BY = ("family", "name", "digest", "solver", "limits")


def key_of(row: Row) -> str:
    """Return what tells a run from all others."""
    missing = [name for name in (*_KNOWN_BY, "version") if name not in row]
    if missing:
        raise InputError(f"The row with the key {row['key']!r} is none of ibia bench run: it has no {missing[0]}.")
    known_by = [row[name] for name in (*_KNOWN_BY, "version")]
    return hashlib.sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()[:32]


def identity(row: Row) -> str:
    """Return the key that a row would have now: that of older ones was made otherwise; of others the key they have."""
    try:
        return key_of(row)
    except InputError:
        return str(row["key"])


def labelled(row: Row) -> Row:
    """Return a row with the label that its solver has now."""
    solver = row.get("solver")
    # What other solvers are called has not changed, but what they leave out as default may have.
    if not isinstance(solver, str) or "program=" not in solver:
        return row
    label = label_of(solver)
    return row if label == solver else {**row, "solver": label}


def label_of(text: str) -> str:
    """Return the label of a solver as users, or older rows, write it; what is a label, or none, stays."""
    if ":" not in text:
        return text
    # Of old, options that are yes were written as Python does.
    for words in (text, text.replace("=True", "=yes")):
        try:
            return parse_solver(words).label
        except InputError:
            continue
    return text
