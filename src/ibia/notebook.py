"""A result as HTML, for notebooks: one piece of text with everything in it, no scripts and nothing to load."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from ibia.compare import worth_seeing
from ibia.result import Result, StepFigures

__all__ = ["result_html"]

_SHOWN_VARIABLES = 24
_SHOWN_STATES = 8
_SHOWN_STEPS = 60
# The gauge goes from here to 1, on a logarithmic scale.
_LEAST_ERROR = 1e-6

# Colours that can be read on light and dark pages; text keeps the colour of the page.
_STYLE = """
.ibia { font: 13px/1.45 system-ui, sans-serif; max-width: 60em; }
.ibia .line { margin: 3px 0; }
.ibia .dim { opacity: .65; }
.ibia .gauge { position: relative; height: 10px; width: 24em; max-width: 100%; margin: 6px 0 2px; border-radius: 5px;
  background: linear-gradient(to right, #3a9d5d, #d9b33c 60%, #c8553d); }
.ibia .gauge i { position: absolute; top: -3px; bottom: -3px; border: 2px solid currentColor; border-radius: 3px; }
.ibia .cards { margin: 8px 0; display: grid; gap: 8px 18px;
  grid-template-columns: repeat(auto-fill, minmax(17em, 1fr)); }
.ibia .name { font-weight: 600; overflow-wrap: anywhere; }
.ibia .state { display: grid; grid-template-columns: 6.5em 1fr 4em; gap: 6px; align-items: center; }
.ibia .state > span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.ibia .state > span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.ibia .track { background: #8883; border-radius: 2px; height: 9px; }
.ibia .track b { display: block; background: #4c82b8; border-radius: 2px; height: 9px; }
.ibia table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.ibia th, .ibia td { padding: 1px 10px 1px 0; text-align: right; border: 0; background: none; }
.ibia summary { cursor: pointer; }
"""


def result_html(result: Result) -> str:
    """Return a result as HTML: what was done, how good it is, bars of the marginals most worth seeing, the steps."""
    return (
        f'<div class="ibia"><style>{_STYLE}</style>'
        f"{_headline(result)}{_gauge(result)}{_marginals(result)}{_steps(result)}</div>"
    )


def _headline(result: Result) -> str:
    title = f"<b>{escape(result.model.name)}</b>: " if result.model.name else ""
    return (
        f'<div class="line">{title}{len(result.marginals)} variables, {len(result.evidence)} observed; '
        f"log<sub>10</sub> Z = {result.log10_z:.8g}</div>"
        f'<div class="line dim">{escape(result.size_in_words)}; '
        f"{result.seconds:.2f} s; bound: {escape(result.bound_reason)}</div>"
    )


def _gauge(result: Result) -> str:
    words = f'<div class="line">{escape(result.error.words)}</div>'
    if result.exact:
        return words
    first, last = _place(result.error.typical), _place(result.error.upper)
    title = f"off by about {result.error.typical:.1g}, likely by no more than {result.error.upper:.1g}"
    mark = f'<i style="left:{first:.1f}%;width:{max(last - first, 0.0):.1f}%;box-sizing:border-box"></i>'
    ends = f"{_LEAST_ERROR:g} … 1 (largest error of a marginal, Hellinger)"
    return f'{words}<div class="gauge" title="{title}">{mark}</div><div class="line dim">{ends}</div>'


def _place(error: float) -> float:
    """Return where an error is on the gauge, in percent."""
    return 100.0 * (1.0 - math.log10(max(error, _LEAST_ERROR)) / math.log10(_LEAST_ERROR))


def _marginals(result: Result) -> str:
    chosen = worth_seeing(result, _SHOWN_VARIABLES)
    observed = [
        f"{result.model.variables[number].name} = {result.model.variables[number].states[state]}"
        for number, state in list(result.evidence.items())[:_SHOWN_VARIABLES]
    ]
    seen = ""
    if observed:
        more = ", …" if len(result.evidence) > len(observed) else ""
        seen = f'<div class="line">observed: {escape(", ".join(observed))}{more}</div>'
    left = len(result.marginals) - len(result.evidence) - len(chosen)
    note = f'<div class="line dim">{left} more variables are not shown.</div>' if left else ""
    return f'{seen}<div class="cards">{"".join(_card(result, number) for number in chosen)}</div>{note}'


def _card(result: Result, number: int) -> str:
    variable, marginal = result.model.variables[number], result.marginals[number]
    states = list(range(variable.cardinality))
    if len(states) > _SHOWN_STATES:
        states = np.argsort(-marginal, kind="stable")[:_SHOWN_STATES].tolist()
    rows = "".join(_bar(variable.states[state], float(marginal[state])) for state in states)
    left = variable.cardinality - len(states)
    more = f'<div class="dim">and {left} more states</div>' if left else ""
    return f'<div><div class="name">{escape(variable.name)}</div>{rows}{more}</div>'


def _bar(state: str, probability: float) -> str:
    name = escape(state)
    track = f'<span class="track"><b style="width:{100.0 * probability:.2f}%"></b></span>'
    return f'<div class="state"><span title="{name}">{name}</span>{track}<span>{probability:.4f}</span></div>'


def _steps(result: Result) -> str:
    if not result.steps:
        return ""
    rows = "".join(_step(step) for step in result.steps[:_SHOWN_STEPS])
    left = len(result.steps) - _SHOWN_STEPS
    more = f'<div class="dim">and {left} more</div>' if left > 0 else ""
    heads = "".join(
        f"<th>{name}</th>" for name in ("component", "step", "cliques", "largest (bits)", "factors", "loss (nats)", "s")
    )
    count = "1 forest" if len(result.steps) == 1 else f"{len(result.steps)} forests"
    return (
        f'<details><summary class="dim">{count}, {result.sequence_length} in the longest sequence'
        f"</summary><table><tr>{heads}</tr>{rows}</table>{more}</details>"
    )


def _step(step: StepFigures) -> str:
    cells = (
        f"{step.component}",
        f"{step.step}",
        f"{step.cliques}",
        f"{step.largest_bits:.1f}",
        f"{step.factors}",
        f"{step.loss:.3g}",
        f"{step.seconds:.3f}",
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
