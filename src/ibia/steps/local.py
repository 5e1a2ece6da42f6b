"""Local marginalisation: the only lossy operation, which brings every clique of the core within the reduced bound.

A variable is removed from an over-large clique and from all but one of the parts into which its cliques fall without
it; a sepset is never emptied, and the last clique of an interface variable never touched (conditions a to c of the
paper). Which variable goes where is decided by a loss from ``loss.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ibia.forest.forest import Edge, Forest, edge
from ibia.steps.loss import LossRule, Removal
from ibia.tables import Scope, Space

__all__ = ["LocalReducer", "Reduction"]

_EPSILON = 1e-9
# Removals that lose less than this (nats) are exact up to rounding: the variable is a function of what stays.
LOSSLESS = 1e-9


@dataclass
class Reduction:
    """The scopes after local marginalisation, and what it cost.

    Attributes
    ----------
    scopes, sepsets
        Reduced scope of each clique and edge of the core.
    loss
        Kullback–Leibler divergence (nats) between the distributions before and after, summed over the removals.
    lossy
        Cliques from which something was removed at a loss.
    removals
        How many variables were removed while other cliques held them (none: the reduction is exact).
    """

    scopes: dict[int, Scope]
    sepsets: dict[Edge, Scope]
    loss: float = 0.0
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
        self.loss = 0.0
        self.lossy: set[int] = set()
        self.removed = 0

    def removals(self, clique: int, variable: int) -> list[Removal]:
        """Return the ways to take `variable` out of `clique`: one for each part that may keep it."""
        if variable in self.interface and len(self.holders[variable]) == 1:
            return []
        rest = self.holders[variable] - {clique}
        parts: list[set[int]] = []
        while rest:
            start = min(rest)
            part = {start}
            stack = [start]
            rest.discard(start)
            while stack:
                here = stack.pop()
                for neighbour in self.forest.neighbours[here]:
                    if neighbour in rest and variable in self.sepsets[edge(here, neighbour)]:
                        rest.discard(neighbour)
                        part.add(neighbour)
                        stack.append(neighbour)
            parts.append(part)
        ways = []
        for kept in range(max(len(parts), 1)):
            cliques = {clique}.union(*(part for number, part in enumerate(parts) if number != kept))
            edges = {
                edge(member, neighbour)
                for member in cliques
                for neighbour in self.forest.neighbours[member]
                if variable in self.sepsets[edge(member, neighbour)]
            }
            if all(len(self.sepsets[key]) > 1 for key in edges) and all(
                len(self.scopes[member]) > 1 for member in cliques
            ):
                ways.append(Removal(variable, clique, tuple(sorted(cliques)), tuple(sorted(edges)), not parts))
        return ways

    def _remove(self, removal: Removal) -> None:
        loss = 0.0 if removal.exact else self.rule.loss(removal, self.scopes, self.sepsets)
        if not removal.exact:
            self.removed += 1
        if loss > LOSSLESS:
            self.lossy.update(removal.cliques)
        self.loss += max(loss, 0.0)
        for clique in removal.cliques:
            self.scopes[clique].discard(removal.variable)
            self.holders[removal.variable].discard(clique)
        for key in removal.edges:
            self.sepsets[key].discard(removal.variable)

    def reduce(self, limits: dict[int, float]) -> bool:
        """Bring the named cliques within their limits (bits), always at the smallest loss; return whether any shrank.

        A clique that cannot shrink without breaking a condition stays too large.
        """
        space = self.space
        shrank = False
        waiting = {clique for clique, limit in limits.items() if space.bits(self.scopes[clique]) > limit + _EPSILON}
        while waiting:
            clique = max(waiting, key=lambda member: (space.bits(self.scopes[member]), -member))
            best: tuple[float, ...] | None = None
            choice: Removal | None = None
            for variable in sorted(self.scopes[clique]):
                for removal in self.removals(clique, variable):
                    rank = self.rule.rank(removal, self.scopes, self.sepsets)
                    if best is None or rank < best:
                        best, choice = rank, removal
            if choice is None:
                waiting.discard(clique)
                continue
            shrank = True
            self._remove(choice)
            waiting = {member for member in waiting if space.bits(self.scopes[member]) > limits[member] + _EPSILON}
        return shrank

    def reduction(self) -> Reduction:
        """Return the outcome so far."""
        return Reduction(
            {clique: tuple(sorted(scope)) for clique, scope in self.scopes.items()},
            {key: tuple(sorted(scope)) for key, scope in self.sepsets.items()},
            self.loss,
            set(self.lossy),
            self.removed,
        )
