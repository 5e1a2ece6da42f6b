"""The paper's tables, ours beside the published figures, which `paper.json` holds.

A table says which solvers run on which models within which limits, and makes Markdown of their rows. A model that the
folder does not have, or a solver did not answer, is named; means over what is left say so. Knows nothing of how the
runs are made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ibia.bench.apart import Limits
from ibia.bench.claims import claimed_wrongly
from ibia.bench.report import markdown_line, mean
from ibia.bench.run import ANSWERED, UNUSABLE
from ibia.bench.sets import FileItem, Item
from ibia.bench.store import Row
from ibia.errors import InputError

__all__ = ["MEMORY", "TABLES", "Column", "Table", "is_in_time", "published", "quoted"]

# Bytes that the paper allows a run.
MEMORY = 8e9
_MINUTE = 60.0
# How many times as long as it is allowed a run may take.
_OVER = 1.05


@dataclass(frozen=True)
class Column:
    """A solver within a limit of time, as a column of ours.

    Attributes
    ----------
    solver
        Its label.
    minutes
        The limit.
    """

    solver: str
    minutes: float

    @property
    def limits(self) -> Limits:
        """What its runs may use."""
        return Limits(self.minutes * _MINUTE, MEMORY)

    @property
    def words(self) -> str:
        """What it is called in sentences."""
        return f"{self.solver} within {self.minutes:g} minutes"

    def has(self, row: Row) -> bool:
        """Tell whether a row is one of this column's."""
        return bool(row["solver"] == self.solver and row["limits"] == vars(self.limits))


# By family and name of the model.
Rows = Mapping[tuple[str, str], Row]


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes
    ----------
    name
        The label in the paper.
    takes
        Whether a model belongs in it.
    columns
        Ours.
    lines
        Makes the lines of the table: of the models, the columns, and the answers of each column by model.
    names
        The models, where the table names them.
    compares
        Whether it is about errors, so that answers need a reference.
    """

    name: str
    takes: Callable[[Item], bool]
    columns: tuple[Column, ...]
    lines: Callable[[Sequence[Item], Sequence[Column], Mapping[Column, Rows]], list[str]]
    names: tuple[str, ...] = ()
    compares: bool = True

    def chosen(self, minutes: float = math.inf, more: Sequence[str] = ()) -> list[Column]:
        """Return the columns up to a limit of time, those of further solvers included.

        Parameters
        ----------
        more
            Labels of further solvers: they get the limits that the others have.

        Raises
        ------
        InputError
            None of them keeps to that limit.
        """
        limits = dict.fromkeys(column.minutes for column in self.columns)
        columns = [*self.columns, *(Column(solver, limit) for limit in limits for solver in more)]
        found = [column for column in dict.fromkeys(columns) if column.minutes <= minutes]
        if not found:
            known = " and ".join(f"{limit:g}" for limit in sorted(limits))
            raise InputError(f"{self.name} has no column of at most {minutes:g} min: its columns are of {known} min.")
        return found

    def markdown(
        self,
        items: Iterable[Item],
        columns: Sequence[Column],
        rows: Iterable[Row],
        versions: Mapping[str, str | None] | None = None,
        only: Container[str] = (),
    ) -> str:
        """Return the table, what is missing in it or of another version, and where the published figures are from.

        Parameters
        ----------
        rows
            One of a model and a column, at most.
        versions
            Those of the solvers that are here, by label; None of one that is not.
        only
            Names of models; others are left out, and if the table names them it says so. All are in if empty.
        """
        rows = list(rows)
        unusable = {(row["family"], row["name"]): row["error"] for row in rows if row["status"] == UNUSABLE}
        every = [item for item in items if self.takes(item) and _place(item) not in unusable]
        members = [item for item in every if not only or item.name in only]
        known = {_place(item) for item in members}
        answers: dict[Column, dict[tuple[str, str], Row]] = {column: {} for column in columns}
        for row in rows:
            place = (row["family"], row["name"])
            for column in columns:
                if place in known and column.has(row):
                    answers[column][place] = row
        about = published()["tables"][self.name]
        lines = [f"## {self.name}: {about['title']}", ""]
        lines += self.lines(members, columns, answers)
        lines += _left_out(self.names, every, members)
        lines += ["", *_not_shown(self.columns, columns), *_missing(members, columns, answers)]
        if self.compares:
            lines += _not_compared(members, columns, answers)
        lines += [*_claimed_wrongly(members, columns, answers), *_outdated(columns, answers, versions or {})]
        for (family, name), error in unusable.items():
            lines += [f"Left out, since it cannot be used: {family}/{name} ({error})", ""]
        lines.append(f"Published: {published()['source']} ({about['label']})")
        return "\n".join(lines)


@cache
def published() -> dict[str, Any]:
    """Return the published figures, by table."""
    text = resources.files("ibia.bench").joinpath("paper.json").read_text("utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures


def quoted(*figures: str | None) -> str:
    """Return published figures side by side, digit by digit as published; a dash where there is none."""
    return " / ".join("–" if figure is None else figure for figure in figures)


def _left_out(names: Sequence[str], every: Sequence[Item], members: Sequence[Item]) -> list[str]:
    """Return lines about the models that a table names and that are not in it: not here, or not wanted."""
    here, wanted = {item.name for item in every}, {item.name for item in members}
    absent = [name for name in names if name not in here]
    unwanted = [name for name in names if name in here - wanted]
    lines = []
    if absent:
        lines += ["", f"Not among the models here: {', '.join(absent)}"]
    if unwanted:
        lines += ["", f"Left out by --only: {', '.join(unwanted)}"]
    return lines


def _missing(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    """Return a line for each column with models that it has no answer for, and how each of these ended."""
    lines = []
    for column in columns:
        found = answers[column]
        ended: dict[str, list[str]] = {}
        for item in items:
            status = _outcome(found[_place(item)]) if _place(item) in found else "not run"
            if status != ANSWERED:
                ended.setdefault(status, []).append(item.name)
        if ended:
            words = "; ".join(f"{status}: {', '.join(names)}" for status, names in ended.items())
            lines += [f"Missing for {column.words}: {words}", ""]
    return lines


def _not_shown(every: Sequence[Column], columns: Sequence[Column]) -> list[str]:
    """Return a line about the columns that the table has and that are left out, if there are any."""
    absent = [column.words for column in every if column not in columns]
    return [f"Columns left out: {', '.join(absent)}", ""] if absent else []


def _not_compared(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    """Return a line for each column with models that it has an answer for and whose error is not known."""
    lines = []
    for column in columns:
        names = [row["name"] for row in _answered(items, answers[column]) if not _is_compared(row)]
        if names:
            lines += [f"Answered but not compared, for want of a reference, by {column.words}: {', '.join(names)}", ""]
    return lines


def _claimed_wrongly(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    """Return a line for each column with answers that are said to be exact and are not."""
    lines = []
    for column in columns:
        wrong = claimed_wrongly(_answered(items, answers[column]))
        if wrong:
            lines += [f"Said to be exact, and not so by the reference, by {column.words}: {wrong}", ""]
    return lines


def _outdated(
    columns: Sequence[Column], answers: Mapping[Column, Rows], versions: Mapping[str, str | None]
) -> list[str]:
    """Return a line for each column with rows of another version than the one that is here."""
    lines = []
    for column in columns:
        here = versions.get(column.solver)
        others: dict[str, list[str]] = {}
        for row in answers[column].values():
            if here is not None and row["version"] != here:
                others.setdefault(row["version"], []).append(row["name"])
        if others:
            words = "; ".join(f"{version}: {', '.join(names)}" for version, names in others.items())
            lines += [f"Not of the version {here} of {column.words}: {words}", ""]
    return lines


def _answered(items: Sequence[Item], found: Rows) -> list[Row]:
    rows = [found[_place(item)] for item in items if _place(item) in found]
    return [row for row in rows if _outcome(row) == ANSWERED]


def is_in_time(row: Row, seconds: float) -> bool:
    """Tell whether an answer came within a time; a solver may take a little longer and is not stopped."""
    return bool(row["seconds"] <= seconds * _OVER)


def _is_compared(row: Row) -> bool:
    return row.get("hd_max") is not None


def _compared(items: Sequence[Item], found: Rows) -> list[Row]:
    """Return the answers whose error is known: there may be none for a model, or none that can be used."""
    return [row for row in _answered(items, found) if _is_compared(row)]


def _place(item: Item) -> tuple[str, str]:
    return item.family, item.name


def _outcome(row: Row) -> str:
    """Return how a run ended; that loopy propagation stood in for ibia is no answer of it."""
    return "loopy propagation alone" if row.get("loopy") else str(row["status"])


def _by_family(items: Sequence[Item]) -> dict[str, list[Item]]:
    families: dict[str, list[Item]] = {}
    for item in items:
        families.setdefault(item.family, []).append(item)
    return families


def _number(value: float | None) -> str:
    """Return a figure of ours with as many digits as the paper's have."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0.0:
        return "0"
    return f"{value:.0E}".replace("E-0", "E-") if abs(value) < 9.5e-4 else f"{value:.3f}"


def _counted(text: str, count: int, total: int) -> str:
    """Return a mean, with how many it is over where that is not all."""
    if not count:
        return "–"
    return text if count == total else f"{text} ({count} of {total})"


def _header(cells: Sequence[str]) -> list[str]:
    return [markdown_line(cells), f"|{'---|' * len(cells)}"]


def _error_lines(
    name: str, items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]
) -> list[str]:
    """Return the lines of a table of average errors, a part for each limit of time."""
    theirs, families = published()["tables"][name], _by_family(items)
    lines: list[str] = []
    for minutes in dict.fromkeys(column.minutes for column in columns):
        ours = [column for column in columns if column.minutes == minutes]
        places = [place for place, entry in enumerate(theirs["columns"]) if entry["minutes"] == minutes]
        methods = [theirs["columns"][place]["method"] for place in places]
        lines += [*([""] if lines else []), f"Within {minutes:g} minutes, HD_avg / HD_max:", ""]
        lines += _header(["family", "here / published", *methods, *(column.solver for column in ours)])
        for family, known in theirs["families"].items():
            members = families.get(family, [])
            cells = [family, f"{len(members)} / {known['instances']}"]
            cells += [quoted(known["hd_avg"][place], known["hd_max"][place]) for place in places]
            for column in ours:
                rows = _compared(members, answers[column])
                means = [_number(mean(row[key] for row in rows)) for key in ("hd_avg", "hd_max")]
                cells.append(_counted(" / ".join(means), len(rows), len(members)))
            lines.append(markdown_line(cells))
        lines.append(markdown_line(_solved_cells(theirs, places, families, [answers[column] for column in ours])))
    return lines


def _solved_cells(
    theirs: Mapping[str, Any], places: Sequence[int], families: Mapping[str, list[Item]], ours: Sequence[Rows]
) -> list[str]:
    """Return the last line of the paper's table: how many of all models were answered."""
    members = [item for family, items in families.items() if family in theirs["families"] for item in items]
    published_models = sum(known["instances"] for known in theirs["families"].values())
    cells = ["answered", f"{len(members)} / {published_models}"]
    cells += [str(theirs["solved"][place]) for place in places]
    return [*cells, *(str(len(_answered(members, found))) for found in ours)]


def _small_lines(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    return _error_lines("smallInst", items, columns, answers)


def _sample_search_lines(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    return _error_lines("ijgpss", items, columns, answers)


def _order_lines(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    """Return the lines of the table of orders: the largest error of log10 Z, the average HD_max."""
    families = _by_family(items)
    lines = _header(
        ["family", "here / published", "NTP", "TP", *(column.solver for column in columns)]
    )
    for family, known in published()["tables"]["mnVsBn"]["families"].items():
        members = families.get(family, [])
        cells = [family, f"{len(members)} / {known['instances']}"]
        cells += [quoted(known["delta_log10_z"][key], known["hd_max"][key]) for key in ("NTP", "TP")]
        for column in columns:
            rows = _compared(members, answers[column])
            differences = [abs(row["delta_log10_z"]) for row in rows if row["delta_log10_z"] is not None]
            errors = [_number(max(differences, default=None)), _number(mean(row["hd_max"] for row in rows))]
            cells.append(_counted(" / ".join(errors), len(rows), len(members)))
        lines.append(markdown_line(cells))
    return ["Largest |Δ log10 Z| / average HD_max:", "", *lines]


def _share_lines(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    """Return the lines of the table of large models: how many of a hundred are answered within some minutes."""
    families = _by_family(items)
    known_minutes = (2, 20, 60)
    headings = [f"published, {minutes} min" for minutes in known_minutes]
    ours = [(column, minutes) for column in columns for minutes in known_minutes if minutes <= column.minutes]
    headings += [f"{column.solver}, {minutes} min" for column, minutes in ours]
    lines = _header(["family", "here / published", *headings])
    for family, known in published()["tables"]["numInst"]["families"].items():
        members = families.get(family, [])
        cells = [family, f"{len(members)} / {known['instances']}"]
        cells += [str(known["solved_percent"][str(minutes)]) for minutes in known_minutes]
        for column, minutes in ours:
            found = answers[column]
            run = sum(1 for item in members if _place(item) in found)
            solved = sum(1 for row in _answered(members, found) if is_in_time(row, minutes * _MINUTE))
            cells.append(_counted(f"{100 * solved / run:.0f}" if run else "–", run, len(members)))
        lines.append(markdown_line(cells))
    return ["Per cent of the models without known marginals that were answered:", "", *lines]


def _named_lines(items: Sequence[Item], columns: Sequence[Column], answers: Mapping[Column, Rows]) -> list[str]:
    """Return the lines of the table of named instances: HD_max and seconds."""
    methods = ("IJGP", "ARB", "IBIA15", "IBIA20")
    lines = _header(["instance", *methods, *(column.solver for column in columns)])
    for name, known in published()["tables"]["arb"]["instances"].items():
        cells = [name]
        for method in methods:
            seconds = known["seconds"].get(method)
            cells.append(quoted(known["hd_max"][method]) + ("" if seconds is None else f" ({seconds} s)"))
        for column in columns:
            row = next((row for (_, known_name), row in answers[column].items() if known_name == name), None)
            if row is None or _outcome(row) != ANSWERED:
                cells.append("missing" if row is None else _outcome(row))
            else:
                # A folder may have the model without its true marginals.
                cells.append(f"{_number(row.get('hd_max'))} ({row['seconds']:.1f} s)")
        lines.append(markdown_line(cells))
    return ["HD_max (seconds):", "", *lines]


def _is_small(table: str) -> Callable[[Item], bool]:
    """Return a function that tells whether a model has known marginals and belongs to a family of a table."""
    families = published()["tables"][table]["families"]

    def takes(item: Item) -> bool:
        if item.family not in families or not item.has_reference:
            return False
        # The paper's networks of some families have no evidence; ours may be there with and without.
        observed = item.instance.observed if isinstance(item, FileItem) else None
        return not (families[item.family]["evidence"] == 0 and observed)

    return takes


def _is_large(item: Item) -> bool:
    return item.family in published()["tables"]["numInst"]["families"] and not item.has_reference


def _is_named(item: Item) -> bool:
    return item.name in published()["tables"]["arb"]["instances"]


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "smallInst",
            _is_small("smallInst"),
            (
                Column("loopy", 2),
                Column("paper:bound=20", 2),
                Column("ibia", 2),
                Column("loopy", 20),
                Column("paper:bound=23", 20),
                Column("ibia", 20),
            ),
            _small_lines,
        ),
        Table(
            "mnVsBn",
            _is_small("mnVsBn"),
            (
                Column("paper:bound=20,order=elimination", 20),
                Column("paper:bound=20,order=topological", 20),
                Column("ibia:bound=20,order=elimination", 20),
                Column("ibia:bound=20,order=topological", 20),
            ),
            _order_lines,
        ),
        Table(
            "numInst",
            _is_large,
            (Column("ibia", 2), Column("paper:bound=20", 60), Column("ibia:bound=20", 60)),
            _share_lines,
            compares=False,
        ),
        Table(
            "ijgpss",
            _is_small("ijgpss"),
            (Column("paper:bound=20", 2), Column("ibia", 2), Column("paper:bound=20", 20), Column("ibia", 20)),
            _sample_search_lines,
        ),
        Table(
            "arb",
            _is_named,
            tuple(
                Column(solver, 10)
                for solver in ("paper:bound=15", "paper:bound=20", "ibia:bound=15", "ibia:bound=20")
            ),
            _named_lines,
            tuple(published()["tables"]["arb"]["instances"]),
        ),
    )
}
