"""Messages between steps: the same as one table operation after the other, whoever makes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ibia.control import Control
from ibia.steps.messages import Messages
from ibia.tables import Scope, Space, Table, threads

# A tree of reduced cliques: scope, parent, what they share.
CLIQUES: dict[int, tuple[Scope, int, Scope]] = {
    7: ((0, 1, 2, 5), -1, ()),
    3: ((1, 2, 3), 7, (1, 2)),
    4: ((3, 4), 3, (3,)),
    9: ((0, 5, 6, 7, 8, 9, 10), 7, (0, 5)),
    2: ((5, 8, 9, 10, 11), 9, (8, 9, 10)),
    1: ((12, 13), -1, ()),
}
SCOPES = {clique: scope for clique, (scope, _, _) in CLIQUES.items()}


def random_table(space: Space, scope: Scope, generator: np.random.Generator, zeros: float = 0.1) -> Table:
    values = generator.random(space.size(scope)) * (generator.random(space.size(scope)) >= zeros)
    return Table(space, scope, values)


def given(seed: int, control: Control | None = None) -> tuple[Messages, dict[int, Table], np.random.Generator]:
    """Return messages without tables, and beliefs over the cliques and, some, over more."""
    generator = np.random.default_rng(seed)
    space = Space(tuple(generator.integers(2, 5, 15).tolist()), control)
    parents = {clique: (parent, shared) for clique, (_, parent, shared) in CLIQUES.items()}
    beliefs = {}
    for clique, scope in SCOPES.items():
        more = set(generator.choice(15, 2).tolist()) if clique % 2 else set()
        beliefs[clique] = random_table(space, tuple(sorted({*scope, *more})), generator)
    return Messages(SCOPES, parents, space), beliefs, generator


def conditional(clique: int, belief: Table) -> Table:
    scope, parent, shared = CLIQUES[clique]
    table = belief.marginal(scope)
    return table.times(table.over(shared).reciprocal()) if parent >= 0 else table


def assert_same(found: dict[int, Table], expected: dict[int, Table]) -> None:
    assert list(found) == list(expected)
    for clique, table in found.items():
        assert table.scope == expected[clique].scope
        np.testing.assert_allclose(table.values, expected[clique].values, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("seed", range(10))
def test_beliefs_are_told_as_conditional_distributions(seed: int) -> None:
    messages, beliefs, _ = given(seed)
    messages.tell(beliefs)
    assert_same(messages.tables, {clique: conditional(clique, beliefs[clique]) for clique in SCOPES})


@pytest.mark.parametrize("seed", range(10))
def test_what_came_from_behind_is_not_told_again(seed: int) -> None:
    messages, beliefs, generator = given(seed)
    messages.tell(beliefs)
    before = messages.tables
    space = messages.tables[1].space
    behind = {clique: random_table(space, scope, generator) for clique, scope in SCOPES.items()}
    expected = {}
    for clique in SCOPES:
        table, divisor = conditional(clique, beliefs[clique]), behind[clique].values
        np.divide(table.values, divisor, out=table.values, where=divisor > 0.0)
        table.values[divisor == 0.0] = before[clique].values[divisor == 0.0]
        expected[clique] = table
    messages.forget_told(behind)
    assert messages.tables == {}
    messages.tell(beliefs, beyond=True)
    assert_same(messages.tables, expected)
    # Where nothing came from behind, all is as before.
    assert any((behind[clique].values == 0.0).any() for clique in SCOPES)


def test_of_what_was_told_only_what_may_stand_is_kept() -> None:
    """Among them a table that was ruled out as a whole, one that was not at all, and what is no number."""
    messages, beliefs, generator = given(3)
    messages.tell(beliefs)
    before, space = messages.tables, messages.tables[1].space
    behind = {clique: random_table(space, scope, generator, zeros=0.0) for clique, scope in SCOPES.items()}
    first, second, third = list(SCOPES)[:3]
    behind[first].scale_in(0.0)
    behind[second].values[3] = math.nan
    messages.forget_told(behind)
    assert {clique: values.size for clique, values in messages._standing.items()} == {
        first: before[first].values.size,
        second: 1,
    }
    messages.tell(beliefs, beyond=True)
    assert messages._standing == {}
    np.testing.assert_array_equal(messages.tables[first].values, before[first].values)
    assert messages.tables[second].values[3] == before[second].values[3]
    expected = conditional(third, beliefs[third]).values / behind[third].values
    np.testing.assert_allclose(messages.tables[third].values, expected, rtol=1e-12)
    # Without anything from behind they are told as they are.
    messages.forget_told({})
    messages.tell(beliefs)
    assert_same(messages.tables, {clique: conditional(clique, beliefs[clique]) for clique in SCOPES})


@pytest.mark.parametrize("seed", range(10))
def test_what_is_heard_is_the_posterior_and_what_it_says_beyond_what_was_told(seed: int) -> None:
    messages, beliefs, generator = given(seed)
    messages.tell(beliefs)
    space = messages.tables[1].space
    following = {
        clique: random_table(space, tuple(sorted({*scope, 14})), generator) for clique, scope in SCOPES.items()
    }
    posteriors, replies = messages.hear(following)
    expected = {clique: following[clique].marginal(scope) for clique, scope in SCOPES.items()}
    for table in expected.values():
        table.normalise_in()
    assert_same(posteriors, expected)
    assert_same(
        replies,
        {
            clique: conditional(clique, posterior).divide_in(messages.tables[clique], 1.0)
            for clique, posterior in expected.items()
        },
    )
    found = messages.compare(beliefs, posteriors)
    for clique, scope in SCOPES.items():
        assert found[clique] == pytest.approx(beliefs[clique].marginal(scope).distance(expected[clique]), rel=1e-12)


@pytest.mark.parametrize("mass", [0.0, 1e-310, 1e-250, 1e300])
def test_any_mass_is_scaled_to_one(mass: float) -> None:
    space = Space((2, 2))
    messages = Messages({0: (0, 1)}, {0: (-1, ())}, space)
    messages.tell({0: Table(space, (0, 1), np.full(4, 0.25))})
    posteriors, _ = messages.hear({0: Table(space, (0, 1), np.full(4, mass / 4.0))})
    np.testing.assert_allclose(posteriors[0].values, np.full(4, 0.25 if mass else 0.0), rtol=1e-12)


def test_there_may_be_no_messages() -> None:
    messages = Messages({}, {}, Space(()))
    messages.tell({})
    assert messages.hear({}) == ({}, {})
    assert messages.compare({}, {}) == {}


def test_messages_have_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_WORTH_WAKING", 1)
    found = []
    for count in (1, 2, 3):
        messages, beliefs, _ = given(5, Control(threads=count))
        messages.tell(beliefs)
        posteriors, replies = messages.hear(beliefs)
        tables = [*messages.tables.values(), *posteriors.values(), *replies.values()]
        found.append((messages.compare(beliefs, replies), [table.values.tobytes() for table in tables]))
    assert found[0] == found[1] == found[2]


def test_large_cliques_are_as_small_ones() -> None:
    generator = np.random.default_rng(0)
    space = Space((3, 2, 5) * 4)
    scope, shared = tuple(range(12)), (0, 3, 4, 8)
    belief = random_table(space, scope, generator)
    messages = Messages({0: scope, 1: scope[:5]}, {0: (1, shared), 1: (-1, ())}, space)
    messages.tell({0: belief, 1: belief})
    total = belief.marginal(shared)
    np.testing.assert_allclose(messages.tables[0].marginal(shared).values, np.ones(total.values.size), rtol=1e-12)
    expected = belief.times(total.reciprocal()).values
    np.testing.assert_allclose(messages.tables[0].values, expected, rtol=1e-12)
    assert math.fsum(messages.tables[1].values) == pytest.approx(math.fsum(belief.values), rel=1e-12)
