"""The gauge: an estimate of the error from what was lost, how well the steps agree and how far alternatives are apart.

Signs that are free: whether anything lossy was done at all (if not, the answer is exact); what was lost by the few
variables that lost most; the inconsistency between neighbouring steps after the second backward sweep; and how far the
answers of other orders of the factors are from this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "ALONE",
    "CONSTANTS",
    "Constants",
    "ErrorEstimate",
    "Signs",
    "estimate_error",
    "floored_log10",
    "loopy_error",
    "spread_limit",
]


class Constants(NamedTuple):
    """What is fitted: log10 HD_max ≈ offset + Σ weight · log10 sign, over the inconsistency, the loss and the spread.

    Attributes
    ----------
    margin
        What is added for the upper limit: a little more than what covers nine in ten of the residuals.
    """

    offset: float
    inconsistency: float
    loss: float
    spread: float
    margin: float


class Signs(NamedTuple):
    """What of an answer its error is read off.

    Attributes
    ----------
    loss
        Nats lost by the variables that lost most, where a backward sweep followed.
    first, second
        Largest difference between neighbouring steps after the first and after the second backward sweep (after the
        first again, if there was only one).
    spread
        How far alternatives are from the answer (see `Result.spread`); None: there was only one.
    remaining
        The difference after the last sweep: marginals of steps that still differ by so much are off by about as much.
    unchecked
        Nats lost in steps that no sweep leads back to (they only add barren variables). No inconsistency shows their
        effect. The squared Hellinger distance is at most half the divergence, and one marginal gets a small part of it.
    total
        Nats lost in all.
    """

    loss: float
    first: float
    second: float
    spread: float | None = None
    remaining: float = 0.0
    unchecked: float = 0.0
    total: float = 0.0


# Fitted to the answers, not exact, to one half of the benchmark models: of several alternatives, and if only one had
# been tried (docs/gauge.md has the figures, also on the other half).
CONSTANTS = Constants(-0.23, 0.29, 0.37, 0.31, 0.69)
ALONE = Constants(-0.25, 0.34, 0.50, 0.0, 0.99)
# The upper limit is at least this part of the spread.
_SPREAD_UPPER = 0.3
# Below this the signs say nothing more: removals without loss can still leave errors of 1E-5 on the way back.
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


def estimate_error(exact: bool, signs: Signs, constants: Constants | None = None) -> ErrorEstimate:
    """Return the estimate for a whole answer.

    Parameters
    ----------
    constants
        Of the fit, if not those in force.
    """
    if exact:
        return ErrorEstimate(0.0, 0.0, "exact: no lossy operation was made")
    if constants is None:
        constants = CONSTANTS if signs.spread is not None else ALONE
    spread = signs.spread or 0.0
    logarithm = constants.offset
    logarithm += constants.inconsistency * floored_log10(signs.second) + constants.loss * floored_log10(signs.loss)
    logarithm += constants.spread * floored_log10(spread)
    limit = math.sqrt(max(signs.unchecked, 0.0) / 2.0)
    centre = min(max(10.0**logarithm, signs.remaining, _BARREN_TYPICAL * limit), 1.0)
    if signs.first < _SILENT:
        limit = max(limit, math.sqrt(max(signs.total, signs.loss) / 2.0))
    others = (spread_limit(spread), _REMAINING_UPPER * signs.remaining, _BARREN_UPPER * limit)
    upper = min(max(10.0 ** (logarithm + constants.margin), *others), 1.0)
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


def spread_limit(spread: float) -> float:
    """Return what the upper limit is not below, where alternatives are so far from the answer."""
    return _SPREAD_UPPER * spread


def floored_log10(value: float) -> float:
    """Return the logarithm of a sign, or of the least value at which it tells something."""
    return math.log10(max(value, _FLOOR))


def loopy_error(converged: bool) -> ErrorEstimate:
    """Return what is known of the error of loopy propagation, which has no sign of it."""
    state = "" if converged else " that has not come to rest"
    words = f"rough: loopy propagation{state} cannot tell how far off it is; up to 1 is possible (Hellinger)"
    return ErrorEstimate(_LOOPY_TYPICAL[converged], 1.0, words)
