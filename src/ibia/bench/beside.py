"""The paper's published figures beside ours, in a report: each of its tables, of the models that results have.

Knows the figures that `tables` holds and how they look. What the paper's own limits give is shown by the command
``ibia bench table``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ibia.bench.apart import Row
from ibia.bench.parts import cell, line, named, shown_error, shown_seconds, table
from ibia.bench.report import mean
from ibia.bench.summary import Instance, Results, Run, known_marginals, split_bound
from ibia.bench.tables import TABLES, is_in_time, published, quoted

__all__ = ["beside_the_paper"]

# The longest limit, in minutes, that the columns of all methods are shown for; after it only the paper's own.
_SHORT, _OWN = 2, "IBIA"
_MINUTE = 60.0
# Of the models that are missing of a method that was run on others, so many are named.
_NAMED = 12

# The tables of errors that look the same.
_ERROR_TABLES = {"Errors by family": "smallInst", "Against IJGP-SampleSearch": "ijgpss"}

# Answers by method, of each model.
Answers = Mapping[Instance, Mapping[str, Row]]


@dataclass(frozen=True)
class Standing:
    """The models, answered or not, with their answers by method.

    Attributes
    ----------
    compared
        Models whose true marginals are known, with the answers that were compared.
    others
        Those where they are not, with all answers.
    unsaid
        Models of either of which rows do not say in which they belong.
    observed
        Models with evidence.
    """

    compared: Answers
    others: Answers
    unsaid: frozenset[Instance]
    observed: frozenset[Instance]


def beside_the_paper(results: Results) -> str:
    """Return the section; nothing if none of the paper's models or families is there."""
    standing = _standing(results)
    parts = {
        **{title: _error_part(results, standing, name, title) for title, name in _ERROR_TABLES.items()},
        "Topological against another order": _order_part(results, standing),
        "Large models": _share_part(results, standing),
        "Models that the paper names": _named_part(results, {**standing.compared, **standing.others}),
    }
    if not any(parts.values()):
        return ""
    words = (
        "Published figures are of the authors' own machine, within the minutes that stand with them; ours are within "
        "the limits of the runs. A dash: nothing published, as not all models of the set were solved, or no answer."
    )
    absent = [title for title, part in parts.items() if not part]
    last = [
        *([f"Of these tables of the paper there is no model here: {', '.join(absent)}."] if absent else []),
        *_unsaid_lines(standing),
        published()["source"],
    ]
    notes = "".join(f'<p class="faint">{escape(sentence)}</p>' for sentence in last)
    return f"<p>{words}</p>{''.join(parts.values())}{notes}"


def _standing(results: Results) -> Standing:
    """Return where the models stand: one that nobody answered counts, too."""
    answers: dict[Instance, dict[str, Row]] = {instance: {} for instance in results.instances}
    observed = set()
    for run in results.runs:
        # Loopy propagation that stands in for ibia is no answer of it.
        if run.answer is not None and not run.answer.get("loopy"):
            answers[run.instance][run.method] = run.answer
        if run.row is not None and run.row.get("observed"):
            observed.add(run.instance)
    compared: dict[Instance, Mapping[str, Row]] = {}
    others: dict[Instance, Mapping[str, Row]] = {}
    unsaid = set()
    large = published()["tables"]["numInst"]["families"]
    for instance, is_known in known_marginals(results).items():
        found = answers[instance]
        if is_known is None:
            unsaid.add(instance)
        if is_known or (is_known is None and instance.family not in large):
            # Of a model with a reference, answers may not have been compared.
            compared[instance] = {method: row for method, row in found.items() if row.get("hd_max") is not None}
        else:
            others[instance] = found
    return Standing(compared, others, frozenset(unsaid), frozenset(observed))


def _members(standing: Standing, found: Answers, family: str, figures: Mapping[str, Any]) -> Answers:
    """Return the models of a family of the paper."""
    # The paper's networks of some families have no evidence; ours may be there with and without.
    unobserved = figures.get("evidence") == 0
    return {
        instance: answers
        for instance, answers in found.items()
        if instance.family == family and not (unobserved and instance in standing.observed)
    }


def _part(
    results: Results,
    standing: Standing,
    found: Answers,
    name: str,
    headings: Sequence[str],
    cells: Callable[[Mapping[str, Any], Answers, Sequence[str]], Sequence[str]],
) -> str:
    """Return a table with a line for each family that is here, and what is missing in it; nothing if none is here.

    Parameters
    ----------
    name
        Of the paper's table.
    cells
        Makes those of a line, from the published figures of the family, its models, and our methods.
    """
    families = published()["tables"][name]["families"]
    here = {family: _members(standing, found, family, figures) for family, figures in families.items()}
    members = {instance: answers for models in here.values() for instance, answers in models.items()}
    if not members:
        return ""
    lacking = _lacking(results, members, name)
    methods = _shown_methods(lacking, members)
    lines = []
    for family, figures in families.items():
        if here[family]:
            first = [cell(escape(family), "left"), cell(f"{len(here[family])} / {figures['instances']}")]
            lines.append(line([*first, *cells(figures, here[family], methods)]))
    ours = [named(results, method) for method in methods]
    shown = table(["family", "here / published", *headings, *ours], lines)
    absent = ", ".join(family for family, models in here.items() if not models)
    return shown + _missing(results, members, lacking, f"No model here of {absent}." if absent else "")


def _lacking(results: Results, members: Answers, name: str) -> dict[str, int]:
    """Return the methods that have a place in a table of the paper, and how many of its models each was not run on.

    One with a bound that the table does not have was run for another table, unless it was run on most of the models.
    """
    bounds = {None, *(split_bound(column.solver)[1] for column in TABLES[name].columns)}
    found = {}
    for method in results.methods:
        missing = sum(1 for run in results.of(method=method) if run.instance in members and run.row is None)
        if split_bound(results.row_of(method)["solver"])[1] in bounds or not _is_most(missing, members):
            found[method] = missing
    return found


def _is_most(missing: int, members: Answers) -> bool:
    return 2 * missing > len(members)


def _shown_methods(lacking: Mapping[str, int], members: Answers) -> list[str]:
    """Return the methods that have a column in a table: those that were run on any of its models."""
    return [method for method, missing in lacking.items() if missing < len(members)]


def _missing(results: Results, members: Answers, lacking: Mapping[str, int], absent: str) -> str:
    """Return what a table lacks: a sentence about the paper's, and for each method models, each with how it ended.

    What methods were not run on is counted in one sentence for all that were not run on most models.

    Parameters
    ----------
    lacking
        How many models each method was not run on.
    """
    words = [absent] if absent else []
    hardly = {method for method, missing in lacking.items() if _is_most(missing, members)}
    for method in lacking:
        missing = [
            f"{run.instance.name} ({_outcome(run)})"
            for run in results.of(method=method)
            if run.instance in members
            and method not in members[run.instance]
            and (run.row is not None or method not in hardly)
        ]
        if missing:
            words.append(f"Missing of {method}: {_listed(missing)}.")
    if hardly:
        counts = [f"{method} ({lacking[method]} of {len(members)})" for method in lacking if method in hardly]
        words.append(f"Not run on most models: {', '.join(counts)}.")
    return "".join(f'<p class="faint">{escape(sentence)}</p>' for sentence in words)


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _outcome(run: Run) -> str:
    if run.answer is None:
        return run.status
    return "loopy propagation alone" if run.answer.get("loopy") else "not compared"


def _unsaid_lines(standing: Standing) -> list[str]:
    """Return a sentence about the models of the paper's families that may be in the wrong tables, if there are any."""
    members: set[Instance] = set()
    for name, entry in published()["tables"].items():
        found = standing.others if name == "numInst" else standing.compared
        for family, figures in entry.get("families", {}).items():
            members.update(_members(standing, found, family, figures))
    names = [instance.name for instance in sorted(standing.unsaid & members)]
    if not names:
        return []
    return [
        "Rows do not say whether the true marginals of these models are known, as they are older ones and no answer "
        "shows it; they count as large models where the paper has such of their family, else as models with known "
        f"marginals: {_listed(names)}."
    ]


def _error_part(results: Results, standing: Standing, name: str, title: str) -> str:
    theirs = published()["tables"][name]
    places = [
        place
        for place, entry in enumerate(theirs["columns"])
        if entry["minutes"] <= _SHORT or entry["method"].startswith(_OWN)
    ]

    def cells(figures: Mapping[str, Any], members: Answers, methods: Sequence[str]) -> list[str]:
        return [
            *(_theirs(figures["hd_avg"][place], figures["hd_max"][place]) for place in places),
            *_ours(members, methods, _mean_errors),
        ]

    headings = [_titled(theirs["columns"][place]) for place in places]
    words = (
        f"<h3>{title}: HD_avg / HD_max</h3><p>Means over the models with known marginals: published ones over all of "
        "the paper's set, ours over those here, whose numbers stand side by side.</p>"
    )
    found = _part(results, standing, standing.compared, name, headings, cells)
    return words + found if found else ""


def _titled(column: Mapping[str, Any]) -> str:
    return f"{escape(column['method'])},<br>{column['minutes']} min"


def _ours(members: Answers, methods: Sequence[str], figure: Callable[[Sequence[Row], str], str]) -> list[str]:
    """Return the cells of our methods, each made of its answers and a word if they are not all."""
    cells = []
    for method in methods:
        rows = [answers[method] for answers in members.values() if method in answers]
        count = "" if len(rows) == len(members) else f" ({len(rows)} of {len(members)})"
        cells.append(figure(rows, count) if rows else cell("–", "faint"))
    return cells


def _mean_errors(rows: Sequence[Row], count: str) -> str:
    return _pair(mean(row["hd_avg"] for row in rows), mean(row["hd_max"] for row in rows), count)


def _theirs(first: str | None, second: str | None) -> str:
    """Return the cell of a pair of published figures."""
    return cell("–", "faint") if first is None and second is None else cell(quoted(first, second))


def _pair(first: float | None, second: float, count: str) -> str:
    """Return the cell of a pair of our figures."""
    return cell(f"{shown_error(first)} / {shown_error(second)}{count}", "alarm" if count else "")


def _order_part(results: Results, standing: Standing) -> str:
    orders = {"NTP": "another order", "TP": "topological order"}

    def cells(figures: Mapping[str, Any], members: Answers, methods: Sequence[str]) -> list[str]:
        theirs = [_theirs(figures["delta_log10_z"][order], figures["hd_max"][order]) for order in orders]
        return [*theirs, *_ours(members, methods, _order_errors)]

    words = (
        "<h3>Topological against another order: largest error of log<sub>10</sub> Z / HD_max</h3><p>The largest of all "
        "models, and the mean over them.</p>"
    )
    headings = [f"{order},<br>{words}" for order, words in orders.items()]
    found = _part(results, standing, standing.compared, "mnVsBn", headings, cells)
    return words + found if found else ""


def _order_errors(rows: Sequence[Row], count: str) -> str:
    differences = [abs(row["delta_log10_z"]) for row in rows if row.get("delta_log10_z") is not None]
    return _pair(max(differences, default=None), mean(row["hd_max"] for row in rows), count)


def _share_part(results: Results, standing: Standing) -> str:
    families = published()["tables"]["numInst"]["families"]
    minutes = [int(text) for text in next(iter(families.values()))["solved_percent"]]

    def cells(figures: Mapping[str, Any], members: Answers, methods: Sequence[str]) -> list[str]:
        known = [cell(str(figures["solved_percent"][str(limit)])) for limit in minutes]
        return [*known, *(_shares(results, standing, members, method, minutes) for method in methods)]

    words = (
        "<h3>Large models: per cent answered</h3><p>Of the models without known marginals; ours within 2, 20 and 60 "
        "minutes as far as the limit of the runs goes, or within that limit where it is shorter.</p>"
    )
    headings = [f"published,<br>{limit} min" for limit in minutes]
    found = _part(results, standing, standing.others, "numInst", headings, cells)
    return words + found if found else ""


def _shares(results: Results, standing: Standing, members: Answers, method: str, minutes: Sequence[int]) -> str:
    """Return the cell of a method: per cent of its runs on some models that were answered, within each time they had.

    It says on how many of the models it was run, if not on all, and of how many it is not known if they belong there.
    """
    rows = [run.row for run in results.of(method=method) if run.instance in members and run.row is not None]
    if not rows:
        return cell("–", "faint")
    allowed = rows[0]["limits"].get("seconds")
    had = [limit * _MINUTE for limit in minutes if allowed is None or limit * _MINUTE <= allowed] or [allowed]
    found = [answers[method] for answers in members.values() if method in answers]
    shares = [100 * sum(1 for row in found if is_in_time(row, limit)) / len(rows) for limit in had]
    words = " / ".join(f"{share:.0f}" for share in shares)
    if had == [allowed] and allowed < minutes[0] * _MINUTE:
        words += f" within {allowed:g} s"
    unsaid = sum(1 for instance in members if instance in standing.unsaid)
    notes = [f"{len(rows)} of {len(members)}"] if len(rows) < len(members) else []
    notes += [f"{unsaid} perhaps not large"] if unsaid else []
    return cell(f"{words} ({'; '.join(notes)})" if notes else words, "alarm" if notes else "")


def _named_part(results: Results, answered: Answers) -> str:
    theirs = published()["tables"]["arb"]["instances"]
    methods = tuple(next(iter(theirs.values()))["hd_max"])
    members = {instance: answers for instance, answers in answered.items() if instance.name in theirs}
    if not members:
        return ""
    lacking = _lacking(results, members, "arb")
    ours = _shown_methods(lacking, members)
    lines = []
    for name, figures in theirs.items():
        for instance, answers in members.items():
            if instance.name == name:
                cells = [cell(escape(name), "left")]
                cells += [_timed(figures["hd_max"][method], figures["seconds"].get(method)) for method in methods]
                cells += [_own(answers.get(method)) for method in ours]
                lines.append(line(cells))
    words = "<h3>Models that the paper names: HD_max (seconds)</h3>"
    shown = table(["model", *map(escape, methods), *(named(results, method) for method in ours)], lines)
    here = {instance.name for instance in members}
    absent = ", ".join(name for name in theirs if name not in here)
    return words + shown + _missing(results, members, lacking, f"No answer here to {absent}." if absent else "")


def _timed(error: str | None, seconds: str | None) -> str:
    """Return the cell of a published error and time."""
    return cell(quoted(error) + ("" if seconds is None else f" ({seconds} s)"))


def _own(row: Row | None) -> str:
    if row is None:
        return cell("–", "faint")
    # There may be an answer without anything to compare it with.
    return cell(f"{shown_error(row.get('hd_max'))} ({shown_seconds(row['seconds'])} s)")
