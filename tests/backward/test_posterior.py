"""What a backward pass tells of losses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ibia.backward.posterior import most_lost
from ibia.bench.generate import find_generated
from ibia.pipeline import infer


def test_the_variables_that_lost_most_count() -> None:
    steps = [SimpleNamespace(losses=dict.fromkeys(range(100), 1.0)), SimpleNamespace(losses={7: 2.0})]
    assert most_lost(steps) == pytest.approx(9 * 1.0 + 3.0)  # type: ignore[arg-type]
    assert most_lost([]) == 0.0


def test_longer_models_lose_more_and_not_more_around_a_variable() -> None:
    """A network ten times as long loses ten times as much in all; its marginals are hardly off by more."""
    short, long = (
        infer(*find_generated(f"dynamic-{length}-6-5-2-4-2").make(), bound=8, order="topological", sweeps=2, threads=1)
        for length in (30, 300)
    )
    assert long.loss > 5.0 * short.loss
    assert long.local_loss < 3.0 * short.local_loss
    assert long.local_loss < 0.2 * long.loss
    assert long.error.typical < 3.0 * short.error.typical
