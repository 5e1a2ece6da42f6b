"""What a result tells: tables, comparisons, HTML and pictures."""

from __future__ import annotations

import html.parser
import math
import re
import sys

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.compare import worth_seeing
from ibia.errors import InputError, UnavailableError


@pytest.fixture(scope="module")
def prior():
    return ibia.infer(examples.student(), bound=20)


@pytest.fixture(scope="module")
def result():
    return ibia.infer(examples.student(), {"letter": "strong"}, bound=20)


@pytest.fixture(scope="module")
def rough():
    return ibia.infer(examples.grid(10, 10, seed=1), bound=6, slices="never")


# Comparisons


def test_the_most_certain_come_first(result):
    found = result.most_certain()
    assert {certain.variable for certain in found} == {"difficulty", "talent", "grade", "test"}
    assert found[0].variable == "difficulty"
    assert found[0].state == "easy"
    assert found[0].probability == result["difficulty"][0]
    probabilities = [certain.probability for certain in found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert result.most_certain(2) == found[:2]


def test_what_changed(result, prior):
    found = result.changed_from(prior)
    assert [change.variable for change in found] == ["grade", "talent", "difficulty", "test"]
    first = found[0]
    expected = math.sqrt(1.0 - np.sqrt(prior["grade"] * result["grade"]).sum())
    assert first.distance == pytest.approx(expected)
    assert (first.state, first.before, first.after) == ("poor", prior["grade"][2], result["grade"][2])
    assert all(change.distance == 0.0 for change in prior.changed_from(prior))


def test_likelihoods_do_not_make_it_another_model(prior):
    model, evidence = ibia.observe(examples.student(), {"letter": [0.1, 0.9]})
    assert ibia.infer(model, evidence, bound=20).changed_from(prior)[0].variable in {"letter", "grade"}


def test_other_models_cannot_be_compared(result, rough):
    with pytest.raises(InputError, match="not about the same variables"):
        result.changed_from(rough)


def test_variables_worth_seeing(rough):
    assert worth_seeing(rough, 100) == list(range(100))
    few = worth_seeing(rough, 3)
    assert len(few) == 3
    assert few == sorted(few)
    largest = [marginal.max() for marginal in rough.marginals]
    assert sorted(largest[number] for number in few) == sorted(largest)[-3:]


# Tables


def test_a_data_frame(result):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = result.to_pandas()
    assert list(frame.columns) == ["variable", "state", "probability", "observed"]
    assert len(frame) == sum(result.model.cardinalities)
    wide = frame.set_index(["variable", "state"])["probability"]
    assert wide["grade", "fair"] == result["grade"][1]
    assert set(frame[frame.observed].variable) == {"letter"}
    empty = ibia.infer(ibia.Model.from_arrays([], []), bound=20).to_pandas()
    assert isinstance(empty, pandas.DataFrame)
    assert len(empty) == 0


def test_a_missing_package_is_a_sentence(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(UnavailableError, match=r"ibia\[pandas\]"):
        result.to_pandas()
    with pytest.raises(UnavailableError, match=r"ibia\[plot\]"):
        result.plot()


# HTML


class Page(html.parser.HTMLParser):
    """Checks that every element is closed, and collects tags and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_shows_everything(result):
    text = result._repr_html_()
    page = Page(text)
    assert "exact: no lossy operation was made" in page.text
    assert "observed: letter = strong" in page.text
    assert f"{result['grade'][0]:.4f}" in page.text
    assert page.tags.count("b") == 1 + sum(result.model.cardinalities) - 2
    assert "details" in page.tags
    assert 'class="gauge"' not in text


def test_html_of_an_estimate_has_a_gauge(rough):
    text = rough._repr_html_()
    page = Page(text)
    left, width = map(float, re.search(r"left:([\d.]+)%;width:([\d.]+)%", text).groups())
    assert 0 < left < left + width <= 100
    assert rough.error.words in page.text
    assert "76 more variables are not shown." in page.text
    assert f"{len(rough.steps)} forests" in page.text
    assert page.tags.count("tr") == 1 + len(rough.steps)


def test_html_needs_nothing_else_and_escapes_names():
    name = '<script>alert("x")</script>'
    model = ibia.Model.from_arrays(
        [ibia.Variable(name, 2, ("<i>", '"&')), ibia.Variable("many", 30)],
        [([0, 1], np.arange(1.0, 61.0).reshape(2, 30))],
        name="<title>",
    )
    text = ibia.infer(model, {"many": 3}, bound=20)._repr_html_()
    page = Page(text)
    assert "script" not in page.tags
    assert "title" not in page.tags
    assert name in page.text
    assert not re.search(r"src=|href=|url\(|@import", text)
    assert "and 22 more states" in Page(ibia.infer(model, bound=20)._repr_html_()).text


# Pictures


@pytest.fixture
def drawn(tmp_path):
    """Write a figure to a file, which finds most mistakes; return its axes."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")

    def draw(figure):
        figure.savefig(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 1000
        return figure.axes

    return draw


def widths(axes):
    return [patch.get_width() for patch in axes.patches]


def test_marginals_against_those_before(result, prior, drawn):
    axes = drawn(result.plot(prior))
    assert [one.get_title() for one in axes] == [change.variable for change in result.changed_from(prior)]
    np.testing.assert_allclose(widths(axes[0]), [*prior["grade"], *result["grade"]])
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["good", "fair", "poor"]


def test_marginals_alone(result, drawn):
    (axes,) = drawn(result.plot(variables=["grade"]))
    np.testing.assert_allclose(widths(axes), result["grade"])
    assert len(drawn(result.plot())) == 4


def test_names_are_no_formulas(drawn):
    model = ibia.Model.from_arrays([ibia.Variable("$x^{$", 2, ("$a", "b$")), 12], [([0, 1], np.ones((2, 12)))])
    first, second = drawn(ibia.infer(model, bound=20).plot())
    assert first.get_title() == "$x^{$"
    assert second.get_title() == "X1 (8 of 12 states)"


def test_the_sequence_of_forests(rough, result, drawn):
    sizes, counts, losses = drawn(rough.plot_steps())
    assert [patch.get_height() for patch in sizes.patches] == [step.largest_bits for step in rough.steps]
    assert [patch.get_height() for patch in counts.patches] == [step.cliques for step in rough.steps]
    assert [patch.get_height() for patch in losses.patches] == [step.loss for step in rough.steps]
    assert losses.get_yscale() == "log"
    assert len(drawn(result.plot_steps())) == 3


def test_notebooks_show_figures(drawn, result):
    figure = result.plot()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_nothing_to_plot(drawn):
    certain = ibia.infer(ibia.Model.from_arrays([2], [([0], [1.0, 2.0])]), {0: 1}, bound=20)
    with pytest.raises(InputError, match="no variable to plot"):
        certain.plot()
    with pytest.raises(InputError, match="no steps to plot"):
        certain.plot_steps()
