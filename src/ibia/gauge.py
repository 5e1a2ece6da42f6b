"""The gauge: from what was lost and how well the steps agree to an estimate of the error.

Three signs are free: whether anything lossy was done at all (if not, the answer is exact); the summed loss; and the
inconsistency between neighbouring steps after the first backward sweep, the best single sign of the three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["CONSTANTS", "Constants", "ErrorEstimate", "estimate_error", "floored_log10", "loopy_error"]


class Constants(NamedTuple):
    """What is fitted: log10 HD_max ≈ offset + inconsistency · log10 inconsistency + loss · log10 loss.

    Attributes
    ----------
    spread
        What is added for the upper limit: it covers nine in ten of the residuals.
    """

    offset: float
    inconsistency: float
    loss: float
    spread: float


# Fitted over the non-exact runs of the benchmark data (docs/gauge.md has the figures).
CONSTANTS = Constants(-0.78, 0.45, 0.33, 0.72)
# Below this the two figures say nothing more: removals without loss can still leave errors of 1E-5 on the way back.
_FLOOR = 1e-6
# Errors of single-sweep answers were about one time (never five times) an inconsistency of 0.05 or more that remained.
_REMAINING_UPPER = 3.0
# Parts of its limit that the error of barren variables reached in generated diagnosis networks (docs/gauge.md).
_BARREN_TYPICAL, _BARREN_UPPER = 0.025, 0.1
# Steps that agree to so many digits had nothing to tell each other on the way back (a Bayesian network without
# evidence, say): then that they agree says nothing of what was lost on the way there.
_SILENT = 1e-9


# Loopy propagation that came to rest, and that did not. The largest errors were 0.04 in the median over 77 UAI-2014
# models where it did, above 0.5 mostly over 14 where it did not; models it stands in for have more variables to be off.
_LOOPY_TYPICAL = {True: 0.2, False: 0.6}


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


def estimate_error(
    exact: bool,
    loss: float,
    inconsistency: float,
    remaining: float = 0.0,
    unchecked: float = 0.0,
    constants: Constants = CONSTANTS,
) -> ErrorEstimate:
    """Return the estimate for a whole answer.

    Parameters
    ----------
    loss
        Nats lost where a backward sweep followed.
    inconsistency
        Largest difference between neighbouring steps after the first backward sweep.
    remaining
        The same after the last sweep: marginals of steps that still differ by so much are off by about as much.
    unchecked
        Nats lost in steps that no sweep leads back to (they only add barren variables). No inconsistency shows their
        effect. The squared Hellinger distance is at most half the divergence, and one marginal gets a small part of it.
    constants
        Of the fit.
    """
    if exact:
        return ErrorEstimate(0.0, 0.0, "exact: no lossy operation was made")
    logarithm = constants.offset
    logarithm += constants.inconsistency * floored_log10(inconsistency) + constants.loss * floored_log10(loss)
    limit = math.sqrt(max(unchecked, 0.0) / 2.0)
    centre = min(max(10.0**logarithm, remaining, _BARREN_TYPICAL * limit), 1.0)
    if inconsistency < _SILENT:
        limit = max(limit, math.sqrt(max(loss, 0.0) / 2.0))
    upper = min(max(10.0 ** (logarithm + constants.spread), _REMAINING_UPPER * remaining, _BARREN_UPPER * limit), 1.0)
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


def floored_log10(value: float) -> float:
    """Return the logarithm of a sign, or of the least value at which it tells something."""
    return math.log10(max(value, _FLOOR))


def loopy_error(converged: bool) -> ErrorEstimate:
    """Return what is known of the error of loopy propagation, which has no sign of it."""
    state = "" if converged else " that has not come to rest"
    words = f"rough: loopy propagation{state} cannot tell how far off it is; up to 1 is possible (Hellinger)"
    return ErrorEstimate(_LOOPY_TYPICAL[converged], 1.0, words)
