"""What the figures show of made-up results."""

from __future__ import annotations

import pytest

from bench_rows import LIMITS, approximate, row
from ibia.bench.plots import (
    all_figures,
    error_against_bound,
    error_against_time,
    gauge_against_truth,
    models_against_time,
)
from ibia.bench.summary import order_rows


def series(chart, kind, style=None):
    return [entry for entry in chart.series if entry.kind == kind and style in (None, entry.style)]


def test_error_against_time_has_runs_medians_and_the_front():
    rows = [
        row("m1", "fast", seconds=0.1, hd_max=0.5),
        row("m2", "fast", seconds=0.3, hd_max=0.3),
        row("m1", "slow", seconds=9.0, hd_max=0.001),
        row("m2", "slow", status="out of time", wall_seconds=126.0),
        row("m1", "useless", seconds=20.0, hd_max=0.6),
        row("m2", "useless", seconds=20.0, hd_max=0.6),
        row("m3", "fast", "CSP"),
    ]
    figure = error_against_time(order_rows(rows))
    grids, other = figure.charts
    assert grids.title == "Grids: 2 models"
    assert other.title == "CSP: 1 model; 2 pairs not run"
    assert grids.x == other.x
    assert figure.legend == (("fast", 0), ("slow", 1), ("useless", 2))
    slow = series(grids, "dots", 1)[0].points
    assert [(point.x, point.y) for point in slow] == [(9.0, 0.001), (120.0, None)]
    assert "out of time" in slow[1].words
    # Half of the models of `slow` have no answer, so it has no median.
    medians = [(entry.style, entry.points[0].x, entry.points[0].y) for entry in series(grids, "large")]
    assert medians == [(0, pytest.approx(0.2), pytest.approx(0.4)), (2, 20.0, 0.6)]
    (front,) = series(grids, "dashed")
    corners = [(point.x, point.y) for point in front.points]
    assert corners == [(pytest.approx(0.2), 1.0), (pytest.approx(0.2), 0.4), (grids.x.high, 0.4)]
    assert grids.has_strip
    assert not other.has_strip


def test_titles_say_what_they_count_as_not_run():
    told = "Pairs that were not run are of a method and a model."
    rows = [row("m1", "ibia:bound=8"), row("m1", "ibia:bound=12"), row("m1", "loopy")]
    for make in (error_against_time, error_against_bound):
        assert told not in make(order_rows(rows)).words
        figure = make(order_rows([*rows, row("m2", "loopy")]))
        assert figure.charts[0].title == "Grids: 2 models; 2 pairs not run"
        assert told in figure.words
    # Of loopy propagation there is nothing in the charts of bounds.
    assert told not in error_against_bound(order_rows([*rows[:2], row("c1", "loopy", "CSP")])).words


def test_families_of_which_nothing_was_compared_have_no_chart_of_error_against_time():
    rows = [row(), row(family="CSP", **UNKNOWN), row("c2", family="CSP", status="crashed"), row("b", family="BN")]
    figure = error_against_time(order_rows(rows))
    assert [chart.title for chart in figure.charts] == ["Grids: 1 model", "BN: 1 model"]
    assert "Left out are families of which no answer was compared with the truth: CSP." in figure.words
    assert "Left out" not in error_against_time(order_rows([rows[0]])).words


def test_runs_without_an_answer_stand_where_they_ended():
    unlimited = {**LIMITS, "seconds": None}
    for status, limits, seconds in (
        ("out of time", LIMITS, 120.0),
        ("out of time", unlimited, 126.0),
        ("crashed", LIMITS, 126.0),
    ):
        rows = [row("m1"), row("m2", status=status, limits=limits, wall_seconds=126.0)]
        charts = error_against_time(order_rows(rows)).charts
        (point,) = [
            point for entry in charts[0].series if entry.kind == "dots" for point in entry.points if point.y is None
        ]
        assert point.x == seconds


def test_models_against_time_counts_all_models():
    rows = [
        row("m1", seconds=1.0, hd_max=0.5),
        row("m2", seconds=0.5, hd_max=0.001),
        row("m3", status="crashed"),
        row("m1", "loopy"),
    ]
    answered, good = models_against_time(order_rows(rows)).charts
    assert answered.y.high == 3
    (curve,) = series(answered, "steps", 0)
    assert [(point.x, point.y) for point in curve.points[1:]] == [(0.5, 1), (1.0, 2), (answered.x.high, 2)]
    assert curve.words == "ibia:bound=12: 2 of 3"
    assert series(good, "steps", 0)[0].words == "ibia:bound=12: 1 of 3"
    assert series(answered, "dashed")[0].words == "all 3 models"


FAULT = {"hd_avg": None, "hd_max": None, "reference": "none", "reference_error": "m1.MAR: 2 marginals, expected 9."}
UNKNOWN = {"hd_avg": None, "hd_max": None, "reference": "none"}


def test_exact_answers_do_not_stretch_the_axis_of_errors():
    rows = [row("m1", f"ibia:bound={bound}", hd_max=error) for bound, error in ((8, 0.05), (12, 1e-16))]
    for figure in (error_against_time(order_rows(rows)), error_against_bound(order_rows(rows))):
        (chart,) = figure.charts
        assert chart.y.low == pytest.approx(1e-6)
        assert chart.y.ticks[0][1] == "≤ 10⁻⁶"
        assert "Errors below 1E-6" in figure.words


def test_medians_say_how_many_answers_they_are_over():
    rows = [row("m1", hd_max=0.1), row("m2", hd_max=0.3), row("m3", **FAULT), row("m4", **UNKNOWN)]
    (chart,) = error_against_time(order_rows(rows)).charts
    (median,) = series(chart, "large")[0].points
    assert median.words == "ibia:bound=12, median of 2 models, 2 not compared: HD_max 0.2000 in 1 s"
    rows = [row(name, f"ibia:bound={bound}") for name in ("m1", "m2") for bound in (8, 12)]
    rows.append(row("m3", "ibia:bound=8", **FAULT))
    (chart,) = error_against_bound(order_rows(rows)).charts
    first, second = series(chart, "large")[0].points
    assert "median of 2 models, 1 not compared:" in first.words
    # What was not run has not failed.
    assert "median of 2 models, 1 not run:" in second.words


def test_answers_that_were_not_compared_are_not_said_to_be_bad():
    rows = [row("m1"), row("m2", hd_max=0.5), row("m3", **UNKNOWN), row("m4", **UNKNOWN)]
    figure = models_against_time(order_rows(rows))
    answered, good = figure.charts
    assert series(answered, "steps", 0)[0].words == "ibia:bound=12: 4 of 4"
    assert series(good, "steps", 0)[0].words == "ibia:bound=12: 1 of 2"
    assert (series(good, "dashed")[0].words, good.y.high) == ("all 2 models", 2)
    assert "The right chart leaves out 2 models, of which no true marginals are known." in figure.words
    assert "not compared" not in figure.words
    # What is known of a model and was not compared by one of them.
    figure = models_against_time(order_rows([*rows[:3], row("m1", "loopy"), row("m2", "loopy", **FAULT)]))
    good = figure.charts[1]
    assert series(good, "steps", 1)[0].words == "loopy: 1 of 2, 1 not compared"
    assert "On the right, curves also lack 1 answer that was not compared." in figure.words
    assert "leaves out" not in models_against_time(order_rows(rows[:2])).words


def test_error_against_bound_needs_several_bounds():
    assert error_against_bound(order_rows([row(), row(solver="loopy")])) is None
    rows = [
        row("m1", "ibia:bound=15,order=breadth", hd_max=0.1),
        row("m1", "ibia:bound=9,order=breadth", hd_max=0.4),
        row("m2", "ibia:bound=9,order=breadth", hd_max=0.2),
        row("m2", "ibia:bound=15,order=breadth", status="crashed"),
        row("m1", "paper:bound=9"),
    ]
    figure = error_against_bound(order_rows(rows))
    assert figure.legend == (("ibia:order=breadth", 0),)
    (chart,) = figure.charts
    assert [tick for tick, _ in chart.x.ticks] == [9, 15]
    (marks,) = series(chart, "large")
    # Half of the models have no answer at bound 15.
    assert [(point.x, point.y) for point in marks.points] == [(9, pytest.approx(0.3)), (15, None)]
    (thin,) = series(chart, "thin")
    assert [(point.x, point.y) for point in thin.points] == [(9, 0.4), (15, 0.1)]


def test_bounds_are_compared_within_the_same_limits():
    longer = {**LIMITS, "seconds": 1200.0}
    rows = [
        row("m1", f"ibia:bound={bound},order=breadth", limits=limits, hd_max=error)
        for limits, error in ((LIMITS, 0.2), (longer, 0.1))
        for bound in (8, 12)
    ]
    figure = error_against_bound(order_rows(rows))
    short, long = "ibia:order=breadth (120 s, 8 GB)", "ibia:order=breadth (1200 s, 8 GB)"
    assert figure.legend == ((short, 0), (long, 1))
    (chart,) = figure.charts
    for style, error in ((0, 0.2), (1, 0.1)):
        (marks,) = series(chart, "large", style)
        assert [(point.x, point.y) for point in marks.points] == [(8, error), (12, error)]
    # One that ran under other limits, too, is not lost to those that ran under the same.
    figure = error_against_bound(order_rows(rows[:3]))
    assert figure.legend == ((short, 0),)
    (marks,) = series(figure.charts[0], "large")
    assert [point.x for point in marks.points] == [8, 12]
    # Without other options there is no colon left.
    rows = [row(solver=f"ibia:bound={bound}", limits=limits) for limits in (LIMITS, longer) for bound in (8, 12)]
    assert error_against_bound(order_rows(rows)).legend[0][0] == "ibia (120 s, 8 GB)"


def test_a_method_that_was_not_run_on_a_family_has_not_failed_there():
    rows = [
        *(row("m1", f"ibia:bound={bound}") for bound in (8, 12)),
        *(row("m1", f"paper:bound={bound}") for bound in (8, 12)),
        row("c1", "ibia:bound=8", "CSP"),
        row("c2", "ibia:bound=12", "CSP"),
        row("d1", "loopy", "DBN"),
    ]
    grids, other = error_against_bound(order_rows(rows)).charts
    assert (grids.title, other.title) == ("Grids: 1 model", "CSP: 2 models; 6 pairs not run")
    (ours,), (paper,) = (series(other, "large", style) for style in (0, 1))
    assert [(point.x, point.y) for point in ours.points] == [(8, 0.01), (12, 0.01)]
    assert "median of 1 model, 1 not run:" in ours.points[0].words
    assert paper.points == ()


def test_models_that_a_bound_was_not_run_on_are_no_models_without_an_answer():
    rows = [
        *(row("m1", f"ibia:bound={bound}", hd_max=error) for bound, error in ((5, 0.2), (7, 0.1))),
        *(row(f"m{number}", "loopy") for number in (1, 2, 3)),
    ]
    (chart,) = error_against_bound(order_rows(rows)).charts
    assert chart.title == "Grids: 3 models; 4 pairs not run"
    (marks,) = series(chart, "large")
    assert [(point.x, point.y) for point in marks.points] == [(5, 0.2), (7, 0.1)]
    assert marks.points[0].words == "ibia:bound=5, median of 1 model, 2 not run: HD_max 0.2000"
    # What failed counts.
    rows.append(row("m2", "ibia:bound=5", status="crashed"))
    (chart,) = error_against_bound(order_rows(rows)).charts
    cross = series(chart, "large")[0].points[-1]
    assert (cross.x, cross.y) == (5, None)
    assert cross.words == "ibia:bound=5: half of the 2 models or more have no answer, 1 not run"


def test_families_with_one_bound_have_no_chart_of_error_against_bound():
    rows = [
        *(row("m1", f"ibia:bound={bound}") for bound in (8, 12)),
        # One bound of each solver, several that cannot be compared, none.
        row("c1", "ibia:bound=8", "CSP", hd_max=1e-5),
        row("c1", "paper:bound=12", "CSP"),
        *(row("b1", f"ibia:bound={bound}", "BN", hd_max=None) for bound in (8, 12)),
        row("b1", "paper:bound=8", "BN", status="crashed"),
        row("d1", "loopy", "DBN"),
        row("e1", "paper:bound=8", "Toys", hd_max=None),
    ]
    figure = error_against_bound(order_rows(rows))
    assert [chart.title for chart in figure.charts] == ["Grids: 1 model; 2 pairs not run"]
    # What is not drawn does not stretch the axis.
    assert figure.charts[0].y.low == pytest.approx(0.01)
    assert "Left out are families on which no solver ran with several bounds: CSP, BN." in figure.words
    assert "Left out" not in error_against_bound(order_rows(rows[:2])).words
    alone = [row("m1", "ibia:bound=8"), row("c1", "ibia:bound=12", "CSP")]
    assert error_against_bound(order_rows(alone)) is None


def test_what_wrongly_says_it_is_exact_is_beyond_every_multiple_of_its_limit():
    wrong = row("m2", exact=True, hd_max=0.2, error_estimate=0.0, error_upper=0.0)
    scatter, shares = gauge_against_truth(order_rows([approximate("m1"), wrong])).charts
    assert [(point.x, point.y) for point in series(scatter, "crosses", 0)[0].points] == [(0.0, 0.2)]
    (curve,) = series(shares, "steps")
    assert curve.words == "ibia:bound=12: 1 of 2 within the limit"
    assert curve.points[-1].y == 0.5
    # By itself it has no typical factor.
    assert gauge_against_truth(order_rows([wrong])) is not None
    assert "said to be exact" in str(error_against_time(order_rows([wrong])).charts)


def test_the_gauge_is_drawn_against_the_truth():
    assert gauge_against_truth(order_rows([row()])) is None
    rows = [
        approximate("m1", typical=0.01, upper=0.05, true=0.02),
        approximate("m2", typical=0.02, upper=0.1, true=0.2),
        row("m3", exact=True, error_estimate=0.0, error_upper=0.0),
    ]
    scatter, shares = gauge_against_truth(order_rows(rows)).charts
    (within,), (beyond,) = (series(scatter, kind, 0) for kind in ("dots", "crosses"))
    assert [(point.x, point.y) for point in within.points] == [(0.01, 0.02)]
    assert [(point.x, point.y) for point in beyond.points] == [(0.02, 0.2)]
    diagonal, limit = series(scatter, "line")[0].points, series(scatter, "dashed")[0].points
    assert all(point.y == pytest.approx(point.x) for point in diagonal)
    assert all(point.y == pytest.approx(5 * point.x) for point in limit)
    (curve,) = series(shares, "steps")
    assert [(point.x, point.y) for point in curve.points[1:-1]] == [(pytest.approx(0.4), 0.5), (2.0, 1.0)]
    assert "1 of 2 within the limit" in curve.words


def test_results_without_any_answer_have_no_figures():
    assert all_figures(order_rows([row(status="crashed")])) == []
