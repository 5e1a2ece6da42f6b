"""How far the gauge can be trusted: what answers said about their own error against the true one.

Judged are the answers that are not exact and whose true error is known. The constants of the gauge are fitted anew to
half of the models and judged on the other half, so that nothing is judged by what it was fitted to. Knows the keys of
the rows and the formula of the gauge.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibia.bench.apart import Row
from ibia.bench.summary import EVERY_FAMILY, natural_order, true_error
from ibia.gauge import ALONE, CONSTANTS, Constants, Signs, estimate_error, floored_log10, spread_limit

__all__ = [
    "Calibration",
    "Estimate",
    "calibrate",
    "calibration_lines",
    "cross_validate",
    "estimates_of",
    "fit_constants",
    "in_first_half",
    "judge",
    "report_gauge",
    "spearman",
]

# The gauge says of its upper limit that so many errors stay below it.
STATED_SHARE = 0.9
# Limits are fitted to hold for so many: on models that they were not fitted to they hold for fewer.
_FITTED_SHARE = 0.94
# Four constants and a quantile are not fitted to fewer answers.
_FEWEST = 10
# What of an answer its error might be read off.
_SIGNS = ("first_inconsistency", "second_inconsistency", "inconsistency", "loss_nats", "worst_loss_nats", "spread")
# What `Signs` is made of.
_JUDGED_SIGNS = (
    "worst_loss_nats",
    "first_inconsistency",
    "second_inconsistency",
    "spread",
    "inconsistency",
    "unchecked_loss_nats",
    "loss_nats",
)
# Those that the typical error is fitted to, in the order of their weights.
_FITTED_SIGNS = ("second_inconsistency", "worst_loss_nats", "spread")


@dataclass(frozen=True)
class Estimate:
    """What an answer said about its error, and the truth.

    Attributes
    ----------
    typical, upper
        The stated error, and the limit that nine in ten keep to.
    true
        The largest Hellinger distance of a marginal.
    """

    typical: float
    upper: float
    true: float

    @property
    def within(self) -> bool:
        """Whether the truth is within the limit."""
        return self.true <= self.upper


def estimates_of(rows: Iterable[Row]) -> list[tuple[Row, Estimate]]:
    """Return the rows that the gauge can be judged by, with what they said and what is true."""
    found = []
    for row in rows:
        true = true_error(row)
        # Loopy propagation has no signs of its error.
        judged = row.get("exact") is False and not row.get("loopy") and row.get("error_upper") is not None
        if true is not None and judged:
            found.append((row, Estimate(row["error_estimate"], row["error_upper"], true)))
    return found


@dataclass(frozen=True)
class Calibration:
    """How good some estimates are.

    Attributes
    ----------
    answers
        How many were judged.
    within
        How many of them have a true error within the upper limit.
    correlation
        Spearman's rank correlation of estimate and true error; None where there is none.
    ratio
        Median of the true error over the typical one: below one, the gauge is too careful.
    """

    answers: int
    within: int
    correlation: float | None
    ratio: float | None

    @property
    def share(self) -> float | None:
        """The share within the upper limit."""
        return self.within / self.answers if self.answers else None


def calibrate(estimates: Sequence[Estimate]) -> Calibration:
    """Judge estimates."""
    ratios = [estimate.true / estimate.typical for estimate in estimates if estimate.typical > 0.0]
    return Calibration(
        answers=len(estimates),
        within=sum(1 for estimate in estimates if estimate.within),
        correlation=spearman([entry.typical for entry in estimates], [entry.true for entry in estimates]),
        ratio=float(np.median(ratios)) if ratios else None,
    )


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """Return Spearman's rank correlation: Pearson's, of the ranks, of which equal values share the mean.

    None for fewer than three pairs, or if all values on one side are equal.
    """
    one, other = _ranks(np.asarray(first, dtype=np.float64)), _ranks(np.asarray(second, dtype=np.float64))
    if one.size < 3:
        return None
    one, other = one - one.mean(), other - other.mean()
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale > 0.0 else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last: NDArray[np.float64] = np.cumsum(counts).astype(np.float64)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2.0)[place]
    return ranks


def fit_constants(rows: Sequence[Row]) -> Constants | None:
    """Fit the constants to answers with alternatives by least squares of the logarithms; None if there are too few.

    The upper limit is what enough of the errors stay below, those that the spread allows for not counted. Errors below
    the floor of the gauge count as the floor: it tells no two of them apart.
    """
    judged = _fitted(rows)
    if len(judged) < _FEWEST:
        return None
    signs = np.array([[1.0, *(floored_log10(row[name]) for name in _FITTED_SIGNS)] for row, _ in judged])
    errors = np.array([floored_log10(estimate.true) for _, estimate in judged])
    weights = np.linalg.lstsq(signs, errors, rcond=None)[0]
    allowed = [estimate.true <= spread_limit(row["spread"]) for row, estimate in judged]
    margin = float(np.quantile(np.where(allowed, -math.inf, errors - signs @ weights), _FITTED_SHARE, method="higher"))
    return Constants(*(round(float(weight), 4) for weight in (*weights, max(margin, 0.0))))


def _fitted(rows: Iterable[Row]) -> list[tuple[Row, Estimate]]:
    """Return the rows, of those that the gauge can be judged by, that constants are fitted to: all signs are known."""
    return [
        (row, estimate)
        for row, estimate in estimates_of(rows)
        if row.get("alternatives", 0) > 1 and all(row.get(sign) is not None for sign in _JUDGED_SIGNS)
    ]


def judge(constants: Constants, rows: Sequence[Row]) -> Calibration:
    """Judge what the gauge would have said with other constants."""
    estimates = []
    for row, known in _fitted(rows):
        signs = Signs(*(row[name] for name in _JUDGED_SIGNS))
        stated = estimate_error(False, signs, constants)
        estimates.append(Estimate(stated.typical, stated.upper, known.true))
    return calibrate(estimates)


def in_first_half(row: Row) -> bool:
    """Tell in which half of all models that of a row is: by its name, so that all its answers are in the same."""
    name = f"{row['family']}/{row['name']}"
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def cross_validate(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Fit the constants to each half of the models, and judge them, and those in force, on the other half."""
    found = []
    for fitted_to_first in (True, False):
        fitted_to = [row for row in rows if in_first_half(row) == fitted_to_first]
        others = [row for row in rows if in_first_half(row) != fitted_to_first]
        constants = fit_constants(fitted_to)
        found.append(
            {
                "fitted_to": "first half" if fitted_to_first else "second half",
                "answers": len(_fitted(fitted_to)),
                "constants": None if constants is None else constants._asdict(),
                "judged_on_the_other": None if constants is None else _plain(judge(constants, others)),
                "in_force_on_the_other": _plain(calibrate([estimate for _, estimate in _fitted(others)])),
            }
        )
    return found


def report_gauge(rows: Sequence[Row]) -> dict[str, Any]:
    """Return all there is to say about the gauge, as plain data."""
    judged = estimates_of(rows)
    everything = fit_constants(rows)
    return {
        "answers": len(judged),
        "stated_share": STATED_SHARE,
        "families": {family: _plain(entry) for family, entry in _by(judged, "family").items()},
        "solvers": {solver: _plain(entry) for solver, entry in _by(judged, "solver").items()},
        EVERY_FAMILY: _plain(calibrate([estimate for _, estimate in judged])),
        "signs": {sign: _sign_correlation(judged, sign) for sign in _SIGNS},
        "in_force": [
            {"name": "as stated", "constants": CONSTANTS._asdict(), **_plain(_stated(judged, several=True))},
            {"name": "  one order", "constants": ALONE._asdict(), **_plain(_stated(judged, several=False))},
        ],
        "fitted_to_all": None if everything is None else everything._asdict(),
        "halves": cross_validate(rows),
    }


def _stated(judged: Sequence[tuple[Row, Estimate]], *, several: bool) -> Calibration:
    """Judge what answers with several alternatives, or with one, have stated."""
    return calibrate([entry for row, entry in judged if (row.get("alternatives", 0) > 1) == several])


def _by(judged: Sequence[tuple[Row, Estimate]], key: str) -> dict[str, Calibration]:
    groups: dict[str, list[Estimate]] = {}
    for row, estimate in judged:
        groups.setdefault(row[key], []).append(estimate)
    return {name: calibrate(groups[name]) for name in sorted(groups, key=natural_order)}


def _sign_correlation(judged: Sequence[tuple[Row, Estimate]], sign: str) -> float | None:
    # Where there is only one alternative they cannot differ.
    known = [
        (row[sign], estimate.true)
        for row, estimate in judged
        if row.get(sign) is not None and not (sign == "spread" and row.get("alternatives", 0) < 2)
    ]
    return spearman([value for value, _ in known], [true for _, true in known])


def _plain(calibration: Calibration) -> dict[str, Any]:
    return {**asdict(calibration), "share": calibration.share}


def calibration_lines(report: dict[str, Any]) -> list[str]:
    """Return what `report_gauge` found, as lines of tables."""
    width = max((len(name) for name in (*report["families"], *report["solvers"])), default=0) + 2
    width = max(width, 16)
    heading = f"{'answers':>9}{'within limit':>14}{'rank corr.':>12}{'true/typical':>14}"
    lines = [f"Judged by {report['answers']} answers that are not exact; the limit should hold for 90 % of them.", ""]
    for title, groups in (("family", report["families"]), ("solver", report["solvers"])):
        lines.append(f"{title:<{width}}{heading}")
        lines += [f"{name:<{width}}{_cells(entry)}" for name, entry in groups.items()]
        lines += [f"{EVERY_FAMILY:<{width}}{_cells(report[EVERY_FAMILY])}", ""]
    lines.append("Rank correlation of the true error with each sign:")
    lines += [f"  {sign:<22}{_shown(value, '.2f')}" for sign, value in report["signs"].items()]
    lines += [
        "",
        "log10 typical = offset + a · log10 second_inconsistency + b · log10 worst_loss_nats + c · log10 spread",
        f"log10 upper = log10 typical + margin, and at least {spread_limit(1.0):g} · spread (more is in docs/gauge.md)",
        "",
        f"{'':<{width}}{'offset':>8}{'a':>8}{'b':>8}{'c':>8}{'margin':>8}{heading}",
    ]
    lines += [
        f"{entry['name']:<{width}}{_constants(entry['constants'])}{_cells(entry)}"
        for entry in report["in_force"]
        if entry["answers"]
    ]
    if report["fitted_to_all"] is not None:
        lines.append(f"{'fitted to all':<{width}}{_constants(report['fitted_to_all'])}")
    lines += ["", "Fitted to one half of the models, judged on the other:"]
    for half in report["halves"]:
        if half["constants"] is None:
            lines.append(f"{half['fitted_to']:<{width}}  too few answers to fit: {half['answers']} of {_FEWEST}")
            continue
        lines.append(
            f"{half['fitted_to']:<{width}}{_constants(half['constants'])}{_cells(half['judged_on_the_other'])}"
        )
        lines.append(f"{'  in force there':<{width}}{'':>40}{_cells(half['in_force_on_the_other'])}")
    return lines


def _cells(entry: dict[str, Any]) -> str:
    share = entry["share"]
    within = "–" if share is None else f"{100 * share:.0f} %"
    ratio = _shown(entry["ratio"], "#.2g")
    return f"{entry['answers']:>9}{within:>14}{_shown(entry['correlation'], '.2f'):>12}{ratio:>14}"


def _constants(entry: dict[str, float]) -> str:
    return "".join(f"{entry[name]:>8.2f}" for name in Constants._fields)


def _shown(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
