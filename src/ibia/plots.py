"""Pictures of a result, with matplotlib: marginals, against those before if there are any, and the sequence of forests.

Figures are made without pyplot, so nothing is kept open behind the caller's back; notebooks show them all the same.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ibia.compare import changes, worth_seeing
from ibia.errors import InputError
from ibia.optional import require
from ibia.result import Result

__all__ = ["plot_marginals", "plot_steps"]

_SHOWN_VARIABLES = 12
_SHOWN_STATES = 8
_COLUMNS = 3
_LONGEST_NAME = 28
_AFTER, _BEFORE, _LIMIT = "#3b75af", "#b9c4cf", "#c8553d"


def plot_marginals(result: Result, prior: Result | None, variables: Sequence[str | int] | None) -> Any:
    """Return a figure with bars for the marginals of some variables, and for those of another result behind them.

    Parameters
    ----------
    variables
        Which ones; None: those that differ most from `prior`, or else those most worth seeing.
    """
    numbers = _chosen(result, prior, variables)
    rows = math.ceil(len(numbers) / _COLUMNS)
    columns = min(len(numbers), _COLUMNS)
    tallest = max(min(result.model.cardinalities[number], _SHOWN_STATES) for number in numbers)
    figure = _figure(3.6 * columns, rows * (0.7 + 0.24 * tallest) + (0.4 if prior is not None else 0.0))
    for place, number in enumerate(numbers):
        axes = figure.add_subplot(rows, columns, place + 1)
        _draw_marginal(axes, result, prior, number)
        # The same for all, so that bars are equally thick.
        axes.set_ylim(tallest - 0.4, -0.6)
    if prior is not None:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _chosen(result: Result, prior: Result | None, variables: Sequence[str | int] | None) -> list[int]:
    if variables is not None:
        numbers = [result.model.index(variable) for variable in variables]
    elif prior is not None:
        numbers = [result.model.index(change.variable) for change in changes(result, prior)[:_SHOWN_VARIABLES]]
    else:
        numbers = worth_seeing(result, _SHOWN_VARIABLES)
    if not numbers:
        raise InputError("There is no variable to plot: all are observed, certain, or left out.")
    return numbers


def _draw_marginal(axes: Any, result: Result, prior: Result | None, number: int) -> None:
    variable, after = result.model.variables[number], result.marginals[number]
    states = list(range(variable.cardinality))
    if len(states) > _SHOWN_STATES:
        states = sorted(np.argsort(-after, kind="stable")[:_SHOWN_STATES].tolist())
    places = np.arange(len(states), dtype=np.float64)
    if prior is None:
        axes.barh(places, after[states], 0.8, color=_AFTER)
    else:
        axes.barh(places - 0.21, prior.marginals[number][states], 0.4, color=_BEFORE, label="before")
        axes.barh(places + 0.21, after[states], 0.4, color=_AFTER, label="after")
    # Names are texts, not formulas, whatever signs they hold.
    axes.set_yticks(range(len(states)), [_short(variable.states[state]) for state in states], parse_math=False)
    left = f" ({len(states)} of {variable.cardinality} states)" if len(states) < variable.cardinality else ""
    axes.set_title(f"{_short(variable.name)}{left}", fontsize="medium", parse_math=False)
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize="small")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def plot_steps(result: Result) -> Any:
    """Return a figure of the longest sequence of forests: sizes of the largest cliques, numbers of cliques, losses."""
    if not result.steps:
        answered = "loopy propagation, which has none," if result.loopy else "simplification alone"
        raise InputError(f"There are no steps to plot: {answered} answered.")
    component = max(result.steps, key=lambda step: (step.step, -step.component)).component
    steps = [step for step in result.steps if step.component == component]
    places = [step.step for step in steps]
    figure = _figure(min(max(4.5, 0.35 * len(steps)), 14), 5.6)
    sizes, counts, losses = figure.subplots(3, 1, sharex=True)
    sizes.bar(places, [step.largest_bits for step in steps], color=_AFTER)
    ends = [place - 0.5 for place in places], [place + 0.5 for place in places]
    sizes.hlines([step.bound for step in steps], *ends, color=_LIMIT, linestyle="--", label="bound")
    sizes.set_ylabel("largest clique (bits)")
    sizes.legend(frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)
    counts.bar(places, [step.cliques for step in steps], color=_AFTER)
    counts.set_ylabel("cliques")
    losses.bar(places, [step.loss for step in steps], color=_LIMIT)
    losses.set_ylabel("loss (nats)")
    if any(step.loss > 0 for step in steps):
        losses.set_yscale("log")
    else:
        losses.set_yticks([0], ["none"])
        losses.set_ylim(0, 1)
    losses.set_xlabel("forest in the sequence")
    losses.set_xticks(places[:: math.ceil(len(places) / 15)])
    # A few forests should not be as wide as many.
    losses.set_xlim(-0.6, max(len(places), 6) - 0.4)
    several = len({step.component for step in result.steps})
    lost = math.fsum(step.loss for step in steps)
    title = f"{len(steps)} {'forest' if len(steps) == 1 else 'forests'}, {lost:.3g} nats lost"
    figure.suptitle(f"{title} (the longest of {several} sequences)" if several > 1 else title, fontsize="medium")
    for axes in (sizes, counts, losses):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure


def _figure(width: float, height: float) -> Any:
    return _figures()(figsize=(width, height), layout="constrained")


@cache
def _figures() -> Any:
    """Return matplotlib's figures that notebooks can show without pyplot."""

    class ShownFigure(require("matplotlib.figure", "matplotlib", "plot").Figure):  # type: ignore[misc]
        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return ShownFigure


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
