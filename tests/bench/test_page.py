"""The report: one page that needs nothing else, and hides nothing that went wrong."""

from __future__ import annotations

import json
import socket
import sys
from html.parser import HTMLParser

import pytest

from bench_rows import approximate, row
from ibia import cli
from ibia.bench import pictures
from ibia.bench.page import make_page
from ibia.bench.plots import all_figures
from ibia.bench.summary import order_rows

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """The text of a page by section, its tables (and those not hidden), and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.section, self.texts, self.lines, self.attributes = [], "", {}, [], []
        self.shown, self.heading, self.headings = [], "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        if tag == "section":
            self.section = dict(attributes)["id"]
        if tag == "tr":
            self.lines.append([])
            if "details" not in self.open:
                self.shown.append(self.lines[-1])
                self.headings.append(self.heading)
        if tag == "h3":
            self.heading = ""
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
        if "h3" in self.open:
            self.heading += data
        if "td" in self.open or "th" in self.open:
            self.lines[-1][-1] += data

    def line(self, *starts, under=""):
        """Return the cells of the line of a table that is not hidden, is under such a heading, and begins so."""
        lines = [line for line, heading in zip(self.shown, self.headings, strict=True) if under in heading]
        (found,) = [line for line in lines if [cell.strip() for cell in line[: len(starts)]] == list(starts)]
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
    words = (
        "7 runs of 2 methods on 4 models of 2 families: 2 runs without an answer, 1 pair of method and model not run."
    )
    assert words in found.texts[""]
    assert "1 run of 1 method on 1 model of 1 family: all of them answered." in page([row()]).texts[""]


def test_further_errors_are_in_a_table_that_opens():
    errors = {"kl_avg": 0.001, "kl_max": 0.25, "ruled_out": 0, "largest_absolute_error": 0.125}
    rows = [
        row("m1", **errors),
        row("m2", **{**errors, "kl_max": 0.75, "largest_absolute_error": 0.5}),
        row("m1", "loopy", **errors),
        row("m2", "loopy", **{**errors, "kl_avg": None, "kl_max": None, "ruled_out": 3}),
    ]
    found = page(rows)
    (ours, theirs) = [line for line in found.lines if line[2] == "2 of 2" and len(line) == 7]
    assert ours[3:] == ["0.0010", "0.50", "0.50", "–"]
    # Infinite, and not averaged away.
    assert theirs[3:] == ["∞", "∞", "0.12", "3"]
    assert "Further errors" in found.texts["tables"]
    # Rows of older benches lack them.
    (bare,) = [line for line in page([row()]).lines if line[2] == "1 of 1" and len(line) == 7]
    assert bare[3:] == ["–"] * 4


def test_published_figures_stand_beside_ours():
    rows = [
        row("Grids_11", observed=0, hd_avg=0.25, hd_max=0.5),
        row("Grids_12", observed=0, hd_avg=0.5, hd_max=1.0),
        row("Grids_11", "loopy", observed=0, hd_avg=0.125, hd_max=0.375, seconds=0.25),
        row("Grids_12", "loopy", status="crashed"),
        row("asia", family="Bnlearn", observed=0, hd_avg=0.0, hd_max=0.0),
        row("asia_e1", family="Bnlearn", observed=2, hd_avg=0.75, hd_max=0.75),
        row("unknown", family="CSP", hd_avg=None, hd_max=None),
    ]
    found = page(rows)
    grids = found.line("Grids", "2 / 8", under="Errors by family")
    assert grids[2:7] == ["0.433 / 0.905", "0.146 / 0.343", "0.247 / 0.713", "–", "0.088 / 0.300"]
    assert grids[-2:] == ["0.38 / 0.75", "0.12 / 0.38 (1 of 2)"]
    # The paper's have no evidence.
    assert found.line("Bnlearn", "1 / 26", under="Errors by family")[-2] == "0 / 0"
    assert "CSP" not in [line[0] for line, heading in zip(found.shown, found.headings, strict=True) if "HD_" in heading]
    assert found.line("Grids_11", "0.543") == [
        "Grids_11",
        "0.543",
        "0.420",
        "0.590 (1.1 s)",
        "0.166 (3.5 s)",
        "0.50 (1.0 s)",
        "0.38 (0.25 s)",
    ]
    assert "NeurIPS 2023" in found.texts["paper"]
    # Nothing to stand beside.
    assert "paper" not in page([row(family="grid")]).texts
    # What loopy propagation answered for ibia is none of its answers.
    stood_in = page([*rows[:2], {**rows[0], "solver": "paper", "loopy": True}])
    assert stood_in.line("Grids", "2 / 8", under="Errors by family")[-1] == "–"


def test_all_tables_of_the_paper_stand_beside_ours():
    unknown = {"hd_avg": None, "hd_max": None, "delta_log10_z": None, "reference": "none"}
    rows = [
        row("p1", family="Promedas", hd_avg=0.25, hd_max=0.5, delta_log10_z=-0.5),
        row("p2", family="Promedas", hd_avg=0.75, hd_max=1.0, delta_log10_z=0.25),
        row("p1", "loopy", "Promedas", status="crashed"),
        row("big1", family="Promedas", seconds=90.0, **unknown),
        row("big2", family="Promedas", seconds=119.0, **unknown),
        row("big1", "loopy", "Promedas", seconds=1.0, **unknown),
        row("big2", "loopy", "Promedas", status="out of time"),
        row("lost", family="Promedas", status="out of time"),
        row("Grids_11", observed=0),
    ]
    found = page(rows)
    sampled = found.line("Promedas", "2 / 64", under="Against IJGP-SampleSearch")
    assert sampled[2:6] == ["0.030 / 0.139", "0.042 / 0.207", "0.013 / 0.086", "0.013 / 0.086"]
    assert sampled[6:] == ["0.50 / 0.75", "–"]
    ordered = found.line("Promedas", "2 / 64", under="Topological against another order")
    assert ordered[2:] == ["1.5 / 0.322", "0.4 / 0.086", "0.50 / 0.75", "–"]
    # Nobody answered the last, and its rows do not say what is known of it.
    large = found.line("Promedas", "3 / 171", under="Large models")
    assert large[2:5] == ["77", "100", "100"]
    assert large[5:] == ["67 (1 perhaps not large)", "50 (2 of 3; 1 perhaps not large)"]
    text = found.texts["paper"]
    assert "No model here of BN, ObjDetect, Segment, Protein, DBN, Grids, CSP, Type4b." in text
    assert "Missing of loopy: p1 (crashed), p2 (not run)." in text
    assert "Missing of loopy: big2 (out of time), lost (not run)." in text
    assert "No answer here to Alchemy_11, CSP_11," in text
    assert "else as models with known marginals: lost." in text
    assert "there is no model here" not in text


def test_shares_of_large_models_are_within_what_runs_were_allowed():
    unknown = {"family": "BN", "hd_avg": None, "hd_max": None}
    for seconds, cell in ((60.0, "100 within 60 s"), (1200.0, "50 / 100"), (None, "50 / 100 / 100")):
        limits = {"seconds": seconds, "memory": 8e9, "threads": 1}
        rows = [row("one", limits=limits, seconds=1.0, **unknown)]
        rows.append(row("two", limits=limits, seconds=50.0 if seconds == 60.0 else 600.0, **unknown))
        assert page(rows).line("BN", "2 / 22")[-1] == cell


def test_large_models_that_nobody_answered_are_models():
    unknown = {"hd_avg": None, "hd_max": None, "reference": "none"}
    rows = [row("big1", **unknown), row("big2", **unknown), row("small", marginals_known=True, observed=0)]
    lost = [f"lost{number}" for number in range(4)]
    found = page([*rows, *(row(name, status="out of time", marginals_known=False) for name in lost)])
    assert found.line("Grids", "6 / 19", under="Large models")[-1] == "33"
    assert "Rows do not say" not in found.texts["paper"]
    # The same of older rows, with a word about it.
    text = make_page(order_rows([*rows, *(row(name, status="out of time") for name in lost)]))
    assert '<td class="alarm">33 (4 perhaps not large)</td>' in text
    assert "else as models with known marginals: lost0, lost1, lost2, lost3." in text
    # What stood in for ibia is no answer, but shows what is known.
    found = page([*rows, row("big3", loopy=True, **unknown)])
    assert found.line("Grids", "3 / 19", under="Large models")[-1] == "67"


def test_small_models_that_nobody_answered_or_compared_are_models():
    rows = [row("g1", observed=0), row("g2", observed=0, status="out of time", marginals_known=True)]
    fault = {"hd_avg": None, "hd_max": None, "reference": "none", "reference_error": "g3.MAR: 2 marginals."}
    for said in ({}, {"marginals_known": False}):
        found = page([*rows, row("g3", observed=0, **fault, **said)])
        assert found.line("Grids", "3 / 8", under="Errors by family")[-1] == "0.0010 / 0.010 (1 of 3)"
        assert "g2 (out of time), g3 (not compared)." in found.texts["paper"]
        assert not any("Large models" in heading for heading in found.headings)
    # The paper's networks have no evidence, be they answered or not.
    networks = [row(name, family="Bnlearn", status="crashed", observed=name == "b_e1") for name in ("b", "b_e1")]
    found = page([row("a", family="Bnlearn", observed=0), *networks])
    assert found.line("Bnlearn", "2 / 26", under="Errors by family")[-1] == "0.0010 / 0.010 (1 of 2)"
    assert "else as models with known marginals: b." in found.texts["paper"]


def test_tables_of_the_paper_without_a_model_are_named():
    absent = "Of these tables of the paper there is no model here: "
    text = page([row("g1", observed=0)]).texts["paper"]
    assert f"{absent}Topological against another order, Large models, Models that the paper names." in text
    text = page([row("b", family="BN", hd_avg=None, hd_max=None, reference="none")]).texts["paper"]
    assert f"{absent}Errors by family, Against IJGP-SampleSearch, Topological against another order, Models" in text


def test_methods_that_were_hardly_run_take_one_line_beside_the_paper():
    models = [f"p{number}" for number in range(1, 21)]
    rows = [row(name, "ibia", "Promedas") for name in models]
    rows += [row(name, "paper:bound=20", "Promedas") for name in models[:10]]
    rows += [row("p1", "loopy", "Promedas"), row("p2", "loopy", "Promedas", status="crashed")]
    # Run for other tables, with a bound that these do not have; and with one that all but all models were run with.
    rows += [row("p1", "ibia:bound=15", "Promedas"), row("Alchemy_11", "ibia:bound=15", "Alchemy")]
    rows += [row(name, "ibia:bound=12", "Promedas") for name in models[1:]]
    rows += [row("elsewhere", "merlin", "grid")]
    found = page(rows)
    text = found.texts["paper"]
    ordered = "Topological against another order"
    (header,) = [
        line
        for line, heading in zip(found.shown, found.headings, strict=True)
        if heading.startswith(ordered) and line[0] == "family"
    ]
    assert [name.strip() for name in header[4:]] == ["ibia", "ibia:bound=12", "loopy", "paper:bound=20"]
    assert found.line("Promedas", "20 / 64", under=ordered)[4:] == [
        "0.10 / 0.010",
        "0.10 / 0.010 (19 of 20)",
        "0.10 / 0.010 (1 of 20)",
        "0.10 / 0.010 (10 of 20)",
    ]
    part = text[text.index(ordered) :]
    part = part[: part.index("Models that the paper names")]
    assert part.count("Missing of") == 3
    assert "Missing of ibia:bound=12: p1 (not run)." in part
    named = ", ".join(f"{name} (not run)" for name in models[10:])
    assert f"Missing of paper:bound=20: {named}." in part
    # What was run and has no answer is named, whatever was not run.
    assert "Missing of loopy: p2 (crashed)." in part
    assert "Not run on most models: loopy (18 of 20), merlin (20 of 20)." in part
    assert "ibia:bound=15" not in part
    # In its own table it stands.
    assert "ibia:bound=15" in text[text.index("Models that the paper names") :]


def test_an_answer_without_a_comparison_is_missing_beside_the_paper_and_says_so():
    rows = [row("g1"), row("g2"), row("g1", "loopy"), {**row("g2", "loopy"), "hd_avg": None, "hd_max": None}]
    found = page([{**entry, "observed": 0} for entry in rows])
    assert found.line("Grids", "2 / 8", under="Errors by family")[-1] == "0.0010 / 0.010 (1 of 2)"
    assert "Missing of loopy: g2 (not compared)." in found.texts["paper"]


def test_answers_that_wrongly_say_they_are_exact_are_named():
    wrong = row("m2", exact=True, hd_max=0.25, error_estimate=0.0, error_upper=0.0)
    found = page([row("m1", exact=True), wrong, row("m3")])
    assert found.line("Grids", "ibia:bound=12")[2:4] == ["3 of 3", "1, 1 refuted"]
    assert found.line("ibia:bound=12", "Grids", "m2") == ["ibia:bound=12", "Grids", "m2", "HD_max 0.25"]
    assert "m2 of Grids: HD_max 0.25; said to be exact" in found.texts["worst"]
    assert "refuted" not in page([row("m1", exact=True)]).texts


def test_the_page_says_what_runs_were_measured_on():
    machine = {"processor": "Fast & <new>", "cores": 2, "memory": 2**30, "python": "3.11", "numpy": "2.0"}
    text = page([row(machine={**machine, "numba": "0.60"})]).texts[""]
    assert "Measured on Fast & <new>, 2 cores, 1 GiB, Python 3.11, NumPy 2.0, numba 0.60: 1 run." in text
    assert "this is written on" not in text
    text = page([row()]).texts[""]
    assert "Not said where measured: 1 run; this is written on " in text
    assert socket.gethostname() not in text


def test_the_page_says_where_the_truth_is_our_own():
    rows = [row(reference_from="ibia"), row(solver="loopy", reference_from="ibia"), row("m2", reference_from="data")]
    assert "True answers of 1 model are those of ibia's exact engine." in page(rows).texts[""]
    assert "rue answers" not in page(rows[2:]).texts[""]
    # Older rows do not say it; of generated models nobody else has them.
    older = [row("m3", source="generated"), row("m4", source="elsewhere"), row("m5", reference="official-6-digits")]
    found = page([*rows, *older, row("m1", "paper", source="elsewhere")]).texts[""]
    assert "True answers of 2 models are those of ibia's exact engine." in found
    assert "Whose the true answers of 1 model are, older rows do not say." in found
    # What has no answer never says it.
    lost = row("m4", status="crashed", source="elsewhere", reference="exact")
    assert "older rows" not in page([*rows, older[0], older[2], lost]).texts[""]


def test_one_chart_does_not_fill_the_page():
    assert 'class="charts few"' in make_page(order_rows([row()]))
    families = [row(family=name) for name in "abc"]
    assert '<div class="charts">' in make_page(order_rows(families))


def test_only_methods_that_answered_everything_are_best():
    text = make_page(order_rows([*ROWS[:3], *(row(name, "slow", hd_max=0.9) for name in ("m1", "m2", "m3"))]))
    assert '<td class="best">0.11</td>' in text
    # What is rounding is equally good.
    text = make_page(order_rows([row(hd_max=1e-16, hd_avg=1e-17), row(solver="slow", hd_max=1e-13, hd_avg=1e-14)]))
    assert '<td class="best">1.0E-16</td>' in text
    assert '<td class="best">1.0E-13</td>' in text
    # So is what looks the same.
    text = make_page(
        order_rows([row(seconds=0.501), row(solver="slow", seconds=0.499), row(solver="late", seconds=2.0)])
    )
    assert text.count('<td class="best">0.50</td>') == 2
    assert '<td class="best">2.0</td>' not in text
    # The same against one that answered fewer: nobody to compare with, and its figures are marked.
    text = make_page(order_rows(ROWS[:6]))
    assert 'class="best"' not in text
    assert '<td class="alarm">0.50</td>' in text


UNKNOWN = {"hd_avg": None, "hd_max": None, "delta_log10_z": None, "reference": "none"}


def test_means_over_fewer_answers_than_there_are_say_so_and_are_never_best():
    known = {"hd_avg": 0.125, "hd_max": 0.25, "kl_max": 0.5, "delta_log10_z": 0.5, "seconds": 1.0}
    rows = [row(f"m{number}", "all", **{**known, "hd_max": 0.75, "seconds": 3.0}) for number in range(4)]
    rows += [row(f"m{number}", "more", **{**known, "hd_max": 0.375, "seconds": 2.0}) for number in range(4)]
    rows += [row(f"m{number}", "few", **known) for number in range(2)]
    rows += [row("m2", "few", **{**UNKNOWN, "delta_log10_z": 2.0}), row("m3", "few", **UNKNOWN)]
    text = make_page(order_rows(rows))
    line = Page(text).line("", "few")
    assert line[2:8] == ["4 of 4; 2 of 4 compared", "–", "0.12", "0.25", "0.25", "2.0 (3 of 4)"]
    assert '<td class="alarm">4 of 4; 2 of 4 compared</td>' in text
    # That of the worst answer, too, and once more in the table of further errors.
    assert text.count('<td class="alarm">0.25</td>') == 2
    assert '<td class="alarm">0.50</td>' in text
    assert '<td class="best">0.38</td>' in text
    assert '<td class="best">0.25</td>' not in text
    # All answers have seconds.
    assert '<td class="best">1.0</td>' in text


def test_the_page_says_first_how_many_answers_were_not_compared():
    text = page([row("m1"), row("m2", **UNKNOWN), row("m3", **UNKNOWN)]).texts[""]
    assert "3 runs of 1 method on 3 models of 1 family: all of them answered, 2 answers not compared." in text
    text = page([row("m1"), row("m2", **UNKNOWN), row("m3", status="crashed")]).texts[""]
    assert "1 family: 1 run without an answer, 1 answer not compared." in text
    assert "not compared" not in page([row("m1"), row("m2", status="crashed")]).texts[""]


def test_runs_without_an_answer_are_listed_with_what_was_said():
    found = page()
    assert found.line("loopy", "Grids", "m2", "crashed")[-1] == "Ended <b>early</b> & without a word."
    assert "wall seconds" in found.line("method", "family")
    assert "Every method answered every model" in page([row()]).texts["unanswered"]


def test_what_was_not_run_is_a_line_for_each_method_after_what_failed():
    rows = [
        row("m1", "loopy", status="crashed"),
        *(row(f"m{number}") for number in range(1, 5)),
        *(row(f"c{number}", family="CSP") for number in range(2)),
    ]
    found = page(rows)
    assert found.line("loopy", "5 of 6")[2:] == ["Grids 3, CSP 2"]
    ends = [line[1] for line in found.lines if "loopy" in line[0]]
    assert ends.index("Grids") < ends.index("5 of 6")
    assert "not run" not in [cell for line in found.lines for cell in line[3:4]]
    assert "not run" not in page(ROWS[:6]).texts["unanswered"]
    # Where nothing failed there is no table of failures.
    assert "what was said" not in page([*rows[1:], row("m1", "loopy")]).texts["unanswered"]


def test_the_worst_come_first_with_the_steps_that_lost_most():
    found = page()
    worst = found.texts["worst"]
    first = "m2 of Grids: HD_max 0.30; stated 0.010, at most 0.050, beyond its limit in 1.0 s"
    assert worst.index(first) < worst.index("m1 of Grids: HD_max 0.020; stated 0.010, at most 0.050 in 1.0 s")
    assert "m3" not in worst
    assert "did not converge" in worst
    steps = [line for line in found.lines if len(line) == 9 and line[0] == "0"]
    assert len(steps) == 12
    assert steps[0][:8] == ["0", "19", "9", "5", "11.5", "12", "4.8", "0.010"]
    assert "8 more lost less" in worst
    assert "and 1 with smaller errors" in page(worst=1).texts["worst"]


def test_what_an_answer_is_made_of_is_told_with_two_digits():
    def worst(**figures):
        return page([approximate(true=0.3, **figures)]).texts["worst"]

    told = worst(loss_nats=0.12345, worst_loss_nats=0.0456, spread=0.0321, delta_log10_z=-0.12345)
    assert "loss in nats 0.12; of it by the ten variables that lost most 0.046;" in told
    assert "spread of the alternatives 0.032" in told
    assert "log10 Z off by −0.12" in told
    assert "log10 Z off by +3.0E-4" in worst(delta_log10_z=3e-4)
    assert "ten variables" not in worst(loss_nats=0.1, worst_loss_nats=0.1)
    assert "ten variables" not in worst()
    # One alternative has no spread.
    assert "spread" not in worst(alternatives=1, spread=0.0)


def test_answers_are_beyond_their_limits_only_where_the_truth_is_known_well_enough():
    few = {"true": 5e-4, "typical": 1e-5, "upper": 1e-4}
    assert "beyond its limit" in page([approximate(**few)]).texts["worst"]
    assert "beyond its limit" not in page([approximate(reference="official-6-digits", **few)]).texts["worst"]
    assert "beyond its limit" not in page([approximate(true=0.02)]).texts["worst"]


def test_the_gauge_is_judged_by_family_and_by_method():
    found = page()
    assert found.line("Grids", "2")[2:] == ["1 (50 %)", "–", "16"]
    assert found.line("ibia:bound=12", "2")[2:] == ["1 (50 %)", "–", "16"]
    # Each solver by itself: another one says nothing of it.
    both = page([*ROWS, approximate("m1", "paper:bound=8", true=0.9)])
    assert both.line("Grids", "2")[2] == "1 (50 %)"
    assert both.line("Grids", "1")[2] == "0 (0 %)"
    assert "3" not in [line[1] for line in both.lines if line[0] == "all" and len(line) == 5]
    # A rank correlation of few answers is not shown.
    for count, correlation in ((9, "–"), (10, "1.00")):
        rows = [approximate(f"m{number}", typical=0.01 * number, true=0.01 * number) for number in range(1, count + 1)]
        assert page(rows).line("Grids", str(count))[3] == correlation
    assert "No answer that is not exact" in page([row()]).texts["calibration"]


def test_mixed_versions_are_told():
    assert "several versions" not in page().texts["methods"]
    assert "several versions of ibia" in page([row("m1"), {**row("m2"), "version": "2"}]).texts["methods"]
    other = {**row("m1", "ibia:bound=15"), "version": "2"}
    assert "several versions of ibia" in page([row("m1"), other]).texts["methods"]


def test_rows_of_older_benches_and_of_models_without_answers_will_do():
    bare = {key: value for key, value in row(hd_max=None).items() if key not in ("at", "variables", "factors")}
    found = page([bare, row("m2", status="crashed")])
    assert found.line("Grids", "ibia:bound=12")[2:5] == ["1 of 2; 0 of 2 compared", "–", "–"]


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "report", *map(str, arguments)])
    return ended.value.code


def test_the_command_writes_the_page(tmp_path, capsys):
    path, out = tmp_path / "results.jsonl", tmp_path / "report.html"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ROWS))
    assert call(path, "-o", out, "--title", "Mine & yours", "--worst", "1") == 0
    printed = capsys.readouterr().out
    assert "7 runs of 2 methods on 4 models" in printed
    assert "1 pair of method and model not run" in printed
    assert "Mine & yours" in Page(out.read_text(encoding="utf-8")).texts[""]
    assert call(path, "-o", out, "--solver", "loopy", "--solver", "paper") == 0
    assert "4 runs of 1 method on 4 models" in capsys.readouterr().out
    assert call(tmp_path / "absent.jsonl", "-o", out) == 1
    capsys.readouterr()
    assert call(path, "-o", out, "--worst", "-1") == 1
    assert "--worst -1: expected how many of the worst answers to show, 0 or more" in capsys.readouterr().err
    assert call(path, "-o", out, "--worst", "0") == 0


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


def drawn_on(rows):
    """Return the papers that the figures of rows are drawn on."""
    agg = pytest.importorskip("matplotlib.backends.backend_agg")
    from matplotlib.figure import Figure as Paper

    papers = {}
    for figure in all_figures(order_rows(rows)):
        papers[figure.name] = paper = Paper(dpi=130)
        agg.FigureCanvasAgg(paper)
        pictures._draw(figure, paper)
    return papers


def test_titles_and_legends_of_pictures_cover_nothing():
    options = "order=elimination,update=links,loss=mi"
    rows = [
        approximate(f"m{number}", f"ibia:bound={bound},{options}", f"family {number}")
        for bound in range(8, 18)
        for number in range(7)
    ]
    papers = drawn_on(rows)
    assert len(papers) == 4
    for paper in papers.values():
        renderer = paper.canvas.get_renderer()
        (legend,), (title,) = paper.legends, paper.texts
        around = legend.get_window_extent(renderer)
        assert around.x0 >= 0
        assert around.x1 <= paper.bbox.width
        for plot in paper.axes:
            found = plot.get_tightbbox(renderer)
            if found is not None:
                assert found.y0 >= around.y1 - 1
                assert found.y1 <= title.get_window_extent(renderer).y0 + 1
    # Where several names fit into a line they share it.
    assert papers["gauge"].legends[0]._ncols > 1


def test_lines_of_the_same_colour_have_other_dashes_in_pictures():
    rows = [row("m1", f"ibia:bound={bound}") for bound in range(8, 17)]
    plot = drawn_on(rows)["models-against-time"].axes[0]
    first, last = plot.lines[1], plot.lines[9]
    assert first.get_color() == last.get_color()
    assert (first.get_linestyle(), last.get_linestyle()) == ("-", "--")
