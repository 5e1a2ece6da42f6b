"""Rows of results, ordered for comparison: which methods ran on which models, what came of it, family by family.

A model that a method did not answer counts wherever models are counted, and is never averaged away. Knows the keys of
the rows; nothing of how they were measured or are shown.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ibia.bench.apart import Row
from ibia.bench.claims import is_exact, refutation
from ibia.bench.report import mean
from ibia.bench.run import ANSWERED, MARGINALS_KNOWN, NOT_COMPUTED

__all__ = [
    "EVERY_FAMILY",
    "NOT_RUN",
    "ROUNDING",
    "Instance",
    "Results",
    "Run",
    "Summary",
    "comparable",
    "known_marginals",
    "limits_in_words",
    "memory_of",
    "middle",
    "natural_order",
    "order_rows",
    "pareto_front",
    "program_of",
    "says_nothing",
    "split_bound",
    "summarise",
    "true_error",
]

NOT_RUN = "not run"
EVERY_FAMILY = "all"
# Errors below this are rounding: none of them is better than another.
ROUNDING = 1e-10

# Errors below this say nothing where the reference has six digits only.
_SIX_DIGITS, _SMALLEST_OF_SIX_DIGITS = "official-6-digits", 1e-3


@dataclass(frozen=True, order=True)
class Instance:
    """A model: names can be used twice, contents cannot."""

    family: str
    name: str
    digest: str


@dataclass(frozen=True)
class Run:
    """A method on a model.

    Attributes
    ----------
    method
        The solver with its options, and its limits where it was run with several.
    row
        What came of it; None if it was not run.
    """

    instance: Instance
    method: str
    row: Row | None

    @property
    def status(self) -> str:
        """How it ended."""
        return NOT_RUN if self.row is None else str(self.row["status"])

    @property
    def answer(self) -> Row | None:
        """The row, if it has an answer."""
        return self.row if self.status == ANSWERED else None

    @property
    def error(self) -> float | None:
        """The largest Hellinger distance of a marginal, if there is an answer and the truth is known."""
        return None if self.answer is None else self.answer.get("hd_max")

    @property
    def is_judged(self) -> bool:
        """Whether it has no answer, or one that was compared; any other is neither good nor bad."""
        return self.answer is None or self.error is not None


@dataclass(frozen=True)
class Results:
    """Runs of every method on every model.

    Attributes
    ----------
    methods, instances
        In the order in which they came.
    runs
        All pairs of them.
    superseded
        How many rows were left out because there is a later one of the same method and model.
    """

    methods: tuple[str, ...]
    instances: tuple[Instance, ...]
    runs: tuple[Run, ...]
    superseded: int

    @property
    def missing(self) -> int:
        """How many of the pairs were not run."""
        return sum(1 for run in self.runs if run.row is None)

    @property
    def families(self) -> list[str]:
        """The families, in the order in which they came."""
        return list(dict.fromkeys(instance.family for instance in self.instances))

    def of(self, family: str | None = None, method: str | None = None) -> list[Run]:
        """Return the runs of a family and a method; None: of all."""
        return [
            run
            for run in self.runs
            if (family is None or run.instance.family == family) and (method is None or run.method == method)
        ]

    def row_of(self, method: str) -> Row:
        """Return one of the rows of a method: its solver and its limits are those of all."""
        return next(run.row for run in self.of(method=method) if run.row is not None)

    def versions(self, method: str) -> dict[str, int]:
        """Return how many runs of a method each of its versions has."""
        return dict(Counter(str(run.row.get("version")) for run in self.of(method=method) if run.row is not None))

    @property
    def mixed(self) -> list[str]:
        """The solvers whose runs, with whatever options, are of several versions."""
        versions: dict[str, set[str]] = {}
        for run in self.runs:
            if run.row is not None:
                versions.setdefault(program_of(run.row["solver"]), set()).add(str(run.row.get("version")))
        return [solver for solver, found in versions.items() if len(found) > 1]


def program_of(solver: str) -> str:
    """Return a solver without its options, but with the program that is run: two programs are no two versions."""
    name, _, options = solver.partition(":")
    return ":".join([name, *(word for word in options.split(",") if word.startswith("program="))])


def split_bound(solver: str) -> tuple[str, float | None]:
    """Return a solver without its bound, and the bound; None if it has none of its own."""
    match = re.search(r"[:,]bound=([0-9.]+)", solver)
    if match is None:
        return solver, None
    rest = solver[: match.start()] + solver[match.end() :]
    return rest if ":" in rest else rest.replace(",", ":", 1), float(match[1])


def order_rows(rows: Iterable[Row]) -> Results:
    """Return the runs that rows stand for; of several rows of a method and a model the last counts."""
    rows = list(rows)
    limits: dict[str, set[str]] = {}
    for row in rows:
        limits.setdefault(row["solver"], set()).add(limits_in_words(row))
    found: dict[tuple[Instance, str], Row] = {}
    for row in rows:
        method = row["solver"] if len(limits[row["solver"]]) == 1 else f"{row['solver']} ({limits_in_words(row)})"
        found[Instance(row["family"], row["name"], row["digest"]), method] = row
    instances = tuple(dict.fromkeys(instance for instance, _ in found))
    # Runs end in any order; the order of names does not depend on that.
    methods = tuple(sorted({method for _, method in found}, key=natural_order))
    runs = tuple(Run(instance, method, found.get((instance, method))) for instance in instances for method in methods)
    return Results(methods, instances, runs, len(rows) - len(found))


def limits_in_words(row: Row) -> str:
    """Return what a run was allowed, in a few words."""
    limits = row["limits"]
    words = []
    if limits.get("seconds") is not None:
        words.append(f"{limits['seconds']:g} s")
    if limits.get("memory") is not None:
        words.append(f"{limits['memory'] / 1e9:g} GB")
    if limits.get("threads", 1) != 1:
        words.append(f"{limits['threads']} threads")
    return ", ".join(words) or "no limits"


def natural_order(text: str) -> list[tuple[bool, float, str]]:
    """Return what texts are sorted by so that numbers in them are sorted as such."""
    key, digits = [], ""
    for letter in f"{text} ":
        if letter.isdigit():
            digits += letter
            continue
        if digits:
            key.append((False, float(digits), ""))
            digits = ""
        key.append((True, 0.0, letter))
    return key


def true_error(row: Row) -> float | None:
    """Return the largest Hellinger distance of an answer; None if it is not known, or below what the truth resolves."""
    error: float | None = row.get("hd_max") if row["status"] == ANSWERED else None
    return None if error is None or says_nothing(row) else error


def says_nothing(row: Row) -> bool:
    """Tell whether the error of an answer is below what its reference resolves."""
    return row.get("reference") == _SIX_DIGITS and (row.get("hd_max") or 0.0) < _SMALLEST_OF_SIX_DIGITS


def known_marginals(results: Results) -> dict[Instance, bool | None]:
    """Return of each model whether its true marginals are known; None if its rows, which are older ones, do not say."""
    rows: dict[Instance, list[Row]] = {instance: [] for instance in results.instances}
    for run in results.runs:
        if run.row is not None:
            rows[run.instance].append(run.row)
    return {instance: _has_marginals(found) for instance, found in rows.items()}


def _has_marginals(rows: Sequence[Row]) -> bool | None:
    said = [row[MARGINALS_KNOWN] for row in rows if MARGINALS_KNOWN in row]
    faults = [row["reference_error"] for row in rows if "reference_error" in row]
    # What cannot be used, or compared to the end, is there, whatever rows say; what was to be computed may not be.
    at_hand = any(not fault.startswith(NOT_COMPUTED) for fault in faults)
    if at_hand or any(said) or any(row.get("hd_max") is not None for row in rows):
        return True
    if said or any(row["status"] == ANSWERED and "reference_error" not in row for row in rows):
        return False
    return None


def comparable(results: Results) -> frozenset[Instance]:
    """Return the models that answers to can be compared with the truth.

    Of a model that nobody answered, older rows do not say what is known of it; it counts as one of these.
    """
    answered = {run.instance for run in results.runs if run.answer is not None}
    known = known_marginals(results).items()
    return frozenset(model for model, is_known in known if is_known or (is_known is None and model not in answered))


def memory_of(row: Row) -> float | None:
    """Return the most bytes a run held: of a program outside of Python, that alone; None if it is not known."""
    if "program_memory_bytes" not in row:
        held: float | None = row.get("peak_memory_bytes")
        return held
    # What older rows call that of the program was that of the bench, too. They lack what newer ones say of the truth.
    is_measured = "reference_from" in row or MARGINALS_KNOWN in row
    return row["program_memory_bytes"] if is_measured else None


@dataclass(frozen=True)
class Summary:
    """What a method achieved on the models of a family.

    Errors are over the answers whose truth is known, times and memory over all answers.

    Attributes
    ----------
    models
        All, answered or not.
    exact, refuted
        How many are exact; how many say so and are not, by the reference.
    ended
        How many ended how, those that were answered left out.
    hd_avg, hd_max
        Means, as in the paper.
    worst
        The largest HD_max.
    log10_z
        The largest absolute error of log10 Z.
    kl_avg, kl_max
        Means of the mean and the largest divergence; infinite where an answer rules out what is possible.
    ruled_out
        How many variables have a possible state that the answer rules out.
    absolute
        The largest error of a single probability.
    seconds
        Mean.
    memory
        Most bytes of all; None if it is not known of all.
    over
        How many answers each of these figures is over, by its name.
    """

    family: str
    method: str
    models: int
    answered: int
    exact: int
    refuted: int
    ended: dict[str, int]
    hd_avg: float | None
    hd_max: float | None
    worst: float | None
    log10_z: float | None
    kl_avg: float | None
    kl_max: float | None
    ruled_out: int
    absolute: float | None
    seconds: float | None
    memory: float | None
    over: dict[str, int]

    @property
    def compared(self) -> int:
        """How many answers were compared with true marginals."""
        return self.over["hd_max"]

    @property
    def share(self) -> float:
        """The share of the models that was answered."""
        return self.answered / self.models

    @property
    def complete(self) -> bool:
        """Whether every model was answered."""
        return self.answered == self.models


def summarise(family: str, method: str, runs: Sequence[Run]) -> Summary:
    """Return what came of some runs of a method, at least one."""
    answers = [run.answer for run in runs if run.answer is not None]
    compared = [row for row in answers if row.get("hd_max") is not None]
    values: dict[str, list[float]] = {
        "hd_avg": [row["hd_avg"] for row in compared],
        "hd_max": [row["hd_max"] for row in compared],
        "log10_z": [abs(row["delta_log10_z"]) for row in answers if row.get("delta_log10_z") is not None],
        "kl_avg": _divergences(compared, "kl_avg"),
        "kl_max": _divergences(compared, "kl_max"),
        "absolute": [row["largest_absolute_error"] for row in compared if "largest_absolute_error" in row],
        "seconds": [row["seconds"] for row in answers],
        "memory": [memory for memory in map(memory_of, answers) if memory is not None],
    }
    values["worst"] = values["hd_max"]
    return Summary(
        family=family,
        method=method,
        models=len(runs),
        answered=len(answers),
        exact=sum(1 for row in answers if is_exact(row)),
        refuted=sum(1 for row in answers if refutation(row)),
        ended=dict(Counter(run.status for run in runs if run.answer is None)),
        hd_avg=_mean(values["hd_avg"]),
        hd_max=_mean(values["hd_max"]),
        worst=max(values["worst"], default=None),
        log10_z=max(values["log10_z"], default=None),
        kl_avg=_mean(values["kl_avg"]),
        kl_max=_mean(values["kl_max"]),
        ruled_out=sum(row.get("ruled_out") or 0 for row in compared),
        absolute=max(values["absolute"], default=None),
        seconds=_mean(values["seconds"]),
        memory=max(values["memory"], default=None) if len(values["memory"]) == len(answers) else None,
        over={name: len(found) for name, found in values.items()},
    )


def _divergences(rows: Sequence[Row], key: str) -> list[float]:
    """Return the divergences of answers; rows have none where it is infinite."""
    found = [math.inf if row.get("ruled_out") else row.get(key) for row in rows]
    return [value for value in found if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return mean(values) if values else None


def middle(runs: Sequence[Run]) -> tuple[float, float] | None:
    """Return the medians of time and error; one that was not answered took forever and is all wrong.

    None if nothing is known about the error of any of them, or half of them have no answer.
    """
    judged = [run for run in runs if run.is_judged]
    if not any(run.error is not None for run in judged):
        return None
    seconds = statistics.median(math.inf if run.answer is None else run.answer["seconds"] for run in judged)
    error = statistics.median(math.inf if run.error is None else run.error for run in judged)
    return (seconds, error) if math.isfinite(seconds) and math.isfinite(error) else None


def pareto_front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other is better than in both coordinates (smaller is better), from left to right."""
    front: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front
