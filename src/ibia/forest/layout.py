"""Clique trees in flat arrays, parents before children: how compiled message passing wants them.

They come straight from an elimination, or from a forest. Structure only, of cliques, edges, and where to read which
marginal; knows nothing of tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry
from ibia.sorting import sort_parts

__all__ = ["Readings", "Trees", "assign_readings", "lay_out"]

_compile = entry()

Integers = NDArray[np.int64]


class Trees(NamedTuple):
    """Disjoint clique trees, parents before children.

    Attributes
    ----------
    scope_starts, scopes
        Variables of each clique, sorted.
    parents, child_starts, children
        The trees (parent −1: a root).
    sepset_starts, sepsets
        Variables shared with the parent, sorted.
    """

    scope_starts: Integers
    scopes: Integers
    parents: Integers
    child_starts: Integers
    children: Integers
    sepset_starts: Integers
    sepsets: Integers


class Readings(NamedTuple):
    """From which clique, or from which sepset towards a parent, to take the marginals of which variables."""

    starts: Integers
    variables: Integers
    sepset_starts: Integers
    sepset_variables: Integers


@_compile
def lay_out(starts: Integers, members: Integers, firsts: Integers, seconds: Integers) -> tuple[Trees, Integers]:
    """Lay out cliques that are joined by edges, breadth first, and return also the place of each clique.

    Parameters
    ----------
    starts, members
        Variables of each clique; sorted afterwards.
    firsts, seconds
        Ends of the edges.
    """
    count = starts.size - 1
    sort_parts(starts, members)
    edge_starts = np.zeros(count + 1, np.int64)
    for edge in range(firsts.size):
        edge_starts[firsts[edge] + 1] += 1
        edge_starts[seconds[edge] + 1] += 1
    filled = np.empty(count, np.int64)
    for clique in range(count):
        edge_starts[clique + 1] += edge_starts[clique]
        filled[clique] = edge_starts[clique]
    neighbours = np.empty(2 * firsts.size, np.int64)
    for edge in range(firsts.size):
        one, other = firsts[edge], seconds[edge]
        neighbours[filled[one]], neighbours[filled[other]] = other, one
        filled[one] += 1
        filled[other] += 1
    places = np.full(count, -1, np.int64)
    order = np.empty(count, np.int64)
    parents = np.empty(count, np.int64)
    child_starts = np.zeros(count + 1, np.int64)
    children = np.empty(firsts.size, np.int64)
    placed, walked, born = 0, 0, 0
    for root in range(count):
        if places[root] >= 0:
            continue
        order[placed], parents[placed], places[root] = root, -1, placed
        placed += 1
        while walked < placed:
            for neighbour in neighbours[edge_starts[order[walked]] : edge_starts[order[walked] + 1]]:
                if places[neighbour] < 0:
                    order[placed], parents[placed], places[neighbour] = neighbour, walked, placed
                    children[born] = placed
                    born += 1
                    placed += 1
            walked += 1
            child_starts[walked] = born
    scope_starts, sepset_starts = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    scopes, sepsets = np.empty(members.size, np.int64), np.empty(members.size, np.int64)
    for place in range(count):
        write = scope_starts[place]
        shared = sepset_starts[place]
        other, end = 0, 0
        if parents[place] >= 0:
            other, end = scope_starts[parents[place]], scope_starts[parents[place] + 1]
        for variable in members[starts[order[place]] : starts[order[place] + 1]]:
            scopes[write] = variable
            write += 1
            while other < end and scopes[other] < variable:
                other += 1
            if other < end and scopes[other] == variable:
                sepsets[shared] = variable
                shared += 1
        scope_starts[place + 1] = write
        sepset_starts[place + 1] = shared
    return Trees(
        scope_starts, scopes, parents, child_starts, children, sepset_starts, sepsets[: sepset_starts[count]]
    ), places


@_compile
def assign_readings(trees: Trees, cardinalities: Integers) -> Readings:
    """Choose for each variable the smallest sepset that holds it, or else the only clique that does."""
    count = trees.parents.size
    places = np.full(cardinalities.size, -1, np.int64)
    in_sepset = np.zeros(cardinalities.size, np.bool_)
    smallest = np.zeros(cardinalities.size, np.int64)
    for clique in range(count):
        sepset = trees.sepsets[trees.sepset_starts[clique] : trees.sepset_starts[clique + 1]]
        size = 1
        for variable in sepset:
            size *= cardinalities[variable]
        for variable in sepset:
            if not in_sepset[variable] or size < smallest[variable]:
                places[variable], in_sepset[variable], smallest[variable] = clique, True, size
        for variable in trees.scopes[trees.scope_starts[clique] : trees.scope_starts[clique + 1]]:
            if places[variable] < 0:
                places[variable] = clique
    # Two lists side by side: a clique's readings, and those of its sepset.
    starts = np.zeros((2, count + 1), np.int64)
    filled = np.empty((2, count), np.int64)
    for variable in range(cardinalities.size):
        if places[variable] >= 0:
            starts[int(in_sepset[variable]), places[variable] + 1] += 1
    for kind in range(2):
        for clique in range(count):
            starts[kind, clique + 1] += starts[kind, clique]
            filled[kind, clique] = starts[kind, clique]
    own, shared = np.empty(starts[0, count], np.int64), np.empty(starts[1, count], np.int64)
    for variable in range(cardinalities.size):
        if places[variable] >= 0:
            kind = int(in_sepset[variable])
            target = filled[kind, places[variable]]
            filled[kind, places[variable]] += 1
            if kind:
                shared[target] = variable
            else:
                own[target] = variable
    return Readings(starts[0], own, starts[1], shared)
