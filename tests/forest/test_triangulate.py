"""Triangulation: every scope in a clique, running intersection, limits respected, the same tree each time."""

from __future__ import annotations

import importlib
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibia.forest.checks import check_forest
from ibia.forest.elimination import Elimination, eliminate
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


def check_large_tree(tree: CliqueTree, scopes: list[tuple[int, ...]]) -> None:
    """Check in one pass that scopes lie in cliques and that the cliques of each variable hang together."""
    sets = [set(clique) for clique in tree.cliques]
    place = {variable: position for position, variable in enumerate(tree.order)}
    for scope in scopes:
        assert sets[tree.home[min(scope, key=place.__getitem__)]].issuperset(scope)
    # A forest whose every variable has one clique more than edges: its cliques are connected.
    excess = dict.fromkeys(tree.order, 0)
    for clique in tree.cliques:
        for variable in clique:
            excess[variable] += 1
    leader = list(range(len(sets)))
    for first, second in tree.edges:
        assert first != second
        for variable in sets[first] & sets[second]:
            excess[variable] -= 1
        ends = [first, second]
        for k in range(2):
            while leader[ends[k]] != ends[k]:
                leader[ends[k]] = leader[leader[ends[k]]]
                ends[k] = leader[ends[k]]
        assert ends[0] != ends[1]
        leader[ends[0]] = ends[1]
    assert set(excess.values()) == {1}


def large_models() -> dict[str, tuple[list[tuple[int, ...]], float]]:
    """Return scopes of models with 10^5 variables, and the width that is known to be possible."""
    count = 100_000
    generator = np.random.default_rng(0)
    parents = (generator.random(count) * np.arange(count)).astype(int).tolist()
    return {
        "tree": ([(parents[child], child) for child in range(1, count)], 2.0),
        "star": ([(child, count - 1) for child in range(count - 1)], 2.0),
        "chain of cliques": ([tuple(range(first, first + 5)) for first in range(0, count - 4, 2)], 5.0),
    }


@pytest.mark.parametrize("name", large_models())
def test_large_sparse_models(name: str) -> None:
    scopes, width = large_models()[name]
    tree = triangulate(scopes, [1.0] * 100_000, restarts=1)
    assert tree is not None
    assert tree.width == width
    assert len(tree.cliques) == len(scopes)
    check_large_tree(tree, scopes)


def test_a_long_grid_with_a_hub() -> None:
    rows, columns = 2000, 5
    hub = rows * columns
    scopes = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    scopes += [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]
    scopes += [(variable, hub) for variable in range(0, hub, 2)]
    tree = triangulate(scopes, [1.0] * (hub + 1))
    assert tree is not None
    assert tree.width <= columns + 4
    check_large_tree(tree, scopes)


def test_effort_bounds_the_search_by_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarts end when their steps exceed the entries of the best tree times the effort."""
    module = importlib.import_module("ibia.forest.search")
    made: list[Elimination] = []

    def counted(*arguments: Any) -> Elimination:
        made.append(eliminate(*arguments))
        return made[-1]

    monkeypatch.setattr(module, "eliminate", counted)
    generator = np.random.default_rng(4)
    scopes = [tuple(sorted(generator.choice(40, 2, replace=False).tolist())) for _ in range(80)]
    log2 = [1.0] * 40
    trees = {}
    eliminations = []
    for effort in (0.0, 1.0, 4.0, math.inf):
        made.clear()
        trees[effort] = triangulate(scopes, log2, restarts=100, effort=effort)
        eliminations.append(len(made))
        best = math.inf
        for number, elimination in enumerate(made):
            best = min(best, elimination.size) if number else elimination.size
        work = [elimination.work for elimination in made]
        if effort < math.inf:
            assert sum(work) > effort * best
            assert sum(work[:-1]) <= effort * made[0].size
    assert trees[0.0] == triangulate(scopes, log2)
    assert trees[math.inf] == triangulate(scopes, log2, restarts=100)
    assert eliminations == sorted(eliminations)
    assert eliminations[0] == 1
    assert 1 < eliminations[1] < 101
    assert eliminations[-1] == 101
