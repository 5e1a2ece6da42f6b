"""Exact marginalisation: shrink a calibrated forest to its interface without changing the joint distribution.

Three operations: a non-interface variable held by one clique is summed out; a clique inside a neighbour is absorbed by
it; cliques that share a non-interface variable are collapsed when their union without it fits. Scopes alone decide
which: `Core.fill` makes the tables afterwards, for any beliefs of the forest, and `Core.restore` gives every clique of
the forest its posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.flat import MANY
from ibia.forest.branches import Branches
from ibia.forest.calibrate import Structure
from ibia.forest.forest import Edge, Forest, edge
from ibia.forest.joint import Rooted
from ibia.tables import Scope, Space, Table

__all__ = ["Core", "marginalise_exactly"]

Integers = NDArray[np.int64]

_EPSILON = 1e-9


class _Detached(NamedTuple):
    """A clique that left the core: it hangs on `parent`, which holds all of `scope`, the rest of it at that time."""

    clique: int
    parent: int
    scope: Scope


class _Operation(NamedTuple):
    """A table of the core that is made of others.

    Attributes
    ----------
    clique
        Whose table it is from then on.
    scope
        Of the table.
    parts
        The cliques whose tables are multiplied; none: its own table is summed.
    inner
        The edges between the parts, each by its name in the original forest: what is divided by their sepsets.
    entries
        Of the largest table that is met.
    """

    clique: int
    scope: Scope
    parts: tuple[int, ...]
    inner: tuple[Edge, ...]
    entries: int


@dataclass
class Core:
    """What exact marginalisation left of a forest, and the way back.

    Attributes
    ----------
    forest
        The reduced cliques with their beliefs: marginals of the forest it came from.
    origin
        Clique of the core → the cliques of the original forest that were collapsed to form it (itself, if none).
    full
        Clique → belief over all the variables it ever had (cliques of the original forest and collapsed ones).
    detached
        Cliques that are gone, in the order in which they went.
    operations
        How the tables of the core are made, in that order.
    sources
        Edge of the core → the edge of the original forest that its sepset is from.
    """

    forest: Forest
    space: Space
    origin: dict[int, tuple[int, ...]]
    full: dict[int, Table] = field(default_factory=dict)
    detached: list[_Detached] = field(default_factory=list)
    operations: list[_Operation] = field(default_factory=list)
    sources: dict[Edge, Edge] = field(default_factory=dict)

    def clear_tables(self) -> None:
        """Drop all beliefs; `fill` makes them again."""
        self.full = {}
        self.forest.clear_tables()

    @cached_property
    def structure(self) -> Structure | None:
        """Of the forest, for calibrating it again and again, unless it would take too much memory to keep."""
        return Structure(self.forest, self.space) if len(self.forest.scopes) <= MANY else None

    @cached_property
    def rooted(self) -> Rooted | None:
        """The forest as it hangs from any roots, for joint queries, unless that would take too much."""
        return Rooted(self.forest) if len(self.forest.scopes) <= MANY else None

    def fill(self, forest: Forest) -> None:
        """Make all tables from those of the forest that the core came from."""
        beliefs = dict(forest.beliefs)
        full = self.full = dict(forest.beliefs)
        last = len(self.operations) - 1

        def make(pieces: Integers) -> None:
            for piece in pieces.tolist():
                clique, scope, parts, inner, _ = self.operations[last - piece]
                if parts:
                    tables = [beliefs.pop(part) for part in parts]
                    full[clique] = _collapsed(tables, [forest.sepsets[key] for key in inner], scope)
                    beliefs[clique] = full[clique]
                else:
                    beliefs[clique] = beliefs[clique].marginal(scope)

        self._making.inwards(make, self.space.control)
        self.forest.beliefs = {clique: beliefs[clique] for clique in self.forest.scopes}
        self.forest.sepsets = {key: forest.sepsets[source] for key, source in self.sources.items()}

    @cached_property
    def _making(self) -> Branches:
        """The operations, the last one first: each hangs on the one that needs its table."""
        count = len(self.operations)
        parents, entries = np.empty(count, np.int64), np.empty(count)
        needed_by: dict[int, int] = {}
        for piece, operation in enumerate(reversed(self.operations)):
            parents[piece] = needed_by.get(operation.clique, -1)
            entries[piece] = operation.entries
            needed_by.update(dict.fromkeys(operation.parts or (operation.clique,), piece))
        return Branches.cut(parents, entries)

    def restore(self, posterior: dict[int, Table], keep: set[int]) -> tuple[dict[int, Table], list[int]]:
        """Return the posterior of every clique of the original forest from those of the core's cliques.

        Exact: given what a clique shares with its parent, the rest of it is independent of all else, so
        Q(clique) = P(clique) · Q(shared) / P(shared). After losses the two may exclude each other: then P(clique)
        stands. Also returns the cliques where that was so.
        """
        cliques = [*self.forest.scopes, *(gone.clique for gone in reversed(self.detached))]
        restored: dict[int, Table] = {}
        excluded: list[int] = []

        def extend(pieces: Integers) -> None:
            for piece in pieces.tolist():
                clique = cliques[piece]
                full = self.full[clique]
                found: Table | None = full
                if piece < len(posterior):
                    found = _extended(full, posterior[clique])
                else:
                    _, parent, scope = self.detached[len(cliques) - 1 - piece]
                    if parent >= 0:
                        found = _extended(full, restored[parent].over(scope))
                if found is None:
                    excluded.append(clique)
                restored[clique] = full if found is None else found

        self._restoring.outwards(extend, self.space.control)
        # In the order of the pieces, whoever was faster.
        order = [*posterior, *cliques[len(posterior) :]]
        return {clique: restored[clique] for clique in order if clique in keep}, excluded

    @cached_property
    def _restoring(self) -> Branches:
        """The cliques of the core, and those that are gone, the last one first: each hangs on its parent."""
        place = {clique: piece for piece, clique in enumerate(self.forest.scopes)}
        parents = [-1] * len(place)
        for gone in reversed(self.detached):
            parents.append(place.get(gone.parent, -1))
            place[gone.clique] = len(place)
        entries = [self.full[clique].values.size for clique in place]
        return Branches.cut(np.array(parents, np.int64), np.array(entries, float))


def _collapsed(tables: list[Table], sepsets: list[Table], scope: Scope) -> Table:
    """Return the product of the beliefs of neighbouring cliques over those of the sepsets between them."""
    tables.sort(key=lambda table: -len(table.scope))
    belief = tables[0].extended(scope)
    for table in tables[1:]:
        belief.multiply_in(table)
    for sepset in sepsets:
        belief.multiply_in(sepset.reciprocal())
    belief.normalise_in()
    return belief


def _extended(full: Table, shared: Table) -> Table | None:
    """Return a clique's posterior from that of a part of it; None if nothing is possible in both."""
    if full.scope == shared.scope:
        return shared
    result = full.times(shared.copy().divide_in(full.marginal(shared.scope)))
    return None if result.normalise_in() == -math.inf else result


def marginalise_exactly(forest: Forest, interface: set[int], limit: float, space: Space) -> Core:
    """Remove from a calibrated forest all non-interface variables that can go without loss.

    Parameters
    ----------
    interface
        Variables that later factors need.
    limit
        Bits a collapsed clique may have after its variable is summed out.
    """
    reducer = _Reducer(forest, interface, space)
    reducer.sum_out_all()
    reducer.collapse_all(limit)
    core = reducer.core()
    core.fill(forest)
    return core


class _Reducer:
    """The bookkeeping of exact marginalisation, on a copy of the forest's structure."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        self.forest = forest.share_tables()
        self.forest.clear_tables()
        self.interface = interface
        self.space = space
        self.holders = forest.holders()
        self.next_clique = max(forest.scopes, default=-1) + 1
        self.origin: dict[int, tuple[int, ...]] = {clique: (clique,) for clique in forest.scopes}
        self.detached: list[_Detached] = []
        self.operations: list[_Operation] = []
        # Edge → the one of the original forest that it was.
        self.sources = {key: key for key in forest.sepsets}

    def core(self) -> Core:
        """Return what is left."""
        operations: list[_Operation] = []
        needed = set(self.forest.scopes)
        for operation in reversed(self.operations):
            # Nobody reads what a clique was summed to before a neighbour absorbed it.
            if operation.parts or operation.clique in needed:
                operations.append(operation)
                needed.update(operation.parts)
        sources = {edge(first, second): self.sources[edge(first, second)] for first, second, _ in self.forest.edges()}
        return Core(self.forest, self.space, self.origin, {}, self.detached, operations[::-1], sources)

    def private(self, clique: int) -> set[int]:
        """Return the non-interface variables that only `clique` holds."""
        return {
            variable
            for variable in self.forest.scopes[clique]
            if variable not in self.interface and len(self.holders[variable]) == 1
        }

    def sum_out(self, clique: int, variables: set[int]) -> None:
        scope = tuple(variable for variable in self.forest.scopes[clique] if variable not in variables)
        for variable in variables:
            del self.holders[variable]
        if not scope:
            # The last clique of a tree that is finished: nothing of it is needed any more.
            self._leave(_Detached(clique, -1, ()))
            return
        entries = self.space.size(self.forest.scopes[clique])
        self.operations.append(_Operation(clique, scope, (), (), entries))
        self.forest.scopes[clique] = scope
        self.absorb(clique)

    def absorb(self, clique: int) -> None:
        """Let a neighbour that contains `clique` take its place."""
        scope = self.forest.scopes[clique]
        for neighbour, sepset in self.forest.neighbours[clique].items():
            if len(sepset) == len(scope):
                for variable in scope:
                    self.holders[variable].discard(clique)
                self._leave(_Detached(clique, neighbour, scope))
                return

    def _leave(self, gone: _Detached) -> None:
        """Take a clique out; its other neighbours move to its parent."""
        self.detached.append(gone)
        self._move_edges(gone.clique, gone.parent, {gone.parent})
        self.forest.remove_clique(gone.clique)

    def _move_edges(self, clique: int, target: int, but: set[int]) -> None:
        """Connect the neighbours of a clique, but some, to another one."""
        for neighbour, sepset in self.forest.neighbours[clique].items():
            if neighbour not in but:
                self.forest.connect(target, neighbour, sepset)
                self.sources[edge(target, neighbour)] = self.sources[edge(clique, neighbour)]

    def sum_out_all(self) -> None:
        waiting = list(self.forest.scopes)
        while waiting:
            clique = waiting.pop()
            if clique not in self.forest.scopes:
                continue
            variables = self.private(clique)
            if variables:
                neighbours = list(self.forest.neighbours[clique])
                self.sum_out(clique, variables)
                waiting.extend(neighbours)

    def collapse_all(self, limit: float) -> None:
        """Collapse around one non-interface variable after another, smallest result first, while any fits."""
        waiting = set(self.holders)
        while waiting:
            sizes = ((self._collapsed(variable), variable) for variable in waiting.difference(self.interface))
            candidates = sorted(candidate for candidate in sizes if candidate[0] <= limit + _EPSILON)
            # Another round is only worth while where cliques changed.
            waiting = set()
            for _, variable in candidates:
                if self._collapsed(variable) <= limit + _EPSILON:
                    waiting.update(self.collapse(self.holders[variable]))

    def _collapsed(self, variable: int) -> float:
        """Return the bits of the clique that a collapse around `variable` leaves, infinite if it is gone."""
        cliques = self.holders.get(variable)
        if not cliques:
            return math.inf
        union = set().union(*(self.forest.scopes[clique] for clique in cliques))
        return self.space.bits(union) - self.space.log2[variable]

    def collapse(self, cliques: set[int]) -> set[int]:
        """Collapse cliques that form a subtree and sum out what then is private; return the variables left."""
        parts = tuple(sorted(cliques))
        if len(parts) == 1:
            target = parts[0]
        else:
            target = self.next_clique
            self.next_clique += 1
            inner = tuple(
                self.sources[edge(first, second)]
                for first in parts
                for second in self.forest.neighbours[first]
                if first < second and second in cliques
            )
            scopes = {part: self.forest.scopes[part] for part in parts}
            scope = tuple(sorted(set().union(*scopes.values())))
            self.operations.append(_Operation(target, scope, parts, inner, self.space.size(scope)))
            self.forest.add_clique(target, scope)
            for part in parts:
                self._move_edges(part, target, cliques)
            for part in parts:
                self.forest.remove_clique(part)
            for part, former in scopes.items():
                self.detached.append(_Detached(part, target, former))
                for variable in former:
                    self.holders[variable].discard(part)
            for variable in scope:
                self.holders[variable].add(target)
            origins = {clique for part in parts for clique in self.origin.get(part, ())}
            self.origin[target] = tuple(sorted(origins))
        variables = self.private(target)
        left = set(self.forest.scopes[target]).difference(variables)
        if variables:
            self.sum_out(target, variables)
        return left
