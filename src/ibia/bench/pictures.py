"""Figures as PNG files, drawn by matplotlib, which is needed for nothing else.

Draws what `charts` describes, in the same colours, shapes and dashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from ibia.bench.charts import LIGHT, SHAPES, Axis, Chart, Figure, Kind, Series, dashes_of, shape_of
from ibia.errors import InputError, UnavailableError
from ibia.formats.whole import replace_file

__all__ = ["write_pictures"]

_MARKERS = dict(zip(SHAPES, ("o", "s", "^", "D", "v", "P"), strict=True))
_GREY, _GRID, _INK = "#5b626d", "#dfe2e7", "#1d2026"
# Charts side by side.
_ACROSS = 3
# In inches: a chart, the title of the figure, a line of the legend.
_WIDTH, _HEIGHT, _TITLE, _KEY = 4.0, 2.9, 0.4, 0.24
_DOTS_PER_INCH = 130
# Where points without a value stand, above the axes.
_ABOVE = 1.05

_STYLES: dict[Kind, dict[str, Any]] = {
    "dots": {"linestyle": "none", "markersize": 5, "alpha": 0.5, "markeredgewidth": 0},
    "large": {"linestyle": "none", "markersize": 10, "markeredgecolor": "white", "markeredgewidth": 1},
    "crosses": {"linestyle": "none", "marker": "x", "markersize": 6, "markeredgewidth": 1.6},
    "line": {"linewidth": 1.8},
    "steps": {"linewidth": 1.8, "drawstyle": "steps-post"},
    "thin": {"linewidth": 0.8, "alpha": 0.35},
    "dashed": {"linewidth": 1.1, "linestyle": (0, (4, 3))},
}


def write_pictures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write a PNG file for each figure, and return where they are."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Paper
    except ImportError:
        raise UnavailableError(
            "Pictures need matplotlib, which is not installed: pip install 'ibia[plot]'. The page needs nothing."
        ) from None
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            paper = Paper(dpi=_DOTS_PER_INCH)
            FigureCanvasAgg(paper)
            _draw(figure, paper)
            path = folder / f"{figure.name}.png"
            # No version of the program in the file: the same results give the same picture.
            picture = BytesIO()
            paper.savefig(picture, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
            replace_file(path, picture.getvalue())
            paths.append(path)
    except OSError as error:
        raise InputError(f"{error.filename or folder} cannot be written: {error.strerror}.") from None
    return paths


def _draw(figure: Figure, paper: Any) -> None:
    across = min(len(figure.charts), _ACROSS)
    down = math.ceil(len(figure.charts) / across)
    width = across * _WIDTH * (1.0 if across == _ACROSS else 1.4)
    height = down * _HEIGHT * (1.0 if across == _ACROSS else 1.3)
    paper.set_size_inches(width, height)
    below = _KEY * (_draw_legend(figure, paper) + 0.4)
    height += _TITLE + below
    paper.set_size_inches(width, height)
    axes = paper.subplots(down, across, squeeze=False)
    for place, plot in enumerate(axes.flat):
        if place < len(figure.charts):
            _draw_chart(figure.charts[place], plot)
        else:
            plot.set_axis_off()
    title = {"ha": "left", "va": "top", "fontsize": 13, "fontweight": "bold", "color": _INK}
    paper.text(0.15 / width, 1.0 - 0.15 / height, figure.title, **title)
    paper.tight_layout(rect=(0, below / height, 1, 1.0 - _TITLE / height))


def _draw_legend(figure: Figure, paper: Any) -> int:
    """Draw the legend in as few lines as the width of the paper allows, and return how many."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=name, **_key(kinds, style)) for name, style, kinds in figure.keys]
    choices = {"handles": handles, "loc": "lower center", "frameon": False, "fontsize": 9, "handlelength": 2.6}
    lines = 1
    while True:
        columns = math.ceil(len(handles) / lines)
        legend = paper.legend(ncols=columns, **choices)
        if columns == 1 or legend.get_window_extent(paper.canvas.get_renderer()).width <= paper.bbox.width:
            return math.ceil(len(handles) / columns)
        legend.remove()
        lines += 1


def _key(kinds: Sequence[Kind], style: int | None) -> dict[str, Any]:
    """Return what a style looks like in the legend; of a line with marks, the line comes first and is kept."""
    return {name: value for kind in reversed(kinds) for name, value in _style(kind, style).items()}


def _style(kind: Kind, style: int | None) -> dict[str, Any]:
    dashes = dashes_of(kind, style)
    chosen: dict[str, Any] = {"color": _GREY if style is None else LIGHT[style % len(LIGHT)]}
    chosen["linestyle"] = (0, dashes) if dashes else "solid"
    if kind in ("dots", "large"):
        chosen["marker"] = _MARKERS[shape_of(style)]
    return {**chosen, **_STYLES[kind]}


def _draw_chart(chart: Chart, plot: Any) -> None:
    for series in chart.series:
        _draw_series(chart, series, plot)
    for axis, direction in ((chart.x, "x"), (chart.y, "y")):
        if axis.logarithmic:
            getattr(plot, f"set_{direction}scale")("log")
        getattr(plot, f"set_{direction}lim")(*_limits(axis))
        getattr(plot, f"set_{direction}ticks")([value for value, _ in axis.ticks], [words for _, words in axis.ticks])
        getattr(plot, f"set_{direction}label")(axis.label, color=_GREY, fontsize=9)
    plot.minorticks_off()
    plot.set_title(chart.title, loc="left", fontsize=10, color=_INK, pad=16 if chart.has_strip else 6)
    if chart.has_strip:
        beside = {"transform": plot.transAxes, "ha": "right", "va": "center"}
        plot.text(-0.02, _ABOVE, chart.strip, fontsize=8, color=_GREY, **beside)
    plot.grid(axis="y", color=_GRID, linewidth=0.8)
    plot.set_axisbelow(True)
    for side in ("top", "right", "left"):
        plot.spines[side].set_visible(False)
    plot.spines["bottom"].set_color(_GRID)
    plot.tick_params(length=0, colors=_GREY, labelsize=8.5)


def _limits(axis: Axis) -> tuple[float, float]:
    """Return the ends of an axis, a little wider so that marks at the ends are whole."""
    if axis.logarithmic:
        margin = (axis.high / axis.low) ** 0.02
        return axis.low / margin, axis.high * margin
    margin = 0.02 * (axis.high - axis.low)
    return axis.low - margin, axis.high + margin


def _draw_series(chart: Chart, series: Series, plot: Any) -> None:
    style = _style(series.kind, series.style)
    known = [(point.x, point.y) for point in series.points if point.y is not None]
    if known:
        x = [min(max(value, chart.x.low), chart.x.high) for value, _ in known]
        y = [min(max(value, chart.y.low), chart.y.high) for _, value in known]
        plot.plot(x, y, clip_on=False, **style)
    missing = [point.x for point in series.points if point.y is None]
    if missing:
        above = plot.get_xaxis_transform()
        crosses = _style("crosses", series.style)
        plot.plot(missing, [_ABOVE] * len(missing), transform=above, clip_on=False, **crosses)
