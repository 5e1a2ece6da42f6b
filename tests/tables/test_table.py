"""Tables against NumPy: every operation, random cardinalities (one included), scopes of every pattern."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibia.tables import Space, Table, memory
from ibia.tables import table as table_module
from ibia.tables.maps import BROADCAST, CONTIGUOUS, LOOKUP, index_map

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)


@st.composite
def pairs(draw: st.DrawFn, largest: int = 4096) -> tuple[Space, tuple[int, ...], tuple[int, ...], int]:
    """Draw a space, a scope in it, a sub-scope of that, and a seed for values."""
    cardinalities: list[int] = []
    for cardinality in draw(st.lists(st.sampled_from([1, 2, 2, 2, 3, 4, 5, 7]), max_size=12)):
        if math.prod(cardinalities) * cardinality <= largest:
            cardinalities.append(cardinality)
    scope = tuple(number for number in range(len(cardinalities)) if draw(st.integers(0, 3)))
    subscope = tuple(variable for variable in scope if draw(st.booleans()))
    return Space(tuple(cardinalities)), scope, subscope, draw(st.integers(0, 2**32 - 1))


def random_table(space: Space, scope: tuple[int, ...], generator: np.random.Generator) -> Table:
    """Return a table with positive and zero entries."""
    values = generator.random(space.size(scope))
    values[generator.random(values.size) < 0.2] = 0.0
    return Table(space, scope, values)


def summed(table: Table, subscope: tuple[int, ...]) -> np.ndarray:
    """NumPy's answer for a marginal."""
    shaped = table.values.reshape([table.space.cardinalities[variable] for variable in table.scope])
    others = tuple(axis for axis, variable in enumerate(table.scope) if variable not in subscope)
    return np.asarray(shaped.sum(axis=others)).reshape(-1)


def spread_out(table: Table, scope: tuple[int, ...]) -> np.ndarray:
    """NumPy's answer for the same function over a larger scope."""
    cardinalities = table.space.cardinalities
    shape = [cardinalities[variable] for variable in scope]
    # Both scopes are sorted, so axes that the table lacks need only be put in between.
    shaped = table.values.reshape([cardinalities[variable] if variable in table.scope else 1 for variable in scope])
    return np.broadcast_to(shaped, shape).reshape(-1)


@REPEATABLE
@given(pairs())
def test_marginal_multiply_and_extend_agree_with_numpy(case: tuple) -> None:
    space, scope, subscope, seed = case
    generator = np.random.default_rng(seed)
    table, other = random_table(space, scope, generator), random_table(space, subscope, generator)
    before = table.values.copy()
    marginal = table.marginal(subscope)
    assert marginal.scope == subscope
    np.testing.assert_allclose(marginal.values, summed(table, subscope), rtol=1e-13, atol=0.0)
    np.testing.assert_array_equal(other.extended(scope).values, spread_out(other, scope))
    np.testing.assert_array_equal(table.values, before)
    assert table.multiply_in(other) is table
    np.testing.assert_array_equal(table.values, before * spread_out(other, scope))


@REPEATABLE
@given(pairs())
def test_index_maps_name_the_partner_of_every_entry(case: tuple) -> None:
    space, scope, subscope, _ = case
    mapping, size = space.partner(scope, subscope)
    assert size == space.size(subscope)
    positions = np.arange(size, dtype=np.float64)
    expected = spread_out(Table(space, subscope, positions), scope)
    inner = np.arange(mapping.run) if mapping.kind == CONTIGUOUS else np.zeros(mapping.run, dtype=np.int64)
    found = (mapping.high[:, None, None] + mapping.low[None, :, None] + inner[None, None, :]).reshape(-1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("cardinalities", "strides", "kind", "run"),
    [
        ((2, 3, 4), (0, 4, 1), CONTIGUOUS, 12),
        ((2, 3, 4), (3, 1, 0), BROADCAST, 4),
        ((4, 2), (1, 0), BROADCAST, 2),
        ((4, 2), (0, 1), LOOKUP, 1),
        ((3, 3), (1, 0), LOOKUP, 1),
    ],
)
def test_index_maps_use_runs_where_they_pay(
    cardinalities: tuple[int, ...], strides: tuple[int, ...], kind: int, run: int
) -> None:
    mapping = index_map(cardinalities, strides)
    assert (mapping.kind, mapping.run) == (kind, run)


@REPEATABLE
@given(pairs(), st.floats(0.0, 1.0))
def test_pointwise_operations_agree_with_numpy(case: tuple, weight: float) -> None:
    space, scope, _, seed = case
    generator = np.random.default_rng(seed)
    table, divisor, old = (random_table(space, scope, generator) for _ in range(3))
    safe = np.where(divisor.values > 0.0, divisor.values, 1.0)
    ratio = table.values / safe
    zero = divisor.values == 0.0
    np.testing.assert_allclose(table.copy().divide_in(divisor).values, np.where(zero, 0.0, ratio), rtol=1e-15)
    np.testing.assert_allclose(table.copy().divide_in(divisor, 1.0).values, np.where(zero, 1.0, ratio), rtol=1e-15)
    np.testing.assert_allclose(divisor.reciprocal().values, np.where(zero, 0.0, 1.0 / safe), rtol=1e-15)
    blended = table.copy().blend_in(old, weight)
    both = (table.values > 0.0) & (old.values > 0.0)
    expected = np.where(both, table.values**weight * old.values ** (1.0 - weight), table.values)
    np.testing.assert_allclose(blended.values, expected, rtol=1e-12)
    assert table.distance(divisor) == np.abs(table.values - divisor.values).max()
    np.testing.assert_array_equal(table.copy().scale_in(0.25).values, 0.25 * table.values)


@REPEATABLE
@given(pairs())
def test_normalise_and_entropy_agree_with_mathematics(case: tuple) -> None:
    space, scope, _, seed = case
    table = random_table(space, scope, np.random.default_rng(seed))
    table.values[0] = 0.5
    total = math.fsum(table.values.tolist())
    assert table.normalise_in() == pytest.approx(math.log(total), abs=1e-12)
    assert math.fsum(table.values.tolist()) == pytest.approx(1.0, abs=1e-12)
    expected = -math.fsum(value * math.log(value) for value in table.values.tolist() if value > 0.0)
    assert table.entropy() == pytest.approx(expected, rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("exponent", [0, -5, -100, -290])
def test_entropy_of_small_and_large_numbers(size: int, exponent: int) -> None:
    generator = np.random.default_rng(size)
    space = Space((size,))
    values = generator.random(size) * 10.0 ** (exponent * generator.random(size))
    expected = -math.fsum(value * math.log(value) for value in values.tolist())
    found = Table(space, (0,), values).entropy()
    assert found == pytest.approx(expected, rel=1e-13, abs=1e-14 * size)


def test_entropy_of_known_distributions() -> None:
    space = Space((4,))
    assert Table(space, (0,), np.full(4, 0.25)).entropy() == pytest.approx(math.log(4), abs=1e-15)
    assert Table(space, (0,), np.array([0.0, 1.0, 0.0, 0.0])).entropy() == 0.0
    assert Table(space, (0,), np.array([0.5, 0.0, 0.0, 0.5])).entropy() == pytest.approx(math.log(2), abs=1e-15)


def test_tiny_divisors_count_as_zero_and_nothing_overflows() -> None:
    space = Space((4,))
    table = Table(space, (0,), np.array([1.0, 1.0, 0.0, 1e-150]))
    divisor = Table(space, (0,), np.array([1e-250, 0.5, 0.0, 1e-150]))
    np.testing.assert_array_equal(table.divide_in(divisor).values, [0.0, 2.0, 0.0, 1.0])


def test_normalise_of_nothing_says_so_and_changes_nothing() -> None:
    table = Table(Space((3,)), (0,), np.zeros(3))
    assert table.normalise_in() == -math.inf
    np.testing.assert_array_equal(table.values, np.zeros(3))


@pytest.mark.parametrize("dimensions", [33, 40, 70, 130])
@pytest.mark.parametrize("seed", range(3))
def test_more_dimensions_than_numpy_has(dimensions: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    wide = sorted(generator.choice(dimensions, 10, replace=False).tolist())
    space = Space(tuple(2 if variable in wide else 1 for variable in range(dimensions)))
    scope = tuple(range(dimensions))
    subscope = tuple(variable for variable in scope if generator.random() < 0.6)
    table = random_table(space, scope, generator)
    shaped = table.values.reshape([2] * len(wide))
    others = tuple(axis for axis, variable in enumerate(wide) if variable not in subscope)
    expected = np.asarray(shaped.sum(axis=others)).reshape(-1)
    marginal = table.marginal(subscope)
    np.testing.assert_allclose(marginal.values, expected, rtol=1e-13)
    again = shaped.sum(axis=others, keepdims=True) * np.ones([2] * len(wide))
    np.testing.assert_allclose(marginal.extended(scope).values, again.reshape(-1), rtol=1e-13)
    np.testing.assert_allclose(
        table.copy().multiply_in(marginal).values, (shaped * again).reshape(-1), rtol=1e-13
    )


@pytest.mark.parametrize("seed", range(5))
def test_large_tables_cross_the_blocks_of_the_index_maps(seed: int) -> None:
    generator = np.random.default_rng(seed)
    space = Space(tuple(generator.choice([2, 3, 5], 9).tolist()))
    scope = tuple(range(9))
    subscope = tuple(variable for variable in scope if generator.random() < 0.5)
    table = random_table(space, scope, generator)
    np.testing.assert_allclose(table.marginal(subscope).values, summed(table, subscope), rtol=1e-12)


def test_bits_and_sizes_of_scopes() -> None:
    space = Space((2, 1, 3, 4))
    assert space.size((0, 2, 3)) == 24
    assert space.bits((0, 1, 3)) == 3.0
    assert space.bits((2,)) == pytest.approx(math.log2(3))
    assert space.size(()) == 1
    np.testing.assert_array_equal(space.ones((0, 1, 3)).values, np.ones(8))


@REPEATABLE
@given(pairs())
def test_entropy_without_a_variable_is_that_of_the_marginal(case: tuple) -> None:
    space, scope, _, seed = case
    table = random_table(space, scope, np.random.default_rng(seed))
    table.normalise_in()
    for variable in scope:
        rest = tuple(other for other in scope if other != variable)
        assert table.entropy_without(variable) == pytest.approx(table.marginal(rest).entropy(), abs=1e-12)


@pytest.mark.parametrize("most", [1, 10, 100, 2**20])
def test_tables_made_together_do_not_overlap(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_SHARED", most)
    made: list[int] = []
    allocate = memory.allocate_unset

    def noting(size: int) -> np.ndarray:
        made.append(size)
        return allocate(size)

    monkeypatch.setattr(memory, "allocate_unset", noting)
    for seed in range(20):
        generator = np.random.default_rng(seed)
        space = Space(tuple(generator.integers(1, 5, 8).tolist()))
        scopes = [tuple(range(generator.integers(0, 8))) for _ in range(generator.integers(0, 12))]
        sizes = np.array([space.size(scope) for scope in scopes], np.int64)
        tables = space.unset_each(scopes, sizes)
        for number, table in enumerate(tables):
            table.values[:] = number
        assert [table.scope for table in tables] == scopes
        assert [table.values.size for table in tables] == sizes.tolist()
        assert all((table.values == number).all() for number, table in enumerate(tables))
        # Nothing is made that is not used, and only a single table takes more than is shared.
        assert sum(made) == sizes.sum()
        assert max(made) <= max(most, sizes.max(initial=0))
        made.clear()
