"""Contractions against NumPy: any inputs, any outputs, in blocks, in chunks, on threads, with logarithms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ibia.control import Control, Stopped
from ibia.tables import contract as contraction
from ibia.tables.contract import (
    Rows,
    block_axes,
    contract,
    contract_in_chunks,
    contract_logarithms,
    contract_logarithms_in_parts,
    strides_of,
    sum_logarithms,
)

NO_AXES = np.empty(0, np.int64)


class Case:
    """Random tables over subsets of some axes, and what their contraction should give."""

    def __init__(self, generator: np.random.Generator, cardinalities: list[int], inputs: int, outputs: int) -> None:
        count = len(cardinalities)
        self.shape = tuple(cardinalities)
        self.scopes = [np.flatnonzero(generator.random(count) < generator.random()) for _ in range(inputs + outputs)]
        sizes = [math.prod(cardinalities[axis] for axis in scope) for scope in self.scopes]
        self.tables = [generator.random(size) * (generator.random(size) < 0.8) for size in sizes]
        for table in self.tables[inputs:]:
            table[:] = 0.0
        self.product = np.full(math.prod(cardinalities), np.nan)
        axes = np.array(cardinalities, np.int64)
        strides = np.empty((inputs + outputs, count), np.int64)
        for row, scope in enumerate(self.scopes):
            assert strides_of(np.arange(count), scope, axes, strides[row]) == sizes[row]
        addresses = np.array([table.ctypes.data for table in self.tables], np.int64)
        self.rows = Rows(axes, strides, addresses, np.array(sizes, np.int64), inputs)

    def check(self, total: float, scale: float = 1.0) -> None:
        """Compare the outputs with NumPy's."""
        expected = np.ones(self.shape)
        for table, scope in zip(self.tables[: self.rows.inputs], self.scopes, strict=False):
            kept = set(scope.tolist())
            expected = expected * table.reshape([n if axis in kept else 1 for axis, n in enumerate(self.shape)])
        expected = expected / scale
        np.testing.assert_allclose(self.product, expected.reshape(-1), rtol=1e-12)
        assert total == pytest.approx(expected.sum(), rel=1e-10)
        for table, scope in zip(self.tables[self.rows.inputs :], self.scopes[self.rows.inputs :], strict=True):
            others = tuple(axis for axis in range(len(self.shape)) if axis not in set(scope.tolist()))
            np.testing.assert_allclose(table, expected.sum(axis=others).reshape(-1), rtol=1e-10)


def random_case(seed: int) -> tuple[np.random.Generator, Case]:
    generator = np.random.default_rng(seed)
    cardinalities = generator.integers(1, 6, generator.integers(1, 8)).tolist()
    if seed % 10 == 0:
        # One axis alone is longer than a block.
        cardinalities[-1] = 1500
        cardinalities[:-1] = cardinalities[:3]
    return generator, Case(generator, cardinalities, int(generator.integers(1, 5)), int(generator.integers(0, 5)))


@pytest.mark.parametrize("seed", range(60))
def test_contraction_in_any_order_of_the_axes(seed: int) -> None:
    generator, case = random_case(seed)
    inner, _ = block_axes(case.rows.cardinalities)
    first = generator.permutation(inner)[: generator.integers(0, inner + 1)]
    case.check(contract(case.rows, case.product.ctypes.data, True, first, 0, -1))


@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_contraction_with_logarithms(seed: int) -> None:
    _, case = random_case(seed)
    total, log_scale = contract_logarithms(case.rows, case.product.ctypes.data)
    case.check(total, math.exp(log_scale) if total else 1.0)


@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_contraction_with_logarithms_in_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that end anywhere, and logarithms of tables too: the same as at once."""
    monkeypatch.setattr(contraction, "_LOGARITHMS", 7)
    _, case = random_case(seed)
    total, log_scale = contract_logarithms_in_parts(case.rows, case.product.ctypes.data, Control())
    case.check(total, math.exp(log_scale) if total else 1.0)
    _, case = random_case(seed)
    for table in case.tables[: case.rows.inputs]:
        with np.errstate(divide="ignore"):
            np.log(table, out=table)
    log_total = sum_logarithms(case.rows, case.product.ctypes.data, Control())
    for table in [*case.tables, case.product]:
        np.exp(table, out=table)
    case.check(math.exp(log_total))


def test_logarithms_of_large_tables_heed_the_clock() -> None:
    """A single clique may take minutes with them."""
    _, case = random_case(0)
    with pytest.raises(Stopped):
        contract_logarithms_in_parts(case.rows, 0, Control(deadline=0.0))
    with pytest.raises(Stopped):
        sum_logarithms(case.rows, 0, Control(deadline=0.0))


def test_logarithms_survive_what_ordinary_numbers_do_not() -> None:
    tables = [np.array([1e-200, 1e-250]), np.array([1e-200, 1e-300]), np.zeros(2)]
    rows = Rows(
        np.array([2], np.int64),
        np.ones((3, 1), np.int64),
        np.array([table.ctypes.data for table in tables], np.int64),
        np.full(3, 2, np.int64),
        2,
    )
    assert contract(rows, 0, True, NO_AXES, 0, -1) == 0.0
    total, log_scale = contract_logarithms(rows, 0)
    assert log_scale == pytest.approx(-400 * math.log(10))
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(tables[2], [1.0, 1e-150])


@pytest.mark.parametrize("seed", range(8))
def test_chunks_give_the_same_bits_on_any_number_of_threads(seed: int) -> None:
    generator = np.random.default_rng(seed)
    cardinalities = generator.permutation([2, 3, 2, 5, 4, 2, 2, 3, 2, 4, 5, 7, 2]).tolist()
    answers = []
    for threads in (1, 2, 3):
        case = Case(np.random.default_rng(seed), cardinalities, 3, 4)
        assert case.product.size >= contraction.LARGE
        total = contract_in_chunks(case.rows, case.product.ctypes.data, True, Control(threads=threads))
        case.check(total)
        answers.append((total, *(table.tobytes() for table in case.tables)))
    assert answers[0] == answers[1] == answers[2]
