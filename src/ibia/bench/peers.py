"""What solvers reach beside each other, family by family, as a Markdown table: the one of the README.

Figures of solvers that were run elsewhere, on partly other models, are in `peers.json` and stand in columns of their
own. Knows the rows of results; nothing of how they were measured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from ibia.bench.claims import claimed_wrongly
from ibia.bench.report import counted, markdown_line
from ibia.bench.run import UNSUITED
from ibia.bench.summary import NOT_RUN, Results, Run, comparable, natural_order, summarise
from ibia.errors import InputError

__all__ = ["peer_lines"]

_NOTHING = "–"
_EXACT = "exact"
_NOT_COMPARED = "not compared"


def peer_lines(results: Results) -> list[str]:
    """Return the lines of the table, and below it how long each method took, within which limits, and what it left out.

    Models whose true marginals are not known are not in it; what says of these that it is exact and is not, by log10 Z,
    is named all the same. Means are over the answers that were compared; where these are not all, the cell says how
    many of how many there are.
    """
    known = comparable(results)
    runs = [run for run in results.runs if run.instance in known]
    if not any(run.error is not None for run in runs):
        answered = {run.instance for run in results.runs if run.answer is not None}
        some, others = counted(len(answered), "model"), counted(len(results.instances) - len(answered), "model")
        raise InputError(
            f"Nothing can be compared: {some} answered and not compared, {others} without an answer; "
            "expected answers on models whose true marginals are known."
        )
    methods = [method for method in results.methods if any(run.method == method and run.row for run in runs)]
    families = sorted({run.instance.family for run in runs}, key=natural_order)
    elsewhere = [
        (name, peer["families"]) for name, peer in _elsewhere()["solvers"].items() if {*families} & {*peer["families"]}
    ]
    lines = [
        markdown_line(["family", "models", *methods, *(name for name, _ in elsewhere)]),
        f"|{'---|' * (2 + len(methods) + len(elsewhere))}",
    ]
    for family in families:
        members = [run for run in runs if run.instance.family == family]
        cells = [family, str(len({run.instance for run in members}))]
        cells += [_cell([run for run in members if run.method == method]) for method in methods]
        lines.append(markdown_line([*cells, *(_published(figures.get(family)) for _, figures in elsewhere)]))
    lines += [
        "",
        "Mean HD_avg / HD_max, or how many of the models are answered exactly. Seconds, mean and largest:",
        "",
    ]
    lines += [f"- {_method_line(method, [run for run in runs if run.method == method])}" for method in methods]
    for method in results.methods:
        wrong = claimed_wrongly(run.answer for run in results.of(method=method) if run.answer is not None)
        if wrong:
            lines.append(f"- {method} says it is exact, and is not by the reference: {wrong}")
    if elsewhere:
        lines += [f"- {name}: {_elsewhere()['solvers'][name]['how']}" for name, _ in elsewhere]
    return lines


@cache
def _elsewhere() -> dict[str, Any]:
    """Return the figures of solvers that were run elsewhere."""
    text = resources.files("ibia.bench").joinpath("peers.json").read_text("utf-8")
    figures: dict[str, Any] = json.loads(text)["errors"]
    return figures


def _cell(runs: Sequence[Run]) -> str:
    """Return what a method achieved on the models of a family."""
    made = [run for run in runs if run.row is not None]
    if not made:
        return NOT_RUN
    if all(run.status == UNSUITED for run in made):
        return _NOTHING
    found = summarise("", "", made)
    lacking = found.answered - found.compared
    not_compared = f", {lacking} {_NOT_COMPARED}" if lacking else ""
    not_run = f", {len(runs) - len(made)} {NOT_RUN}" if len(made) < len(runs) else ""
    if found.exact == len(runs):
        # What nobody compared is exact by its own word alone.
        return f"all {_EXACT} ({lacking} {_NOT_COMPARED})" if lacking else f"all {_EXACT}"
    if found.exact == found.answered:
        # It has no answers but exact ones.
        return f"{found.exact} of {found.models}{not_compared}{not_run}"
    if found.hd_avg is None or found.hd_max is None:
        missing = f" ({found.answered} of {found.models}{not_run})" if not_run or not found.complete else ""
        return f"{_NOT_COMPARED}{missing}"
    is_over_fewer = not_compared or not_run or not found.complete
    missing = f" ({found.compared} of {found.models}{not_compared}{not_run})" if is_over_fewer else ""
    return f"{_number(found.hd_avg)} / {_number(found.hd_max)}{missing}"


def _published(figures: str | list[float] | None) -> str:
    if figures is None:
        return _NOTHING
    return figures if isinstance(figures, str) else " / ".join(map(_number, figures))


def _number(value: float) -> str:
    """Return an error with two digits."""
    if value == 0.0:
        return "0"
    return f"{value:.1E}".replace("E-0", "E-") if value < 1e-3 else f"{value:#.2g}"


def _seconds(value: float) -> str:
    """Return a time with two digits at least."""
    return f"{value:.0f} s" if value >= 10.0 else f"{value:#.2g} s"


def _method_line(method: str, runs: Sequence[Run]) -> str:
    """Return how long a method took, and what it may use."""
    made = [run.row for run in runs if run.row is not None]
    seconds = [run.answer["seconds"] for run in runs if run.answer is not None]
    words = [counted(len(seconds), "answer")]
    if seconds:
        words.append(f"{_seconds(sum(seconds) / len(seconds))} and {_seconds(max(seconds))}")
    words.append(f"limits {_limits(made[0]['limits'])}")
    return f"{method}: {'; '.join(words)}"


def _limits(limits: dict[str, Any]) -> str:
    time = "no time limit" if limits["seconds"] is None else f"{limits['seconds']:g} s"
    memory = "no memory limit" if limits["memory"] is None else f"{limits['memory'] / 1e9:g} GB"
    return f"{time}, {memory}, {counted(limits['threads'], 'thread')}"
