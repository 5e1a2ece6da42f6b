"""The paper's published figures beside ours, in a report: errors by family, and of the models that it names.

Knows the figures that `tables` holds and how they look. What the paper's own limits give is shown by the command
``ibia bench table``.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ibia.bench.apart import Row
from ibia.bench.parts import cell, line, named, shown_error, shown_seconds, table
from ibia.bench.report import mean
from ibia.bench.summary import Instance, Results
from ibia.bench.tables import published

__all__ = ["beside_the_paper"]

# The longest limit, in minutes, that the columns of all methods are shown for; after it only the paper's own.
_SHORT, _OWN = 2, "IBIA"


def beside_the_paper(results: Results) -> str:
    """Return the section; nothing if none of the paper's models or families is there."""
    known = _known_answers(results)
    parts = [_family_part(results, known), _named_part(results, known)]
    if not any(parts):
        return ""
    words = (
        "Published figures are of the authors' own machine, within the minutes that stand with them; ours are within "
        "the limits of the runs. A dash: nothing published, as not all models of the set were solved, or no answer."
    )
    return f'<p>{words}</p>{"".join(parts)}<p class="faint">{escape(published()["source"])}</p>'


def _known_answers(results: Results) -> dict[Instance, dict[str, Row]]:
    """Return the answers by method, of all models whose true marginals are known."""
    found: dict[Instance, dict[str, Row]] = {}
    for run in results.runs:
        if run.error is not None and run.answer is not None:
            answers = found.setdefault(run.instance, {})
            # Loopy propagation that stands in for ibia is no answer of it.
            if not run.answer.get("loopy"):
                answers[run.method] = run.answer
    return found


def _family_part(results: Results, known: dict[Instance, dict[str, Row]]) -> str:
    theirs = published()["tables"]["smallInst"]
    places = [
        place
        for place, entry in enumerate(theirs["columns"])
        if entry["minutes"] <= _SHORT or entry["method"].startswith(_OWN)
    ]
    lines = []
    for family, figures in theirs["families"].items():
        # The paper's networks of some families have no evidence; ours may be there with and without.
        members = [
            answers
            for instance, answers in known.items()
            if instance.family == family and not (figures["evidence"] == 0 and _is_observed(answers))
        ]
        if members:
            lines.append(_family_line(results, family, figures, places, members))
    if not lines:
        return ""
    headings = [_titled(theirs["columns"][place]) for place in places]
    ours = [named(results, method) for method in results.methods]
    words = (
        "<h3>Errors by family: HD_avg / HD_max</h3><p>Means over the models with known marginals: published ones over "
        "all of the paper's set, ours over those here, whose numbers stand side by side.</p>"
    )
    return words + table(["family", "here / published", *headings, *ours], lines)


def _is_observed(answers: dict[str, Row]) -> bool:
    return any(row.get("observed") for row in answers.values())


def _titled(column: dict[str, Any]) -> str:
    return f"{escape(column['method'])},<br>{column['minutes']} min"


def _family_line(
    results: Results, family: str, figures: dict[str, Any], places: Sequence[int], members: Sequence[dict[str, Row]]
) -> str:
    cells = [cell(escape(family), "left"), cell(f"{len(members)} / {figures['instances']}")]
    cells += [_pair(figures["hd_avg"][place], figures["hd_max"][place]) for place in places]
    for method in results.methods:
        rows = [answers[method] for answers in members if method in answers]
        if not rows:
            cells.append(cell("–", "faint"))
            continue
        count = "" if len(rows) == len(members) else f" ({len(rows)} of {len(members)})"
        cells.append(_pair(mean(row["hd_avg"] for row in rows), mean(row["hd_max"] for row in rows), count))
    return line(cells)


def _pair(average: float | None, largest: float | None, count: str = "") -> str:
    if average is None or largest is None:
        return cell("–", "faint")
    return cell(f"{shown_error(average)} / {shown_error(largest)}{count}", "alarm" if count else "")


def _named_part(results: Results, known: dict[Instance, dict[str, Row]]) -> str:
    theirs = published()["tables"]["arb"]["instances"]
    methods = tuple(next(iter(theirs.values()))["hd_max"])
    lines = []
    for name, figures in theirs.items():
        for instance, answers in known.items():
            if instance.name == name:
                cells = [cell(escape(name), "left")]
                cells += [_timed(figures["hd_max"][method], figures["seconds"].get(method)) for method in methods]
                cells += [_own(answers.get(method)) for method in results.methods]
                lines.append(line(cells))
    if not lines:
        return ""
    ours = [named(results, method) for method in results.methods]
    words = "<h3>Models that the paper names: HD_max (seconds)</h3>"
    return words + table(["model", *map(escape, methods), *ours], lines)


def _timed(error: float | None, seconds: float | None) -> str:
    if error is None:
        return cell("–", "faint")
    return cell(shown_error(error) + ("" if seconds is None else f" ({shown_seconds(seconds)} s)"))


def _own(row: Row | None) -> str:
    return _timed(None, None) if row is None else _timed(row["hd_max"], row["seconds"])
