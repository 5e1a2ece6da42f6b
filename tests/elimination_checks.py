"""Graphs for tests of eliminations, and what must hold of an elimination."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import strategies as st

from ibia.forest.elimination import Elimination
from ibia.forest.graph import Graph, graph_of


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


def check_elimination(found: Elimination, graph: Graph, bits: np.ndarray) -> None:
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
