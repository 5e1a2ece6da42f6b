"""What is drawn of results: error against time, models answered against time, error against bound, the gauge.

Makes charts of runs; how they are drawn stands in `charts` and `pictures`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from ibia.bench.apart import OUT_OF_TIME
from ibia.bench.calibration import STATED_SHARE, Estimate, estimates_of
from ibia.bench.charts import Axis, Chart, Figure, Kind, Point, Series, linear_axis, log_axis
from ibia.bench.claims import is_exact
from ibia.bench.report import counted, short
from ibia.bench.summary import (
    ROUNDING,
    Results,
    Run,
    comparable,
    limits_in_words,
    middle,
    pareto_front,
    split_bound,
)

__all__ = ["all_figures", "error_against_bound", "error_against_time", "gauge_against_truth", "models_against_time"]

# Times below this are drawn as this.
_SHORTEST = 1e-3
# Errors below this are drawn as this: exact ones would leave most of a chart to where hardly any others are.
_SMALLEST = 1e-6
_AT_THE_END = "Errors below 1E-6, such as those of exact answers, stand at the lower end."
# An answer this good counts in the second of the charts of models against time.
_GOOD = 0.01
_HD_MAX = "HD_max"


def all_figures(results: Results) -> list[Figure]:
    """Return every figure that there are results for."""
    makers = (error_against_time, models_against_time, error_against_bound, gauge_against_truth)
    return [figure for figure in (make(results) for make in makers) if figure is not None]


def error_against_time(results: Results) -> Figure | None:
    """Draw the error of each run against its time, family by family, and which methods no other beats at both."""
    judged = [run for run in results.runs if run.error is not None]
    if not judged:
        return None
    x, y = _time_axis(results.runs), _error_axis(run.error for run in judged if run.error is not None)
    compared = {run.instance.family for run in judged}
    families = [family for family in results.families if family in compared]
    charts = tuple(_error_chart(results, family, x, y) for family in families)
    notes = [_AT_THE_END, *_pairs_told(run for run in results.runs if run.instance.family in compared)]
    if len(families) < len(results.families):
        empty = [family for family in results.families if family not in compared]
        notes.append(f"Left out are families of which no answer was compared with the truth: {', '.join(empty)}.")
    return Figure(
        "error-against-time",
        "Error against time",
        "Each small mark is a run: the largest error of a marginal (HD_max) against seconds. Large marks are medians "
        "over the models of the family, where a model without an answer counts as one that took forever. The dashed "
        "line runs along the methods that no other beats at both. Crosses on top are runs without an answer; answers "
        f"that were not compared with the truth have no mark. Lower left is better. {' '.join(notes)}",
        charts,
        _legend(results),
        (("not beaten by another method", "dashed"),),
    )


def _error_chart(results: Results, family: str, x: Axis, y: Axis) -> Chart:
    dots, large, middles = [], [], []
    for style, method in enumerate(results.methods):
        runs = results.of(family, method)
        points = tuple(_run_point(run) for run in runs if run.row is not None and run.is_judged)
        dots.append(Series("dots", style, points))
        found = middle(runs)
        if found is not None:
            middles.append(found)
            figures = f"{_HD_MAX} {short(found[1])} in {found[0]:.3g} s"
            words = f"{method}, {_median_of(runs)}: {figures}"
            large.append(Series("large", style, (Point(*found, words),)))
    # Below the smallest error shown all are alike.
    front = pareto_front((seconds, max(error, y.low)) for seconds, error in middles)
    lines = [Series("dashed", None, tuple(_staircase(front, x, y)))] if front else []
    return Chart(_titled(family, results.of(family)), x, y, (*dots, *lines, *large))


def _median_of(runs: Sequence[Run]) -> str:
    """Return what a median is over: answers that were not compared have no place in it."""
    judged = counted(sum(1 for run in runs if run.is_judged), "model")
    return ", ".join([f"median of {judged}", *_not_compared(runs)])


def _not_run(runs: Iterable[Run]) -> list[str]:
    """Return words that say how many models a method was not run on; none if it was on all."""
    missing = _missing(runs)
    return [f"{missing} not run"] if missing else []


def _missing(runs: Iterable[Run]) -> int:
    """Return how many pairs of a method and a model were not run."""
    return sum(1 for run in runs if run.row is None)


def _not_compared(runs: Iterable[Run]) -> list[str]:
    """Return words that say how many answers were not compared; none if all were."""
    lacking = sum(1 for run in runs if not run.is_judged)
    return [f"{lacking} not compared"] if lacking else []


def _run_point(run: Run) -> Point:
    assert run.row is not None
    name = f"{run.instance.name}, {run.method}"
    if run.answer is None:
        return Point(_seconds_until_end(run), None, f"{name}: {run.status}. {run.row.get('error', '')}")
    exact = ", exact" if is_exact(run.answer) else ", said to be exact" if run.answer.get("exact") else ""
    words = f"{name}: {_HD_MAX} {short(run.error)}{exact} in {run.answer['seconds']:.3g} s"
    return Point(run.answer["seconds"], run.error, words)


def _seconds_until_end(run: Run) -> float:
    """Return the seconds a run took: a solver's own where it says them, the limit where it was stopped at that."""
    assert run.row is not None
    limit = run.row["limits"].get("seconds")
    if run.status == OUT_OF_TIME and limit:
        return float(limit)
    return float(run.row.get("seconds") or run.row.get("wall_seconds") or limit or 1.0)


def _staircase(front: Sequence[tuple[float, float]], x: Axis, y: Axis) -> Iterable[Point]:
    """Yield the corners of the border of what the points of a front reach, up to the ends of the axes."""
    before = y.high
    for seconds, error in front:
        yield Point(seconds, before)
        yield Point(seconds, error)
        before = error
    yield Point(x.high, before)


def _titled(family: str, runs: Sequence[Run]) -> str:
    """Return the title of a chart of some runs: over how many models, and what is missing."""
    models, missing = counted(len({run.instance for run in runs}), "model"), _missing(runs)
    return f"{family}: {models}" + (f"; {counted(missing, 'pair')} not run" if missing else "")


def _pairs_told(runs: Iterable[Run]) -> list[str]:
    """Return a sentence about what the titles of charts count as not run; none if there is nothing of that."""
    return ["Pairs that were not run are of a method and a model."] if _missing(runs) else []


def models_against_time(results: Results) -> Figure | None:
    """Draw how many models each method has answered, and answered well, within a time."""
    if not any(run.answer is not None for run in results.runs):
        return None
    x = _time_axis(results.runs)
    words = [
        "How many models a method answers if each may take so long. The dashed line is the number of all models: what "
        "a curve lacks at the right end was not answered, or not well enough."
    ]
    charts = [_cactus("Models answered", results.methods, results.runs, x, lambda run: run.answer is not None)]
    if any(run.error is not None for run in results.runs):
        known = comparable(results)
        runs = [run for run in results.runs if run.instance in known]
        charts.append(_cactus(f"Models answered, {_HD_MAX} at most {_GOOD:g}", results.methods, runs, x, _is_good))
        unknown = len(results.instances) - len(known)
        if unknown:
            models = counted(unknown, "model")
            words.append(f"The right chart leaves out {models}, of which no true marginals are known.")
        lacking = sum(1 for run in runs if not run.is_judged)
        if lacking:
            answers = counted(lacking, "answer that was", "answers that were")
            words.append(f"On the right, curves also lack {answers} not compared.")
    return Figure(
        "models-against-time",
        "Models answered against time",
        " ".join(words),
        tuple(charts),
        _legend(results),
        (("all models", "dashed"),),
    )


def _is_good(run: Run) -> bool | None:
    """Tell whether there is a good answer; None if nobody knows how good it is."""
    return run.error is not None and run.error <= _GOOD if run.is_judged else None


def _cactus(
    title: str, methods: Sequence[str], runs: Sequence[Run], x: Axis, counts: Callable[[Run], bool | None]
) -> Chart:
    total = len({run.instance for run in runs})
    y = linear_axis("models", 0.0, float(total))
    series = [Series("dashed", None, (Point(x.low, total), Point(x.high, total)), f"all {total} models")]
    for style, method in enumerate(methods):
        found = [(run, counts(run)) for run in runs if run.method == method]
        times = sorted(run.answer["seconds"] for run, is_counted in found if run.answer and is_counted)
        points = [Point(x.low, 0.0), *(Point(time, float(place)) for place, time in enumerate(times, start=1))]
        points.append(Point(x.high, float(len(times))))
        unknown = _not_compared(run for run, is_counted in found if is_counted is None)
        words = ", ".join([f"{method}: {len(times)} of {total}", *unknown])
        series.append(Series("steps", style, tuple(points), words))
    return Chart(title, x, y, tuple(series))


def error_against_bound(results: Results) -> Figure | None:
    """Draw the error against the bound, family by family, of solvers that ran with several bounds."""
    solvers = {name: bounds for name, bounds in _bounds(results).items() if len(bounds) > 1}
    tried = {family: _bounds_tried(results, family, solvers.values()) for family in results.families}
    families = [family for family, most in tried.items() if most > 1]
    methods = {method for bounds in solvers.values() for method in bounds.values()}
    drawn = [run for run in results.runs if run.method in methods and run.instance.family in families]
    judged = [run.error for run in drawn if run.error is not None]
    if not judged:
        return None
    every = sorted({bound for bounds in solvers.values() for bound in bounds})
    x = linear_axis("bound (bits of the largest table)", every[0] - 0.3, every[-1] + 0.3, every)
    y = _error_axis(judged)
    words = (
        "The largest error of a marginal (HD_max) for tables of at most 2^bound numbers: thin lines are models, thick "
        "ones medians over the models that a method was run on, where one without an answer counts as all wrong. "
        f"{' '.join([_AT_THE_END, *_pairs_told(drawn)])}"
    )
    single = [family for family, most in tried.items() if most == 1]
    if single:
        words += f" Left out are families on which no solver ran with several bounds: {', '.join(single)}."
    return Figure(
        "error-against-bound",
        "Error against bound",
        words,
        tuple(_bound_chart(results, family, list(solvers.values()), x, y) for family in families),
        tuple((name, style) for style, name in enumerate(solvers)),
        (("a model", "thin"), ("median", "line")),
    )


def _bounds(results: Results) -> dict[str, dict[float, str]]:
    """Return, for each solver with its other options and its limits, the methods by bound.

    Limits are in a name where the solver has several.
    """
    found: dict[str, dict[str, dict[float, str]]] = {}
    for method in results.methods:
        row = results.row_of(method)
        name, bound = split_bound(row["solver"])
        if bound is not None:
            found.setdefault(name, {}).setdefault(limits_in_words(row), {})[bound] = method
    return {
        name if len(by_limits) == 1 else f"{name} ({limits})": dict(sorted(bounds.items()))
        for name, by_limits in found.items()
        for limits, bounds in by_limits.items()
    }


def _bounds_tried(results: Results, family: str, solvers: Iterable[dict[float, str]]) -> int:
    """Return the most bounds that a solver was run with on a family, runs that were not compared left out."""
    return max(
        (sum(_was_tried(results.of(family, method)) for method in bounds.values()) for bounds in solvers), default=0
    )


def _was_tried(runs: Iterable[Run]) -> bool:
    """Tell whether a chart has a place for any of some runs of a method."""
    return any(run.row is not None and run.is_judged for run in runs)


def _bound_chart(results: Results, family: str, solvers: Sequence[dict[float, str]], x: Axis, y: Axis) -> Chart:
    methods = {method for bounds in solvers for method in bounds.values()}
    title = _titled(family, [run for run in results.of(family) if run.method in methods])
    drawn = (_bound_series(results, family, bounds, style) for style, bounds in enumerate(solvers))
    return Chart(title, x, y, tuple(series for found in drawn for series in found))


def _bound_series(results: Results, family: str, bounds: dict[float, str], style: int) -> list[Series]:
    lines: dict[str, list[Point]] = {}
    medians, without = [], []
    for bound, method in bounds.items():
        every = results.of(family, method)
        # What was not run has not failed.
        runs = [run for run in every if run.row is not None]
        if not _was_tried(runs):
            continue
        judged = [run for run in runs if run.is_judged]
        errors = [math.inf if run.error is None else run.error for run in judged]
        for run in judged:
            if run.error is not None:
                lines.setdefault(run.instance.name, []).append(Point(bound, run.error))
        median = statistics.median(errors)
        if math.isfinite(median):
            over = ", ".join([_median_of(runs), *_not_run(every)])
            medians.append(Point(bound, median, f"{method}, {over}: {_HD_MAX} {short(median)}"))
        else:
            lacking = f"half of the {len(errors)} models or more have no answer"
            without.append(Point(bound, None, f"{method}: {', '.join([lacking, *_not_run(every)])}"))
    series = [Series("thin", style, tuple(points), name) for name, points in lines.items() if len(points) > 1]
    if len(medians) > 1:
        series.append(Series("line", style, tuple(medians)))
    return [*series, Series("large", style, (*medians, *without))]


def gauge_against_truth(results: Results) -> Figure | None:
    """Draw the true error against the stated one, and how often the limit holds."""
    judged = {
        style: [(run, estimate) for run in results.of(method=method) for _, estimate in estimates_of(_row(run))]
        for style, method in enumerate(results.methods)
    }
    judged = {style: entries for style, entries in judged.items() if entries}
    estimates = [estimate for entries in judged.values() for _, estimate in entries]
    if not estimates:
        return None
    return Figure(
        "gauge",
        "What ibia says about its own error",
        "Left: the true error against the typical one that the answer states. On the solid line it is right; a cross "
        "is an answer that is worse than the upper limit it states (the dashed line is the usual limit). Right: the "
        "share of answers whose true error is at most so many times the upper limit: "
        f"{100 * STATED_SHARE:.0f} % should be at or below 1. Left out are exact answers, answers whose "
        "references have too few digits to tell the error, and those of loopy propagation. What wrongly says it is "
        "exact states an error of 0.",
        (_gauge_scatter(judged, estimates), _gauge_shares(results, judged)),
        tuple((results.methods[style], style) for style in judged),
        (("beyond its limit", "crosses"), ("typical = true", "line"), ("upper limit", "dashed")),
    )


def _row(run: Run) -> list[dict[str, object]]:
    return [] if run.row is None else [run.row]


Judged = dict[int, list[tuple[Run, Estimate]]]


def _gauge_scatter(judged: Judged, estimates: Sequence[Estimate]) -> Chart:
    x = log_axis("stated typical error", (estimate.typical for estimate in estimates), ROUNDING, 1.0)
    y = log_axis("true error (HD_max)", (estimate.true for estimate in estimates), ROUNDING, 1.0)
    series = [Series("line", None, _diagonal(x, y, 1.0), "typical = true")]
    # An answer that wrongly says it is exact states an error of 0.
    factors = [estimate.upper / estimate.typical for estimate in estimates if estimate.typical > 0.0]
    if factors:
        factor = statistics.median(factors)
        words = f"upper limit, usually {factor:.2g} times the typical error"
        series.append(Series("dashed", None, _diagonal(x, y, factor), words))
    for style, entries in judged.items():
        kinds: tuple[tuple[bool, Kind], ...] = ((True, "dots"), (False, "crosses"))
        for within, kind in kinds:
            points = tuple(
                Point(estimate.typical, estimate.true, _gauge_words(run, estimate))
                for run, estimate in entries
                if estimate.within == within
            )
            series.append(Series(kind, style, points))
    return Chart("True error against the stated one", x, y, tuple(series))


def _gauge_words(run: Run, estimate: Estimate) -> str:
    said = f"said {short(estimate.typical)}, at most {short(estimate.upper)}"
    return f"{run.instance.name}, {run.method}: {said}; is {short(estimate.true)}"


def _diagonal(x: Axis, y: Axis, factor: float) -> tuple[Point, Point]:
    """Return the ends of the line y = factor · x within the axes."""
    low, high = max(x.low, y.low / factor), min(x.high, y.high / factor)
    return Point(low, low * factor), Point(high, high * factor)


def _gauge_shares(results: Results, judged: Judged) -> Chart:
    ratios = {style: sorted(_ratio(entry) for _, entry in entries) for style, entries in judged.items()}
    every = [ratio for values in ratios.values() for ratio in values]
    x = log_axis("true error / stated upper limit", [*every, 1.0, 10.0], 1e-5, 100.0)
    y = linear_axis("share of answers", 0.0, 1.0, (0.0, 0.25, 0.5, 0.75, STATED_SHARE, 1.0), percent=True)
    series = [
        Series("dashed", None, (Point(1.0, 0.0), Point(1.0, 1.0)), "the upper limit"),
        Series("dashed", None, (Point(x.low, STATED_SHARE), Point(x.high, STATED_SHARE)), "what the gauge promises"),
    ]
    for style, values in ratios.items():
        # What is beyond every multiple has no place; the curve ends below 1 then.
        finite = [ratio for ratio in values if math.isfinite(ratio)]
        points = [Point(x.low, 0.0), *(Point(ratio, place / len(values)) for place, ratio in enumerate(finite, 1))]
        within = sum(1 for ratio in values if ratio <= 1.0)
        words = f"{results.methods[style]}: {within} of {len(values)} within the limit"
        series.append(Series("steps", style, (*points, Point(x.high, len(finite) / len(values))), words))
    return Chart("Share within a multiple of the limit", x, y, tuple(series))


def _ratio(estimate: Estimate) -> float:
    """Return how many times the stated limit the true error is; infinite if an error of 0 was stated."""
    return estimate.true / estimate.upper if estimate.upper > 0.0 else math.inf


def _time_axis(runs: Iterable[Run]) -> Axis:
    times = [_seconds_until_end(run) for run in runs if run.row is not None]
    return log_axis("seconds", times, _SHORTEST)


def _error_axis(errors: Iterable[float]) -> Axis:
    return log_axis(_HD_MAX, errors, _SMALLEST, 1.0)


def _legend(results: Results) -> tuple[tuple[str, int], ...]:
    return tuple((method, style) for style, method in enumerate(results.methods))
