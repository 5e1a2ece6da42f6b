"""The families of a report: what each method achieved on the models of each, errors of all kinds.

Knows summaries and how they look; how they are made stands in `summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from ibia.bench.parts import cell, line, named, shown_error, shown_memory, shown_seconds, table
from ibia.bench.summary import EVERY_FAMILY, ROUNDING, Results, Summary, summarise

__all__ = ["families_table"]

# The figures of a summary that are errors.
_ERRORS = ("hd_avg", "hd_max", "worst", "log10_z")
_FURTHER_ERRORS = ("kl_avg", "kl_max", "absolute")


# The figures of a summary that methods are compared by, in the order of the columns, and how they are shown.
_SHOWN: dict[str, Callable[[float | None], str]] = {
    **dict.fromkeys(_ERRORS, shown_error),
    "seconds": shown_seconds,
    "memory": shown_memory,
}
# Those of the second table.
_FURTHER: dict[str, Callable[[float | None], str]] = dict.fromkeys(_FURTHER_ERRORS, shown_error)


def families_table(results: Results) -> str:
    """Return the table of families, and another one, to be opened, with further errors."""
    families = results.families
    groups = [(family, family) for family in families] + ([(EVERY_FAMILY, None)] if len(families) > 1 else [])
    lines, further = [], []
    for name, family in groups:
        summaries = [summarise(name, method, results.of(family, method)) for method in results.methods]
        best = {key: _best(summaries, key) for key in (*_SHOWN, *_FURTHER)}
        for place, summary in enumerate(summaries):
            lines.append(_summary_line(results, summary, best, first=not place))
            further.append(_further_line(results, summary, best, first=not place))
    words = (
        "Exact: how many answers nothing lossy was done for, by their own word; one that says so and is further from "
        "the reference than rounding brings it is not among them, but refuted. HD_avg and HD_max: means over the "
        "models of a family of the mean and the largest Hellinger distance of a marginal to the true one, which goes "
        "from 0 (the same) to 1 (nothing in common); worst: the largest of all. log<sub>10</sub> Z: its largest error; "
        "Z is the sum of the product of all factors, of a Bayesian network the probability of the evidence. Seconds: "
        "mean. Memory: the most of a run. Bold is best. Where not all models were answered, or not all answers "
        "compared with the truth, figures are over fewer models than those beside them; they are red and never best."
    )
    headings = ["family", "method", "answered", "exact", "HD_avg", "HD_max", "worst", "log<sub>10</sub> Z", "seconds"]
    first = table([*headings, "memory", "without an answer"], lines, left=(0, 1, 10))
    return f"<p>{words}</p>{first}{_further(further)}"


def _further(lines: Sequence[str]) -> str:
    words = (
        "KL_avg and KL_max: means over the models of the mean and the largest Kullback–Leibler divergence of an answer "
        "from the truth, in nats; it is infinite (∞) where an answer rules out a state that is possible: of how many "
        "variables in all stands under “ruled out”. Absolute: the largest error of a single probability."
    )
    found = table(["family", "method", "answered", "KL_avg", "KL_max", "absolute", "ruled out"], lines, left=(0, 1))
    heading = "Further errors: Kullback–Leibler divergence, largest absolute error"
    return f"<details><summary>{heading}</summary><p>{words}</p>{found}</details>"


def _best(summaries: Sequence[Summary], key: str) -> float | None:
    """Return the best figure of those methods whose figure is over every model."""
    values = [getattr(summary, key) for summary in summaries if summary.over[key] == summary.models]
    known: list[float] = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    return max(min(known), ROUNDING) if key in (*_ERRORS, *_FURTHER_ERRORS) else min(known)


def _summary_line(results: Results, summary: Summary, best: dict[str, float | None], *, first: bool) -> str:
    ended = ", ".join(f"{count} {status}" for status, count in summary.ended.items())
    cells = [
        *_beginning(results, summary, first=first),
        _exact(summary),
        *(_figure(summary, key, show, best[key]) for key, show in _SHOWN.items()),
        cell(escape(ended), "left alarm"),
    ]
    return line(cells, "first" if first else "")


def _exact(summary: Summary) -> str:
    if summary.refuted:
        return cell(f"{summary.exact}, {summary.refuted} refuted", "alarm")
    return cell(str(summary.exact) if summary.exact else "–", "" if summary.exact else "faint")


def _further_line(results: Results, summary: Summary, best: dict[str, float | None], *, first: bool) -> str:
    cells = [
        *_beginning(results, summary, first=first),
        *(_figure(summary, key, show, best[key]) for key, show in _FURTHER.items()),
        cell(str(summary.ruled_out) if summary.ruled_out else "–", "alarm" if summary.ruled_out else "faint"),
    ]
    return line(cells, "first" if first else "")


def _beginning(results: Results, summary: Summary, *, first: bool) -> list[str]:
    """Return the cells that say what a line is about, and over how many models."""
    answered = f"{summary.answered} of {summary.models}"
    if summary.compared < summary.answered:
        answered += f"; {summary.compared} of {summary.models} compared"
    is_whole = summary.compared == summary.models
    return [
        cell(escape(summary.family) if first else "", "left"),
        cell(named(results, summary.method), "left"),
        cell(answered, "" if is_whole else "alarm"),
    ]


def _figure(summary: Summary, key: str, show: Callable[[float | None], str], limit: float | None) -> str:
    """Return the cell of a figure; `limit` is the best one."""
    value, words = getattr(summary, key), show(getattr(summary, key))
    if value is None:
        return cell("–", "faint")
    count = summary.over[key]
    if count < summary.models:
        # How many were answered and how many compared stands at the beginning of the line.
        expected = summary.compared if key in (*_ERRORS, *_FURTHER_ERRORS) else summary.answered
        return cell(words if count == expected else f"{words} ({count} of {summary.models})", "alarm")
    # Digits that are not shown make nobody better.
    return cell(words, "best" if limit is not None and (value <= limit or words == show(limit)) else "")
