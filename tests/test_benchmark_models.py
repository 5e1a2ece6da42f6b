"""Accuracy on a few small real models with known answers; skipped where the benchmark data is not at hand.

Limits of approximate answers are about twice what was measured, so that a loss of accuracy shows.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

import ibia
from brute_force import hellinger
from ibia.infer import infer

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

pytestmark = pytest.mark.skipif(not (DATA / "index.csv").exists(), reason="benchmark data (../shared/data) not found")


def reference(family: str, name: str) -> tuple[list[np.ndarray], float]:
    """Return the reference marginals and log10 Z of an instance."""
    with lzma.open(DATA / family / f"{name}.MAR.xz", "rt") as file:
        numbers = iter(file.read().split()[1:])
    marginals = [np.array([float(next(numbers)) for _ in range(int(next(numbers)))]) for _ in range(int(next(numbers)))]
    return marginals, float((DATA / family / f"{name}.PR").read_text().split()[-1])


def evidence(family: str, name: str) -> dict[int, int]:
    """Return the evidence of an instance (one line: how many, then variables and states)."""
    numbers = [int(word) for word in (DATA / family / f"{name}.evid").read_text().split()]
    return dict(zip(numbers[1::2], numbers[2::2], strict=True))


@pytest.mark.parametrize("update", ["sweeps", "links"])
@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("Bnlearn", "asia"),
        ("Bnlearn", "asia_e1"),
        ("Bnlearn", "child_e1"),
        ("Grids", "Grids_12"),
        ("Pedigree", "Pedigree_13"),
        ("Promedas", "Promedus_24"),
        ("GridBN", "90-10-1"),
    ],
)
def test_models_that_fit_are_exact(family: str, name: str, update: str) -> None:
    marginals, log10_z = reference(family, name)
    model = ibia.read(DATA / family / f"{name}.uai.xz")
    result = infer(model, evidence(family, name), bound=20, update=update)
    assert result.exact
    assert max(np.abs(found - exact).max() for found, exact in zip(result.marginals, marginals, strict=True)) < 1e-9
    assert result.log10_z == pytest.approx(log10_z, abs=1e-9)


@pytest.mark.parametrize(
    ("family", "name", "bound", "largest", "log10_difference"),
    [
        ("CSP", "CSP_12", 15, 0.05, 0.015),
        ("Grids", "Grids_11", 12, 0.002, 1e-3),
        ("Promedas", "Promedus_24", 4, 0.005, 1e-3),
        ("GridBN", "90-10-1", 10, 1e-4, 1e-9),
        ("Pedigree", "Pedigree_13", 12, 1e-6, 1e-6),
    ],
)
def test_models_that_do_not_fit_are_near(
    family: str, name: str, bound: int, largest: float, log10_difference: float
) -> None:
    marginals, log10_z = reference(family, name)
    observed = evidence(family, name)
    result = infer(ibia.read(DATA / family / f"{name}.uai.xz"), observed, bound=bound)
    assert result.max_clique_bits <= bound + 1e-9
    assert not result.exact
    pairs = enumerate(zip(result.marginals, marginals, strict=True))
    assert max(hellinger(found, exact) for variable, (found, exact) in pairs if variable not in observed) < largest
    assert abs(result.log10_z - log10_z) < log10_difference


def test_the_papers_method_is_near_too() -> None:
    marginals, log10_z = reference("CSP", "CSP_12")
    model = ibia.read(DATA / "CSP" / "CSP_12.uai.xz")
    result = infer(model, bound=15, update="links", loss="mi", reduce=5)
    assert max(hellinger(found, exact) for found, exact in zip(result.marginals, marginals, strict=True)) < 0.065
    assert abs(result.log10_z - log10_z) < 0.05
