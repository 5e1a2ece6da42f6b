"""Validity checks: what must hold of every clique-tree forest, and of every reduction of one.

Tests call these, and so does the engine when it is asked to check itself (``Settings.check``). Each check that fails
says which clique, edge or variable is at fault. Nothing here changes what it looks at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from ibia.forest.forest import Edge, Forest, edge
from ibia.tables import Scope, Space

__all__ = ["ForestError", "check_forest", "check_reduction"]

_EPSILON = 1e-9


class ForestError(Exception):
    """A forest (or its reduction) is not what it should be."""


class Reduced(Protocol):
    """The part of a reduction that is checked: the scopes left to each clique and edge."""

    scopes: dict[int, Scope]
    sepsets: dict[Edge, Scope]


def check_forest(forest: Forest, space: Space, bound: float | None = None, tolerance: float = 1e-9) -> None:
    """Raise ForestError unless the forest is a valid (and, when filled, calibrated) clique-tree forest.

    Parameters
    ----------
    forest
        The forest. Its tables are checked when its beliefs are filled.
    bound
        Largest clique allowed, in bits; None: any size.
    tolerance
        How far sums and marginals may be off.
    """
    _check_edges(forest)
    _check_trees(forest)
    for clique, scope in forest.scopes.items():
        if not scope or list(scope) != sorted(set(scope)):
            raise ForestError(f"clique {clique} has the scope {scope}; expected sorted variables, at least one")
        if bound is not None and space.bits(scope) > bound + _EPSILON:
            raise ForestError(f"clique {clique} {scope} has {space.bits(scope):.4f} bits, over the bound of {bound:g}")
    for first, second, sepset in forest.edges():
        shared = tuple(sorted(set(forest.scopes[first]).intersection(forest.scopes[second])))
        if sepset != shared:
            raise ForestError(f"the sepset of edge {first}–{second} is {sepset}; its cliques share {shared}")
        if not sepset:
            raise ForestError(f"the sepset of edge {first}–{second} is empty")
    _check_running_intersection(forest.scopes, {edge(a, b): sepset for a, b, sepset in forest.edges()})
    if forest.beliefs:
        _check_beliefs(forest, space, tolerance)


def check_reduction(core_forest: Forest, reduction: Reduced, interface: Iterable[int]) -> None:
    """Raise ForestError unless the reduced scopes form valid trees on the edges of the core (the paper's a to c).

    Parameters
    ----------
    core_forest
        The forest before local marginalisation.
    reduction
        Reduced scope of every clique and sepset of it.
    interface
        Variables that later factors need; those the core holds must stay in some clique.
    """
    edges = {edge(first, second): sepset for first, second, sepset in core_forest.edges()}
    if reduction.scopes.keys() != core_forest.scopes.keys():
        differences = _differ(reduction.scopes, core_forest.scopes)
        raise ForestError(f"the reduction and the core differ in cliques: {differences}")
    if reduction.sepsets.keys() != edges.keys():
        raise ForestError(f"reduction and core differ in edges: {_differ(reduction.sepsets, edges)}")
    for clique, scope in reduction.scopes.items():
        before = core_forest.scopes[clique]
        if not scope:
            raise ForestError(f"clique {clique} {before} is reduced to nothing")
        if list(scope) != sorted(set(scope)) or not set(scope) <= set(before):
            raise ForestError(f"clique {clique} {before} is reduced to {scope}, which is no sorted part of it")
    for (first, second), sepset in reduction.sepsets.items():
        shared = tuple(sorted(set(reduction.scopes[first]).intersection(reduction.scopes[second])))
        if sepset != shared:
            raise ForestError(f"the reduced sepset of edge {first}–{second} is {sepset}; its cliques share {shared}")
        if not sepset:
            raise ForestError(f"the sepset of edge {first}–{second} is emptied, so its tree falls apart")
    held = {variable for scope in core_forest.scopes.values() for variable in scope}
    kept = {variable for scope in reduction.scopes.values() for variable in scope}
    missing = sorted(held.intersection(interface) - kept)
    if missing:
        raise ForestError(f"interface variables {missing} are in no reduced clique")
    _check_running_intersection(reduction.scopes, reduction.sepsets)


def _differ(found: Mapping[Any, object], expected: Mapping[Any, object]) -> str:
    more, fewer = sorted(found.keys() - expected.keys()), sorted(expected.keys() - found.keys())
    return f"{more} only in the former, {fewer} only in the latter"


def _check_edges(forest: Forest) -> None:
    if forest.neighbours.keys() != forest.scopes.keys():
        raise ForestError(f"neighbours and scopes name different cliques: {_differ(forest.neighbours, forest.scopes)}")
    for clique, sepsets in forest.neighbours.items():
        for neighbour, sepset in sepsets.items():
            if neighbour == clique:
                raise ForestError(f"clique {clique} is its own neighbour")
            if neighbour not in forest.scopes:
                raise ForestError(f"clique {clique} has the neighbour {neighbour}, which does not exist")
            back = forest.neighbours[neighbour].get(clique)
            if back is None:
                raise ForestError(f"edge {clique}–{neighbour} is known to clique {clique} only")
            if back != sepset:
                raise ForestError(f"edge {clique}–{neighbour} has two sepsets, {sepset} and {back}")


def _check_trees(forest: Forest) -> None:
    find = _leaders(forest.scopes)
    for first, second, _ in forest.edges():
        if find(first) == find(second):
            raise ForestError(f"edge {first}–{second} closes a cycle")
        find(first, second)


def _leaders(members: Iterable[int]) -> Callable[..., int]:
    """Return a function that finds the leader of a member's group, and joins two groups when given two members."""
    leader = {member: member for member in members}

    def find(member: int, joined: int | None = None) -> int:
        while leader[member] != member:
            leader[member] = leader[leader[member]]
            member = leader[member]
        if joined is not None:
            leader[member] = find(joined)
        return leader[member]

    return find


def _check_running_intersection(scopes: Mapping[int, Scope], sepsets: Mapping[Edge, Scope]) -> None:
    """The cliques that hold a variable are connected: one more than there are edges between them (no cycles)."""
    excess: dict[int, int] = {}
    for scope in scopes.values():
        for variable in scope:
            excess[variable] = excess.get(variable, 0) + 1
    for sepset in sepsets.values():
        for variable in sepset:
            excess[variable] = excess.get(variable, 0) - 1
    for variable, parts in excess.items():
        if parts != 1:
            held = [clique for clique, scope in scopes.items() if variable in scope]
            raise ForestError(f"variable {variable} is in cliques {held}, which fall into {parts} parts, not one")


def _check_beliefs(forest: Forest, space: Space, tolerance: float) -> None:
    if forest.beliefs.keys() != forest.scopes.keys():
        raise ForestError(f"beliefs and scopes name different cliques: {_differ(forest.beliefs, forest.scopes)}")
    keys = {edge(first, second): sepset for first, second, sepset in forest.edges()}
    if forest.sepsets.keys() != keys.keys():
        raise ForestError(f"sepset beliefs and edges differ: {_differ(forest.sepsets, keys)}")
    named = [(f"clique {clique}", forest.scopes[clique], table) for clique, table in forest.beliefs.items()]
    named += [(f"edge {key[0]}–{key[1]}", keys[key], table) for key, table in forest.sepsets.items()]
    for name, scope, table in named:
        values = table.values
        if table.scope != scope or values.size != space.size(scope):
            raise ForestError(f"the belief of {name} is over {table.scope} ({values.size} entries), not over {scope}")
        if not np.isfinite(values).all():
            raise ForestError(f"the belief of {name} has entries that are not finite")
        if (values < 0.0).any():
            raise ForestError(f"the belief of {name} has the negative entry {values.min():g}")
        total = math.fsum(values.tolist()) if values.size <= 4096 else float(values.sum())
        if abs(total - 1.0) > tolerance:
            raise ForestError(f"the belief of {name} sums to {total:.12g}, not to one")
    for (first, second), sepset in forest.sepsets.items():
        for clique in (first, second):
            difference = float(np.abs(forest.beliefs[clique].marginal(sepset.scope).values - sepset.values).max())
            if difference > tolerance:
                raise ForestError(
                    f"not calibrated: clique {clique} and the sepset of edge {first}–{second} "
                    f"differ by {difference:.3g}"
                )
