"""Numbers so far apart that ordinary messages lose them: exact answers must be right all the same."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibia.answer import prepare_model
from ibia.control import Control, TooSlow
from ibia.errors import ZeroProbabilityError
from ibia.exact import solve_exactly
from ibia.forest import calibrate
from ibia.model import Model
from ibia.pipeline import infer

SEEDS = st.integers(0, 2**32 - 1)
Logarithms = list[tuple[tuple[int, ...], np.ndarray]]


def by_enumeration(cardinalities: list[int], factors: Logarithms) -> tuple[float, list[np.ndarray]]:
    """Return log Z and the marginals from the logarithms of all factors."""
    states = list(itertools.product(*map(range, cardinalities)))
    terms = np.array([sum(table[tuple(state[v] for v in scope)] for scope, table in factors) for state in states])
    largest = terms.max()
    masses = np.exp(terms - largest)
    marginals = [
        np.array([masses[[state[variable] == value for state in states]].sum() for value in range(size)])
        for variable, size in enumerate(cardinalities)
    ]
    return float(largest + math.log(masses.sum())), [marginal / masses.sum() for marginal in marginals]


def check(cardinalities: list[int], factors: Logarithms) -> None:
    log_z, marginals = by_enumeration(cardinalities, factors)
    model = Model.from_arrays(cardinalities, [(scope, np.exp(table)) for scope, table in factors])
    for bound in (20.0, 3.0):
        result = infer(model, bound=bound, slices="always")
        assert result.exact
        assert result.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-9)
        for found, true in zip(result.marginals, marginals, strict=True):
            np.testing.assert_allclose(found, true, atol=1e-9)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(SEEDS, st.sampled_from([50.0, 200.0, 400.0, 650.0]), st.booleans())
def test_strong_factors(seed: int, strength: float, sparse: bool) -> None:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(3, 8))
    cardinalities = generator.integers(2, 4 if count < 7 else 3, count).tolist()
    pairs = [(first, second) for second in range(count) for first in range(second)]
    chosen = [pair for pair in pairs if not sparse or pair[1] - pair[0] == 1 or generator.random() < 0.2]
    scopes: list[tuple[int, ...]] = [*chosen, *((variable,) for variable in range(count))]
    # Whole multiples of the strength, so that several states may be about equally likely in the end.
    factors = [
        (
            scope,
            -strength * generator.integers(0, 2, [cardinalities[v] for v in scope])
            - generator.random([cardinalities[v] for v in scope]),
        )
        for scope in scopes
    ]
    check(cardinalities, factors)


@pytest.mark.parametrize("unlike", [-650.0, -100.0, -5.0])
@pytest.mark.parametrize("count", [4, 12])
def test_evidence_that_piles_up_on_one_side_and_is_outweighed_on_the_other(unlike: float, count: int) -> None:
    pairs: Logarithms = [((k, k + 1), np.array([[0.0, unlike], [unlike, 0.0]])) for k in range(count - 1)]
    votes: Logarithms = [
        ((k,), np.array([0.0, -300.0] if k < count // 2 else [-300.0, 0.0])) for k in range(count)
    ]
    check([2] * count, pairs + votes)


def test_long_chains_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small log Z alone is no reason: here no message has entries far apart."""
    monkeypatch.setattr(calibrate, "propagate_logarithms", lambda *arguments: pytest.fail("logarithms are slow"))
    count = 3000
    factors = [((k, k + 1), [[0.5, 0.1], [0.2, 0.4]]) for k in range(count)]
    factors += [((k,), [0.3, 0.1]) for k in range(count)]
    result = infer(Model.from_arrays([2] * (count + 1), factors), bound=20)
    assert result.exact
    assert result.log_z < -1000.0


def strong_with_zeros(seed: int) -> Logarithms:
    """Factors over up to three variables with zeros, and some over the same or overlapping variables."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(6, 10))
    factors: Logarithms = []
    for variable in range(count):
        parents = generator.choice(variable, min(int(generator.integers(1, 3)), variable), replace=False)
        scope = (*sorted(parents.tolist()), variable)
        strength = float(generator.choice([100.0, 300.0, 600.0]))
        table = -strength * generator.integers(0, 2, [2] * len(scope)) - generator.random([2] * len(scope))
        table[generator.random(table.shape) < 0.15] = -math.inf
        factors.append((scope, table))
    for _ in range(3):
        pair = tuple(sorted(generator.choice(count, 2, replace=False).tolist()))
        factors.append((pair, -600.0 * generator.integers(0, 2, (2, 2)) - generator.random((2, 2))))
    return factors


def test_what_calls_itself_exact_has_lost_no_number() -> None:
    """Products of factors, parts of factors, steps without loss: numbers may vanish in all of them."""
    exact = {1: 0, 2: 0}
    for seed in range(120):
        factors = strong_with_zeros(seed)
        count = 1 + max(scope[-1] for scope, _ in factors)
        with np.errstate(invalid="ignore", divide="ignore"):
            terms = [sum(t[tuple(s[v] for v in scope)] for scope, t in factors) for s in np.ndindex(*[2] * count)]
        if max(terms) == -math.inf:
            continue
        log_z, marginals = by_enumeration([2] * count, factors)
        model = Model.from_arrays([2] * count, [(scope, np.exp(table)) for scope, table in factors])
        for bound, order in itertools.product((2, 3), ("elimination", "reverse")):
            result = infer(model, bound=bound, slices="never", order=order)
            # Steps may exclude each other; each marginal is a distribution all the same.
            assert all(marginal.sum() == pytest.approx(1.0) for marginal in result.marginals), seed
            if result.exact:
                exact[min(len(result.steps), 2)] += 1
                assert result.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-9), seed
                for found, true in zip(result.marginals, marginals, strict=True):
                    np.testing.assert_allclose(found, true, atol=1e-9, err_msg=str(seed))
    assert min(exact.values()) > 20


def chain_of_preferences(strength: float, preferences: tuple[float, float, float], zeros: bool) -> Logarithms:
    """X1 = 1 is unlikely by e^−strength where it is met first; three later factors prefer it again."""
    generator = np.random.default_rng(int(strength))
    first = np.array([[0.0, -strength], [-5.0, 5.0 - strength]])
    factors: Logarithms = [((0, 1), first)]
    for number, preference in enumerate(preferences):
        table = -generator.random((2, 2, 2))
        table[0] -= preference
        if zeros:
            table[0, 0, 0] = table[1, 1, 1] = -math.inf
        factors.append(((1, 2 + 2 * number, 3 + 2 * number), table))
    return factors


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("strength", [120.0, 300.0, 475.0, 540.0, 590.0])
@pytest.mark.parametrize("order", ["elimination", "reverse", "breadth"])
@pytest.mark.parametrize("bound", [2, 3])
def test_what_later_factors_prefer_has_not_vanished_or_nothing_is_claimed(
    zeros: bool, strength: float, order: str, bound: int
) -> None:
    factors = chain_of_preferences(strength, (115.0, 230.0, 200.0), zeros)
    log_z, marginals = by_enumeration([2] * 8, factors)
    model = Model.from_arrays([2] * 8, [(scope, np.exp(table)) for scope, table in factors])
    result = infer(model, bound=bound, slices="never", order=order)
    error = max(np.abs(a - b).max() for a, b in zip(result.marginals, marginals, strict=True))
    if result.exact:
        assert result.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-9)
        assert error < 1e-9
    assert error <= max(result.error.upper, 1e-9)


TINY = 1e-280
WEAK: Logarithms = [((1, 2), np.log([[0.3, 0.7], [0.6, 0.4]])), ((0, 2), np.log([[0.2, 0.8], [0.9, 0.1]]))]


@pytest.mark.parametrize("second", [[[TINY, 1.0], [1.0, TINY]], [[TINY, 1.0], [1.0, 0.0]], [[TINY, 0.5], [0.2, TINY]]])
@pytest.mark.parametrize("others", [WEAK, []])
def test_factors_whose_product_is_flat_although_its_parts_are_not(
    second: list[list[float]], others: Logarithms
) -> None:
    with np.errstate(divide="ignore"):
        check([2] * 3, [((0, 1), np.log([[1.0, TINY], [TINY, 1.0]])), ((0, 1), np.log(second)), *others])


def test_factors_that_rule_out_everything_together() -> None:
    pair = [((0, 1), [[1.0, 0.0], [0.0, TINY]]), ((0, 1), [[0.0, 1.0], [1.0, 0.0]])]
    model = Model.from_arrays([2] * 3, [*pair, *((scope, np.exp(table)) for scope, table in WEAK)])
    with pytest.raises(ZeroProbabilityError):
        infer(model, bound=10)


def test_roots_multiply_to_the_table_and_leave_others_alone() -> None:
    pair = [((0, 1), np.exp([[0.0, -500.0], [-600.0, -1.0]])), ((0, 1), np.exp([[0.0, -400.0], [-1.0, -1.0]]))]
    model = Model.from_arrays([2] * 3, [*pair, *((scope, np.exp(table)) for scope, table in WEAK)])
    (problem,) = prepare_model(model, {}).problems
    assert problem.merged.roots
    logarithms = {scope: np.zeros((2, 2)) for scope in {table.scope for table in problem.factors}}
    for table in problem.factors:
        logarithms[table.scope] += np.log(table.values.reshape(2, 2))
        assert table.values.min() > 1e-200
    spreads = sorted(table.max() - table.min() for table in logarithms.values())
    assert spreads[-1] == pytest.approx(900.0, rel=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_cliques_that_need_logarithms_are_made_in_parts(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clique of 2^17 entries whose product vanishes: the clock is looked at within it, and the answer is right."""
    count, strength = 17, 150.0
    generator = np.random.default_rng(1)
    pairs = list(itertools.combinations(range(count), 2))
    tables = {pair: -strength * generator.integers(0, 2, (2, 2)) + generator.normal(size=(2, 2)) for pair in pairs}
    made = []
    in_parts = calibrate.contract_logarithms_in_parts

    def noting(*arguments: Any) -> tuple[float, float]:
        made.append(arguments)
        return in_parts(*arguments)

    monkeypatch.setattr(calibrate, "contract_logarithms_in_parts", noting)
    model = Model.from_arrays([2] * count, [(pair, np.exp(table)) for pair, table in tables.items()])
    result = infer(model, bound=20, threads=threads)
    assert made
    assert result.exact
    states = np.array(list(itertools.product((0, 1), repeat=count)))
    terms = sum(table[states[:, pair[0]], states[:, pair[1]]] for pair, table in tables.items())
    masses = np.exp(terms - terms.max())
    assert result.log_z == pytest.approx(terms.max() + math.log(masses.sum()), rel=1e-12)
    for variable, found in enumerate(result.marginals):
        np.testing.assert_allclose(found[1], masses[states[:, variable] == 1].sum() / masses.sum(), atol=1e-9)


def test_logarithms_are_not_begun_where_the_time_will_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they take is known beforehand: an exact answer is given up for others that there is time for."""
    factors = [([0, 1], np.exp([[0.0, -500.0], [-500.0, 0.0]])), ([1, 2], np.exp([[0.0, -500.0], [-500.0, 0.0]]))]
    pull = [([0], np.exp([0.0, -700.0])), ([2], np.exp([-700.0, 0.0]))]
    (problem,) = prepare_model(Model.from_arrays([2, 2, 2], factors + pull), {}, control := Control()).problems
    before = solve_exactly(problem)[0].log_z
    monkeypatch.setattr(calibrate, "_LOGARITHM_SECONDS", 1e3)
    assert solve_exactly(problem)[0].log_z == before
    control.deadline = time.monotonic() + 60.0
    with pytest.raises(TooSlow):
        solve_exactly(problem)
