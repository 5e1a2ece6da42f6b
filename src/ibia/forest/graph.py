"""Graphs of variables: every scope is a clique. Compiled, and knows nothing of what vertices stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry

__all__ = ["Graph", "graph_of", "local_graph"]

_compile = entry()

Integers = NDArray[np.int64]


class Graph(NamedTuple):
    """An undirected graph: the neighbours of vertex v are `neighbours[starts[v] : starts[v + 1]]`, sorted."""

    starts: Integers
    neighbours: Integers


def graph_of(lengths: Integers, members: Integers) -> tuple[Integers, Graph]:
    """Return the variables of scopes that lie end to end, sorted, and the graph over their positions."""
    variables, starts, neighbours = _graph(lengths, members, np.sort(members))
    return variables, Graph(starts, neighbours)


@_compile
def _graph(lengths: Integers, members: Integers, variables: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the variables and the graph over their positions in which every scope is a clique.

    `variables` are the members sorted; what NumPy would do with them here takes long to compile.
    """
    count = 1
    for place in range(1, variables.size):
        if variables[place] != variables[place - 1]:
            variables[count] = variables[place]
            count += 1
    variables = variables[:count]
    local = np.empty(members.size, np.int64)
    for place in range(members.size):
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) >> 1
            if variables[middle] < members[place]:
                low = middle + 1
            else:
                high = middle
        local[place] = low
    scope_starts = np.zeros(lengths.size + 1, np.int64)
    held = np.zeros(count + 1, np.int64)
    for scope in range(lengths.size):
        scope_starts[scope + 1] = scope_starts[scope] + lengths[scope]
    for member in local:
        held[member + 1] += 1
    used = np.empty(count, np.int64)
    for vertex in range(count):
        held[vertex + 1] += held[vertex]
        used[vertex] = held[vertex]
    holders = np.empty(members.size, np.int64)
    for scope in range(lengths.size):
        for member in local[scope_starts[scope] : scope_starts[scope + 1]]:
            holders[used[member]] = scope
            used[member] += 1
    # Counted first, then written: every vertex goes to the lists of its neighbours in turn, so these are sorted.
    starts = np.zeros(count + 1, np.int64)
    ends = np.empty(count, np.int64)
    neighbours = np.empty(0, np.int64)
    marks = np.empty(count, np.int64)
    for writing in range(2):
        if writing:
            for vertex in range(count):
                starts[vertex + 1] += starts[vertex]
                ends[vertex] = starts[vertex]
            neighbours = np.empty(starts[count], np.int64)
        for vertex in range(count):
            marks[vertex] = -1
        for vertex in range(count):
            marks[vertex] = vertex
            for scope in holders[held[vertex] : held[vertex + 1]]:
                for other in local[scope_starts[scope] : scope_starts[scope + 1]]:
                    if marks[other] != vertex:
                        marks[other] = vertex
                        if writing:
                            neighbours[ends[other]] = vertex
                            ends[other] += 1
                        else:
                            starts[other + 1] += 1
    return variables, starts, neighbours


@_compile
def local_graph(
    starts: Integers,
    neighbours: Integers,
    vertices: Integers,
    place: Integers,
    scope_starts: Integers,
    members: Integers,
) -> tuple[Integers, Integers]:
    """Return the part of a graph over some vertices, by their positions, in which further scopes are cliques.

    Parameters
    ----------
    place
        Vertex → its position in `vertices` (−1: it is not there).
    scope_starts, members
        The scopes, end to end, by positions.
    """
    count = vertices.size
    joined = np.zeros((count, count), np.bool_)
    for position in range(count):
        vertex = vertices[position]
        for neighbour in neighbours[starts[vertex] : starts[vertex + 1]]:
            if place[neighbour] >= 0:
                joined[position, place[neighbour]] = True
    for scope in range(scope_starts.size - 1):
        begin, end = scope_starts[scope], scope_starts[scope + 1]
        for first in range(begin, end):
            for second in range(begin, end):
                joined[members[first], members[second]] = True
    local_starts = np.zeros(count + 1, np.int64)
    local = np.empty(count * count, np.int64)
    total = 0
    for position in range(count):
        for other in range(count):
            if joined[position, other] and other != position:
                local[total] = other
                total += 1
        local_starts[position + 1] = total
    return local_starts, local[:total]
