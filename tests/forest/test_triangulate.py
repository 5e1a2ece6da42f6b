"""Triangulation: every scope in a clique, running intersection, limits respected, the same tree each time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibia.forest.checks import check_forest
from ibia.forest.forest import Forest
from ibia.forest.triangulate import CliqueTree, triangulate
from ibia.tables import Space

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=80)


def as_forest(tree: CliqueTree) -> Forest:
    """Return the tree as a forest, sepsets being what the neighbours share."""
    forest = Forest()
    for clique, scope in enumerate(tree.cliques):
        forest.add_clique(clique, scope)
    for first, second in tree.edges:
        shared = tuple(sorted(set(tree.cliques[first]).intersection(tree.cliques[second])))
        forest.connect(first, second, shared)
    return forest


def check_tree(tree: CliqueTree, scopes: list[tuple[int, ...]], space: Space, limit: float = math.inf) -> None:
    """Check all that a clique tree promises."""
    forest = as_forest(tree)
    check_forest(forest, space, None if limit == math.inf else limit)
    variables = sorted({variable for scope in scopes for variable in scope})
    assert sorted(tree.order) == variables
    assert len(tree.edges) == len(tree.cliques) - len(list(forest.trees()))
    place = {variable: position for position, variable in enumerate(tree.order)}
    for scope in scopes:
        if scope:
            first = min(scope, key=place.__getitem__)
            assert set(scope) <= set(tree.cliques[tree.home[first]])
    # Only maximal cliques: none lies inside another.
    for one, other in itertools.permutations(tree.cliques, 2):
        assert not set(one) <= set(other)
    assert tree.width == pytest.approx(max((space.bits(clique) for clique in tree.cliques), default=0.0))


@st.composite
def hypergraphs(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], Space]:
    """Draw scopes over variables of one to four states; not every variable need occur."""
    count = draw(st.integers(1, 14))
    space = Space(tuple(draw(st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=count, max_size=count))))
    scope = st.lists(st.integers(0, count - 1), min_size=1, max_size=4, unique=True).map(lambda s: tuple(sorted(s)))
    return draw(st.lists(scope, min_size=1, max_size=20)), space


@REPEATABLE
@given(hypergraphs(), st.integers(0, 6))
def test_any_scopes_become_a_valid_tree(case: tuple[list[tuple[int, ...]], Space], restarts: int) -> None:
    scopes, space = case
    tree = triangulate(scopes, space.log2, restarts=restarts)
    assert tree is not None
    check_tree(tree, scopes, space)
    # As many trees as the scopes have connected parts.
    groups: list[set[int]] = []
    for scope in scopes:
        touched = [group for group in groups if group.intersection(scope)]
        groups = [group for group in groups if group not in touched] + [set(scope).union(*touched)]
    assert len(list(as_forest(tree).trees())) == len(groups)


@REPEATABLE
@given(hypergraphs(), st.floats(1.0, 8.0))
def test_a_limit_is_respected_or_nothing_is_returned(case: tuple[list[tuple[int, ...]], Space], limit: float) -> None:
    scopes, space = case
    tree = triangulate(scopes, space.log2, limit, restarts=3)
    free = triangulate(scopes, space.log2)
    assert free is not None
    if tree is None:
        assert free.width > limit
    else:
        check_tree(tree, scopes, space, limit)
    if max(space.bits(scope) for scope in scopes) > limit + 1e-6:
        assert tree is None


def test_same_seed_same_tree_and_restarts_never_hurt() -> None:
    generator = np.random.default_rng(0)
    for _ in range(10):
        scopes = [tuple(sorted(generator.choice(40, 3, replace=False).tolist())) for _ in range(60)]
        log2 = [1.0] * 40
        first, second = (triangulate(scopes, log2, restarts=8, seed=5) for _ in range(2))
        assert first == second
        single = triangulate(scopes, log2)
        assert first is not None
        assert single is not None
        assert first.width <= single.width


@pytest.mark.parametrize(("height", "width"), [(3, 9), (4, 6), (5, 5)])
def test_grids_get_their_known_width(height: int, width: int) -> None:
    scopes = [(r * width + c, r * width + c + 1) for r in range(height) for c in range(width - 1)]
    scopes += [(r * width + c, (r + 1) * width + c) for r in range(height - 1) for c in range(width)]
    space = Space((2,) * (height * width))
    tree = triangulate(scopes, space.log2, restarts=60)
    assert tree is not None
    check_tree(tree, scopes, space)
    # The treewidth of a grid is its shorter side, and a clique has one variable more.
    assert tree.width == min(height, width) + 1


def test_trees_and_chains_need_no_fill() -> None:
    scopes = [(place, place + 1) for place in range(99)]
    tree = triangulate(scopes, [1.0] * 100)
    assert tree is not None
    assert sorted(tree.cliques) == scopes
    assert len(tree.edges) == 98


def test_large_cardinalities_are_kept_apart() -> None:
    """A square: the diagonal between the small variables is the cheap one."""
    space = Space((2, 50, 2, 50))
    tree = triangulate([(0, 1), (1, 2), (2, 3), (0, 3)], space.log2, restarts=8)
    assert tree is not None
    assert sorted(tree.cliques) == [(0, 1, 2), (0, 2, 3)]


def test_more_than_sixty_four_variables_and_large_cliques() -> None:
    scopes = [tuple(range(70)), *((place, place + 70) for place in range(70))]
    space = Space((2,) * 140)
    tree = triangulate(scopes, space.log2)
    assert tree is not None
    check_tree(tree, scopes, space)
    assert triangulate(scopes, space.log2, 69.0) is None
    wide = [tuple(range(300))]
    tree = triangulate(wide, [1.0] * 300)
    assert tree is not None
    assert tree.cliques == wide


def test_nothing_to_triangulate() -> None:
    assert triangulate([], []) == CliqueTree(0.0, [], [], [], {})
    assert triangulate([(3,), (1,)], [1.0] * 4) == CliqueTree(1.0, [1, 3], [(1,), (3,)], [], {1: 0, 3: 1})


def test_good_enough_stops_early_within_the_limit() -> None:
    generator = np.random.default_rng(2)
    scopes = [tuple(sorted(generator.choice(30, 2, replace=False).tolist())) for _ in range(60)]
    best = triangulate(scopes, [1.0] * 30, restarts=50)
    enough = triangulate(scopes, [1.0] * 30, restarts=50, good_enough=100.0)
    first = triangulate(scopes, [1.0] * 30)
    assert best is not None
    assert enough == first
    assert best.width <= first.width
