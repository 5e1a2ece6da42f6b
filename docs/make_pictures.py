"""Draw the pictures of the README and of the documentation, all of them or those named.

Needs matplotlib, which the package does not; run it after a change of accuracy, or of how forests are built.

    python docs/make_pictures.py [error-against-bound] [forests] [sweeps] [slices] [trust]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count as count_from
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyBboxPatch

import ibia
from ibia import examples
from ibia.backward.posterior import Posterior
from ibia.backward.sweeps import Sweeper
from ibia.bench import score
from ibia.bench.generate import SETS
from ibia.bench.metrics import hellinger
from ibia.bench.reference import WIDEST
from ibia.gauge import CONSTANTS
from ibia.prepare import Problem, prepare_components
from ibia.sequence import Settings, Step, forward
from ibia.simplify import simplify

FOLDER = Path(__file__).parent
TRUE, ESTIMATE, GREY, PALE = "#1f4e79", "#d9822b", "#555555", "#e4e4e4"
HELD, FILL = "#c8553d", "#eef3f8"
FAMILIES = ("#1f4e79", "#d9822b", "#4f8f5b", "#8e5ea2", "#c8553d", "#3c8dad")

ROWS = 14
GRIDS = 5
FIRST_BOUND = 6

Scopes = dict[int, tuple[int, ...]]
Edges = list[tuple[int, int, tuple[int, ...]]]


def error_against_bound() -> None:
    """Draw the true error of the worst marginal and ibia's own estimate of it, for growing bounds.

    The error of a single model jumps (some approximations happen to cost nothing), so lines are medians of several.
    """
    models = [examples.grid(ROWS, ROWS, coupling=1.5, seed=seed) for seed in range(GRIDS)]
    exact = [ibia.infer(model, bound=20) for model in models]
    assert all(result.exact for result in exact)
    rows = []
    for bound in count_from(FIRST_BOUND):
        found = [ibia.infer(model, bound=bound, slices="never") for model in models]
        if all(result.exact for result in found):
            width = bound
            break
        errors = [score(result.marginals, truth.marginals).largest for result, truth in zip(found, exact, strict=True)]
        rows.append((errors, [result.error.typical for result in found], [result.error.upper for result in found]))
    true, typical, upper = (np.array(figures) for figures in zip(*rows, strict=True))

    figure, axes = plt.subplots(figsize=(8, 4.4))
    bounds = range(FIRST_BOUND, width)
    estimate, ceiling = np.median(typical, axis=1), np.median(upper, axis=1)
    axes.fill_between(bounds, estimate, ceiling, color=ESTIMATE, alpha=0.18, linewidth=0)
    axes.plot(bounds, estimate, color=ESTIMATE, linewidth=2)
    axes.plot(bounds, true, color=TRUE, alpha=0.35, linestyle="none", marker="o", markersize=4)
    axes.plot(bounds, np.median(true, axis=1), color=TRUE, linewidth=2.4)
    axes.set_yscale("log")
    axes.set_ylim(1e-10, 8)
    axes.set_yticks([1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1])
    axes.set_xlim(FIRST_BOUND - 0.4, width + 1.0)
    axes.set_xticks([*bounds, width])
    axes.set_xlabel("bound: no table has more than 2$^{\\mathrm{bound}}$ numbers", color=GREY)
    axes.set_title(
        f"Largest error of a marginal (Hellinger distance), {GRIDS} spin grids of {ROWS} × {ROWS}",
        loc="left", fontsize=12, pad=12,
    )  # fmt: skip
    axes.axvline(width, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("exact from\nhere on", (width, 8), (5, -2), textcoords="offset points", color=GREY, va="top",
                  fontsize=10)  # fmt: skip
    axes.annotate("true error (line: median)", (FIRST_BOUND, 4e-5), color=TRUE, fontweight="bold")
    axes.annotate("ibia's own estimate: typical (line), and a limit it rarely exceeds (band)", (FIRST_BOUND, 1.5),
                  color="#a65f1a", fontweight="bold", va="bottom", fontsize=10)  # fmt: skip
    tidy(axes)
    figure.tight_layout()
    figure.savefig(FOLDER / "error-against-bound.png")


def forests() -> None:
    """Draw the sequence of a small grid: the first forest, what is left of it for the second, and the second."""
    rows, columns, bound = 3, 4, 3.0
    problem, steps = sequence_of(examples.grid(rows, columns, seed=1), "elimination", bound)
    first, second = steps
    assert first.core is not None
    assert first.reduction is not None
    names = [f"{'abc'[number // columns]}{number % columns + 1}" for number in problem.variables]

    figure = plt.figure(figsize=(10.5, 7.8))
    top, bottom = figure.add_gridspec(2, 1, height_ratios=(1.25, 1), hspace=0.32)
    model, build = (figure.add_subplot(cell) for cell in top.subgridspec(1, 2, width_ratios=(1, 1.5), wspace=0.06))
    rest, again = (figure.add_subplot(cell) for cell in bottom.subgridspec(1, 2, width_ratios=(1.4, 1), wspace=0.06))
    draw_grid(model, problem, names, columns, steps)
    caption(model, f"The model: {rows * columns} spins, {len(problem.factors)} factors",
            f"Its largest clique needs {problem.width:.0f} bits; {bound:.0f} are allowed.\n"
            "Dashed: the factor that does not fit at first.")  # fmt: skip
    draw_forest(build, first.forest.scopes, list(first.forest.edges()), names)
    caption(build, "1. Build, infer: the first forest",
            f"{first.added} factors fit, in {len(first.forest.scopes)} cliques of at most {first.largest_bits:.0f} "
            f"spins. On the lines: what\nneighbours share. Their tables are calibrated.")  # fmt: skip
    core = first.core.forest
    draw_forest(rest, core.scopes, list(core.edges()), names, first.reduction.scopes)
    gone = len(first.forest.scopes) - len(core.scopes)
    caption(rest, "2. Approximate: what the rest needs of it",
            f"{gone} cliques are summed out exactly; spins in red are removed\n"
            f"locally, where that loses least: {first.loss:.3f} nats in all.")  # fmt: skip
    draw_forest(again, second.forest.scopes, list(second.forest.edges()), names)
    caption(again, "3. Build again: the second forest",
            f"What was left and the last factor, in\n{len(second.forest.scopes)} cliques.")  # fmt: skip
    figure.savefig(FOLDER / "pictures" / "forests.png", bbox_inches="tight", pad_inches=0.15)


def sweeps() -> None:
    """Draw the errors of the variables of each forest after the forward pass, and after backward sweeps."""
    model = examples.grid(12, 12, coupling=1.0, seed=2)
    exact = ibia.infer(model, bound=20)
    problem, steps = sequence_of(model, "breadth", 7.0)
    there = Posterior()
    last: dict[int, int] = {}
    for number in range(len(steps) - 1, -1, -1):
        steps[number].ensure(problem.factors, problem.space)
        there.read(steps[number].forest.beliefs)
        for variable in there.marginals:
            last.setdefault(variable, number)
    sweeper = Sweeper(problem, steps, 7.0)
    passes = [
        ("there: the forward pass alone", there.marginals, HELD),
        ("and back: one backward sweep", sweeper.run(1).marginals, ESTIMATE),
        ("until the forests agree", sweeper.run(6).marginals, TRUE),
    ]
    figure, axes = plt.subplots(figsize=(8, 4.2))
    for label, marginals, colour in passes:
        errors = {v: hellinger(values, exact.marginals[problem.variables[v]]) for v, values in marginals.items()}
        places = [last[variable] + 1 for variable in errors]
        axes.plot(places, list(errors.values()), "o", color=colour, alpha=0.25, markersize=4)
        medians = [
            float(np.median([errors[variable] for variable in errors if last[variable] == number]))
            for number in sorted(set(last.values()))
        ]
        axes.plot([number + 1 for number in sorted(set(last.values()))], medians, color=colour, linewidth=2.2,
                  label=label)  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(1e-6, 1)
    axes.set_xlabel("forest of the sequence that holds a variable last", color=GREY)
    axes.set_title("Errors of the marginals (Hellinger distance; lines: medians), grid of 12 × 12 at 7 bits",
                   loc="left", fontsize=12, pad=12)  # fmt: skip
    axes.legend(frameon=False, loc="upper right")
    tidy(axes)
    figure.tight_layout()
    figure.savefig(FOLDER / "pictures" / "sweeps.png")


def slices() -> None:
    """Draw a grid that exceeds the bound by a bit, and the two slices that do not."""
    rows = columns = 4
    model = examples.grid(rows, columns, seed=1)
    problem = prepare_components(simplify(model, {}))[0]
    level = problem.slicing.at(problem.width - 1.0)
    assert level is not None
    names = [f"{'abcd'[number // columns]}{number % columns + 1}" for number in problem.variables]
    whole = ibia.infer(model, bound=20)
    figure, panels = plt.subplots(1, 1 + int(level.count), figsize=(10.5, 3.7))
    draw_grid(panels[0], problem, names, columns)
    caption(panels[0], "The whole", f"largest clique: {problem.width:.0f} bits\n= the sum of its slices")
    (held,) = level.held
    variable = problem.variables[held]
    for state, axes in enumerate(panels[1:]):
        draw_grid(axes, problem, names, columns, held=held)
        share = np.exp(ibia.infer(model, {variable: state}, bound=20).log_z - whole.log_z)
        caption(axes, f"{names[held]} held {model.variables[variable].states[state]}",
                f"largest clique: {level.width:.0f} bits\n{share:.1%} of the mass")  # fmt: skip
    figure.savefig(FOLDER / "pictures" / "slices.png", bbox_inches="tight", pad_inches=0.15)


def trust() -> None:
    """Draw stated against true errors over the models of the set `quick`, none of which fits its bound."""
    figure, axes = plt.subplots(figsize=(7, 5.2))
    families: dict[str, tuple[list[float], list[float]]] = {}
    beyond = count = 0
    for generated in SETS["quick"]:
        model, evidence = generated.make()
        exact = ibia.infer(model, evidence, bound=WIDEST + 1)
        assert exact.exact
        for bound in (6, 9):
            result = ibia.infer(model, evidence, bound=bound, slices="never")
            if result.exact:
                continue
            true = score(result.marginals, exact.marginals, result.evidence).largest
            stated, errors = families.setdefault(generated.family, ([], []))
            stated.append(result.error.typical)
            errors.append(max(true, 2e-7))
            beyond, count = beyond + (true > result.error.upper), count + 1
    ends = np.array([2e-6, 1.0])
    axes.fill_between(ends, np.full(2, 1e-7), ends * 10**CONSTANTS.margin, color=ESTIMATE, alpha=0.12, linewidth=0)
    axes.plot(ends, ends, color=ESTIMATE, linewidth=1.5)
    for (family, (stated, errors)), colour in zip(sorted(families.items()), FAMILIES, strict=False):
        axes.plot(stated, errors, "o", color=colour, markersize=6, alpha=0.75, label=family, markeredgewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(2e-6, 1)
    axes.set_ylim(1e-7, 1.3)
    axes.set_xlabel("what the answer says about itself (result.error.typical)", color=GREY)
    axes.set_title(f"True error of the worst marginal: {count} answers, {beyond} beyond their upper limit", loc="left",
                   fontsize=12, pad=12)  # fmt: skip
    axes.annotate("as stated", (1.4e-4, 1.9e-4), rotation=29, color="#a65f1a", fontsize=10)
    axes.annotate("upper limit", (1.4e-4, 1e-3), rotation=29, color="#a65f1a", fontsize=10)
    axes.legend(frameon=False, loc="lower right", fontsize=10)
    tidy(axes)
    figure.tight_layout()
    figure.savefig(FOLDER / "pictures" / "trust.png")


def sequence_of(model: ibia.Model, order: str, bound: float) -> tuple[Problem, list[Step]]:
    """Return a model in one piece as the engine sees it, and its sequence of forests."""
    (problem,) = prepare_components(simplify(model, {}))
    return problem, forward(problem, problem.order(order), Settings(bound=bound))


def draw_grid(
    axes: Any,
    problem: Problem,
    names: list[str],
    columns: int,
    steps: list[Step] | None = None,
    held: int | None = None,
) -> None:
    """Draw a grid of spins; factors of later steps dashed, and without the edges of a spin that is held."""
    late = set() if steps is None else {number for step in steps[1:] for number in step.location if number >= 0}
    places = [(number % columns, -(number // columns)) for number in problem.variables]
    for number, table in enumerate(problem.factors):
        if len(table.scope) == 2:
            (x, y), (u, v) = (places[variable] for variable in table.scope)
            colour, style = (HELD, (0, (2, 1.5))) if number in late else (GREY, "-")
            if held in table.scope:
                colour, style = PALE, "-"
            axes.plot([x, u], [y, v], color=colour, linewidth=2, linestyle=style, zorder=1)
    for variable, ((x, y), name) in enumerate(zip(places, names, strict=True)):
        colour = HELD if variable == held else FILL
        axes.scatter([x], [y], s=620, color=colour, edgecolor=GREY, linewidth=1, zorder=2)
        axes.text(x, y, name, ha="center", va="center", zorder=3, fontsize=10,
                  color="white" if variable == held else "black")  # fmt: skip
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(min(y for _, y in places) - 0.45, 0.45)
    axes.set_aspect("equal", anchor="NW")
    axes.axis("off")


def draw_forest(axes: Any, scopes: Scopes, edges: Edges, names: list[str], left: Scopes | None = None) -> None:
    """Draw clique trees as boxes, neighbours below each other; what is not in `left` in red."""
    places = tree_places(scopes, edges)
    for first, second, sepset in edges:
        (x, y), (u, v) = places[first], places[second]
        axes.plot([x, u], [y, v], color=GREY, linewidth=1, zorder=1)
        axes.text((x + u) / 2, (y + v) / 2, " ".join(names[v] for v in sepset), fontsize=8, color=GREY, ha="center",
                  va="center", zorder=2, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    for clique, scope in scopes.items():
        x, y = places[clique]
        axes.add_patch(FancyBboxPatch((x - 0.42, y - 0.17), 0.84, 0.34, boxstyle="round,pad=0,rounding_size=0.08",
                                      facecolor=FILL, edgecolor=TRUE, linewidth=1.3, zorder=3))  # fmt: skip
        for place, variable in enumerate(scope):
            offset = 0.25 * (place - (len(scope) - 1) / 2)
            removed = left is not None and variable not in left[clique]
            axes.text(x + offset, y, names[variable], ha="center", va="center", zorder=4, fontsize=10.5,
                      color=HELD if removed else "black")  # fmt: skip
            if removed:
                axes.plot([x + offset - 0.1, x + offset + 0.1], [y, y], color=HELD, linewidth=1.6, zorder=5)
    axes.set_xlim(min(x for x, _ in places.values()) - 0.55, max(x for x, _ in places.values()) + 0.55)
    axes.set_ylim(min(y for _, y in places.values()) - 0.25, max(y for _, y in places.values()) + 0.25)
    axes.set_aspect("equal", anchor="NW")
    axes.axis("off")


def tree_places(scopes: Scopes, edges: Edges) -> dict[int, tuple[float, float]]:
    """Return where the cliques of a tree go: its middle on top, leaves side by side, others above their own."""
    near: dict[int, list[int]] = {clique: [] for clique in scopes}
    for first, second, _ in edges:
        near[first].append(second)
        near[second].append(first)

    def depth(clique: int, parent: int) -> int:
        return 1 + max((depth(other, clique) for other in near[clique] if other != parent), default=0)

    places: dict[int, tuple[float, float]] = {}
    leaves = 0

    def put(clique: int, parent: int, level: int) -> float:
        nonlocal leaves
        below = [put(other, clique, level + 1) for other in near[clique] if other != parent]
        if not below:
            leaves += 1
        x = sum(below) / len(below) if below else float(leaves)
        places[clique] = (x, -0.72 * level)
        return x

    put(min(scopes, key=lambda clique: (depth(clique, -1), clique)), -1, 0)
    return places


def caption(axes: Any, title: str, text: str) -> None:
    """Write a title, and a line or two below it, above a drawing."""
    axes.annotate(text, (0, 1), (0, 6), "axes fraction", "offset points", va="bottom", fontsize=9.5, color=GREY)
    above = 9 + 12 * (1 + text.count("\n"))
    axes.annotate(title, (0, 1), (0, above), "axes fraction", "offset points", va="bottom", fontsize=12, color=TRUE,
                  fontweight="bold")  # fmt: skip


def tidy(axes: Any) -> None:
    """Leave out what does not say anything."""
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0, which="both", colors=GREY)
    axes.tick_params(axis="x", colors=GREY)


PICTURES: dict[str, Callable[[], None]] = {
    "error-against-bound": error_against_bound,
    "forests": forests,
    "sweeps": sweeps,
    "slices": slices,
    "trust": trust,
}

if __name__ == "__main__":
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 11, "figure.dpi": 150, "savefig.dpi": 150})
    for chosen in sys.argv[1:] or PICTURES:
        PICTURES[chosen]()
