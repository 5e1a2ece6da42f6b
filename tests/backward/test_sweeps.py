"""Sweeps after removals that cost nothing: the way back must be as exact as the way forward."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from brute_force import deterministic, largest_error, random_evidence, solve
from ibia import pipeline
from ibia.model import Model

# How models are approximated is looked at here: in slices the small ones would come out exact (test_slices.py).
infer = partial(pipeline.infer, slices="never")
XOR = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]


def test_a_variable_that_vanishes_without_loss_still_learns_what_comes_later() -> None:
    """X0 (fair) leaves both cliques (0 1 2) and (0 1 3) at no cost; the later factor on (2, 3) ties them together.

    Given X1, X2 and X3 together X0 is certain, given the variables of one clique it is not: the posterior of the
    clique (0 1 2) needs the joint of all that was around X0, not of the clique alone.
    """
    model = Model.from_arrays(
        [2] * 6,
        [
            ((1,), [0.1, 0.9]),
            ((5,), [0.3, 0.7]),
            ((5, 1, 2), [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]),
            ((0, 2, 4), XOR),
            ((0, 1, 3), XOR),
            ((2, 3), [[0.2, 1.0], [1.0, 0.1]]),
        ],
    )
    result = infer(model, bound=3, order="elimination")
    error = largest_error(result.marginals, solve(model))
    assert result.loss < 1e-9, "this model is here because nothing is lost on the way forward"
    assert result.log_z == pytest.approx(solve(model).log_z, abs=1e-9)
    assert error <= 1e-6


def test_no_loss_and_no_disagreement_mean_a_small_error() -> None:
    """Over a fixed set of deterministic networks, what the gauge calls nearly perfect must be so."""
    wrong = []
    for seed in range(130):
        generator = np.random.default_rng(seed)
        model = deterministic(generator, 14, 5)
        evidence = random_evidence(generator, model) if seed % 2 else {}
        for order in ("elimination", "topological"):
            result = infer(model, evidence, bound=3, order=order)
            error = largest_error(result.marginals, solve(model, evidence))
            if result.loss < 1e-9 and error > max(10.0 * result.error.upper, 1e-9):
                wrong.append((seed, order, result.exact, error))
    assert wrong == []
