"""The gauge: from what was lost and how well the steps agree to an estimate of the error.

Three signs are free: whether anything lossy was done at all (if not, the answer is exact); the summed loss; and the
inconsistency between neighbouring steps after the first backward sweep, the best single sign of the three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["ErrorEstimate", "estimate_error"]

# log10 HD_max ≈ offset + slope · log10 inconsistency + weight · log10 loss, fitted over the non-exact runs of the
# benchmark data; `_SPREAD` covers nine in ten of the residuals (docs/gauge.md has the figures).
_OFFSET, _INCONSISTENCY, _LOSS, _SPREAD = -0.9, 0.3, 0.25, 1.0


@dataclass(frozen=True)
class ErrorEstimate:
    """How far off the worst marginal is likely to be, as a Hellinger distance.

    Attributes
    ----------
    typical
        The most likely largest error of a marginal.
    upper
        Nine times out of ten the largest error stays below this.
    words
        The same for a reader.
    """

    typical: float
    upper: float
    words: str


def estimate_error(exact: bool, loss: float, inconsistency: float) -> ErrorEstimate:
    """Return the estimate from the summed loss (nats) and the inconsistency after the first backward sweep."""
    if exact:
        return ErrorEstimate(0.0, 0.0, "exact: no lossy operation was made")
    typical = _OFFSET + _INCONSISTENCY * math.log10(max(inconsistency, 1e-9)) + _LOSS * math.log10(max(loss, 1e-9))
    centre, upper = min(10.0**typical, 1.0), min(10.0 ** (typical + _SPREAD), 1.0)
    if upper < 1e-3:
        quality = "very accurate"
    elif upper < 1e-2:
        quality = "accurate"
    elif upper < 1e-1:
        quality = "usable with care"
    else:
        quality = "rough"
    size = f"off by about {centre:.1g}, likely by no more than {upper:.1g} (Hellinger)"
    return ErrorEstimate(centre, upper, f"{quality}: the worst marginal is {size}")
