"""Elimination against a plain one that recomputes every cost at every step, hubs with long lists included."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibia.forest.elimination import eliminate, missing_edges, surely_exceeds

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150)

Edges = set[tuple[int, int]]


def compressed(count: int, edges: Edges) -> tuple[np.ndarray, np.ndarray]:
    """Return the graph as starts and sorted neighbours."""
    neighbours = [sorted({b for a, b in edges if a == v} | {a for a, b in edges if b == v}) for v in range(count)]
    starts = np.cumsum([0, *map(len, neighbours)])
    return starts, np.array(list(itertools.chain.from_iterable(neighbours)), np.int64)


def plain_missing(neighbours: dict[int, set[int]], vertex: int, weights: list[int]) -> int:
    pairs = itertools.combinations(sorted(neighbours[vertex]), 2)
    return sum(weights[one] * weights[other] for one, other in pairs if other not in neighbours[one])


def plain_elimination(
    count: int, edges: Edges, log2: list[float], weights: list[int], noise: list[float]
) -> tuple[list[int], list[list[int]]]:
    """Return order and cliques; without weights the clique with the fewest bits comes first."""
    neighbours: dict[int, set[int]] = {vertex: set() for vertex in range(count)}
    for one, other in edges:
        neighbours[one].add(other)
        neighbours[other].add(one)
    order, cliques = [], []
    while neighbours:

        def key(vertex: int) -> tuple[float, float, float, int]:
            bits = log2[vertex] + sum(log2[other] for other in neighbours[vertex])
            return plain_missing(neighbours, vertex, weights) if weights else 0, bits, noise[vertex], vertex

        vertex = min(neighbours, key=key)
        around = neighbours.pop(vertex)
        order.append(vertex)
        cliques.append(sorted({vertex, *around}))
        for other in around:
            neighbours[other] |= around - {other}
            neighbours[other].discard(vertex)
    return order, cliques


def check_against_plain(count: int, edges: Edges, log2: list[float], weights: list[int], noise: list[float]) -> None:
    starts, neighbours = compressed(count, edges)
    weighted = np.array(weights, np.int64)
    missing = missing_edges(starts, neighbours, weighted) if weights else weighted
    found = eliminate(starts, neighbours, np.array(log2), weighted, missing, np.array(noise), math.inf, False)
    order, cliques = plain_elimination(count, edges, log2, weights, noise)
    assert found.order.tolist() == order
    assert [found.members[a:b].tolist() for a, b in itertools.pairwise(found.starts)] == cliques
    bits = [sum(log2[vertex] for vertex in clique) for clique in cliques]
    assert found.width == max(bits)
    assert found.size == sum(2.0**clique for clique in bits)
    # A limit is met exactly, and given up below.
    for limit, expected in ((found.width, found.width), (found.width - 0.5, math.inf)):
        again = eliminate(starts, neighbours, np.array(log2), weighted, missing, np.array(noise), limit, False)
        assert again.width == expected


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    count = draw(st.integers(1, 16))
    pairs = list(itertools.combinations(range(count), 2))
    return count, set(draw(st.lists(st.sampled_from(pairs), max_size=40))) if pairs else set()


@REPEATABLE
@given(graphs(), st.sampled_from(["fill", "weighted", "size"]), st.data())
def test_order_and_cliques_are_those_of_a_plain_elimination(
    graph: tuple[int, Edges], criterion: str, data: st.DataObject
) -> None:
    count, edges = graph
    log2 = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0]), min_size=count, max_size=count))
    weights = {"fill": [1] * count, "weighted": [int(4 * bits) + 1 for bits in log2], "size": []}[criterion]
    noise = data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=count, max_size=count))
    check_against_plain(count, edges, log2, weights, noise)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_hubs_with_long_lists(seed: int, weighted: bool) -> None:
    """Two hubs, each next to a third of a ladder: their lists are searched, and filled where entries are gone."""
    generator = np.random.default_rng(seed)
    rungs = 110
    edges = {(2 * r, 2 * r + 1) for r in range(rungs)}
    edges |= {(2 * r + side, 2 * r + 2 + side) for r in range(rungs - 1) for side in (0, 1)}
    edges |= {(vertex, 2 * rungs + hub) for vertex in range(2 * rungs) for hub in (0, 1) if generator.random() < 0.4}
    count = 2 * rungs + 2
    # Other numbers, so that the hubs are not the last.
    number = generator.permutation(count).tolist()
    edges = {(number[one], number[other]) for one, other in edges}
    noise = generator.random(count).tolist()
    check_against_plain(count, edges, [1.0] * count, [1] * count if weighted else [], noise)


@REPEATABLE
@given(graphs(), st.lists(st.integers(1, 5), min_size=16, max_size=16))
def test_missing_edges(graph: tuple[int, Edges], weights: list[int]) -> None:
    count, edges = graph
    found = missing_edges(*compressed(count, edges), np.array(weights[:count]))
    neighbours = {v: {a + b - v for a, b in edges if v in (a, b)} for v in range(count)}
    assert found.tolist() == [plain_missing(neighbours, vertex, weights) for vertex in range(count)]


def narrowest(count: int, edges: Edges, log2: list[float]) -> float:
    """Return the bits of the largest clique of the best elimination order, by trying all."""
    best = math.inf
    for order in itertools.permutations(range(count)):
        neighbours = {vertex: {a + b - vertex for a, b in edges if vertex in (a, b)} for vertex in range(count)}
        width = 0.0
        for vertex in order:
            around = neighbours.pop(vertex)
            width = max(width, log2[vertex] + math.fsum(log2[other] for other in around))
            for other in around:
                neighbours[other] |= around - {other}
                neighbours[other].discard(vertex)
        best = min(best, width)
    return best


@REPEATABLE
@given(st.integers(1, 6), st.data())
def test_what_surely_exceeds_has_no_elimination_within_the_limit(count: int, data: st.DataObject) -> None:
    pairs = list(itertools.combinations(range(count), 2))
    edges = set(data.draw(st.lists(st.sampled_from(pairs), unique=True))) if pairs else set()
    log2 = data.draw(st.lists(st.sampled_from([1.0, math.log2(3), 2.0, 5.0]), min_size=count, max_size=count))
    width = narrowest(count, edges, log2)
    assert not surely_exceeds(*compressed(count, edges), np.array(log2), width)
    if len(edges) == len(pairs):
        assert surely_exceeds(*compressed(count, edges), np.array(log2), width - 0.1), "a clique is as wide as it is"


def test_grids_surely_exceed_what_they_need() -> None:
    side = 5
    edges = {(v, v + 1) for v in range(side * side) if (v + 1) % side}
    edges |= {(v, v + side) for v in range(side * (side - 1))}
    graph = compressed(side * side, edges)
    bits = np.ones(side * side)
    assert surely_exceeds(*graph, bits, 4.0)
    assert not surely_exceeds(*graph, bits, side + 1.0)
