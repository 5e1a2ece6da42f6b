"""What answers claim, held against the reference: one that says it is exact and is not counts as approximate.

Where there is no reference a claim stands. Knows the keys of the rows; nothing of how they were measured or are shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from ibia.bench.apart import Row

__all__ = ["claimed_wrongly", "has_wrong_marginals", "is_exact", "refutation"]

# What an exact answer may be off by, since it or its reference was rounded. References called exact have all digits,
# and exact answers are within 1E-13 of them; but there are programs that print four digits of a probability, and
# relative errors e of all probabilities make a Hellinger distance of e / √8: 1.8E-4 for e = 5E-4.
_DISTANCE_TO_EXACT = 2e-4
# Other references have six digits. Within them a probability below 5E-7 may be written as 0, which by itself makes a
# distance of 5E-4, and more with many states: below 1E-3 nothing can be told.
_DISTANCE = 1e-3
# Of log10 Z six digits are kept at least, so half a unit of the last is 5E-6 of it at most. It may be close to zero.
_RELATIVE, _ABSOLUTE = 1e-5, 1e-5


def is_exact(row: Row) -> bool:
    """Tell whether an answer is exact: it says so, and the reference, if there is one, does not say otherwise."""
    return bool(row.get("exact")) and refutation(row) is None


def refutation(row: Row) -> str | None:
    """Return in words how far an answer that says it is exact is from the reference; None if that is rounding."""
    if not row.get("exact"):
        return None
    difference, log10_z = row.get("delta_log10_z"), row.get("log10_z")
    told = [f"HD_max {row['hd_max']:.2g}"] if has_wrong_marginals(row) else []
    if difference is not None and abs(difference) > max(_ABSOLUTE, _RELATIVE * abs(log10_z or 0.0)):
        told.append(f"log10 Z off by {abs(difference):.2g}")
    return ", ".join(told) or None


def has_wrong_marginals(row: Row) -> bool:
    """Tell whether marginals that are said to be exact are further from the reference than rounding brings them."""
    limit = _DISTANCE_TO_EXACT if row.get("reference") == "exact" else _DISTANCE
    return bool(row.get("exact")) and (row.get("hd_max") or 0.0) > limit


def claimed_wrongly(rows: Iterable[Row]) -> str:
    """Return the models of answers that say they are exact and are not, each with how far it is off; empty if none."""
    found = ((row, refutation(row)) for row in rows)
    return "; ".join(f"{row['family']}/{row['name']}: {words}" for row, words in found if words is not None)
