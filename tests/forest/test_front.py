"""Fronts through graphs, and the search for the best of them."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibia.forest.elimination import Elimination, eliminate, missing_edges
from ibia.forest.front import Rest, far_vertex, follow_front, without_cheap
from ibia.forest.graph import Graph, graph_of
from ibia.forest.search import search, search_fronts
from ibia.forest.triangulate import clique_tree

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)


def graph_from(pairs: list[tuple[int, int]], count: int) -> Graph:
    """Return the graph over that many vertices with these edges."""
    members = [vertex for pair in pairs for vertex in pair] + list(range(count))
    return graph_of(np.array([2] * len(pairs) + [1] * count), np.array(members))[1]


def grid(rows: int, columns: int) -> Graph:
    """Return the graph of a grid."""
    places = [(row, column) for row in range(rows) for column in range(columns)]
    across = [(row * columns + column, row * columns + column + 1) for row, column in places if column + 1 < columns]
    down = [(row * columns + column, (row + 1) * columns + column) for row, column in places if row + 1 < rows]
    return graph_from(across + down, rows * columns)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, np.ndarray]:
    """Draw a graph, in one piece or several, and the bits of its vertices."""
    count = draw(st.integers(1, 12))
    pairs = draw(st.lists(st.sampled_from(list(combinations(range(count), 2)) or [(0, 0)]), max_size=25))
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    bits = np.log2(draw(st.lists(st.integers(2, 5), min_size=count, max_size=count)))
    return graph_from(pairs, count), bits


def check(found: Elimination, graph: Graph, bits: np.ndarray) -> None:
    """Check that an elimination is what eliminating in its order makes of the graph."""
    count = bits.size
    assert sorted(found.order.tolist()) == list(range(count))
    neighbours = [set(graph.neighbours[graph.starts[v] : graph.starts[v + 1]].tolist()) for v in range(count)]
    widths = []
    for step, vertex in enumerate(found.order.tolist()):
        clique = found.members[found.starts[step] : found.starts[step + 1]].tolist()
        assert clique == sorted(clique)
        # More may be in it, but nothing that is gone already.
        assert set(clique) >= {vertex} | neighbours[vertex]
        assert not set(clique) & set(found.order[:step].tolist())
        for one in clique:
            neighbours[one] |= set(clique) - {one, vertex}
            neighbours[one].discard(vertex)
        widths.append(bits[clique].sum())
    assert found.width == pytest.approx(max(widths))
    assert found.size == pytest.approx(sum(2.0**width for width in widths))


def assert_left(rest: Rest, graph: Graph) -> None:
    """Check that the rest is what eliminating one vertex after the other leaves, its lists sorted."""
    lists = np.split(graph.neighbours, graph.starts[1:-1])
    neighbours = {vertex: set(found.tolist()) for vertex, found in enumerate(lists)}
    for vertex in rest.before.order.tolist():
        around = neighbours.pop(vertex)
        for one in around:
            neighbours[one] = (neighbours[one] | around) - {one, vertex}
    assert rest.vertices.tolist() == sorted(neighbours)
    for place, vertex in enumerate(rest.vertices.tolist()):
        found = rest.graph.neighbours[rest.graph.starts[place] : rest.graph.starts[place + 1]]
        assert rest.vertices[found].tolist() == sorted(neighbours[vertex])


@REPEATABLE
@given(graphs(), st.data())
def test_a_front_eliminates_everything(drawn: tuple[Graph, np.ndarray], data: st.DataObject) -> None:
    """Also where the graph is in several pieces, from any vertex."""
    graph, bits = drawn
    found = follow_front(*graph, bits, data.draw(st.integers(0, bits.size - 1)), math.inf)
    check(found, graph, bits)
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
    rest = without_cheap(graph, bits, criterion, noise, most)
    if rest is None:
        assert np.isfinite(eliminate(*graph, bits, *criterion, noise, most, True).width)
        return
    assert rest.before.width <= most
    assert_left(rest, graph)
    check(rest.joined(follow_front(*rest.graph, bits[rest.vertices], 0, math.inf)), graph, bits)


@REPEATABLE
@given(graphs())
def test_the_search_makes_nothing_worse(drawn: tuple[Graph, np.ndarray]) -> None:
    """Of two eliminations the better one is kept, and what is returned is one."""
    graph, bits = drawn
    greedy = search(graph, bits, math.inf, 2, 0.0, 0, math.inf)
    found = search_fronts(graph, bits, greedy, 10)
    check(found, graph, bits)
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
