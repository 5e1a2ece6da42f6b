"""The clique-tree forest: cliques, sepsets, and, once filled, their beliefs.

Edges are kept on both ends. A forest is a set of disjoint trees; a sepset is never empty. Structure only: messages are
passed in ``calibrate.py``, scopes are chosen in ``triangulate.py`` and ``steps/``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ibia.forest.layout import Trees
from ibia.tables import Scope, Table

__all__ = ["Edge", "Forest", "edge", "forest_of"]

Edge = tuple[int, int]


def edge(first: int, second: int) -> Edge:
    """Return the key of the edge between two cliques."""
    return (first, second) if first < second else (second, first)


class Forest:
    """Disjoint clique trees.

    Attributes
    ----------
    scopes
        Clique number → its sorted variables.
    neighbours
        Clique number → neighbour → variables of the sepset between them.
    beliefs, sepsets
        Tables of cliques and edges, when filled.
    """

    def __init__(self) -> None:
        self.scopes: dict[int, Scope] = {}
        self.neighbours: dict[int, dict[int, Scope]] = {}
        self.beliefs: dict[int, Table] = {}
        self.sepsets: dict[Edge, Table] = {}

    def add_clique(self, clique: int, scope: Scope) -> None:
        """Add a clique that has no neighbours yet."""
        self.scopes[clique] = scope
        self.neighbours[clique] = {}

    def connect(self, first: int, second: int, sepset: Scope) -> None:
        """Join two cliques by an edge."""
        self.neighbours[first][second] = sepset
        self.neighbours[second][first] = sepset

    def remove_clique(self, clique: int) -> None:
        """Remove a clique and its edges."""
        for neighbour in self.neighbours.pop(clique):
            del self.neighbours[neighbour][clique]
            self.sepsets.pop(edge(clique, neighbour), None)
        del self.scopes[clique]
        self.beliefs.pop(clique, None)

    def clear_tables(self) -> None:
        """Drop beliefs and sepsets."""
        self.beliefs = {}
        self.sepsets = {}

    def share_tables(self) -> Forest:
        """Return a forest of its own structure whose tables are (for now) the same objects."""
        copy = Forest()
        copy.scopes = dict(self.scopes)
        copy.neighbours = {clique: dict(sepsets) for clique, sepsets in self.neighbours.items()}
        copy.beliefs = dict(self.beliefs)
        copy.sepsets = dict(self.sepsets)
        return copy

    def twin(self) -> Forest:
        """Return a forest without tables of the very same structure: neither must be changed any more."""
        twin = Forest()
        twin.scopes, twin.neighbours = self.scopes, self.neighbours
        return twin

    def holders(self) -> dict[int, set[int]]:
        """Return for each variable the cliques that hold it."""
        holders: dict[int, set[int]] = {}
        for clique, scope in self.scopes.items():
            for variable in scope:
                holders.setdefault(variable, set()).add(clique)
        return holders

    def edges(self) -> Iterator[tuple[int, int, Scope]]:
        """Iterate over the edges, each once."""
        for first, sepsets in self.neighbours.items():
            for second, sepset in sepsets.items():
                if first < second:
                    yield first, second, sepset

    def walk(self, root: int, within: Iterable[int] | None = None) -> list[tuple[int, int]]:
        """Return the cliques of the tree of `root` from the root outwards, each with its parent (−1 for the root)."""
        allowed = None if within is None else set(within)
        order = [(root, -1)]
        for clique, parent in order:
            order.extend(
                (neighbour, clique)
                for neighbour in self.neighbours[clique]
                if neighbour != parent and (allowed is None or neighbour in allowed)
            )
        return order

    def trees(self) -> Iterator[list[tuple[int, int]]]:
        """Iterate over the trees, each as `walk` gives it from its first clique."""
        seen: set[int] = set()
        for clique in self.scopes:
            if clique not in seen:
                tree = self.walk(clique)
                seen.update(member for member, _ in tree)
                yield tree

    def __str__(self) -> str:
        """Draw the trees, one clique a line."""
        lines = []
        for tree in self.trees():
            depth = {-1: -1}
            children: dict[int, list[int]] = {}
            for clique, parent in tree:
                depth[clique] = depth[parent] + 1
                children.setdefault(parent, []).append(clique)
            stack = [tree[0][0]]
            while stack:
                clique = stack.pop()
                variables = " ".join(map(str, self.scopes[clique]))
                lines.append(f"{'   ' * depth[clique]}{'└─ ' if depth[clique] else ''}({variables})")
                stack.extend(reversed(children.get(clique, [])))
        return "\n".join(lines)


def forest_of(trees: Trees) -> Forest:
    """Return trees that are laid out in arrays as a forest."""
    forest = Forest()
    scopes, sepsets = trees.scopes.tolist(), trees.sepsets.tolist()
    for clique, (begin, end) in enumerate(pairwise(trees.scope_starts.tolist())):
        forest.add_clique(clique, tuple(scopes[begin:end]))
    for clique, (begin, end) in enumerate(pairwise(trees.sepset_starts.tolist())):
        if trees.parents[clique] >= 0:
            forest.connect(int(trees.parents[clique]), clique, tuple(sepsets[begin:end]))
    return forest
