"""Refinement of eliminations: regions of the clique tree eliminated anew."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings

from elimination_checks import check_elimination, graph_from, graphs, grid
from ibia.control import Control, Stopped
from ibia.forest.elimination import Elimination
from ibia.forest.graph import Graph, local_graph
from ibia.forest.refine import _ALL, _CHANGES, _FREE_CLIQUES, _FREE_EDGES, _LOOKED, _Refinement, refine
from ibia.forest.search import search, search_fronts
from ibia.forest.triangulate import clique_tree

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100)


def random_graph(count: int, degree: float, seed: int) -> tuple[Graph, np.ndarray]:
    """Return a sparse graph whose vertices are mostly joined to near ones, and the bits of its vertices."""
    generator = np.random.default_rng(seed)
    pairs = [
        (one, other)
        for one, other in combinations(range(count), 2)
        if generator.random() < degree / (2.0 * (1.0 + abs(one - other)))
    ]
    return graph_from(pairs, count), np.log2(generator.integers(2, 5, count))


def as_it_was_eliminated(graph: Graph, bits: np.ndarray) -> Elimination:
    """Return a greedy elimination without a second attempt."""
    return search(graph, bits, math.inf, 0, 0.0, 0, math.inf)


@REPEATABLE
@given(graphs())
def test_what_is_refined_is_an_elimination(drawn: tuple[Graph, np.ndarray]) -> None:
    """Also of graphs in several pieces; nothing gets wider, and there are no more entries in maximal cliques."""
    graph, bits = drawn
    start = as_it_was_eliminated(graph, bits)
    found = refine(graph, bits, [start], 1e6)
    check_elimination(found, graph, bits)
    assert found.width <= start.width + 1e-9
    assert maximal_entries(found, bits) <= maximal_entries(start, bits) * (1.0 + 1e-9)


def maximal_entries(elimination: Elimination, bits: np.ndarray) -> float:
    """Return the entries of the tables of the maximal cliques."""
    tree = clique_tree(elimination, np.arange(bits.size))
    return float(sum(2.0 ** bits[list(clique)].sum() for clique in tree.cliques))


@pytest.mark.parametrize("seed", range(6))
def test_sparse_graphs_become_narrower(seed: int) -> None:
    """Where whole eliminations, again and again, do not find anything better."""
    graph, bits = random_graph(120, 1.8, seed)
    greedy = search(graph, bits, math.inf, 20, 0.0, 0, math.inf)
    fronts = search_fronts(graph, bits, greedy, 20)
    found = refine(graph, bits, [greedy, fronts], 1e3)
    check_elimination(found, graph, bits)
    assert found.width <= fronts.width + 1e-9
    assert maximal_entries(found, bits) < 0.9 * min(maximal_entries(fronts, bits), maximal_entries(greedy, bits))


def test_grids_from_a_bad_start() -> None:
    """One greedy elimination of a grid is far from its treewidth; refinement alone comes nearer."""
    graph, bits = grid(12, 12), np.ones(144)
    start = as_it_was_eliminated(graph, bits)
    found = refine(graph, bits, [start], 1e3)
    check_elimination(found, graph, bits)
    assert start.width >= 17.0
    assert found.width <= 15.0


def test_the_best_of_several_starts() -> None:
    """What is wide is given up for what is narrow."""
    graph, bits = grid(6, 30), np.ones(180)
    wide = as_it_was_eliminated(graph, bits)
    narrow = search_fronts(graph, bits, wide, 20)
    assert narrow.width < wide.width
    assert refine(graph, bits, [wide, narrow], 1e-3) is narrow
    assert refine(graph, bits, [wide, narrow], 100.0).width <= narrow.width


def test_the_same_each_time() -> None:
    """Same graph, same elimination, whatever the threads."""
    graph, bits = random_graph(80, 1.8, 9)
    start = as_it_was_eliminated(graph, bits)
    first, second = (refine(graph, bits, [start], 10.0, control=Control(threads=threads)) for threads in (1, 4))
    assert first.order.tolist() == second.order.tolist()
    assert first.members.tolist() == second.members.tolist()


def test_little_effort_and_good_enough() -> None:
    """Nothing is done where it cannot pay, or where it is good enough already."""
    graph, bits = random_graph(120, 1.8, 0)
    start = as_it_was_eliminated(graph, bits)
    assert refine(graph, bits, [start], 0.0) is start
    assert refine(graph, bits, [start], 1e3, most_entries=1.0) is start
    assert refine(graph, bits, [start], 1e3, good_enough=start.width) is start
    assert refine(graph, bits, [start], 1e3) is not start


def test_it_ends_where_nothing_is_gained() -> None:
    """A cycle has one best tree: after some regions in vain the search is over, however much effort is allowed."""
    count = 40
    graph, bits = graph_from([(vertex, (vertex + 1) % count) for vertex in range(count)], count), np.ones(count)
    search = _Refinement(graph, bits, as_it_was_eliminated(graph, bits), 0.0, None, 0)
    search.run(1e12, math.inf)
    assert search.best.width == 3.0
    assert search._tree is not None
    assert 64 <= search._tree.counts[_LOOKED] <= 1000


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_stays_a_tree(seed: int) -> None:
    """After many changes: edges are seen from both ends, join what they should, and every clique is maximal."""
    graph, _ = random_graph(150, 1.8, seed)
    bits = np.full(150, 0.75)
    search = _Refinement(graph, bits, as_it_was_eliminated(graph, bits), 0.0, None, 0)
    search.run(1e3, math.inf)
    tree = search._tree
    assert tree is not None
    assert tree.counts[_CHANGES] > 20
    cliques = {
        clique: set(tree.pool[tree.begins[clique] : tree.begins[clique] + length].tolist())
        for clique, length in enumerate(tree.lengths.tolist())
        if length >= 0
    }
    assert sorted(cliques) == tree.all[: tree.counts[_ALL]].tolist()
    ends = {}
    for clique in cliques:
        edge = int(tree.edges[clique])
        while edge >= 0:
            ends[edge] = clique, int(tree.others[edge])
            edge = int(tree.following[edge])
    assert all(ends[edge ^ 1] == pair[::-1] for edge, pair in ends.items())
    assert len(ends) == 2 * (len(cliques) - count_components(graph))
    assert len(ends) // 2 + tree.counts[_FREE_EDGES] == len(cliques) + tree.counts[_FREE_CLIQUES] == bits.size
    for vertex in range(bits.size):
        # Its cliques hang together: as many edges between them as a tree has.
        holders = {clique for clique, members in cliques.items() if vertex in members}
        inside = sum(one in holders and other in holders for one, other in ends.values())
        assert inside == 2 * (len(holders) - 1)
    for one, other in ends.values():
        assert not cliques[one] <= cliques[other]
    sizes = [bits[list(members)].sum() for members in cliques.values()]
    assert tree.figures.tolist() == pytest.approx([sum(2.0**size for size in sizes), max(sizes)])


def count_components(graph: Graph) -> int:
    """Return in how many pieces a graph is."""
    left, pieces = set(range(graph.starts.size - 1)), 0
    while left:
        waiting = [left.pop()]
        pieces += 1
        while waiting:
            vertex = waiting.pop()
            near = left & set(graph.neighbours[graph.starts[vertex] : graph.starts[vertex + 1]].tolist())
            left -= near
            waiting += near
    return pieces


def test_it_can_be_stopped() -> None:
    """The clock is looked at."""
    graph, bits = random_graph(120, 1.8, 0)
    with pytest.raises(Stopped):
        refine(graph, bits, [as_it_was_eliminated(graph, bits)], 1e12, control=Control(deadline=0.0))


def test_local_graphs() -> None:
    """The part of a path over some vertices, with two of them joined that are on its border."""
    path = graph_from([(0, 1), (1, 2), (2, 3), (3, 4)], 5)
    place = np.array([-1, 0, 1, -1, 2])
    starts, neighbours = local_graph(*path, np.array([1, 2, 4]), place, np.array([0, 2, 2]), np.array([2, 0]))
    assert starts.tolist() == [0, 2, 3, 4]
    assert neighbours.tolist() == [1, 2, 0, 0]


def test_what_is_far_too_wide_is_left_alone() -> None:
    """Nobody will fill such tables, and the number of their entries may be beyond all numbers."""
    graph, bits = grid(20, 20), np.full(400, 100.0)
    start = as_it_was_eliminated(graph, bits)
    assert start.size == math.inf
    assert refine(graph, bits, [start], 1e3, 2.0**24) is start
