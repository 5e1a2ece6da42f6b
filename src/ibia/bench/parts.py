"""What the page of a report is put together of: tables and their cells, figures with few digits. Knows no results but
the order of the methods, which have a mark each.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from html import escape

from ibia.bench.charts import symbol_svg
from ibia.bench.summary import Results

__all__ = ["cell", "line", "named", "shown_error", "shown_memory", "shown_seconds", "table"]


def table(headings: Sequence[str], lines: Iterable[str], left: Collection[int] = (0,)) -> str:
    """Return a table; `left` are the columns that hold words."""
    cells = "".join(
        f"<th{' class=left' if place in left else ''}>{heading}</th>" for place, heading in enumerate(headings)
    )
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def cell(content: str, kind: str = "") -> str:
    """Return a cell of a table."""
    return f'<td class="{kind}">{content}</td>' if kind else f"<td>{content}</td>"


def line(cells: Iterable[str], kind: str = "") -> str:
    """Return a line of a table out of its cells."""
    return f'<tr class="{kind}">{"".join(cells)}</tr>' if kind else f"<tr>{''.join(cells)}</tr>"


def named(results: Results, method: str) -> str:
    """Return the name of a method after its mark."""
    return f"{symbol_svg(results.methods.index(method))} {escape(method)}"


def shown_error(value: float | None) -> str:
    """Return an error with two digits."""
    if value is None:
        return "–"
    if value == 0.0:
        return "0"
    if value == math.inf:
        return "∞"
    if value < 9.95e-4:
        return f"{value:.1E}".replace("E-0", "E-")
    return f"{value:#.2g}" if value < 9.95 else f"{value:.0f}"


def shown_seconds(value: float | None) -> str:
    """Return a time with two digits, or tenths."""
    return "–" if value is None else f"{value:.1f}" if value >= 1.0 else f"{value:#.2g}"


def shown_memory(value: float | None) -> str:
    """Return bytes as a whole number of mebibytes."""
    return "–" if value is None else f"{value / 2**20:,.0f} MiB"
