"""Exact marginalisation: shrink a calibrated forest to its interface without changing the joint distribution.

Three operations: a non-interface variable held by one clique is summed out; a clique inside a neighbour is absorbed by
it; cliques that share a non-interface variable are collapsed when their union without it fits. What is removed is
noted, so that `Core.restore` can later give every clique of the forest its posterior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ibia.forest.forest import Forest, edge
from ibia.tables import Scope, Space, Table

__all__ = ["Core", "marginalise_exactly"]

_EPSILON = 1e-9


@dataclass(frozen=True)
class _Detached:
    """A clique that left the core: it hangs on `parent`, which holds all of `scope`, the rest of it at that time."""

    clique: int
    parent: int
    scope: Scope


@dataclass
class _Collapse:
    """Cliques multiplied into one, over the edges between them."""

    clique: int
    parts: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]


@dataclass
class Core:
    """What exact marginalisation left of a forest, and the way back.

    Attributes
    ----------
    forest
        The reduced cliques with their beliefs: marginals of the forest it came from.
    full
        Clique → belief over all the variables it ever had (cliques of the original forest and collapsed ones).
    detached
        Cliques that are gone, in the order in which they went.
    origin
        Clique of the core → the cliques of the original forest that were collapsed to form it (itself, if none).
    """

    forest: Forest
    full: dict[int, Table]
    detached: list[_Detached] = field(default_factory=list)
    operations: list[_Detached | _Collapse | tuple[int, Scope]] = field(default_factory=list)
    origin: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def clear_tables(self) -> None:
        """Drop all beliefs; what remains is enough for `replay`."""
        self.full = {}
        self.forest.clear_tables()

    def restore(self, posterior: dict[int, Table], keep: set[int]) -> dict[int, Table]:
        """Return the posterior of every clique of the original forest from those of the core's cliques.

        Exact: given what a clique shares with its parent, the rest of it is independent of all else, so
        Q(clique) = P(clique) · Q(shared) / P(shared).
        """
        restored: dict[int, Table] = {}
        for clique, belief in posterior.items():
            restored[clique] = _extend(self.full[clique], belief)
        for gone in reversed(self.detached):
            parent = restored.get(gone.parent)
            if parent is None or not gone.scope:
                restored[gone.clique] = self.full[gone.clique]
            else:
                restored[gone.clique] = _extend(self.full[gone.clique], parent.over(gone.scope))
        return {clique: table for clique, table in restored.items() if clique in keep}


def _extend(full: Table, shared: Table) -> Table:
    if full.scope == shared.scope:
        return shared
    result = full.times(shared.copy().divide_in(full.marginal(shared.scope)))
    result.normalise_in()
    return result


def marginalise_exactly(forest: Forest, interface: set[int], limit: float, space: Space) -> Core:
    """Remove from a calibrated forest all non-interface variables that can go without loss.

    Parameters
    ----------
    interface
        Variables that later factors need.
    limit
        Bits a collapsed clique may have after its variable is summed out.
    """
    core = Core(forest.share_tables(), dict(forest.beliefs))
    core.origin = {clique: (clique,) for clique in forest.scopes}
    reducer = _Reducer(core, interface, space)
    reducer.sum_out_all()
    reducer.collapse_all(limit)
    return core


def replay(core: Core, forest: Forest) -> Core:
    """Repeat the operations that made `core` on the same forest with other beliefs."""
    again = Core(forest.share_tables(), dict(forest.beliefs), core.detached, core.operations, core.origin)
    for operation in core.operations:
        if isinstance(operation, _Detached):
            _detach(again.forest, operation)
        elif isinstance(operation, _Collapse):
            _collapse(again, operation)
        else:
            clique, scope = operation
            _shrink(again.forest, clique, scope)
    return again


def _shrink(forest: Forest, clique: int, scope: Scope) -> None:
    forest.beliefs[clique] = forest.beliefs[clique].marginal(scope)
    forest.scopes[clique] = scope


def _detach(forest: Forest, gone: _Detached) -> None:
    """Take a clique out; its other neighbours move to its parent."""
    moved = [
        (neighbour, sepset, forest.sepsets[edge(gone.clique, neighbour)])
        for neighbour, sepset in forest.neighbours[gone.clique].items()
        if neighbour != gone.parent
    ]
    forest.remove_clique(gone.clique)
    for neighbour, sepset, table in moved:
        forest.connect(gone.parent, neighbour, sepset)
        forest.sepsets[edge(gone.parent, neighbour)] = table


def _collapse(core: Core, collapse: _Collapse) -> None:
    """Multiply cliques over the sepsets between them into one."""
    forest = core.forest
    tables = [forest.beliefs[part] for part in collapse.parts]
    scope = tuple(sorted({variable for table in tables for variable in table.scope}))
    tables.sort(key=lambda table: -len(table.scope))
    belief = tables[0].extended(scope)
    for table in tables[1:]:
        belief.multiply_in(table)
    for first, second in collapse.inner:
        sepset = forest.sepsets[edge(first, second)]
        belief.multiply_in(sepset.reciprocal())
    belief.normalise_in()
    core.full[collapse.clique] = belief
    forest.add_clique(collapse.clique, scope)
    forest.beliefs[collapse.clique] = belief
    for part in collapse.parts:
        for neighbour, sepset_scope in forest.neighbours[part].items():
            if neighbour not in collapse.parts:
                table = forest.sepsets[edge(part, neighbour)]
                forest.connect(collapse.clique, neighbour, sepset_scope)
                forest.sepsets[edge(collapse.clique, neighbour)] = table
    for part in collapse.parts:
        forest.remove_clique(part)


class _Reducer:
    """The bookkeeping of exact marginalisation."""

    def __init__(self, core: Core, interface: set[int], space: Space) -> None:
        self.core = core
        self.forest = core.forest
        self.interface = interface
        self.space = space
        self.holders = self.forest.holders()
        self.next_clique = max(self.forest.scopes, default=-1) + 1

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
        self.core.operations.append((clique, scope))
        _shrink(self.forest, clique, scope)
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
        self.core.detached.append(gone)
        self.core.operations.append(gone)
        _detach(self.forest, gone)

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
                (first, second)
                for first in parts
                for second in self.forest.neighbours[first]
                if first < second and second in cliques
            )
            collapse = _Collapse(target, parts, inner)
            scopes = {part: self.forest.scopes[part] for part in parts}
            _collapse(self.core, collapse)
            self.core.operations.append(collapse)
            for part, scope in scopes.items():
                self.core.detached.append(_Detached(part, target, scope))
                for variable in scope:
                    self.holders[variable].discard(part)
            for variable in self.forest.scopes[target]:
                self.holders[variable].add(target)
            origins = {clique for part in parts for clique in self.core.origin.get(part, ())}
            self.core.origin[target] = tuple(sorted(origins))
        variables = self.private(target)
        left = set(self.forest.scopes[target]).difference(variables)
        if variables:
            self.sum_out(target, variables)
        return left
