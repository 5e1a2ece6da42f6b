"""The report of a bench: one page of HTML with everything in it, which needs no network.

Shows the tables, the figures, what has no answer, and the worst answers with their steps. Knows how things look; what
they are is said by `summary`, `plots` and `calibration`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from ibia.bench.apart import Row
from ibia.bench.beside import beside_the_paper
from ibia.bench.calibration import Estimate, calibrate, estimates_of
from ibia.bench.charts import STYLE, Figure, svg, symbol_svg
from ibia.bench.claims import refutation
from ibia.bench.families import families_table
from ibia.bench.machine import machine_sentences
from ibia.bench.parts import cell, line, named, shown_error, shown_memory, shown_seconds, table
from ibia.bench.plots import all_figures
from ibia.bench.reference import OWN
from ibia.bench.report import counted
from ibia.bench.summary import (
    EVERY_FAMILY,
    ROUNDING,
    Instance,
    Results,
    Run,
    memory_of,
    program_of,
    says_nothing,
)

__all__ = ["extent", "gaps", "make_page"]

# A rank correlation of fewer answers is chance.
_FEWEST_RANKED = 10
# Of the steps of an answer, those that lost most.
_MOST_STEPS = 12

_PAGE_STYLE = (
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:1240px;padding:28px 24px 64px;background:var(--ground);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:44px 0 6px}h3{font-size:16px;margin:22px 0 6px}"
    "p{max-width:80ch;margin:6px 0 12px}p.faint,td.faint,.faint{color:var(--faint)}"
    "nav{margin:10px 0 0}nav a{margin-right:16px;display:inline-block;white-space:nowrap}a{color:var(--c0)}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:14px}"
    ".charts.few{grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),560px))}"
    ".charts>div{border:1px solid var(--line);border-radius:8px;padding:8px 8px 2px;background:var(--ground)}"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 18px;margin:4px 0 10px;padding:0;list-style:none}"
    ".legend li{display:flex;align-items:center;gap:5px}svg.key{flex:none;vertical-align:middle}"
    ".scroll{overflow-x:auto}.scroll+.scroll,.scroll+p{margin-top:22px}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}"
    "th,td{padding:3px 12px 3px 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}"
    "th{color:var(--faint);font-weight:600;vertical-align:bottom}"
    "th.left,td.left{text-align:left}td.words{white-space:normal;text-align:left;min-width:24ch}"
    "tr.first td{border-top:2px solid var(--line)}td.best{font-weight:700}"
    ".alarm{color:var(--alarm);font-weight:600}"
    "details{border:1px solid var(--line);border-radius:8px;margin:8px 0;padding:6px 12px}"
    "details[open]{padding-bottom:12px}summary{cursor:pointer}details table{margin-top:8px}"
    ".bar{display:inline-block;height:9px;background:var(--c0);border-radius:2px;vertical-align:middle}"
)


def make_page(results: Results, *, title: str = "ibia bench", worst: int = 8) -> str:
    """Return the page.

    Parameters
    ----------
    worst
        How many of the worst answers of each method are shown with their steps.
    """
    beside, refuted = beside_the_paper(results), _refuted(results)
    sections = [
        ("methods", "Methods", _methods(results)),
        ("tables", "Families", families_table(results)),
        *((figure.name, figure.title, _figure(figure)) for figure in all_figures(results)),
        *([("paper", "Beside the paper", beside)] if beside else []),
        ("calibration", "Calibration of the gauge", _calibration(results)),
        *([("refuted", "Said to be exact, and not so", refuted)] if refuted else []),
        ("unanswered", "Without an answer", _unanswered(results)),
        ("worst", "Worst answers first", _worst(results, worst)),
    ]
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{content}</section>' for name, heading, content in sections
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{_PAGE_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>{_overview(results)}<nav>{links}</nav>{body}</body></html>\n"
    )


def extent(results: Results) -> str:
    """Return how much was run."""
    runs = counted(len(results.runs) - results.missing, "run")
    methods, models = counted(len(results.methods), "method"), counted(len(results.instances), "model")
    return f"{runs} of {methods} on {models} of {counted(len(results.families), 'family', 'families')}"


def gaps(results: Results) -> str:
    """Return how much of what was run, or could have been, has no answer or none that was compared; else nothing."""
    unanswered = sum(1 for run in results.runs if run.answer is None) - results.missing
    told = [f"{counted(unanswered, 'run')} without an answer"] if unanswered else []
    if results.missing:
        told.append(f"{counted(results.missing, 'pair')} of method and model not run")
    lacking = sum(1 for run in results.runs if not run.is_judged)
    if lacking:
        told.append(f"{counted(lacking, 'answer')} not compared")
    return ", ".join(told)


def _overview(results: Results) -> str:
    ended = [run.row["at"] for run in results.runs if run.row is not None and "at" in run.row]
    found = [] if any(run.answer is None for run in results.runs) else ["all of them answered"]
    found += [f'<span class="alarm">{gaps(results)}</span>'] if gaps(results) else []
    state = ", ".join(found)
    first, last = (time[:16].replace("T", " ") for time in (min(ended, default=""), max(ended, default="")))
    when = f" Run from {first} to {last} UTC." if ended else ""
    older = f" {results.superseded} rows of earlier runs of the same are left out." if results.superseded else ""
    machine = " ".join(machine_sentences(run.row for run in results.runs if run.row is not None))
    return f'<p class="faint">{extent(results)}: {state}.{when}{older}{_origin(results)} {escape(machine)}</p>'


def _origin(results: Results) -> str:
    """Return sentences about whose the true answers are that may be of this package itself; nothing if none are."""
    own: set[Instance] = set()
    told: set[Instance] = set()
    untold: set[Instance] = set()
    for run in results.runs:
        row = run.row or {}
        if "reference_from" in row:
            told.add(run.instance)
            if row["reference_from"] == OWN:
                own.add(run.instance)
        elif run.answer is not None and row.get("reference") == "exact":
            # Older answers do not say it, but nobody else has true ones of generated models.
            (own if row.get("source") == "generated" else untold).add(run.instance)
    untold -= own | told
    words = f" True answers of {counted(len(own), 'model')} are those of ibia's exact engine." if own else ""
    if untold:
        words += f" Whose the true answers of {counted(len(untold), 'model')} are, older rows do not say."
    return words


def _methods(results: Results) -> str:
    lines = []
    for method in results.methods:
        limits = {_limits(run.row) for run in results.of(method=method) if run.row is not None}
        versions = results.versions(method)
        shown = ", ".join(
            f"{version} ({count})" if len(versions) > 1 else version for version, count in versions.items()
        )
        cells = (named(results, method), escape(shown), escape("; ".join(sorted(limits))))
        lines.append(line(cell(content, "left") for content in cells))
    words = (
        "A method is a solver with its options, and its limits where it was run with several. Of ibia: “bound” means "
        "that the largest table has 2<sup>bound</sup> numbers at most, “order” is that in which factors are taken in; "
        "without it several may be tried."
    )
    mixed = f"Runs of several versions of {', '.join(results.mixed)} are mixed; run the bench again for figures of one."
    alarm = f'<p class="alarm">{escape(mixed)}</p>' if results.mixed else ""
    return f"<p>{words}</p>{alarm}" + table(["method", "version", "limits of a run"], lines, left=(0, 1, 2))


def _limits(row: Row) -> str:
    limits = row["limits"]
    seconds = "no limit of time" if limits.get("seconds") is None else f"{limits['seconds']:g} s"
    memory = "no limit of memory" if limits.get("memory") is None else f"{limits['memory'] / 1e9:g} GB"
    threads = limits.get("threads", 1)
    return f"{seconds}, {memory}, {threads} thread{'s' * (threads != 1)}"


def _figure(figure: Figure) -> str:
    entries = [f"<li>{symbol_svg(style, kinds)} {escape(name)}</li>" for name, style, kinds in figure.keys]
    charts = "".join(f"<div>{svg(chart)}</div>" for chart in figure.charts)
    # One or two would fill the page.
    few = " few" if len(figure.charts) <= 2 else ""
    legend = f'<ul class="legend">{"".join(entries)}</ul>'
    return f'<p>{escape(figure.words)}</p>{legend}<div class="charts{few}">{charts}</div>'


def _calibration(results: Results) -> str:
    rows = [run.row for run in results.runs if run.row is not None]
    judged = [(run, entry) for run in results.runs if run.row is not None for _, entry in estimates_of([run.row])]
    if not judged:
        return "<p>No answer that is not exact states its error and has a known one.</p>"
    methods = {
        named(results, method): [entry for run, entry in judged if run.method == method] for method in results.methods
    }
    unknown = sum(1 for row in rows if row.get("exact") is False and says_nothing(row))
    words = (
        "Over answers that are not exact: how many true errors (HD_max) are within the stated upper limit, which "
        "promises 90 %; Spearman's rank correlation of the stated and the true error, where there are at least "
        f"{_FEWEST_RANKED} answers; the median of the true over the stated typical error (below 1: too careful). The "
        "command “ibia bench gauge” has more."
    )
    if unknown:
        left = counted(unknown, "answer is", "answers are")
        words += f" {left} left out: the reference has too few digits to tell the error."
    tables = [_judged_table("method", methods)]
    # How far one solver can be trusted says nothing of another.
    for solver in dict.fromkeys(program_of(run.method) for run, _ in judged):
        of_it = [(run.instance.family, entry) for run, entry in judged if program_of(run.method) == solver]
        families = {escape(family): [entry for place, entry in of_it if place == family] for family in results.families}
        families[EVERY_FAMILY] = [entry for _, entry in of_it]
        tables.append(f"<h3>{escape(solver)}</h3>{_judged_table('family', families)}")
    return f"<p>{escape(words)}</p>{''.join(tables)}"


def _judged_table(heading: str, groups: Mapping[str, Sequence[Estimate]]) -> str:
    """Return a table of how good the estimates of each group are; groups without any are left out."""
    lines = []
    for name, members in groups.items():
        found = calibrate(members)
        ranked = found.correlation is not None and found.answers >= _FEWEST_RANKED
        cells = [
            cell(name, "left"),
            cell(str(found.answers)),
            cell(f"{found.within} ({100 * (found.share or 0.0):.0f} %)"),
            cell(f"{found.correlation:.2f}" if ranked else "–", "" if ranked else "faint"),
            cell(shown_error(found.ratio)),
        ]
        if members:
            lines.append(line(cells, "first" if name == EVERY_FAMILY else ""))
    return table([heading, "answers", "within the limit", "rank correlation", "true / typical"], lines)


def _refuted(results: Results) -> str:
    """Return the answers that say they are exact and are not; nothing if there are none."""
    lines = []
    for run in sorted((run for run in results.runs if run.answer is not None), key=lambda run: _place(results, run)):
        words = refutation(run.answer or {})
        if words is not None:
            names = (named(results, run.method), escape(run.instance.family), escape(run.instance.name))
            lines.append(line([*(cell(name, "left") for name in names), cell(escape(words), "left alarm")]))
    if not lines:
        return ""
    words = (
        "Answers that say they are exact and are further from the reference than rounding brings them: a fault of the "
        "solver, or of the reference. They count as answers, and not as exact."
    )
    return f"<p>{words}</p>" + table(["method", "family", "model", "how far it is off"], lines, left=(0, 1, 2, 3))


def _unanswered(results: Results) -> str:
    runs = [run for run in results.runs if run.answer is None]
    if not runs:
        return "<p>Every method answered every model.</p>"
    ended = sorted((run for run in runs if run.row is not None), key=lambda run: _place(results, run))
    parts = []
    if ended:
        words = (
            "Runs that ended without an answer, and what they said. Wall seconds are those of the whole process, with "
            "its start and reading the model, so they may exceed the limit, which is on the solver alone."
        )
        headings = ["method", "family", "model", "how it ended", "wall seconds", "what was said"]
        lines = [_ended_line(results, run) for run in ended]
        parts.append(f"<p>{words}</p>" + table(headings, lines, left=(0, 1, 2, 3, 5)))
    if results.missing:
        words = "Models that a method was not run on; they count as models without an answer."
        lines = [_missing_line(results, method) for method in results.methods]
        parts.append(f"<p>{words}</p>" + table(["method", "not run", "of which families"], lines, left=(0, 2)))
    return "".join(parts)


def _place(results: Results, run: Run) -> tuple[int, str]:
    return results.methods.index(run.method), run.status


def _ended_line(results: Results, run: Run) -> str:
    row = run.row or {}
    cells = [
        cell(named(results, run.method), "left"),
        cell(escape(run.instance.family), "left"),
        cell(escape(run.instance.name), "left"),
        cell(escape(run.status), "left alarm"),
        cell(shown_seconds(row.get("wall_seconds"))),
        cell(escape(str(row.get("error", ""))), "words"),
    ]
    return line(cells)


def _missing_line(results: Results, method: str) -> str:
    """Return how many models a method was not run on, and of which families; nothing if it was run on all."""
    families = Counter(run.instance.family for run in results.of(method=method) if run.row is None)
    if not families:
        return ""
    told = ", ".join(f"{family} {count}" for family, count in families.items())
    share = f"{families.total()} of {len(results.instances)}"
    return line([cell(named(results, method), "left"), cell(share, "alarm"), cell(escape(told), "words")])


def _worst(results: Results, count: int) -> str:
    parts = [
        "<p>The answers with the largest HD_max of each method. Those of ibia open to show their steps: each is a "
        "forest of clique trees that was built, calibrated and made smaller. The steps that lost most come first. "
        "Component and step: which step of which connected part of the model, from 0; cliques: how many the forest "
        "has; factors: how many were added; bits: of the largest clique; bound: that in force; loss: nats that were "
        "lost by making the forest smaller; seconds: of the step.</p>"
    ]
    for method in results.methods:
        runs = [run for run in results.of(method=method) if run.error is not None and run.error > ROUNDING]
        runs = sorted(runs, key=lambda run: -(run.error or 0.0))
        if not runs:
            continue
        parts.append(f"<h3>{named(results, method)}</h3>")
        parts += [_run_details(run) for run in runs[:count]]
        if len(runs) > count:
            parts.append(f'<p class="faint">and {len(runs) - count} with smaller errors</p>')
    return "".join(parts)


def _run_details(run: Run) -> str:
    row = run.answer or {}
    stated = '; <span class="alarm">said to be exact</span>' if refutation(row) else ""
    if row.get("error_upper"):
        stated = f"; stated {shown_error(row['error_estimate'])}, at most {shown_error(row['error_upper'])}"
    if any(not estimate.within for _, estimate in estimates_of([row])):
        stated += ', <span class="alarm">beyond its limit</span>'
    heading = (
        f"<b>{escape(run.instance.name)}</b> of {escape(run.instance.family)}: HD_max {shown_error(run.error)}{stated} "
        f'<span class="faint">in {shown_seconds(row["seconds"])} s, {shown_memory(memory_of(row))}</span>'
    )
    return f"<details><summary>{heading}</summary>{_facts(row)}{_steps(row)}</details>"


def _facts(row: Row) -> str:
    observed = f", {row['observed']} of them observed" if row.get("observed") else ""
    facts = [f"{row.get('variables', '–')} variables{observed}, {row.get('factors', '–')} factors"]
    facts.append(f"HD_avg {shown_error(row.get('hd_avg'))}, worst at variable {row.get('worst_variable')}")
    difference = row.get("delta_log10_z")
    if difference is not None:
        facts.append(f"log10 Z off by {'−' if difference < 0.0 else '+'}{shown_error(abs(difference))}")
    is_apart = (row.get("worst_loss_nats") or 0.0) < (row.get("loss_nats") or 0.0)
    for key, name, is_told in (
        ("loss_nats", "loss in nats", True),
        ("worst_loss_nats", "of it by the ten variables that lost most", is_apart),
        ("first_inconsistency", "inconsistency after the first sweep", True),
        ("second_inconsistency", "after the second", True),
        ("inconsistency", "after the last", True),
        ("spread", "spread of the alternatives", row.get("alternatives", 0) > 1),
    ):
        if is_told and row.get(key) is not None:
            facts.append(f"{name} {shown_error(row[key])}")
    if row.get("orders"):
        facts.append(f"orders: {', '.join(row['orders'])}")
    if row.get("converged") is not None:
        facts.append("converged" if row["converged"] else "did not converge")
    return f'<p class="faint">{escape("; ".join(facts))}</p>'


# How the columns of steps are shown that are not whole numbers.
_STEP_SHOWN: dict[str, Callable[[float | None], str]] = {"loss": shown_error, "seconds": shown_seconds}


def _steps(row: Row) -> str:
    columns: list[str] = row.get("step_columns") or []
    steps: list[list[Any]] = row.get("step_figures") or []
    if not steps or "loss" not in columns:
        return ""
    loss = columns.index("loss")
    costly = sorted(steps, key=lambda step: -step[loss])[:_MOST_STEPS]
    largest = max(costly[0][loss], 1e-300)
    lines = []
    for step in costly:
        bar = f'<span class="bar" style="width:{max(160.0 * step[loss] / largest, 0.0):.0f}px"></span>'
        shown = (_STEP_SHOWN.get(name, "{:g}".format)(value) for name, value in zip(columns, step, strict=True))
        lines.append(line([*map(cell, shown), cell(bar, "left")]))
    note = f'<p class="faint">{len(steps) - len(costly)} more lost less.</p>' if len(steps) > len(costly) else ""
    return table([*map(escape, columns), ""], lines, left=()) + note
