"""The command ``ibia``: reads files, calls the package, writes and shows the answer.

Thin: no inference, no file formats, no numbers of its own. What goes wrong becomes one sentence and an exit code
(``process.py``). A run that is stopped after its first answer writes the best one and ends with 0.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ibia import manual
from ibia.process import BAD_USAGE, Watch, check_output, compile_first, complain, load_arrays, run_command
from ibia.shown import plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ibia.model import Model
    from ibia.predict import Prediction
    from ibia.result import Attempt, Result

__all__ = ["app", "main"]

# What the parser raises for a command line it cannot read; newer versions of typer do not export it by name.
_UsageProblem: Any = typer.BadParameter.__mro__[2]

_SHOWN_VARIABLES = 20
_SHOWN_STATES = 6

# `ibia info` predicts for these bounds, as far as they are below the exact one.
_SHOWN_BOUNDS = (10.0, 15.0, 20.0, 25.0)
app = typer.Typer(
    name="ibia",
    help=manual.ABOUT,
    epilog=manual.COMMON,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Model file: UAI, BIF, Ergo, XMLBIF or XDSL (NET or DSL with pyAgrum), also .gz or .xz."
    ),
]
EvidenceOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help='Evidence file: UAI, or JSON like {"smoke": "yes", "fever": [0.2, 0.8]}.'),
]
ObserveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--observe",
        "-E",
        metavar="NAME=STATE",
        help="Observe a variable, or give a likelihood for each state (fever=0.2,0.8). Repeatable.",
    ),
]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing; write the files only.")]


def _among(*words: str) -> Callable[[str], list[str]]:
    """Return what completes a word that a user has begun to one of these."""
    # The name of the argument is what typer expects.
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


@app.callback(invoke_without_command=True)
def _common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    if version:
        import ibia

        typer.echo(f"ibia {ibia.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(BAD_USAGE)


@app.command("infer", epilog=manual.INFER)
def _infer(
    context: typer.Context,
    model: ModelArgument,
    evidence: EvidenceOption = None,
    observe: ObserveOption = None,
    show: Annotated[
        str | None, typer.Option(metavar="NAME,NAME,...", help="Show these variables, with all their states.")
    ] = None,
    bound: Annotated[
        float | None,
        typer.Option(
            metavar="BITS",
            help="Largest clique: 2^BITS table entries (the most, with a time limit). Without: what takes about ten "
            "seconds and half of the free memory.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="The best answer within this time, from the start of the process on."),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory to stay within: 8GB, 500MB, 2GiB or bytes.")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="N", help="Cores to use. Without: all.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE.MAR", help="Write the marginals (UAI MAR).")] = None,
    pr: Annotated[str | None, typer.Option(metavar="FILE.PR", help="Write log10 Z (UAI PR).")] = None,
    json_file: JsonOption = None,
    reduce: Annotated[
        str | None,
        typer.Option(
            metavar="BITS|auto|demand",
            help="Bits to free after each step: so many, chosen with the bound (auto), or as few as needed (demand).",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(metavar="kl|mi", help="What an approximation is judged by.", autocompletion=_among("kl", "mi")),
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(metavar="sweeps|links", help="Backward update.", autocompletion=_among("sweeps", "links")),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Order of the factors: auto, elimination, reverse, breadth, topological.",
            autocompletion=_among("auto", "elimination", "reverse", "breadth", "topological"),
        ),
    ] = None,
    sweeps: Annotated[int | None, typer.Option(metavar="N", help="At most this many backward sweeps.")] = None,
    threshold: Annotated[float | None, typer.Option(metavar="X", help="Smallest change that uses a link.")] = None,
    slices: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Exact answers beyond the bound, slice by slice: auto (where cheap), never, always.",
            autocompletion=_among("auto", "never", "always"),
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check every forest as it is made (slow).")] = False,
    quiet: QuietOption = False,
) -> None:
    """Compute the marginals of all variables, and log Z.

    Shows a short table: how good the answer is, log10 Z, and the marginals most worth seeing. --out, --pr and --json
    write all of it to files.

    Without --bound and --time-limit the bound is chosen so that an answer takes about ten seconds, or is exact if that
    is cheaper. With --time-limit a first answer comes soon, better ones follow, and the best one counts.
    """
    limits = _limits(time_limit, memory_limit)
    _check_outputs({"--out": out, "--pr": pr, "--json": json_file}, {"the model": model, "the evidence": evidence})
    choices: dict[str, Any] = {
        "bound": bound,
        "memory_limit": limits[1],
        "threads": threads,
        "reduce": None if reduce is None else _reduce(reduce),
        "loss": loss,
        "update": update,
        "order": order,
        "sweeps": sweeps,
        "threshold": threshold,
        "slices": slices,
    }
    # What is not given is left to the defaults of the package.
    given = {name: value for name, value in choices.items() if value is not None}

    from ibia.control import Control

    control = Control()
    with Watch(control, context.obj, limits[0]) as watch:
        loaded, observed = _load(model, evidence, observe)
        shown = None if show is None else _shown(loaded, show)
        compile_first(quiet, watch)

        import ibia

        # Loading the engine takes time, too.
        infer = ibia.infer
        if limits[0] is not None:
            given["time_limit"] = watch.time_left(sum(loaded.cardinalities))
        watch.doing = ""
        with _progress(quiet) as progress:
            result = infer(loaded, observed, check=check, progress=progress, control=control, **given)
        failures = _write_result(result, model, out, pr, json_file)
        watch.written = True
        if not quiet:
            console = _console()
            console.print(_summary(result, Path(model).name))
            if shown is None:
                _show_marginals(console, result)
            else:
                console.print(_marginal_table(result, shown, result.model.layout.states.size))
    if failures:
        raise ibia.InputError(" ".join(failures))


@app.command("info", epilog=manual.INFO, short_help="Show how large a model is, and what bounds would cost.")
def _info(
    model: ModelArgument,
    evidence: EvidenceOption = None,
    observe: ObserveOption = None,
    json_file: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Show the size of a model, the cheapest bound that would be exact, and what some bounds would cost.

    Nothing is inferred. Evidence counts: it often makes a model much smaller.
    """
    _check_outputs({"--json": json_file}, {"the model": model, "the evidence": evidence})
    loaded, observed = _load(model, evidence, observe)
    compile_first(quiet)

    from ibia.costs import MOST_BITS
    from ibia.limits import size_in_words
    from ibia.predict import Predictor, measure_speed
    from ibia.prepare import prepare_components
    from ibia.simplify import simplify

    simplified = simplify(loaded, observed)
    problems = prepare_components(simplified)
    predictor = Predictor(problems, measure_speed())
    width = predictor.width
    bounds = [bound for bound in _SHOWN_BOUNDS if bound < predictor.exact_bound] + [predictor.exact_bound]
    predictions = [predictor.predict(bound) for bound in bounds]
    detected = "none" if simplified.structure is None else "detected"
    structure = "declared" if loaded.kind == "bayes" else detected
    figures = {
        "model": model,
        "kind": loaded.kind,
        "variables": len(loaded.variables),
        "factors": len(loaded.factors),
        "largest_cardinality": max(loaded.cardinalities, default=0),
        "largest_factor": max((factor.values.size for factor in loaded.factors), default=0),
        "observed": len(observed),
        "bayesian_structure": structure,
        "variables_left": sum(len(problem.variables) for problem in problems),
        "components": len(problems),
        "width_bits": width,
        "exact_bound": predictor.exact_bound,
        "predictions": [
            {"bound": predicted.bound, "exact": predicted.exact, "seconds": predicted.seconds, "bytes": predicted.bytes}
            for predicted in predictions
        ],
    }
    if json_file is not None:
        _write_json(json_file, figures)
    if quiet:
        return
    table = _table(Path(model).name)
    table.add_row("kind", {"bayes": "Bayesian network", "markov": "Markov network"}[loaded.kind])
    table.add_row("Bayesian structure", structure)
    table.add_row("variables", f"{figures['variables']} of at most {figures['largest_cardinality']} states")
    table.add_row("factors", f"{figures['factors']} of at most {figures['largest_factor']} entries")
    table.add_row("observed variables", str(figures["observed"]))
    table.add_row(
        "after simplification",
        f"{figures['variables_left']} variables in {figures['components']} independent "
        f"{'component' if len(problems) == 1 else 'components'}",
    )
    needed = size_in_words(2.0 ** min(width, MOST_BITS) * 8)
    table.add_row("width", f"{width:.2f} bits: the largest table needs {needed}")
    table.add_row("cheapest exact bound", f"{figures['exact_bound']:g}")
    for predicted in predictions:
        table.add_row(f"predicted for bound {predicted.bound:g}", _cost_in_words(predicted))
    _console().print(table)


@app.command("convert", epilog=manual.CONVERT)
def _convert(
    model: ModelArgument,
    out: Annotated[str, typer.Argument(metavar="OUT", help="File to write: UAI or BIF by its suffix, also .gz, .xz.")],
) -> None:
    """Write a model in another format.

    The suffixes of both files tell the formats. UAI has no names, so these are lost there.
    """
    import ibia

    _check_outputs({"OUT": out}, {"the model": model})
    load_arrays()
    ibia.write(ibia.read(model), out)


@app.command(
    "bench",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def _bench(context: typer.Context) -> Any:
    """Measure solvers on models with known answers."""
    from ibia.bench.commands import app as bench

    return typer.main.get_command(bench).main(context.args, prog_name="ibia bench", standalone_mode=False)


@app.command("demo", epilog=manual.DEMO)
def _demo() -> None:
    """Answer a question about an example."""
    load_arrays()
    from ibia.demo import show_demo

    compile_first()
    show_demo(_console())


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    run_command(_run, arguments)


def _run(arguments: list[str], started: float) -> Any:
    try:
        return typer.main.get_command(app).main(arguments, prog_name="ibia", standalone_mode=False, obj=started)
    except _UsageProblem as problem:
        return complain(problem.format_message(), BAD_USAGE)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _limits(time_limit: str | None, memory_limit: str | None) -> tuple[float | None, float | None]:
    """Return the limits of time (seconds) and memory (bytes): the options, else what the environment says."""
    from ibia.limits import environment_memory, environment_time, parse_size, parse_time

    seconds = environment_time(os.environ) if time_limit is None else parse_time(time_limit)
    size = environment_memory(os.environ) if memory_limit is None else parse_size(memory_limit)
    return seconds, size


def _load(model: str, evidence: str | None, observe: list[str] | None) -> tuple[Model, dict[int, int]]:
    """Return the model, with a factor for each likelihood that is given, and the observed states."""
    load_arrays()
    import ibia
    from ibia.observations import parse_observation, resolve_observations

    loaded = ibia.read(model)
    sources: list[dict[int, int | tuple[float, ...]]] = []
    if evidence is not None:
        given = ibia.read_observations(evidence)
        with _named(evidence):
            sources.append(resolve_observations(loaded, given))
    for text in observe or ():
        with _named(f"-E {text}"):
            sources.append(resolve_observations(loaded, parse_observation(loaded, text)))
    return ibia.observe(loaded, *sources)


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Say where bad input comes from."""
    from ibia.errors import InputError

    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _shown(model: Model, show: str) -> list[int]:
    """Return the numbers of the variables named in a list; names with commas are found too."""
    if show in model.names:
        return [model.index(show)]
    with _named("--show"):
        return [model.index(name.strip()) for name in show.split(",")]


def _reduce(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        # The package says what it expects instead.
        return text


def _check_outputs(outputs: dict[str, str | None], inputs: dict[str, str | None]) -> None:
    """Raise unless every output file can be written: better now than when there is a result to lose."""
    from ibia.errors import InputError

    taken = {os.path.realpath(path): what for what, path in inputs.items() if path is not None and "\0" not in path}
    for option, path in outputs.items():
        if path is None:
            continue
        with _named(option):
            target = check_output(path)
        if target is None:
            continue
        if target in taken:
            raise InputError(f"{option}: {path} would overwrite {taken[target]}.")
        taken[target] = f"what {option} writes"


def _write_result(result: Result, model: str, out: str | None, pr: str | None, json_file: str | None) -> list[str]:
    """Write what is asked for; a file that fails does not cost the others. Return what went wrong."""
    from ibia.errors import InputError
    from ibia.formats import write_marginals, write_partition

    failures = []
    writers: list[tuple[str | None, Callable[[str], None]]] = [
        (out, lambda path: write_marginals(path, result.marginals)),
        (pr, lambda path: write_partition(path, result.log10_z)),
        (json_file, lambda path: _write_json(path, _as_data(result, model))),
    ]
    for path, write in writers:
        if path is not None:
            try:
                write(path)
            except InputError as error:
                failures.append(str(error))
    return failures


def _as_data(result: Result, model: str) -> dict[str, Any]:
    return {"model": model, "peak_memory_bytes": _peak_memory(), **result.to_dict()}


def _write_json(path: str, data: dict[str, Any]) -> None:
    from ibia.formats.text import write_text

    write_text(path, json.dumps(data, indent=1) + "\n")


def _peak_memory() -> int:
    """Return the most bytes that this process has held so far, and those that help it, each at its own time."""
    import resource

    from ibia.limits import peak_memory_of_children

    # The unit is the kilobyte, but on one system the byte.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return own + peak_memory_of_children()


def _cost_in_words(predicted: Prediction) -> str:
    from ibia.limits import seconds_in_words, size_in_words

    seconds = f"about {seconds_in_words(predicted.seconds)} and" if predicted.seconds < 1e6 else "out of reach;"
    cost = f"{seconds} {size_in_words(predicted.bytes)}"
    return f"{cost}, exact" if predicted.exact else cost


def _console() -> Console:
    from rich.console import Console

    terminal = sys.stdout.isatty()
    # Without a terminal there is no width to fit, and nothing to colour or embolden, whatever the environment wants.
    return Console(highlight=False, emoji=False, force_terminal=terminal, width=None if terminal else 120)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield a callback that shows on a terminal what is being done, and None where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[placed]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        # How many factors there are is not known yet.
        task = shown.add_task("starting", total=None, placed="")

        def show(label: str, done: int, total: int) -> None:
            shown.update(task, description=label, completed=done, total=total, placed=f"{done}/{total} factors")

        yield show


def _table(title: str) -> Table:
    """Return an empty table of what and how much."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, title=Text(plain(title)), title_justify="left", show_header=False, title_style="bold")
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table


def _summary(result: Result, name: str) -> Table:
    table = _table(name)
    evidence = f", {len(result.evidence)} observed" if result.evidence else ""
    table.add_row("model", f"{len(result.model.variables)} variables{evidence}, {len(result.model.factors)} factors")
    table.add_row("answer", result.error.words)
    table.add_row("log10 Z", f"{result.log10_z:.10g}")
    steps = "1 step" if result.sequence_length == 1 else f"{result.sequence_length} steps"
    if result.slices > 1:
        steps += f" and {result.slices} slices"
    if result.loopy:
        table.add_row("method", "loopy belief propagation, for want of anything better in time")
    else:
        table.add_row("largest clique", f"{result.max_clique_bits:.1f} of {result.bound:g} bits allowed, in {steps}")
    if result.bound_reason != "as asked":
        table.add_row("bound", result.bound_reason)
    if len(result.attempts) > 1:
        table.add_row("tried", "; ".join(_attempt_in_words(attempt) for attempt in result.attempts))
    if result.steps and not result.exact:
        table.add_row("lost", f"{result.loss:.3g} nats; steps differ by {result.inconsistency:.2g} at most")
    table.add_row("seconds", f"{result.seconds:.2f}")
    return table


def _attempt_in_words(attempt: Attempt) -> str:
    from ibia.limits import seconds_in_words

    outcome = "" if attempt.outcome == "answered" else f", {attempt.outcome}"
    how = (
        ", one order" if attempt.quick else f", {attempt.alternatives} alternatives" if attempt.alternatives > 1 else ""
    )
    times = f"{seconds_in_words(attempt.seconds)} (predicted: {seconds_in_words(attempt.predicted_seconds)})"
    return f"{attempt.in_words}{how}: {times}{outcome}"


def _show_marginals(console: Console, result: Result) -> None:
    """Print a table of the marginals most worth seeing: the farthest from uniform that are not certain."""
    from rich.text import Text

    from ibia.compare import undecided, worth_seeing

    free = len(result.marginals) - len(result.evidence)
    chosen = worth_seeing(result, _SHOWN_VARIABLES)
    caption = "Observed variables are not shown." if result.evidence else ""
    if free > _SHOWN_VARIABLES:
        caption = (
            f"{len(chosen)} of {free} variables: the farthest from uniform that are not certain "
            f"({free - len(undecided(result))} are). --json and --out have all."
        )
    console.print(_marginal_table(result, chosen, _SHOWN_STATES))
    if caption:
        console.print(Text(f"  {caption}", style="dim"))


def _marginal_table(result: Result, numbers: list[int], most_states: int) -> Table:
    """Return a table of the marginals of some variables, the likeliest states where there are too many."""
    import numpy as np
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE)
    table.add_column("variable", overflow="fold")
    table.add_column("marginal", overflow="fold")
    for number in numbers:
        variable, marginal = result.model.variables[number], result.marginals[number]
        states = list(range(variable.cardinality))
        if len(states) > most_states:
            states = np.argsort(-marginal, kind="stable")[:most_states].tolist()
        text = "   ".join(f"{variable.states[state]} {marginal[state]:.4f}" for state in states)
        left = variable.cardinality - len(states)
        table.add_row(Text(plain(variable.name)), Text(plain(f"{text}   and {left} more" if left else text)))
    return table


if __name__ == "__main__":
    main()
