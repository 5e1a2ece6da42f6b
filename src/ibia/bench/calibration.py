"""How far the gauge can be trusted: what answers said about their own error against the true one.

Judged are the answers that are not exact and whose true error is known. The constants of the gauge are fitted anew to
half of the models and judged on the other half, so that nothing is judged by what it was fitted to: once for answers
with several alternatives, once for those with one, which have no spread. Knows the keys of the rows and the formula of
the gauge.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibia.bench.apart import Row
from ibia.bench.claims import claimed_wrongly, has_wrong_marginals
from ibia.bench.report import counted
from ibia.bench.summary import EVERY_FAMILY, natural_order, program_of, true_error
from ibia.gauge import ALONE, CONSTANTS, Constants, Signs, estimate_error, floored_log10, spread_limit

__all__ = [
    "Calibration",
    "Estimate",
    "base_model",
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
# What `Signs` is made of, in its order.
_JUDGED_SIGNS = (
    "worst_loss_nats",
    "first_inconsistency",
    "second_inconsistency",
    "spread",
    "inconsistency",
    "unchecked_loss_nats",
    "loss_nats",
)
# Those that the typical error is fitted to, in the order of their weights; the spread is the last.
_FITTED_SIGNS = ("second_inconsistency", "worst_loss_nats", "spread")
# Where an answer states another error than the constants in force do, by more than rounding.
_DIFFERENT = 1e-6
# What the names of the same network with evidence, or from another collection, end with.
_VARIANT = re.compile(r"(_e\d+|_uai\d+)+$")


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
        # To say wrongly that an answer is exact is to state an error of 0.
        approximate = row.get("exact") is False or has_wrong_marginals(row)
        # Loopy propagation has no signs of its error.
        judged = approximate and not row.get("loopy") and row.get("error_upper") is not None
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


def fit_constants(rows: Sequence[Row], *, several: bool = True) -> Constants | None:
    """Fit the constants to answers by least squares of the logarithms; None if there are too few of them.

    The upper limit is what enough of the errors stay below, those that the spread allows for not counted. Errors below
    the floor of the gauge count as the floor: it tells no two of them apart.

    Parameters
    ----------
    several
        Whether to fit to answers with several alternatives; else to those with one, whose spread is not known.
    """
    judged = _fitted(rows, several)
    if len(judged) < _FEWEST:
        return None
    names = _FITTED_SIGNS if several else _FITTED_SIGNS[:-1]
    signs = np.array([[1.0, *(floored_log10(row[name]) for name in names)] for row, _ in judged])
    errors = np.array([floored_log10(estimate.true) for _, estimate in judged])
    weights = np.linalg.lstsq(signs, errors, rcond=None)[0]
    allowed = [several and estimate.true <= spread_limit(row["spread"]) for row, estimate in judged]
    margin = float(np.quantile(np.where(allowed, -math.inf, errors - signs @ weights), _FITTED_SHARE, method="higher"))
    found = [*weights, *([] if several else [0.0]), max(margin, 0.0)]
    return Constants(*(round(float(weight), 4) for weight in found))


def _has_several(row: Row) -> bool:
    """Tell whether an answer had alternatives that it can be compared with."""
    return bool(row.get("alternatives", 0) > 1)


def _fitted(rows: Iterable[Row], several: bool) -> list[tuple[Row, Estimate]]:
    """Return the rows that constants are fitted to: all signs are known."""
    return [(row, estimate) for row, estimate in estimates_of(rows) if _has_several(row) == several and _has_signs(row)]


def _has_signs(row: Row) -> bool:
    # One that says it is exact was not judged by signs.
    return not row.get("exact") and all(row.get(sign) is not None for sign in _JUDGED_SIGNS)


def _restated(constants: Constants, row: Row, true: float) -> Estimate:
    """Return what the gauge would say of an answer with some constants."""
    signs = Signs(*(row[name] for name in _JUDGED_SIGNS))
    if not _has_several(row):
        # That there is nothing to compare with is no sign of a small error.
        signs = signs._replace(spread=None)
    stated = estimate_error(False, signs, constants)
    return Estimate(stated.typical, stated.upper, true)


def judge(constants: Constants, rows: Sequence[Row], *, several: bool = True) -> Calibration:
    """Judge what the gauge would have said with these constants, by the signs in the rows."""
    return calibrate([_restated(constants, row, known.true) for row, known in _fitted(rows, several)])


def base_model(row: Row) -> str:
    """Return what the model of a row is called without evidence, and whichever collection it is from."""
    return f"{row['family']}/{_VARIANT.sub('', row['name'])}"


def in_first_half(row: Row) -> bool:
    """Tell in which half of all models that of a row is: by its base, so that all that is alike is in the same."""
    return hashlib.sha256(base_model(row).encode()).digest()[0] % 2 == 0


def cross_validate(rows: Sequence[Row], *, several: bool = True) -> list[dict[str, Any]]:
    """Fit the constants to each half of the models, and judge them, and those in force, on the other half."""
    in_force = CONSTANTS if several else ALONE
    found = []
    for fitted_to_first in (True, False):
        fitted_to = [row for row in rows if in_first_half(row) == fitted_to_first]
        others = [row for row in rows if in_first_half(row) != fitted_to_first]
        constants = fit_constants(fitted_to, several=several)
        on_the_other = None if constants is None else _plain(judge(constants, others, several=several))
        found.append(
            {
                "fitted_to": "first half" if fitted_to_first else "second half",
                "answers": len(_fitted(fitted_to, several)),
                "constants": None if constants is None else constants._asdict(),
                "judged_on_the_other": on_the_other,
                "in_force_on_the_other": _plain(judge(in_force, others, several=several)),
            }
        )
    return found


def report_gauge(rows: Sequence[Row]) -> dict[str, Any]:
    """Return all there is to say about the gauge, as plain data: of each solver, whatever its options, by itself."""
    solvers: dict[str, list[Row]] = {}
    for row in rows:
        solvers.setdefault(program_of(row["solver"]), []).append(row)
    reports = {name: _report_solver(solvers[name]) for name in sorted(solvers, key=natural_order)}
    judged = {name: report for name, report in reports.items() if report["answers"]}
    return {
        "answers": sum(report["answers"] for report in judged.values()),
        "stated_share": STATED_SHARE,
        "solvers": judged,
    }


def _report_solver(rows: Sequence[Row]) -> dict[str, Any]:
    judged = estimates_of(rows)
    with_signs = [(row, estimate) for row, estimate in judged if _has_signs(row)]
    return {
        "answers": len(judged),
        "families": {family: _plain(entry) for family, entry in _by(judged, "family").items()},
        "options": {solver: _plain(entry) for solver, entry in _by(judged, "solver").items()},
        EVERY_FAMILY: _plain(calibrate([estimate for _, estimate in judged])),
        "signs": {sign: _sign_correlation(judged, sign) for sign in _SIGNS},
        "claimed_wrongly": claimed_wrongly(row for row, _ in judged),
        "without_signs": len(judged) - len(with_signs),
        "stated_otherwise": sum(1 for row, estimate in with_signs if _is_stated_otherwise(row, estimate)),
        "several_orders": _report_constants(rows, several=True),
        "one_order": _report_constants(rows, several=False),
    }


def _is_stated_otherwise(row: Row, stated: Estimate) -> bool:
    """Tell whether an answer, perhaps of an older engine, states another error than the constants in force."""
    now = _restated(CONSTANTS if _has_several(row) else ALONE, row, stated.true)
    pairs = ((now.typical, stated.typical), (now.upper, stated.upper))
    return any(not math.isclose(one, other, rel_tol=_DIFFERENT) for one, other in pairs)


def _report_constants(rows: Sequence[Row], *, several: bool) -> dict[str, Any]:
    """Return how good the constants in force are, and what a fit finds, of answers with several orders or with one."""
    in_force = CONSTANTS if several else ALONE
    everything = fit_constants(rows, several=several)
    return {
        "in_force": {"constants": in_force._asdict(), **_plain(judge(in_force, rows, several=several))},
        "fitted_to_all": None if everything is None else everything._asdict(),
        "halves": cross_validate(rows, several=several),
    }


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
        if row.get(sign) is not None and not (sign == "spread" and not _has_several(row))
    ]
    return spearman([value for value, _ in known], [true for _, true in known])


def _plain(calibration: Calibration) -> dict[str, Any]:
    return {**asdict(calibration), "share": calibration.share}


# How answers with several alternatives, and with one, are called.
_KINDS = {"several_orders": "several orders", "one_order": "one order"}


def calibration_lines(report: dict[str, Any]) -> list[str]:
    """Return what `report_gauge` found, as lines of tables."""
    share = f"{100 * report['stated_share']:.0f} %"
    lines = [
        f"Judged by {report['answers']} answers that are not exact; the limit should hold for {share} of them.",
        "log10 typical = offset + a · log10 second_inconsistency + b · log10 worst_loss_nats + c · log10 spread",
        f"log10 upper = log10 typical + margin, and at least {spread_limit(1.0):g} · spread (more is in docs/gauge.md)",
    ]
    for solver, found in report["solvers"].items():
        lines += ["", *_solver_lines(solver, found)]
    return lines


def _solver_lines(solver: str, report: dict[str, Any]) -> list[str]:
    width = max(16, *(len(name) + 2 for name in (*report["families"], *report["options"])))
    heading = f"{'answers':>9}{'within limit':>14}{'rank corr.':>12}{'true/typical':>14}"
    lines = [f"== {solver}: {counted(report['answers'], 'answer')}, as stated"]
    for title, groups in (("family", report["families"]), ("solver", report["options"])):
        lines += ["", f"{title:<{width}}{heading}"]
        lines += [f"{name:<{width}}{_cells(entry)}" for name, entry in groups.items()]
        lines.append(f"{EVERY_FAMILY:<{width}}{_cells(report[EVERY_FAMILY])}")
    if report["claimed_wrongly"]:
        lines += ["", f"Said to be exact, and not so by the reference: {report['claimed_wrongly']}"]
    lines += ["", "Rank correlation of the true error with each sign:"]
    lines += [f"  {sign:<22}{_shown(value, '.2f')}" for sign, value in report["signs"].items()]
    lines += ["", "Judged anew by the signs in the rows:" + _left_out(report)]
    for kind, words in _KINDS.items():
        found = report[kind]
        if found["in_force"]["answers"]:
            lines.append(f"{words:<{width}}{'offset':>8}{'a':>8}{'b':>8}{'c':>8}{'margin':>8}{heading}")
            lines += _constants_lines(found, width)
    return lines


def _left_out(report: dict[str, Any]) -> str:
    """Return what rows of older engines, or of others, there are."""
    told = []
    if report["without_signs"]:
        told.append(f"{counted(report['without_signs'], 'answer')} without all signs left out")
    if report["stated_otherwise"]:
        told.append(f"{counted(report['stated_otherwise'], 'answer')} stated another error than would be stated now")
    return f" {'; '.join(told)}." if told else ""


def _constants_lines(found: dict[str, Any], width: int) -> list[str]:
    in_force = found["in_force"]
    lines = [f"{'  in force':<{width}}{_constants(in_force['constants'])}{_cells(in_force)}"]
    if found["fitted_to_all"] is not None:
        lines.append(f"{'  fitted to all':<{width}}{_constants(found['fitted_to_all'])}")
    lines.append("  fitted to one half of the models, judged on the other:")
    for half in found["halves"]:
        start = f"{'  ' + half['fitted_to']:<{width}}"
        if half["constants"] is None:
            lines.append(f"{start}  too few answers to fit: {half['answers']} of {_FEWEST}")
            continue
        lines.append(f"{start}{_constants(half['constants'])}{_cells(half['judged_on_the_other'])}")
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
