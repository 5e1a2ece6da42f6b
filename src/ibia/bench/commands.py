"""The commands ``ibia bench …``: read the command line, show what comes of it.

What is measured and how stands in the other modules of this folder.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ibia.bench.apart import INTERRUPTED, Limits, Row
from ibia.bench.keys import label_of
from ibia.bench.machine import machine_lines
from ibia.bench.report import counted, estimate, short, write_json
from ibia.bench.run import ANSWERED, UNUSABLE, Plan, known_rows, plan_runs, run_plan, version_here
from ibia.bench.sets import DATA_VARIABLE, ItemSet, choose, find_remarks, find_sets
from ibia.bench.solvers import SOLVERS, Solver, parse_solver
from ibia.bench.store import Store, read_results
from ibia.bench.tables import TABLES
from ibia.errors import IbiaError, InputError, UnavailableError
from ibia.formats.text import write_text
from ibia.limits import available_memory, parse_size, parse_time, size_in_words, usable_cores
from ibia.process import Ended, heed_hangups
from ibia.shown import plain

__all__ = ["app"]

app = typer.Typer(
    name="bench",
    help="Measure solvers on sets of models with known answers.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_BAD_USAGE = 2
# In place of the number of known answers.
_COMPUTED = "–"

# What is compared, and within which limits, where the user does not say: how errors fall with the bound.
_BOUNDS = (8, 10, 12)
_SOLVERS = (*(f"{name}:bound={bound}" for name in ("ibia", "paper") for bound in _BOUNDS), "loopy")
_TIME_LIMIT = "120"
_MEMORY_LIMIT = "8GB"

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help=f"Folder of models (default: the variable {DATA_VARIABLE})."),
]

ResultsArgument = Annotated[list[Path], typer.Argument(metavar="RESULTS...", help="Results of ibia bench run.")]
OnlySolversOption = Annotated[
    list[str] | None,
    typer.Option("--solver", metavar="NAME", help="Only this solver, with any options or these; can be repeated."),
]


@app.callback(invoke_without_command=True)
def _bench(context: typer.Context) -> None:
    # Runs are to be ended, and results to be closed.
    heed_hangups()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(_BAD_USAGE)


@app.command("list")
def _list(data: DataOption = None) -> None:
    """Show the sets there are, and the solvers."""
    sets = find_sets(data)
    _say_remarks(sets, sets)
    width = max(len(name) for name in (*sets, *SOLVERS)) + 2
    typer.echo(f"{'set':<{width}}{'models':>7}{'answers':>9}  what it is")
    for name, entry in sets.items():
        # Answers to generated models are computed where they are narrow enough.
        generated = all(item.source == "generated" for item in entry.items)
        known = _COMPUTED if generated else str(sum(1 for item in entry.items if item.has_reference))
        typer.echo(f"{name:<{width}}{len(entry.items):>7}{known:>9}  {entry.about}")
    typer.echo(f"{_COMPUTED}: computed when needed")
    typer.echo(f"\n{'solver':<{width}}{'here':<9}what it is")
    for name, solver in SOLVERS.items():
        typer.echo(f"{name:<{width}}{_is_here(solver):<9}{solver.about}")


def _say_remarks(sets: Mapping[str, ItemSet], names: Iterable[str]) -> None:
    for line in find_remarks(sets, names):
        typer.echo(line, err=True)


def _is_here(kind: type[Solver]) -> str:
    """Return whether a solver can be run, by the question that is asked before anything runs."""
    try:
        kind().version()
    except UnavailableError:
        return "no"
    except InputError:
        # It has to be told which program it is.
        return "depends"
    return "yes"


@app.command("run")
def _run(
    names: Annotated[
        list[str], typer.Option("--set", metavar="NAME", help="Set of models, or family:parameters; can be repeated.")
    ],
    solvers: Annotated[
        list[str] | None,
        typer.Option("--solver", metavar="NAME:OPTIONS", help=f"Can be repeated (default: {' '.join(_SOLVERS)})."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Results: a line of JSON for each run.")] = Path(
        "bench.jsonl"
    ),
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only these models.")] = None,
    data: DataOption = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", metavar="N", help="Runs at the same time (default: as cores allow).")
    ] = None,
    time_limit: Annotated[str, typer.Option(metavar="SECONDS", help="Of each run.")] = _TIME_LIMIT,
    memory_limit: Annotated[str, typer.Option(metavar="SIZE", help="Of each run: 8GB, 500MB, 2GiB.")] = _MEMORY_LIMIT,
    threads: Annotated[int, typer.Option(metavar="N", help="Of each run.")] = 1,
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Results of other versions of a solver will do.")
    ] = False,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry", help="Run again what failed, crashed, was unusable, out of time or memory, or not compared."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no line for each run.")] = False,
) -> None:
    """Run solvers on sets of models; what the results file has already is not repeated."""
    if threads < 1 or (jobs is not None and jobs < 1):
        raise InputError("expected at least one job and one thread")
    limits = Limits(parse_time(time_limit), parse_size(memory_limit), threads)
    chosen = list({solver.text: solver for solver in map(parse_solver, solvers or _SOLVERS)}.values())
    sets = find_sets(data)
    _say_remarks(sets, names)
    items = choose(sets, names, only or [], data=data)
    with Store(out) as store:
        plan = plan_runs(items, chosen, limits, store.rows.values(), any_version=any_version, retry=retry)
        carry_out(plan, store, jobs or max(usable_cores() // threads, 1), quiet=quiet)


@app.command("table")
def _table(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(TABLES)}.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Results, read and added to.")] = Path(
        "bench.jsonl"
    ),
    data: DataOption = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", help="Only columns with at most this limit of time.")
    ] = None,
    solvers: Annotated[
        list[str] | None, typer.Option("--solver", metavar="NAME:OPTIONS", help="Further solvers; can be repeated.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only these models.")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", metavar="N", help="Runs at the same time.")] = 1,
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Results of other versions of a solver will do.")
    ] = False,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Run what the results file does not have.")] = True,
) -> None:
    """Show one of the paper's tables, ours beside the published figures.

    What the results file does not have is run first.
    """
    if name not in TABLES:
        raise InputError(f"There is no table {name!r}; expected one of {', '.join(TABLES)}.")
    sets = find_sets(data)
    if "all" not in sets:
        raise InputError(f"The paper's models are needed: expected --data or {DATA_VARIABLE}.")
    if jobs < 1 or (minutes is not None and not minutes > 0.0):
        raise InputError("expected at least one job, and a limit of more than 0 minutes")
    _say_remarks(sets, ["all"])
    table = TABLES[name]
    # Those that are left out are named below the table.
    every = choose(sets, ["all"])
    items = [item for item in choose(sets, ["all"], only or []) if table.takes(item)]
    more = {solver.label: solver for solver in map(parse_solver, solvers or [])}
    columns = table.chosen(math.inf if minutes is None else minutes, list(more))
    within: dict[Limits, list[Solver]] = {}
    for column in columns:
        within.setdefault(column.limits, []).append(more.get(column.solver) or parse_solver(column.solver))
    rows: list[Row] = []
    if run:
        with Store(out) as store:
            for limits, chosen in within.items():
                plan = plan_runs(items, chosen, limits, store.rows.values(), any_version=any_version)
                rows += [*plan.done, *carry_out(plan, store, jobs)]
    else:
        known = read_results([out])
        for limits, chosen in within.items():
            rows += known_rows(items, chosen, limits, known)
    versions = {solver.label: version_here(solver) for chosen in within.values() for solver in chosen}
    with _as_written([out]):
        typer.echo(table.markdown(every, columns, rows, versions, only or ()))
    left_out = sum(1 for item in every if table.takes(item)) - len(items)
    # Tables that name models have named these.
    if left_out and not table.names:
        typer.echo(f"\nLeft out by --only: {counted(left_out, 'model')} of {left_out + len(items)}.")


@app.command("report")
def _report(
    results: ResultsArgument,
    solvers: OnlySolversOption = None,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The page.")] = Path("report.html"),
    png: Annotated[
        Path | None, typer.Option("--png", metavar="DIR", help="Write the figures here, too (needs matplotlib).")
    ] = None,
    title: Annotated[str, typer.Option(metavar="WORDS", help="Heading of the page.")] = "ibia bench",
    worst: Annotated[int, typer.Option(metavar="N", help="How many of the worst answers of each solver to show.")] = 8,
) -> None:
    """Write one page of HTML with tables, figures, what has no answer, and the worst answers with their steps."""
    if worst < 0:
        raise InputError(f"--worst {worst}: expected how many of the worst answers to show, 0 or more.")
    from ibia.bench.page import extent, gaps, make_page
    from ibia.bench.pictures import write_pictures
    from ibia.bench.plots import all_figures
    from ibia.bench.summary import order_rows

    with _as_written(results):
        ordered = order_rows(_read(results, solvers))
        page = make_page(ordered, title=title, worst=worst)
    write_text(out, page)
    typer.echo(f"{out}: {'; '.join(filter(None, (extent(ordered), gaps(ordered))))}")
    for line in machine_lines(run.row for run in ordered.runs if run.row is not None):
        typer.echo(line)
    if png is not None:
        for path in write_pictures(all_figures(ordered), png):
            typer.echo(path)


@app.command("peers")
def _peers(results: ResultsArgument, solvers: OnlySolversOption = None) -> None:
    """Show what solvers reach on each family of models with known marginals, beside figures of others run elsewhere."""
    from ibia.bench.peers import peer_lines
    from ibia.bench.summary import order_rows

    with _as_written(results):
        lines = peer_lines(order_rows(_read(results, solvers)))
    typer.echo("\n".join(lines))


@app.command("gauge")
def _gauge(
    results: ResultsArgument,
    solvers: OnlySolversOption = None,
    json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything here, too.")] = None,
) -> None:
    """Show how far the stated errors hold, and the constants of the gauge fitted anew to half of the models."""
    from ibia.bench.calibration import calibration_lines, report_gauge

    with _as_written(results):
        found = report_gauge(_read(results, solvers))
    if not found["answers"]:
        raise InputError("No answer in there is not exact and has a known error, so there is nothing to judge.")
    typer.echo("\n".join(calibration_lines(found)))
    write_json(json, found)


@contextmanager
def _as_written(paths: list[Path]) -> Iterator[None]:
    """Say so if results are not as ``ibia bench run`` writes them; files come from anywhere."""
    try:
        yield
    except IbiaError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if os.environ.get("IBIA_TRACEBACK"):
            raise
        raise InputError(
            f"{', '.join(map(str, paths))}: a row is not as ibia bench run writes it ({type(error).__name__}: {error})."
        ) from None


def _read(paths: list[Path], solvers: list[str] | None) -> list[Row]:
    """Return the rows of results files; only those of some solvers, if any are named.

    Models that cannot be used say nothing about solvers: they are left out, and named.
    """
    rows = read_results(paths)
    wanted = {name for text in solvers or [] for name in (text, label_of(text))}
    found = [row for row in rows if not solvers or {row["solver"], row["solver"].partition(":")[0]} & wanted]
    if not found:
        what = f"results of {', '.join(solvers)}" if solvers and rows else "results"
        raise InputError(f"There are no {what} in {', '.join(map(str, paths))}.")
    for line in dict.fromkeys(filter(None, map(_data_line, found))):
        typer.echo(line, err=True)
    usable = [row for row in found if row["status"] != UNUSABLE]
    if not usable:
        raise InputError(f"No model in {', '.join(map(str, paths))} can be used, so there is nothing to show.")
    return usable


def _data_line(row: Row) -> str | None:
    """Return what is wrong with the model of a row or with its reference, None if nothing is."""
    name = f"{row['family']}/{row['name']}"
    if row["status"] == UNUSABLE:
        return plain(f"{name} cannot be used and is left out: {row['error']}")
    if "reference_error" in row:
        return plain(f"{name} is not compared with a reference: {row['reference_error']}")
    return None


def carry_out(plan: Plan, store: Store, jobs: int, *, quiet: bool = False) -> list[Row]:
    """Do what is planned, show how far it is, and return the rows."""
    total = len(plan.todo) + len(plan.done)
    if plan.done:
        typer.echo(f"{len(plan.done)} of {total} runs are done already.", err=True)
    if not plan.todo:
        return []
    several = counted(jobs, "run")
    if jobs * plan.limits.threads > usable_cores():
        typer.echo(
            f"{several} of {counted(plan.limits.threads, 'thread')} on {counted(usable_cores(), 'core')}: "
            f"the times will not mean much.",
            err=True,
        )
    memory = plan.limits.memory
    if memory is not None and jobs * memory > available_memory():
        typer.echo(
            f"{several} of up to {size_in_words(memory)} on {size_in_words(available_memory())} of free memory.",
            err=True,
        )
    counts = {"ended": 0, "interrupted": 0}
    named: set[str] = set()
    with _progress(len(plan.todo), jobs) as (show, say, prepare):

        def report(row: Row) -> None:
            counts["interrupted" if row["status"] == INTERRUPTED else "ended"] += 1
            # What is wrong with the data is said once, not for each solver.
            fault = _data_line(row)
            if fault is not None and fault not in named:
                named.add(fault)
                say(fault)
            if not quiet and row["status"] != UNUSABLE:
                say(run_line(row))
            show(row)

        if not quiet:
            say(RUN_HEADER)
        try:
            rows = run_plan(plan, store, at_once=jobs, report=report, announce=say, prepared=prepare)
        except (KeyboardInterrupt, Ended) as ended:
            left = len(plan.todo) - counts["ended"]
            say(f"Interrupted with {left} of {len(plan.todo)} runs left; the same command goes on from here.")
            number = ended.number if isinstance(ended, Ended) else signal.SIGINT
            raise Ended(number, is_said=True) from None
        if counts["interrupted"]:
            say(f"Ended by somebody: {counted(counts['interrupted'], 'run')}; the same command repeats them.")
        return rows


RUN_HEADER = (
    f"{'family':<12}{'name':<32}{'solver':<36}{'HD_avg':>9}{'HD_max':>9}{'Δ log10 Z':>11}{'estimate':>10}"
    f"{'seconds':>9}{'MiB':>7}"
)


def run_line(row: Row) -> str:
    """Return the line of a run under `RUN_HEADER`."""
    # Names of any length do not run into each other.
    start = f"{row['family']:<11} {row['name']:<31} {row['solver']:<35} "
    if row["status"] != ANSWERED:
        return plain(f"{start}{row['status']}: {row.get('error', '')}")
    memory = row["program_memory_bytes"] if "program_memory_bytes" in row else row["peak_memory_bytes"]
    return plain(
        f"{start}{short(row.get('hd_avg')):>9}{short(row.get('hd_max')):>9}{short(row['delta_log10_z']):>11}"
        f"{estimate(row):>10}{row['seconds']:>9.2f}{memory / 2**20:>7.0f}"
    )


@contextmanager
def _progress(
    total: int, jobs: int
) -> Iterator[tuple[Callable[[Row], None], Callable[[str], None], Callable[[int, int], None]]]:
    """Yield functions to call: after each run, to print a line, and with how many exact answers there are of how many.

    On a terminal a bar shows the time left; before the first run it says how many exact answers there are.
    """
    left = TimeLeft(total, jobs)
    if not sys.stderr.isatty():
        yield left.add, lambda line: print(line, flush=True), lambda done, wanted: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.completed}/{task.total} runs"), TimeElapsedColumn())
    words = TextColumn("{task.description}")
    # Lines for a file go there as they are.
    with Progress(*columns, words, console=Console(stderr=True), redirect_stdout=False) as shown:
        task = shown.add_task("", total=total)

        def show(row: Row) -> None:
            left.add(row)
            shown.update(task, advance=1, description=left.words())

        def say(line: str) -> None:
            if sys.stdout.isatty():
                # Above the bar.
                shown.console.print(line, highlight=False, markup=False, soft_wrap=True)
            else:
                print(line, flush=True)

        def prepare(done: int, wanted: int) -> None:
            shown.update(task, description=f"{done} of {wanted} exact answers" if done < wanted else "", refresh=True)

        yield show, say, prepare


class TimeLeft:
    """How long a bench will still take, by how long its runs took so far.

    Parameters
    ----------
    total
        How many runs there are.
    jobs
        How many at the same time.
    """

    def __init__(self, total: int, jobs: int) -> None:
        self._total = total
        self._jobs = jobs
        self._taken: list[float] = []

    def add(self, row: Row) -> None:
        """Note a run that has ended."""
        self._taken.append(float(row["wall_seconds"]))

    @property
    def seconds(self) -> float:
        """The estimate; infinite before the first run has ended."""
        if not self._taken:
            return math.inf
        return math.fsum(self._taken) / len(self._taken) * (self._total - len(self._taken)) / self._jobs

    def words(self) -> str:
        """Return the estimate as a text."""
        if not math.isfinite(self.seconds):
            return ""
        minutes, seconds = divmod(round(self.seconds), 60)
        hours, minutes = divmod(minutes, 60)
        shown = f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
        return f"about {shown} left"
