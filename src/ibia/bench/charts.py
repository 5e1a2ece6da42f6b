"""Charts as plain data, and as SVG: axes, and series of points on them.

The SVG takes its colours from the page it stands in (`STYLE`), so that it is legible on light and on dark ground; each
point says what it is when the mouse rests on it. The first eight styles differ in colour; later ones repeat the colours
with other shapes and other dashes. Colour and shape together tell 48 styles apart, and so do colour and dashes; crosses
have only their colours. Knows nothing of results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

__all__ = [
    "DARK",
    "LIGHT",
    "SHAPES",
    "STYLE",
    "Axis",
    "Chart",
    "Figure",
    "Kind",
    "Point",
    "Series",
    "dashes_of",
    "linear_axis",
    "log_axis",
    "shape_of",
    "svg",
    "symbol_svg",
]

# After Okabe and Ito, darker on light ground and lighter on dark.
LIGHT = ("#0072b2", "#c84e00", "#007e5d", "#a8498c", "#8a6100", "#8822dd", "#8f2f2f", "#555555")
DARK = ("#56b4e9", "#ff8f4d", "#2ecc9b", "#e59ccb", "#f0b93a", "#9966ff", "#ff9d9d", "#b5b5b5")
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus")
# Of lines, in widths of the line; the next ones where colours repeat.
_DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (4.0, 1.5),
    (1.2, 1.2),
    (6.0, 1.2, 1.2, 1.2),
    (9.0, 3.0),
    (6.0, 1.2, 1.2, 1.2, 1.2, 1.2),
)

Kind = Literal["dots", "large", "line", "thin", "steps", "dashed", "crosses"]
_MARKED: tuple[Kind, ...] = ("dots", "large", "crosses")

_WIDTH, _HEIGHT = 440.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 76.0, 20.0, 32.0, 48.0
# Height of the strip above the plot where points without a value stand.
_STRIP = 24.0
_LINE_WIDTH = 2.2
_MOST_TICKS = 7
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes
    ----------
    low, high
        What it reaches from and to; values beyond are drawn at its ends.
    ticks
        Values with a label.
    """

    label: str
    low: float
    high: float
    logarithmic: bool
    ticks: tuple[tuple[float, str], ...]

    def place(self, value: float) -> float:
        """Return where a value lies, from 0 (low) to 1 (high)."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)


def log_axis(label: str, values: Iterable[float], lowest: float = 1e-300, highest: float = 1e300) -> Axis:
    """Return a logarithmic axis of whole decades for values.

    Parameters
    ----------
    lowest, highest
        It reaches no further; values beyond stand at its end, whose label says so.
    """
    known = [value for value in values if math.isfinite(value)] or [1.0]
    low = math.floor(math.log10(max(min(known), lowest)) + 1e-9)
    high = max(math.ceil(math.log10(min(max(*known, lowest), highest)) - 1e-9), low + 1)
    step = math.ceil((high - low) / (_MOST_TICKS - 1))
    # Both ends have a tick, since theirs say if there is more beyond; the last two may be further apart.
    ticks = [(10.0**power, _power(power)) for power in (*range(low, high - step + 1, step), high)]
    if high - low == 1:
        ticks[1:1] = [(factor * 10.0**low, f"{factor * 10.0**low:g}") for factor in (2, 5)]
    if min(known) < 10.0**low * (1 - 1e-9):
        ticks[0] = (ticks[0][0], f"≤ {ticks[0][1]}")
    if max(known) > 10.0**high * (1 + 1e-9):
        ticks[-1] = (ticks[-1][0], f"≥ {ticks[-1][1]}")
    return Axis(label, 10.0**low, 10.0**high, True, tuple(ticks))


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 3 else f"10{str(power).translate(_SUPERSCRIPTS)}"


def linear_axis(
    label: str, low: float, high: float, ticks: Sequence[float] | None = None, *, percent: bool = False
) -> Axis:
    """Return a linear axis.

    Parameters
    ----------
    ticks
        Values with a label; by default round ones.
    percent
        Whether values are shares, to be shown as per cent.
    """
    high = max(high, low + 1e-9)
    if ticks is None:
        rough = (high - low) / (_MOST_TICKS - 1)
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= rough * (1 - 1e-9))
        first = math.ceil(low / step - 1e-9)
        ticks = [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]
    shown = tuple((tick, f"{100 * tick:.0f} %" if percent else f"{tick:g}") for tick in ticks)
    return Axis(label, low, high, False, shown)


@dataclass(frozen=True)
class Point:
    """A point.

    Attributes
    ----------
    y
        None: there is no value; it stands in a strip above the plot.
    words
        What it is.
    """

    x: float
    y: float | None
    words: str = ""


@dataclass(frozen=True)
class Series:
    """Points that belong together.

    Attributes
    ----------
    style
        Number of its colour, shape and dashes; None: grey.
    """

    kind: Kind
    style: int | None
    points: tuple[Point, ...]
    words: str = ""


@dataclass(frozen=True)
class Chart:
    """A plot with its axes.

    Attributes
    ----------
    strip
        What points without a value are.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    strip: str = "no answer"

    @property
    def has_strip(self) -> bool:
        """Whether there are points without a value."""
        return any(point.y is None for series in self.series for point in series.points)


@dataclass(frozen=True)
class Figure:
    """Charts that are looked at together.

    Attributes
    ----------
    name
        Its file name, without a suffix.
    words
        What is to be seen, for a reader.
    legend
        Names of styles.
    marks
        Names of kinds of marks that are grey, or of any colour.
    """

    name: str
    title: str
    words: str
    charts: tuple[Chart, ...]
    legend: tuple[tuple[str, int], ...] = ()
    marks: tuple[tuple[str, Kind], ...] = ()

    @property
    def keys(self) -> list[tuple[str, int | None, list[Kind]]]:
        """The lines of the legend: a name, the style, and the kinds that it is shown by, which are those drawn."""
        drawn = {series.kind for chart in self.charts for series in chart.series if series.style is not None}
        kinds: list[Kind] = ["line"] if drawn & {"line", "steps"} else []
        if drawn & {"dots", "large"} or not kinds:
            kinds.append("large")
        styles = [(name, style, kinds) for name, style in self.legend]
        return [*styles, *((name, None, [kind]) for name, kind in self.marks)]


def _variables(colours: Sequence[str], ground: str, panel: str, ink: str, faint: str, line: str, alarm: str) -> str:
    named = {"ground": ground, "panel": panel, "ink": ink, "faint": faint, "line": line, "alarm": alarm}
    named |= {f"c{number}": colour for number, colour in enumerate(colours)}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


_LIGHT_VARIABLES = _variables(LIGHT, "#ffffff", "#f6f7f9", "#1d2026", "#5b626d", "#dfe2e7", "#b3261e")
_DARK_VARIABLES = _variables(DARK, "#14161a", "#1c1f25", "#e8eaed", "#a4abb6", "#343942", "#ff8a80")

STYLE = (
    f":root{{color-scheme:light dark;{_LIGHT_VARIABLES}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_DARK_VARIABLES}}}}}"
    "svg.chart{width:100%;height:auto;display:block}"
    "svg.chart text{font-size:13px;fill:var(--faint)}"
    "svg.chart text.title{font-size:14.5px;font-weight:600;fill:var(--ink)}"
    "svg .grid{stroke:var(--line);stroke-width:1;fill:none}"
    "svg .strip{fill:var(--panel)}"
    "svg .grey{color:var(--faint)}"
    + "".join(f"svg .s{number}{{color:var(--c{number})}}" for number in range(len(LIGHT)))
    + "svg .dots{fill:currentColor;opacity:.6}svg .dots:hover,svg .crosses:hover{opacity:1;stroke:var(--ink)}"
    "svg .large{fill:currentColor;stroke:var(--ground);stroke-width:1.5}"
    "svg .crosses{fill:none;stroke:currentColor;stroke-width:2}"
    f"svg .line,svg .steps{{fill:none;stroke:currentColor;stroke-width:{_LINE_WIDTH:g};stroke-linejoin:round}}"
    "svg .thin{fill:none;stroke:currentColor;stroke-width:1.2;opacity:.45}"
    "svg .dashed{fill:none;stroke:currentColor;stroke-width:1.4;stroke-dasharray:5 4}"
)


def svg(chart: Chart) -> str:
    """Return a chart as an SVG element for a page with `STYLE`."""
    frame = _Frame(chart)
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{escape(chart.title)}">',
        f'<text class="title" x="{_LEFT:g}" y="18">{escape(chart.title)}</text>',
        *_axes(chart, frame),
    ]
    for series in chart.series:
        parts += _series(series, frame)
    parts.append("</svg>")
    return "".join(parts)


class _Frame:
    """Where values lie on the paper."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self.top = _TOP + (_STRIP if chart.has_strip else 0.0)
        self.bottom = _HEIGHT - _BOTTOM
        self.right = _WIDTH - _RIGHT

    def x(self, value: float) -> float:
        return _LEFT + self._chart.x.place(value) * (self.right - _LEFT)

    def y(self, value: float | None) -> float:
        if value is None:
            return _TOP + _STRIP / 2 - 2
        return self.bottom - self._chart.y.place(value) * (self.bottom - self.top)


def _axes(chart: Chart, frame: _Frame) -> list[str]:
    parts = []
    for value, words in chart.y.ticks:
        height = frame.y(value)
        parts.append(f'<path class="grid" d="M{_LEFT:g} {height:.1f}H{frame.right:g}"/>')
        parts.append(f'<text x="{_LEFT - 7:g}" y="{height + 4:.1f}" text-anchor="end">{escape(words)}</text>')
    for value, words in chart.x.ticks:
        place = frame.x(value)
        parts.append(f'<path class="grid" d="M{place:.1f} {frame.bottom:g}v5"/>')
        parts.append(f'<text x="{place:.1f}" y="{frame.bottom + 18:g}" text-anchor="middle">{escape(words)}</text>')
    if chart.has_strip:
        middle = frame.y(None)
        parts.append(
            f'<rect class="strip" x="{_LEFT:g}" y="{_TOP:g}" width="{frame.right - _LEFT:g}" height="{_STRIP - 4:g}"/>'
            f'<text x="{_LEFT - 7:g}" y="{middle + 4:.1f}" text-anchor="end">{escape(chart.strip)}</text>'
        )
    up = (frame.top + frame.bottom) / 2
    parts.append(
        f'<text transform="translate(14 {up:g}) rotate(-90)" text-anchor="middle">{escape(chart.y.label)}</text>'
    )
    across = (_LEFT + frame.right) / 2
    parts.append(f'<text x="{across:g}" y="{_HEIGHT - 8:g}" text-anchor="middle">{escape(chart.x.label)}</text>')
    return parts


def _series(series: Series, frame: _Frame) -> list[str]:
    if series.kind in _MARKED:
        shape = _shape(series.kind, series.style)
        return [
            f'<g class="{_colour(series.style)}">'
            + "".join(
                f'<path class="{"crosses" if point.y is None else series.kind}" '
                f'd="{_symbol("cross" if point.y is None else shape, 7.0 if series.kind == "large" else 4.0)}" '
                f'transform="translate({frame.x(point.x):.1f} {frame.y(point.y):.1f})">{_title(point.words)}</path>'
                for point in series.points
            )
            + "</g>"
        ]
    places = [(frame.x(point.x), frame.y(point.y)) for point in series.points]
    if series.kind == "steps":
        path = f"M{places[0][0]:.1f} {places[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in places[1:])
    else:
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    attributes = f'class="{series.kind}"{_dashes(series.kind, series.style)}'
    return [f'<g class="{_colour(series.style)}"><path {attributes} d="{path}">{_title(series.words)}</path></g>']


def _colour(style: int | None) -> str:
    return "grey" if style is None else f"s{style % len(LIGHT)}"


def _shape(kind: Kind, style: int | None) -> str:
    return "cross" if kind == "crosses" else shape_of(style)


def shape_of(style: int | None) -> str:
    """Return the name of the shape of a style."""
    place = style or 0
    # Where shapes and colours come round together, shapes go on by one, so that each colour gets all of them.
    return SHAPES[(place + place // math.lcm(len(LIGHT), len(SHAPES))) % len(SHAPES)]


def _dashes(kind: Kind, style: int | None) -> str:
    """Return the attribute of a path that tells lines of the same colour apart; none for the first of them."""
    pattern = dashes_of(kind, style)
    lengths = " ".join(f"{_LINE_WIDTH * length:g}" for length in pattern)
    return f' stroke-dasharray="{lengths}"' if pattern else ""


def dashes_of(kind: Kind, style: int | None) -> tuple[float, ...]:
    """Return the lengths of dashes and gaps of a style, in widths of the line; only thick lines have any."""
    return _DASHES[style // len(LIGHT) % len(_DASHES)] if style is not None and kind in ("line", "steps") else ()


def _title(words: str) -> str:
    return f"<title>{escape(words)}</title>" if words else ""


def _symbol(shape: str, size: float) -> str:
    """Return the path of a symbol around the origin."""
    half, long = 0.9 * size, 1.2 * size
    paths = {
        "circle": f"M{-size:g} 0a{size:g} {size:g} 0 1 0 {2 * size:g} 0a{size:g} {size:g} 0 1 0 {-2 * size:g} 0z",
        "square": f"M{-half:g} {-half:g}h{2 * half:g}v{2 * half:g}h{-2 * half:g}z",
        "triangle": f"M0 {-long:g}L{long:g} {half:g}H{-long:g}z",
        "diamond": f"M0 {-long:g}L{long:g} 0L0 {long:g}L{-long:g} 0z",
        "wedge": f"M0 {long:g}L{long:g} {-half:g}H{-long:g}z",
        "plus": _plus(size),
        "cross": f"M{-half:g} {-half:g}L{half:g} {half:g}M{-half:g} {half:g}L{half:g} {-half:g}",
    }
    return paths[shape]


def _plus(size: float) -> str:
    arm, rest = 0.4 * size, 0.75 * size
    return (
        f"M{-arm:g} {-arm - rest:g}h{2 * arm:g}v{rest:g}h{rest:g}v{2 * arm:g}h{-rest:g}v{rest:g}h{-2 * arm:g}"
        f"v{-rest:g}h{-rest:g}v{-2 * arm:g}h{rest:g}z"
    )


def symbol_svg(style: int | None, kinds: Sequence[Kind] = ("large",)) -> str:
    """Return the marks of a style on top of each other as a small SVG element, for a legend."""
    # Lines are long enough to show their dashes.
    half = 10 if set(kinds) <= {*_MARKED} else 20
    return (
        f'<svg class="key" viewBox="{-half} -10 {2 * half} 20" width="{2 * half}" height="20" aria-hidden="true">'
        f'<g class="{_colour(style)}">{"".join(_key(kind, style, half) for kind in kinds)}</g></svg>'
    )


def _key(kind: Kind, style: int | None, half: int) -> str:
    size = 6.0 if kind == "large" else 4.0
    path = _symbol(_shape(kind, style), size) if kind in _MARKED else f"M{1 - half} 0H{half - 1}"
    return f'<path class="{kind}"{_dashes(kind, style)} d="{path}"/>'
