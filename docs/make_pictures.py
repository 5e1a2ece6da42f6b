"""Draw the pictures of the README. Needs matplotlib, which the package does not; run it after a change of accuracy.

    python docs/make_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import ibia
from ibia import examples
from ibia.bench import score

ROWS = 14
GRIDS = 5
BOUNDS = range(6, 18)
TRUE, ESTIMATE, GREY = "#1f4e79", "#d9822b", "#555555"


def error_against_bound(path: Path) -> None:
    """Draw the true error of the worst marginal and ibia's own estimate of it, for growing bounds.

    The error of a single model jumps (some approximations happen to cost nothing), so lines are medians of several.
    """
    true, typical, upper = (np.empty((GRIDS, len(BOUNDS))) for _ in range(3))
    width = 0.0
    for seed in range(GRIDS):
        model = examples.grid(ROWS, ROWS, coupling=1.5, seed=seed)
        exact = ibia.infer(model, bound=20)
        assert exact.exact
        width = max(width, exact.max_clique_bits)
        for place, bound in enumerate(BOUNDS):
            result = ibia.infer(model, bound=bound, slices="never")
            true[seed, place] = score(result.marginals, exact.marginals).largest
            typical[seed, place], upper[seed, place] = result.error.typical, result.error.upper

    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 11})
    figure, axes = plt.subplots(figsize=(8, 4.4), dpi=150)
    estimate, ceiling = np.median(typical, axis=0), np.median(upper, axis=0)
    axes.fill_between(BOUNDS, estimate, ceiling, color=ESTIMATE, alpha=0.18, linewidth=0)
    axes.plot(BOUNDS, estimate, color=ESTIMATE, linewidth=2)
    for row in true:
        axes.plot(BOUNDS, row, color=TRUE, alpha=0.35, linestyle="none", marker="o", markersize=4)
    axes.plot(BOUNDS, np.median(true, axis=0), color=TRUE, linewidth=2.4)
    axes.set_yscale("log")
    axes.set_ylim(1e-10, 8)
    axes.set_yticks([1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1])
    axes.set_xlim(min(BOUNDS) - 0.4, width + 1.3)
    axes.set_xticks([*BOUNDS, round(width)])
    axes.set_xlabel("bound: no table has more than 2$^{\\mathrm{bound}}$ numbers", color=GREY)
    axes.set_title(
        f"Largest error of a marginal (Hellinger distance), {GRIDS} spin grids of {ROWS} × {ROWS}",
        loc="left", fontsize=12, pad=12,
    )  # fmt: skip
    axes.axvline(width, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate("exact from\nhere on", (width, 8), (5, -2), textcoords="offset points", color=GREY, va="top",
                  fontsize=10)  # fmt: skip
    axes.annotate("true error (line: median)", (BOUNDS[0], 4e-5), color=TRUE, fontweight="bold")
    axes.annotate("ibia's own estimate: typical (line), and a limit it rarely exceeds (band)", (BOUNDS[0], 1.5),
                  color="#a65f1a", fontweight="bold", va="bottom", fontsize=10)  # fmt: skip
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0, which="both", colors=GREY)
    axes.tick_params(axis="x", colors=GREY)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    error_against_bound(Path(__file__).parent / "error-against-bound.png")
