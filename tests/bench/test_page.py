"""The report: one page that needs nothing else, and hides nothing that went wrong."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser

import pytest

from bench_rows import approximate, row
from ibia import cli
from ibia.bench.page import make_page
from ibia.bench.summary import order_rows

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """The text of a page by section, its tables, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.section, self.texts, self.lines, self.attributes = [], "", {}, [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        if tag == "section":
            self.section = dict(attributes)["id"]
        if tag == "tr":
            self.lines.append([])
        if tag in ("td", "th"):
            self.lines[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts[self.section] = self.texts.get(self.section, "") + data
        if "td" in self.open or "th" in self.open:
            self.lines[-1][-1] += data

    def line(self, *starts):
        """Return the cells of the line of a table that begins so."""
        (found,) = [line for line in self.lines if [cell.strip() for cell in line[: len(starts)]] == list(starts)]
        return [cell.strip() for cell in found]


STEPS = {
    "step_columns": ["component", "step", "cliques", "factors", "bits", "bound", "loss", "seconds"],
    "step_figures": [[0, number, 9, 5, 11.5, 12.0, 0.25 * number, 0.01] for number in range(20)],
}
ROWS = [
    approximate("m1", true=0.02, **STEPS),
    approximate("m2", true=0.3),
    row("m3", exact=True, hd_avg=0.0, hd_max=0.0, error_estimate=0.0, error_upper=0.0),
    row("m1", "loopy", hd_max=0.5, converged=False, seconds=0.01),
    row("m2", "loopy", status="crashed"),
    row("m3", "loopy", status="out of time"),
    row("c<1>", "loopy", "CSP & more"),
]


def page(rows=ROWS, **choices):
    return Page(make_page(order_rows(rows), **choices))


def test_the_page_is_whole_and_needs_no_network():
    text = make_page(order_rows(ROWS))
    for word in ("http:", "https:", "//", "<script", "<link", "<img", "@import", "url("):
        assert word not in text, word
    found = Page(text)
    assert all(value is None or value.startswith("#") for name, value in found.attributes if name in ("href", "src"))
    targets = {value for name, value in found.attributes if name == "id"}
    assert {value[1:] for name, value in found.attributes if name == "href"} == targets
    assert "prefers-color-scheme:dark" in text
    assert "<b>early" not in text


def test_families_are_summed_up_and_what_is_missing_is_told():
    found = page()
    ours = found.line("Grids", "ibia:bound=12")
    assert ours[2:7] == ["3 of 3", "1", "6.7E-4", "0.11", "0.30"]
    theirs = found.line("", "loopy", "1 of 3")
    assert theirs[-1] == "1 crashed, 1 out of time"
    assert found.line("CSP & more", "ibia:bound=12")[-1] == "1 not run"
    assert found.line("all", "ibia:bound=12")[2] == "3 of 4"
    assert "2 without an answer, 1 not run" in found.texts[""]


def test_only_methods_that_answered_everything_are_best():
    text = make_page(order_rows([*ROWS[:3], *(row(name, "slow", hd_max=0.9) for name in ("m1", "m2", "m3"))]))
    assert '<td class="best">0.11</td>' in text
    # What is rounding is equally good.
    text = make_page(order_rows([row(hd_max=1e-16, hd_avg=1e-17), row(solver="slow", hd_max=1e-13, hd_avg=1e-14)]))
    assert '<td class="best">1.0E-16</td>' in text
    assert '<td class="best">1.0E-13</td>' in text
    # The same against one that answered fewer: nobody to compare with, and its figures are marked.
    text = make_page(order_rows(ROWS[:6]))
    assert 'class="best"' not in text
    assert '<td class="alarm">0.50</td>' in text


def test_runs_without_an_answer_are_listed_with_what_was_said():
    found = page()
    assert found.line("loopy", "Grids", "m2", "crashed")[-1] == "Ended <b>early</b> & without a word."
    assert found.line("ibia:bound=12", "CSP & more", "c<1>", "not run")
    assert "Every method answered every model" in page([row()]).texts["unanswered"]


def test_the_worst_come_first_with_the_steps_that_lost_most():
    found = page()
    worst = found.texts["worst"]
    assert worst.index("m2 HD_max 0.30") < worst.index("m1 HD_max 0.020")
    assert "said 0.010 to 0.050" in worst
    assert "m3" not in worst
    assert "did not converge" in worst
    steps = [line for line in found.lines if len(line) == 9 and line[0] == "0"]
    assert len(steps) == 12
    assert steps[0][:8] == ["0", "19", "9", "5", "11.5", "12", "4.75", "0.01"]
    assert "8 more lost less" in worst
    assert "and 1 with smaller errors" in page(worst=1).texts["worst"]


def test_the_gauge_is_judged():
    found = page()
    assert found.line("Grids", "2")[2:] == ["1 (50 %)", "–", "16"]
    assert "No answer that is not exact" in page([row()]).texts["calibration"]


def test_mixed_versions_are_told():
    assert "several versions" not in page().texts["methods"]
    assert "several versions" in page([row("m1"), {**row("m2"), "version": "2"}]).texts["methods"]


def test_rows_of_older_benches_and_of_models_without_answers_will_do():
    bare = {key: value for key, value in row(hd_max=None).items() if key not in ("at", "variables", "factors")}
    found = page([bare, row("m2", status="crashed")])
    assert found.line("Grids", "ibia:bound=12")[2:5] == ["1 of 2", "–", "–"]


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "report", *map(str, arguments)])
    return ended.value.code


def test_the_command_writes_the_page(tmp_path, capsys):
    path, out = tmp_path / "results.jsonl", tmp_path / "report.html"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ROWS))
    assert call(path, "-o", out, "--title", "Mine & yours", "--worst", "1") == 0
    assert "8 runs of 2 methods on 4 models" in capsys.readouterr().out
    assert "Mine & yours" in Page(out.read_text(encoding="utf-8")).texts[""]
    assert call(path, "-o", out, "--solver", "loopy", "--solver", "paper") == 0
    assert "4 runs of 1 methods" in capsys.readouterr().out
    assert call(tmp_path / "absent.jsonl", "-o", out) == 1


def test_pictures_without_matplotlib_are_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(row()) + "\n")
    assert call(path, "-o", tmp_path / "report.html", "--png", tmp_path / "png") != 0
    assert "pip install 'ibia[plot]'" in capsys.readouterr().err
    assert (tmp_path / "report.html").exists()


def test_pictures_are_written_and_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ROWS))
    for folder in ("one", "two"):
        assert call(path, "-o", tmp_path / "report.html", "--png", tmp_path / folder) == 0
    names = {"error-against-time.png", "models-against-time.png", "gauge.png"}
    assert {found.name for found in (tmp_path / "one").iterdir()} == names
    for name in names:
        data = (tmp_path / "one" / name).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert data == (tmp_path / "two" / name).read_bytes()
