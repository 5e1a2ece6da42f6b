"""What a backward pass tells of losses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ibia import Factor, Model, Variable, examples
from ibia.backward.posterior import most_lost
from ibia.bench.generate import find_generated
from ibia.bench.generate.dynamic import dynamic
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
    assert long.worst_loss < 3.0 * short.worst_loss
    assert long.worst_loss < 0.2 * long.loss
    assert long.error.typical < 3.0 * short.error.typical


def test_components_do_not_add_up() -> None:
    """Two models side by side have losses that add up, and marginals that are off as in the worse of them."""
    first, second = examples.grid(7, 7, coupling=1.5, seed=1), examples.grid(7, 7, coupling=1.5, seed=2)
    count = len(first.variables)
    moved = [Factor(tuple(count + place for place in factor.scope), factor.values) for factor in second.factors]
    both = Model([Variable(f"X{number}", 2) for number in range(2 * count)], [*first.factors, *moved])
    options = {"bound": 4, "order": "elimination", "slices": "never", "threads": 1}
    one, other, together = (infer(model, **options) for model in (first, second, both))
    assert together.loss == pytest.approx(one.loss + other.loss)
    assert together.worst_loss == pytest.approx(max(one.worst_loss, other.worst_loss))


def test_losses_that_no_sweep_leads_back_to_are_told_apart() -> None:
    """Without evidence all of a Bayesian network is barren, however its factors are added one after the other."""
    model = dynamic(6, 8, 7, 2, 3, seed=1)
    for update in ("sweeps", "links"):
        result = infer(model, bound=8, order="topological", update=update, threads=1)
        assert result.loss > 0.0
        assert result.unchecked_loss == pytest.approx(result.loss)
        assert result.worst_loss == 0.0
