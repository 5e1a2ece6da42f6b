"""Local marginalisation: the only lossy operation, which brings every clique of the core within the reduced bound.

A variable is removed from an over-large clique and from all but one of the parts into which its cliques fall without
it; a sepset is never emptied, and the last clique of an interface variable never touched (conditions a to c of the
paper). Which variable goes where is decided by a loss from ``loss.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush

from ibia.forest.forest import Edge, Forest, edge
from ibia.steps.loss import LossRule, Removal
from ibia.tables import Scope, Space
from ibia.tables.threads import run_parts

__all__ = ["LocalReducer", "Reduction"]

_EPSILON = 1e-9
# Removals that lose less than this (nats) are exact up to rounding: the variable is a function of what stays.
LOSSLESS = 1e-9
# With fewer entries, what there is to do for each variable of a clique is Python's for the most part.
_WORTH_THREADS = 2**14


@dataclass
class Reduction:
    """The scopes after local marginalisation, and what it cost.

    Attributes
    ----------
    scopes, sepsets
        Reduced scope of each clique and edge of the core.
    loss
        Kullback–Leibler divergence (nats) between the distributions before and after, summed over the removals.
    losses
        Variable → what of it was lost by removals of that variable.
    lossy
        Cliques from which something was removed at a loss.
    removals
        How many variables were removed while other cliques held them (none: the reduction is exact).
    """

    scopes: dict[int, Scope]
    sepsets: dict[Edge, Scope]
    loss: float = 0.0
    losses: dict[int, float] = field(default_factory=dict)
    lossy: set[int] = field(default_factory=set)
    removals: int = 0


class LocalReducer:
    """Local marginalisation of one calibrated forest, in as many rounds as it takes.

    Parameters
    ----------
    forest
        The core: calibrated, after exact marginalisation. It is not changed.
    interface
        Variables that must stay somewhere.
    rule
        Ranks removals and measures their loss.
    """

    def __init__(self, forest: Forest, interface: set[int], rule: LossRule, space: Space) -> None:
        self.forest = forest
        self.interface = interface
        self.rule = rule
        self.space = space
        self.scopes = {clique: set(scope) for clique, scope in forest.scopes.items()}
        self.sepsets = {edge(first, second): set(sepset) for first, second, sepset in forest.edges()}
        self.holders = forest.holders()
        self.bits = {clique: space.bits(scope) for clique, scope in forest.scopes.items()}
        self.loss = 0.0
        self.losses: dict[int, float] = {}
        self.lossy: set[int] = set()
        self.removed = 0
        # Variable → clique → ways to take it out of it; they change only when the variable goes somewhere.
        self._ways: dict[int, dict[int, list[Removal]]] = {}
        # Variable → the cliques and sepsets that hold nothing else: they would be empty without it.
        self._alone: dict[int, set[int | Edge]] = {}
        for clique, scope in self.scopes.items():
            self._note_if_alone(clique, scope)
        for key, sepset in self.sepsets.items():
            self._note_if_alone(key, sepset)

    def removals(self, clique: int, variable: int) -> list[Removal]:
        """Return the ways to take `variable` out of `clique`: one for each part that may keep it."""
        if variable in self.interface and len(self.holders[variable]) == 1:
            return []
        known = self._ways.setdefault(variable, {})
        if clique not in known:
            known[clique] = self._find_ways(clique, variable)
        alone = self._alone.get(variable)
        if not alone:
            return known[clique]
        return [
            way for way in known[clique] if alone.isdisjoint(way.edges) and alone.isdisjoint(way.cliques)
        ]

    def _note_if_alone(self, key: int | Edge, left: set[int]) -> None:
        if len(left) == 1:
            self._alone.setdefault(next(iter(left)), set()).add(key)

    def _find_ways(self, clique: int, variable: int) -> list[Removal]:
        """Return the ways to take `variable` out of `clique`, whatever is left of other cliques and sepsets."""
        neighbours, holders = self.forest.neighbours, self.holders[variable]
        # The cliques of each part from here outwards, each with the edge that leads to it.
        parts: list[list[tuple[Edge, int]]] = []
        for start in sorted(neighbours[clique]):
            if start not in holders:
                continue
            part = [(edge(clique, start), start)]
            before = [clique]
            for (_, here), former in zip(part, before, strict=False):
                for neighbour in neighbours[here]:
                    if neighbour in holders and neighbour != former:
                        part.append((edge(here, neighbour), neighbour))
                        before.append(here)
            parts.append(part)
        parts.sort(key=lambda part: min(member for _, member in part))
        if not parts:
            return [Removal(variable, clique, (clique,), (), True)]
        ways = []
        for kept in parts:
            # The part that keeps the variable loses only the edge that leads to it.
            terms = [(kept[0][0], clique)]
            for part in parts:
                if part is not kept:
                    terms += part
            edges, cliques = zip(*terms, strict=True)
            ways.append(
                Removal(variable, clique, tuple(sorted(cliques)), tuple(sorted(edges)), False, tuple(terms))
            )
        return ways

    def _remove(self, removal: Removal) -> None:
        loss = 0.0 if removal.exact else self.rule.loss(removal)
        if not removal.exact:
            self.removed += 1
        # A loss that is no number must not pass for none.
        if not loss <= LOSSLESS:
            self.lossy.update(removal.cliques)
        if not loss <= 0.0:
            self.loss += loss
            self.losses[removal.variable] = self.losses.get(removal.variable, 0.0) + loss
        for clique in removal.cliques:
            self.scopes[clique].discard(removal.variable)
            self.holders[removal.variable].discard(clique)
            self.bits[clique] = self.space.bits(self.scopes[clique])
            self._note_if_alone(clique, self.scopes[clique])
        self._ways.pop(removal.variable, None)
        for key in removal.edges:
            self.sepsets[key].discard(removal.variable)
            self._note_if_alone(key, self.sepsets[key])
        self.rule.note(removal)

    def reduce(self, limits: dict[int, float]) -> list[Removal]:
        """Bring the named cliques within their limits (bits), always at the smallest loss; return what was removed.

        A clique that cannot shrink without breaking a condition stays too large.
        """
        made: list[Removal] = []
        waiting = [
            (-self.bits[clique], clique) for clique, limit in limits.items() if self.bits[clique] > limit + _EPSILON
        ]
        heapify(waiting)
        while waiting:
            self.space.control.check()
            size, clique = heappop(waiting)
            if self.bits[clique] <= limits[clique] + _EPSILON:
                continue
            if -size != self.bits[clique]:
                # It shrank since, with another one, and has to wait its turn.
                heappush(waiting, (-self.bits[clique], clique))
                continue
            choice = self._cheapest(clique)
            if choice is not None:
                made.append(choice)
                self._remove(choice)
                heappush(waiting, (-self.bits[clique], clique))
        return made

    def _cheapest(self, clique: int) -> Removal | None:
        """Return the best way to take any variable out of a clique.

        Variables that look cheap from here come first: for most others that look is enough.
        """
        near = self.forest.neighbours[clique]
        edges = {
            variable: [edge(clique, neighbour) for neighbour in near if neighbour in self.holders[variable]]
            for variable in sorted(self.scopes[clique])
            if not (variable in self.interface and len(self.holders[variable]) == 1)
        }
        floors = self.rule.floors(clique, edges)
        scope = self.scopes[clique]
        best: tuple[float, ...] | None = None

        def cheapest_way(variable: int) -> tuple[tuple[float, ...], int, Removal] | None:
            """Return the best way to take a variable out, its rank, and its number, unless others are better."""
            nonlocal best
            if best is not None and floors[variable] > best[0]:
                return None
            ways = self.removals(clique, variable)
            found = None
            for number in sorted(range(len(ways)), key=lambda number: (len(ways[number].cliques), number)):
                rank = self.rule.rank(ways[number], scope, best)
                if rank is None:
                    continue
                if found is None or (rank, number) < found[:2]:
                    found = rank, number, ways[number]
                if best is None or rank < best:
                    best = rank
            return found

        # Threads that look at several at once may look at more of them than one alone would.
        order = sorted(edges, key=lambda variable: (floors[variable], variable))
        size = self.space.size(tuple(scope))
        entries = size * len(order) if size >= _WORTH_THREADS else 0
        cheapest = run_parts([partial(cheapest_way, variable) for variable in order], entries, self.space.control)
        ranked = [way for way in cheapest if way is not None]
        return min(ranked, key=lambda way: way[:2])[2] if ranked else None

    def reduction(self) -> Reduction:
        """Return the outcome so far."""
        return Reduction(
            {clique: tuple(sorted(scope)) for clique, scope in self.scopes.items()},
            {key: tuple(sorted(scope)) for key, scope in self.sepsets.items()},
            self.loss,
            dict(self.losses),
            set(self.lossy),
            self.removed,
        )
