"""Running solvers on sets of models: each run in a process of its own, its row in the results file as soon as it ends.

A run is known by the name and contents of its model, the solver with its options and version, and the limits; one that
the results file has is not repeated. Knows nothing of what solvers do.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ibia.bench.apart import (
    CRASHED,
    FAILED,
    INTERRUPTED,
    OUT_OF_MEMORY,
    OUT_OF_TIME,
    RESTART_CLOCK,
    STOP_CLOCK,
    Job,
    Limits,
    Row,
    run_jobs,
)
from ibia.bench.keys import key_of, labelled
from ibia.bench.machine import describe_machine
from ibia.bench.metrics import find_nonsense, score
from ibia.bench.reference import (
    Reference,
    cache_folder,
    find_obstacle,
    keep_reference,
    note_attempt,
    noted_attempt,
)
from ibia.bench.report import counted
from ibia.bench.sets import Item, item_from
from ibia.bench.solvers import (
    Allowance,
    Answer,
    CrashedError,
    NoMemoryError,
    NonsenseError,
    NoTimeError,
    Solver,
    UnsuitedError,
    parse_solver,
)
from ibia.bench.store import Store
from ibia.bench.version import own_version
from ibia.errors import IbiaError, InputError, UnavailableError
from ibia.model import Model

__all__ = [
    "ANSWERED",
    "MARGINALS_KNOWN",
    "NONSENSE",
    "NOT_COMPUTED",
    "UNSUITED",
    "UNUSABLE",
    "Plan",
    "Run",
    "known_rows",
    "make_reference",
    "plan_runs",
    "run_plan",
    "solve",
    "version_here",
]

# The status of a row; `apart` has those of runs that were stopped or failed.
ANSWERED, NONSENSE, UNSUITED = "answered", "nonsense", "unsuited"
# The model or its evidence is at fault: such a row says nothing about the solver.
UNUSABLE = "unusable"

_IMPOSSIBLE = "Z is 0 by the reference: the evidence, or the model as such, is impossible, so there are no marginals."
_NOT_COMPARED = "The comparison with the reference did not come to an end."
# How the sentence begins that says why a reference was not computed.
NOT_COMPUTED = "The exact answer could not be computed"
# The column that says whether the true marginals of a model are known; older rows lack it.
MARGINALS_KNOWN = "marginals_known"
# How runs ended that are done again on request: a solver or a machine that was mended may do better.
_RETRIED = (FAILED, CRASHED, OUT_OF_TIME, OUT_OF_MEMORY, UNUSABLE)


@dataclass(frozen=True)
class Run:
    """A solver on a model.

    Attributes
    ----------
    key
        What tells it from all other runs.
    """

    item: Item
    solver: Solver
    key: str
    label: Row


@dataclass(frozen=True)
class Plan:
    """What there is to do.

    Attributes
    ----------
    todo
        Runs without a row, model by model.
    done
        Rows there are already.
    retry
        Whether what has failed before is tried again.
    """

    limits: Limits
    todo: tuple[Run, ...]
    done: tuple[Row, ...]
    retry: bool = False


def plan_runs(
    items: Sequence[Item],
    solvers: Sequence[Solver],
    limits: Limits,
    known: Iterable[Row],
    *,
    any_version: bool = False,
    retry: bool = False,
) -> Plan:
    """Return the runs of all solvers on all items that have no row yet.

    Parameters
    ----------
    known
        Rows there are.
    any_version
        Whether rows of other versions of a solver will do.
    retry
        Whether runs that ended in a way that another try may change, or without a reference that was to be had, are as
        good as none.
    """
    return _plan(items, [(solver, solver.version()) for solver in solvers], limits, known, any_version, retry)


def known_rows(items: Sequence[Item], solvers: Sequence[Solver], limits: Limits, known: Iterable[Row]) -> list[Row]:
    """Return the rows there are of solvers on items: those of the version that is here, else of any other."""
    return list(_plan(items, [(solver, version_here(solver)) for solver in solvers], limits, known, True, False).done)


def version_here(solver: Solver) -> str | None:
    """Return the version of a solver, None if it is not installed: what it once answered can be shown all the same."""
    try:
        return solver.version()
    except UnavailableError:
        return None


def _plan(
    items: Sequence[Item],
    solvers: Sequence[tuple[Solver, str | None]],
    limits: Limits,
    known: Iterable[Row],
    any_version: bool,
    retry: bool,
) -> Plan:
    rows: dict[str, Row] = {}
    others: dict[str, Row] = {}
    for row in known:
        # Not by the key it has: that of older rows was made otherwise.
        row = labelled(row)
        rows[key_of(row)] = others[key_of({**row, "version": None})] = row
    todo: dict[str, Run] = {}
    done: dict[str, Row] = {}
    for item in items:
        digest = item.digest()
        for solver, version in solvers:
            run = _run(item, digest, solver, version, limits)
            found = rows.get(run.key)
            if found is None and any_version:
                found = others.get(key_of({**run.label, "version": None}))
            if found is None or (retry and (found.get("status") in _RETRIED or "reference_error" in found)):
                todo[run.key] = run
            else:
                done[run.key] = found
    return Plan(limits, tuple(todo.values()), tuple(done.values()), retry)


def _run(item: Item, digest: str, solver: Solver, version: str | None, limits: Limits) -> Run:
    label: Row = {
        # Rows begin with it.
        "key": "",
        "family": item.family,
        "name": item.name,
        "source": item.source,
        "uai2014": item.source.startswith("uai2014 MAR"),
        "digest": digest,
        "solver": solver.label,
        "version": version,
        "limits": {"seconds": limits.seconds, "memory": limits.memory, "threads": limits.threads},
    }
    label["key"] = key_of(label)
    return Run(item, solver, label["key"], label)


def run_plan(
    plan: Plan,
    store: Store,
    *,
    at_once: int = 1,
    report: Callable[[Row], None] = lambda row: None,
    announce: Callable[[str], None] = lambda words: None,
    prepared: Callable[[int, int], None] = lambda done, total: None,
) -> list[Row]:
    """Do what is to do, append each row to the store as its run ends, and return the rows.

    A run that somebody has ended is none: it has no row in the store. Nor have those of a model whose exact answer was
    being computed when somebody ended that.

    Parameters
    ----------
    at_once
        How many run at the same time.
    report
        Called with each row when it is in the store, and with those of runs that somebody has ended, or that were not
        begun for that reason.
    announce
        Called with what is done before the first run, if anything is.
    prepared
        Called with how many exact answers there are, and how many there will be, before the first run.
    """

    def keep(row: Row) -> None:
        if row["status"] == INTERRUPTED:
            report(row)
            return
        # The solver may have changed since the plan was made; the row says which version has run.
        row["key"] = key_of(row)
        row["machine"] = describe_machine()
        row["at"] = datetime.now(UTC).isoformat(timespec="seconds")
        store.append(row)
        report(row)

    with ExitStack() as stack:
        lacking, faults = _lacking_references(plan)
        ended: dict[str, str] = {}
        folder: str | None = None
        if lacking:
            obstacle = find_obstacle()
            kept = "they are kept."
            if obstacle is not None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ibia-bench-"))
                kept = f"they are kept for these runs only, as {cache_folder()} cannot be written ({obstacle})."
            announce(f"Computing exact answers of up to {counted(len(lacking), 'model')} first; {kept}")
            unmade, ended = _make_references(lacking, plan.limits, folder, at_once, prepared)
            faults |= unmade
        jobs = []
        for run in plan.todo:
            if run.label["digest"] in ended:
                continue
            arguments = {
                "item": run.item.plain(),
                "solver": run.solver.text,
                "limits": vars(plan.limits),
                "reference_error": faults.get(run.label["digest"]),
                "references": folder,
            }
            jobs.append(Job("run.solve", arguments, run.label, restarts_clock=True))
        rows = run_jobs(jobs, plan.limits, at_once=at_once, report=keep)
    for run in plan.todo:
        # What is run without a reference that is to be had would stay so.
        if run.label["digest"] in ended:
            report({**run.label, "status": INTERRUPTED, "error": ended[run.label["digest"]], "wall_seconds": 0.0})
    return [row for row in rows if row["status"] != INTERRUPTED]


def _lacking_references(plan: Plan) -> tuple[dict[str, Item], dict[str, str]]:
    """Return, by their digests, the items whose references are to be computed, and why others have none.

    Those that have failed under the same conditions would only fail again.
    """
    digests = {run.label["digest"]: run.item for run in plan.todo}
    lacking: dict[str, Item] = {}
    faults: dict[str, str] = {}
    for digest, item in digests.items():
        if item.lacks_reference(digest):
            note = noted_attempt(digest) or {}
            if plan.retry or "fault" not in note or note.get("conditions") != _conditions(plan.limits):
                lacking[digest] = item
            else:
                faults[digest] = str(note["fault"])
    return lacking, faults


def _conditions(limits: Limits) -> dict[str, Any]:
    """Return what may make another attempt to compute a reference end otherwise."""
    return {"version": own_version(), **vars(limits)}


def _make_references(
    lacking: dict[str, Item],
    limits: Limits,
    folder: str | None,
    at_once: int,
    prepared: Callable[[int, int], None],
) -> tuple[dict[str, str], dict[str, str]]:
    """Compute references, once and in processes of their own, which no run is charged with.

    Returns
    -------
    For each model, by its digest, whose reference could not be computed: a sentence that says why. And the same for
    those where somebody has ended it, so that nobody knows whether it can be.
    """
    faults: dict[str, str] = {}
    interrupted: dict[str, str] = {}
    done = 0

    def note(row: Row) -> None:
        nonlocal done
        done += 1
        prepared(done, len(lacking))
        digest = row["digest"]
        if "mark" in row:
            if row["mark"] != digest:
                note_attempt(digest, {"mark": row["mark"]})
            return
        fault = f"{NOT_COMPUTED}: {row['error']}"
        if row["status"] == INTERRUPTED:
            interrupted[digest] = fault
        else:
            faults[digest] = fault
            note_attempt(digest, {"fault": fault, "conditions": _conditions(limits)})

    jobs = [
        Job("run.make_reference", {"item": item.plain(), "folder": folder}, {"digest": digest}, restarts_clock=True)
        for digest, item in lacking.items()
    ]
    prepared(0, len(jobs))
    run_jobs(jobs, limits, at_once=at_once, report=note)
    return faults, interrupted


def make_reference(item: dict[str, Any], folder: str | None = None) -> Iterator[Row]:
    """Have the reference of an item computed and kept; only that counts as time."""
    from ibia.bench.accuracy import warm_up

    model, evidence = item_from(item).load()
    warm_up()
    yield {RESTART_CLOCK: time.monotonic()}
    yield {"mark": keep_reference(model, evidence, None if folder is None else Path(folder))}


def solve(
    item: dict[str, Any],
    solver: str,
    limits: dict[str, Any],
    reference_error: str | None = None,
    references: str | None = None,
) -> Iterator[Row]:
    """Run a solver on an item in this process and compare its answer with the reference.

    What can be wrong with the data is found before the solver runs: it is no fault of the solver.

    Parameters
    ----------
    reference_error
        Why there is no reference, if it was to be computed and was not.
    references
        The folder where references were kept that were computed, if that is not the cache.
    """
    from ibia.control import Stopped

    chosen, allowance = parse_solver(solver), Allowance(**limits)
    version = chosen.version()
    row: Row = {"version": version}
    found = item_from(item)
    try:
        model, evidence = found.load()
    except InputError as error:
        yield {**row, "status": UNUSABLE, "error": str(error)}
        return
    row |= {
        "variables": len(model.variables),
        "factors": len(model.factors),
        "observed": len(evidence),
        "largest_cardinality": max(model.cardinalities, default=0),
    }
    if reference_error is None:
        reference = _reference(found, model, evidence, None if references is None else Path(references))
    else:
        reference = Reference(fault=reference_error)
    # Of the model, whatever becomes of the run.
    row |= {"reference": reference.kind, MARGINALS_KNOWN: reference.marginals is not None}
    if reference.is_impossible:
        yield {**row, "status": UNUSABLE, "error": _IMPOSSIBLE}
        return
    yield {**row}
    try:
        chosen.warm_up()
        began = time.perf_counter()
        ready = chosen.prepare(model, evidence, allowance)
        row["prepare_seconds"] = time.perf_counter() - began
        yield {**row, RESTART_CLOCK: time.monotonic()}
        began = time.perf_counter()
        answer = ready()
        taken = time.perf_counter() - began
        # In all rows from here on: whoever watches may see any of them first.
        row[STOP_CLOCK] = time.monotonic()
        yield row
    except UnsuitedError as error:
        yield {**row, "status": UNSUITED, "error": str(error)}
        return
    except NonsenseError as error:
        yield {**row, "status": NONSENSE, "error": str(error)}
        return
    except CrashedError as error:
        yield {**row, "status": CRASHED, "error": str(error)}
        return
    except NoMemoryError as error:
        yield {**row, "status": OUT_OF_MEMORY, "error": str(error)}
        return
    except (NoTimeError, Stopped) as error:
        yield {**row, "status": OUT_OF_TIME, "error": str(error)}
        return
    row |= {"seconds": taken if answer.seconds is None else answer.seconds, "log10_z": answer.log10_z, **answer.figures}
    nonsense = find_nonsense(answer.marginals, model.cardinalities)
    if nonsense is not None:
        yield {**row, "status": NONSENSE, "error": nonsense}
        return
    row["status"] = ANSWERED
    # An answer is one, whatever becomes of the comparison.
    yield {**row, **compare(answer, Reference(fault=_NOT_COMPARED), evidence)}
    yield {**row, **compare(answer, reference, evidence)}


def _reference(item: Item, model: Model, evidence: dict[int, int], folder: Path | None) -> Reference:
    """Return the reference of an item, and what is wrong with it if it cannot be used."""
    try:
        return item.reference(model, evidence, folder)
    except IbiaError as error:
        return Reference(fault=str(error))


def compare(answer: Answer, reference: Reference, evidence: dict[int, int]) -> Row:
    """Return the errors of an answer, as far as the truth is known."""
    row: Row = {"reference": reference.kind, "delta_log10_z": None}
    if reference.fault is not None:
        row["reference_error"] = reference.fault
    if reference.marginals is not None or reference.log10_z is not None:
        row["reference_from"] = reference.origin
    if reference.marginals is not None:
        errors = score(answer.marginals, reference.marginals, evidence)
        row |= {
            "hd_avg": errors.average,
            "hd_max": errors.largest,
            "largest_absolute_error": errors.largest_absolute,
            "worst_variable": errors.worst,
            "kl_avg": errors.average_divergence,
            "kl_max": errors.largest_divergence,
            "ruled_out": errors.ruled_out,
        }
    if reference.log10_z is not None and answer.log10_z is not None:
        row["delta_log10_z"] = answer.log10_z - reference.log10_z
    return row
