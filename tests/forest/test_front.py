"""Fronts through graphs, and the search for the best of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elimination_checks import check_elimination, graph_from, graphs, grid
from ibia.control import Control, Stopped
from ibia.forest import search as search_module
from ibia.forest.elimination import Elimination, eliminate, missing_edges
from ibia.forest.front import by_fronts, far_vertex, follow_front
from ibia.forest.graph import Graph
from ibia.forest.search import search, search_fronts
from ibia.forest.triangulate import clique_tree

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)


@REPEATABLE
@given(graphs(), st.data())
def test_a_front_eliminates_everything(drawn: tuple[Graph, np.ndarray], data: st.DataObject) -> None:
    """Also where the graph is in several pieces, from any vertex."""
    graph, bits = drawn
    found = follow_front(*graph, bits, data.draw(st.integers(0, bits.size - 1)), math.inf)
    check_elimination(found, graph, bits)
    # Its cliques make a tree like any other's.
    tree = clique_tree(found, np.arange(bits.size))
    assert {variable for clique in tree.cliques for variable in clique} == set(range(bits.size))


@REPEATABLE
@given(graphs(), st.floats(0.0, 12.0), st.booleans())
def test_what_is_cheap_goes_first(drawn: tuple[Graph, np.ndarray], most: float, by_fill: bool) -> None:
    """Nothing above the limit is eliminated before, and both parts together are an elimination."""
    graph, bits = drawn
    weights = np.ones(bits.size if by_fill else 0, np.int64)
    criterion = weights, missing_edges(*graph, weights) if by_fill else weights
    noise = np.arange(bits.size, dtype=float)
    gone = eliminate(*graph, bits, *criterion, noise, most, True)
    found = by_fronts(gone, bits, np.array([0.0, 0.3, 0.9]), math.inf, math.inf)
    if np.isfinite(gone.width):
        assert np.isinf(found.width)
        return
    check_elimination(found, graph, bits)
    steps = gone.order.size
    assert found.order[:steps].tolist() == gone.order.tolist()
    assert found.members[: found.starts[steps]].tolist() == gone.members[: gone.starts[steps]].tolist()
    # The first clique of the rest starts what is too expensive to be taken greedily.
    assert found.width > most


def test_of_several_fronts_the_best_is_kept() -> None:
    """Within the bound the one with fewest entries, beyond it a narrow one; and none that is too wide."""
    graph, bits = grid(4, 9), np.ones(36)
    weights = np.ones(36, np.int64)
    gone = eliminate(*graph, bits, weights, missing_edges(*graph, weights), np.arange(36.0), 0.0, True)
    shares = np.array([0.5, 0.1, 0.6, 0.9])

    def found(limit: float, bound: float) -> Elimination:
        return by_fronts(gone, bits, shares, limit, bound)

    assert found(math.inf, 0.0).width == 5.0
    assert found(math.inf, math.inf).size <= found(math.inf, 0.0).size
    assert np.isinf(found(4.5, 0.0).width)
    alone = by_fronts(gone, bits, shares[:1], math.inf, math.inf)
    assert found(math.inf, math.inf).size <= alone.size
    assert found(math.inf, math.inf).work > alone.work


@REPEATABLE
@given(graphs())
def test_the_search_makes_nothing_worse(drawn: tuple[Graph, np.ndarray]) -> None:
    """Of two eliminations the better one is kept, and what is returned is one."""
    graph, bits = drawn
    greedy = search(graph, bits, math.inf, 2, 0.0, 0, math.inf)
    found = search_fronts(graph, bits, greedy, 10)
    check_elimination(found, graph, bits)
    assert found.width + math.log2(found.size) <= greedy.width + math.log2(greedy.size)
    within = search_fronts(graph, bits, greedy, 10, bound=math.inf)
    assert within.size <= greedy.size


def test_the_limit_is_kept() -> None:
    """A front that becomes too wide is given up."""
    graph, bits = grid(4, 9), np.ones(36)
    assert np.isinf(follow_front(*graph, bits, 0, 4.5).width)
    assert follow_front(*graph, bits, 0, 5.0).width == 5.0


@pytest.mark.parametrize(("rows", "columns"), [(4, 30), (8, 8), (10, 40)])
def test_grids_are_as_narrow_as_they_can_be(rows: int, columns: int) -> None:
    """The treewidth of a grid is its shorter side (cliques have one more); greedy elimination misses that by far."""
    graph, bits = grid(rows, columns), np.ones(rows * columns)
    greedy = search(graph, bits, math.inf, 10, 0.0, 0, math.inf)
    found = search_fronts(graph, bits, greedy, 10)
    assert found.width == min(rows, columns) + 1
    if rows > 4:
        assert greedy.width > found.width


def test_the_far_vertex_of_a_path_is_its_end() -> None:
    """From the middle, whichever end is further."""
    path = graph_from([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
    assert far_vertex(*path, 1) == 4
    assert far_vertex(*path, 4) == 0


def test_little_effort_means_few_attempts() -> None:
    """With no effort nothing is tried; what is good enough is left as it is."""
    graph, bits = grid(8, 8), np.ones(64)
    greedy = search(graph, bits, math.inf, 0, 0.0, 0, math.inf)
    assert search_fronts(graph, bits, greedy, 10, effort=-1.0) is greedy
    assert search_fronts(graph, bits, greedy, 10, good_enough=greedy.width) is greedy
    assert search_fronts(graph, bits, greedy, 0) is greedy
    assert search_fronts(graph, bits, greedy, 10) is not greedy


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_find_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts that were made side by side, as if none were better, are made again after one that is."""
    monkeypatch.setattr(search_module, "WORTH_WAKING", 0)
    for rows, columns in ((7, 9), (9, 14)):
        graph, bits = grid(rows, columns), np.log2(np.random.default_rng(rows).integers(2, 5, rows * columns))
        found = []
        for count in (1, threads):
            control = Control(threads=count)
            greedy = search(graph, bits, math.inf, 30, 0.0, 0, 1e3, control)
            found.append((greedy, search_fronts(graph, bits, greedy, 30, effort=1e3, control=control)))
        for one, other in zip(*found, strict=True):
            assert one.order.tolist() == other.order.tolist()
            assert one.members[: one.starts[-1]].tolist() == other.members[: other.starts[-1]].tolist()
            assert one.work == other.work


def test_a_search_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more effort, once the first is spent, what is found is the same, and nothing is tried twice."""
    graph, bits = grid(9, 14), np.ones(126)
    eliminations = []

    def counting(*arguments: Any) -> Elimination:
        found = eliminate(*arguments)
        eliminations.append(found.work)
        return found

    monkeypatch.setattr(search_module, "eliminate", counting)
    at_once = search(graph, bits, math.inf, 60, 0.0, 0, 8.0)
    tried = len(eliminations)
    little = search(graph, bits, math.inf, 60, 0.0, 0, 0.5)
    assert 1 < len(eliminations) - tried < tried
    assert little.order.tolist() != at_once.order.tolist()
    eliminations.clear()
    asked = []
    further = search(graph, bits, math.inf, 60, 0.0, 0, 0.5, None, lambda best: asked.append(best) or 8.0)
    assert [best.order.tolist() for best in asked] == [little.order.tolist()]
    assert further.order.tolist() == at_once.order.tolist()
    assert len(eliminations) == tried


def test_the_search_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at between attempts, and before the first elimination, which may take long."""
    monkeypatch.setattr(search_module, "eliminate", None)
    graph, bits = grid(8, 8), np.ones(64)
    with pytest.raises(Stopped):
        search(graph, bits, math.inf, 10, 0.0, 0, math.inf, Control(deadline=0.0))
