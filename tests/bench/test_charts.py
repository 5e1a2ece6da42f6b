"""Charts: axes with ticks that can be read, values where they belong, SVG that is well formed."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from ibia.bench.charts import Chart, Figure, Point, Series, linear_axis, log_axis, svg, symbol_svg


def labels(axis):
    return [words for _, words in axis.ticks]


def test_a_logarithmic_axis_has_whole_decades():
    axis = log_axis("seconds", [0.02, 7.0])
    assert (axis.low, axis.high) == pytest.approx((0.01, 10.0))
    assert labels(axis) == ["0.01", "0.1", "1", "10"]
    assert axis.place(0.01) == 0.0
    assert axis.place(10.0) == 1.0
    assert axis.place(1.0) == pytest.approx(2 / 3)


def test_values_beyond_the_ends_stand_at_them_and_the_label_says_so():
    axis = log_axis("", [0.0, 1e-20, 0.5, 3.0], 1e-10, 1.0)
    assert (axis.low, axis.high) == pytest.approx((1e-10, 1.0))
    assert labels(axis)[0] == "≤ 10⁻¹⁰"
    assert labels(axis)[-1] == "≥ 1"
    assert axis.place(0.0) == 0.0
    assert axis.place(5.0) == 1.0


@pytest.mark.parametrize("decades", range(1, 40))
def test_both_ends_of_a_long_axis_have_a_tick(decades):
    axis = log_axis("", [1e-9 / 5, 5 * 10.0 ** (decades - 9)], 1e-9, 10.0 ** (decades - 9))
    assert axis.ticks[0][0] == pytest.approx(axis.low)
    assert axis.ticks[-1][0] == pytest.approx(axis.high)
    assert labels(axis)[0].startswith("≤")
    assert labels(axis)[-1].startswith("≥")
    assert len(axis.ticks) <= 7
    places = [axis.place(value) for value, _ in axis.ticks]
    if decades > 1:
        gaps = [after - before for before, after in pairwise(places)]
        assert min(gaps) == pytest.approx(gaps[0])


def test_powers_of_ten_stay_in_their_decade():
    for power in range(-9, 4):
        axis = log_axis("", [10.0**power, 10.0 ** (power + 2)])
        assert (axis.low, axis.high) == pytest.approx((10.0**power, 10.0 ** (power + 2)))


def test_narrow_and_empty_axes_have_ticks():
    assert labels(log_axis("", [2.0, 5.0])) == ["1", "2", "5", "10"]
    assert len(labels(log_axis("", []))) >= 2
    assert len(labels(log_axis("", [1e-9, 1e3]))) <= 7


def test_a_linear_axis_has_round_numbers():
    assert labels(linear_axis("models", 0, 33)) == ["0", "10", "20", "30"]
    assert labels(linear_axis("models", 0, 3)) == ["0", "0.5", "1", "1.5", "2", "2.5", "3"]
    assert labels(linear_axis("bound", 7.7, 15.3, [8, 12, 15])) == ["8", "12", "15"]
    assert labels(linear_axis("share", 0, 1, [0.9], percent=True)) == ["90 %"]
    assert linear_axis("", 10, 20).place(15) == 0.5


def drawn(*series):
    chart = Chart("a < b", log_axis("seconds", [0.1, 10]), linear_axis("n", 0, 10), series)
    return ElementTree.fromstring(svg(chart))


def test_points_are_where_their_values_are_and_say_what_they_are():
    root = drawn(Series("dots", 3, (Point(1.0, 5.0, "five & <six>"), Point(100.0, 99.0))))
    first, second = root.findall(".//path[@class='dots']")
    assert first.find("title").text == "five & <six>"
    assert second.find("title") is None
    # In the middle, and cut off at the upper right corner.
    assert first.get("transform") == "translate(248.0 142.0)"
    assert second.get("transform") == "translate(420.0 32.0)"
    assert root.get("aria-label") == "a < b"


def test_points_without_a_value_stand_in_a_strip_above():
    assert drawn(Series("dots", 0, (Point(1.0, 5.0),))).find(".//rect") is None
    root = drawn(Series("dots", 0, (Point(1.0, 5.0), Point(1.0, None))))
    assert root.find(".//rect[@class='strip']") is not None
    assert "no answer" in [text.text for text in root.iter("text")]
    (cross,) = root.findall(".//path[@class='crosses']")
    assert float(cross.get("transform").split()[1].rstrip(")")) < 56


@pytest.mark.parametrize("kind", ["line", "thin", "dashed", "steps"])
def test_lines_join_points(kind):
    root = drawn(Series(kind, None, (Point(0.1, 0.0), Point(1.0, 5.0), Point(10.0, 10.0)), "a line"))
    (path,) = root.findall(f".//path[@class='{kind}']")
    assert path.get("d").startswith("M76.0 252.0")
    assert ("H248.0V142.0" if kind == "steps" else "L248.0 142.0") in path.get("d")
    assert path.find("title").text == "a line"
    assert path.get("stroke-dasharray") is None


def test_lines_of_the_same_colour_have_other_dashes():
    points = (Point(0.1, 0.0), Point(10.0, 10.0))
    for kind in ("line", "steps"):
        root = drawn(*(Series(kind, style, points) for style in range(48)))
        looks = [(group.get("class"), group.find("path").get("stroke-dasharray")) for group in root.findall("g")]
        assert len(set(looks)) == 48
        assert looks[0] == ("s0", None)
        assert looks[8][0] == "s0"


def test_the_label_of_the_vertical_axis_stands_along_it():
    root = drawn(Series("dots", 0, (Point(1.0, 5.0),)))
    (label,) = [text for text in root.iter("text") if text.text == "n"]
    assert label.get("transform") == "translate(14 142) rotate(-90)"


def figure(*kinds):
    chart = Chart("", log_axis("", [1.0]), linear_axis("", 0, 1), tuple(Series(kind, 9, ()) for kind in kinds))
    return Figure("name", "title", "words", (chart,), (("ours", 9),), (("all", "dashed"),))


def test_a_legend_shows_what_is_drawn():
    for drawn_kinds, kinds in (
        (("dots", "large"), ["large"]),
        (("steps",), ["line"]),
        (("thin", "line", "large"), ["line", "large"]),
    ):
        assert figure(*drawn_kinds).keys == [("ours", 9, kinds), ("all", None, ["dashed"])]
    root = ElementTree.fromstring(symbol_svg(9, ["line", "large"]))
    line, mark = root.findall(".//path")
    assert line.get("stroke-dasharray")
    assert (line.get("class"), mark.get("class")) == ("line", "large")
    # A mark alone has no line.
    assert len(ElementTree.fromstring(symbol_svg(9)).findall(".//path")) == 1


def test_symbols_of_all_styles_are_drawn():
    groups = [ElementTree.fromstring(symbol_svg(style)).find("g") for style in range(48)]
    looks = [(group.get("class"), group.find("path").get("d")) for group in groups]
    # Each of eight colours with each of six shapes.
    assert len(set(looks)) == 48
    assert len({shape for _, shape in looks}) == 6
    assert len({colour for colour, _ in looks[:8]}) == 8
    for kind in ("dots", "crosses", "dashed"):
        ElementTree.fromstring(symbol_svg(None, [kind]))
