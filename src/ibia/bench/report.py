"""Rows of measurements as text: a line for each instance, averages for each family, runs side by side.

Knows the keys of the rows and nothing of how they were measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibia.bench.apart import Row
from ibia.bench.claims import is_exact, refutation
from ibia.errors import InputError

__all__ = [
    "HEADER",
    "FamilyAverage",
    "append_row",
    "average_by_family",
    "counted",
    "estimate",
    "family_lines",
    "geometric_mean",
    "instance_line",
    "label",
    "markdown",
    "markdown_line",
    "mean",
    "read_rows",
    "row_key",
    "short",
    "write_json",
]

HEADER = (
    f"{'family':<12}{'name':<28}{'HD_avg':>9}{'HD_max':>9}{'|error|':>9}{'Δ log10 Z':>11}{'estimate':>10}"
    f"{'loss':>9}{'steps':>6}{'bits':>6}{'seconds':>9}{'MiB':>7}  order"
)

# A bar within a cell of a Markdown table.
_BAR = "\\|"


@dataclass(frozen=True)
class FamilyAverage:
    """Means over the instances of a family that have an answer; `failed` counts the others.

    Attributes
    ----------
    hd_avg, hd_max
        Means of the instances' mean and largest Hellinger distance.
    delta_log10_z
        Largest absolute difference to the reference.
    seconds
        Sum.
    exact
        Instances without a lossy operation, as far as the reference bears that out.
    """

    family: str
    instances: int
    failed: int
    exact: int
    hd_avg: float
    hd_max: float
    delta_log10_z: float
    seconds: float


def instance_line(row: Row) -> str:
    """Return the line of an instance under `HEADER`."""
    if "error" in row:
        return f"{label(row)} failed: {row['error']}"
    return (
        f"{label(row)}{short(row['hd_avg']):>9}{short(row['hd_max']):>9}{short(row['largest_absolute_error']):>9}"
        f"{short(row['delta_log10_z']):>11}{estimate(row):>10}"
        f"{short(row['loss_nats']):>9}{row['steps']:>6}{row['max_clique_bits']:>6.1f}{row['seconds']:>9.2f}"
        f"{row['peak_memory_bytes'] / 2**20:>7.0f}  {' '.join(row['orders'])}"
    )


def estimate(row: Row) -> str:
    """Return what an answer says about its error, in a few characters; “refuted” if it wrongly says it is exact."""
    if refutation(row):
        return "refuted"
    return "exact" if row.get("exact") else short(row.get("error_estimate"))


def label(row: Row) -> str:
    """Return the beginning of an instance's line."""
    return f"{row['family']:<12}{row['name']:<28}"


def short(value: float | None) -> str:
    """Return an error in a few characters."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 1e-3:
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"
    return f"{value:.0e}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return how many there are of something: 1 model, 2 models."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def mean(values: Iterable[float]) -> float:
    """Return the arithmetic mean, not a number if there is no value."""
    known = list(values)
    return math.fsum(known) / len(known) if known else math.nan


def geometric_mean(values: Iterable[float], floor: float = 0.0) -> float:
    """Return the geometric mean, not a number if there is no value.

    Parameters
    ----------
    floor
        Added to every value and taken off the mean, so that a zero does not decide alone.
    """
    return math.exp(mean(math.log(value + floor) for value in values)) - floor


def average_by_family(rows: Iterable[Row]) -> list[FamilyAverage]:
    """Return the averages of each family, in alphabetical order."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    averages = []
    for family, members in sorted(families.items()):
        answered = [row for row in members if "error" not in row]
        count = len(answered)
        differences = [abs(row["delta_log10_z"]) for row in answered if row["delta_log10_z"] is not None]
        averages.append(
            FamilyAverage(
                family,
                count,
                len(members) - count,
                sum(1 for row in answered if is_exact(row)),
                mean(row["hd_avg"] for row in answered),
                mean(row["hd_max"] for row in answered),
                max(differences, default=math.nan),
                math.fsum(row["seconds"] for row in answered),
            )
        )
    return averages


def family_lines(rows: Iterable[Row]) -> list[str]:
    """Return the averages of each family as lines of a table."""
    lines = [
        f"{'family':<12}{'instances':>10}{'exact':>7}{'HD_avg':>10}{'HD_max':>10}"
        f"{'max |Δ log10 Z|':>17}{'seconds':>10}"
    ]
    for average in average_by_family(rows):
        failed = f"  {average.failed} failed" if average.failed else ""
        lines.append(
            f"{average.family:<12}{average.instances:>10}{average.exact:>7}{average.hd_avg:>10.1e}{average.hd_max:>10.1e}"
            f"{average.delta_log10_z:>17.1e}{average.seconds:>10.1f}{failed}"
        )
    return lines


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a results file; of rows of the same instance and settings the last counts."""
    rows: dict[str, Row] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            key = row_key(row)
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}, line {number}: not a row of results (an object of JSON).") from None
        rows[key] = row
    return list(rows.values())


def row_key(row: Row) -> str:
    """Return what tells rows apart: instance and settings."""
    return json.dumps([row["family"], row["name"], row["settings"]])


def append_row(path: Path | None, row: Row) -> None:
    """Append a row to a results file, if there is to be one."""
    if path is not None:
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")


def write_json(path: Path | None, data: Any) -> None:
    """Write measurements as one JSON document, if there is to be one."""
    from ibia.formats.text import write_text

    if path is not None:
        write_text(path, json.dumps(data, indent=1) + "\n")


def markdown_line(cells: Iterable[object]) -> str:
    """Return a line of a Markdown table; a bar within a cell, as in a name, does not end it."""
    return f"| {' | '.join(str(cell).replace('|', _BAR) for cell in cells)} |"


def markdown(runs: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """Return family averages of several runs side by side as a Markdown table.

    A family counts only the instances that every run has an answer for, so that the columns compare the same things.
    """
    answered = [{(row["family"], row["name"]) for row in rows if "error" not in row} for _, rows in runs]
    common = set.intersection(*answered) if answered else set()
    columns = []
    for _, rows in runs:
        kept = [row for row in rows if (row["family"], row["name"]) in common]
        columns.append({average.family: average for average in average_by_family(kept)})
    titles = [f"{name}: {what}" for name, _ in runs for what in ("HD_avg / HD_max", "max |Δ log10 Z|", "seconds")]
    lines = [markdown_line(["family", "instances", *titles]), f"|---|---{'|---' * len(titles)}|"]
    for family in sorted({family for family, _ in common}):
        cells = [family, str(columns[0][family].instances)]
        for found in (column[family] for column in columns):
            cells += [f"{found.hd_avg:.1e} / {found.hd_max:.1e}", f"{found.delta_log10_z:.1e}", f"{found.seconds:.1f}"]
        lines.append(markdown_line(cells))
    left_out = sum(len(rows) for _, rows in runs) - len(common) * len(runs)
    if left_out:
        lines += ["", f"{left_out} rows are left out: not every run has an answer for their instance."]
    return "\n".join(lines)
