"""What a local marginalisation loses: rules that rank removals, chosen by name.

``kl``: the exact Kullback–Leibler divergence between the trees before and after (both are calibrated),
Σ over sepsets H(v | S∖v) − Σ over cliques H(v | C∖v). ``mi``: the paper's rule, the largest mutual information between
the variable and an interface variable of the clique, interface variables last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ibia.errors import InputError
from ibia.forest.forest import Edge, Forest
from ibia.tables import Scope, Space, Table

__all__ = ["LOSSES", "LossRule", "Removal", "loss_rule"]


class Removal(NamedTuple):
    """A way to remove a variable from a clique: from which cliques and sepsets it has to go."""

    variable: int
    clique: int
    cliques: tuple[int, ...]
    edges: tuple[Edge, ...]
    exact: bool


Scopes = dict[int, set[int]]
Sepsets = dict[Edge, set[int]]


class LossRule(Protocol):
    """Ranks removals (smaller is better) and tells their loss in nats."""

    def rank(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> tuple[float, ...]:
        """Return the sort key of a removal."""
        ...

    def loss(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> float:
        """Return the exact loss of a removal in nats."""
        ...


class KullbackLeibler:
    """Exact loss per bit freed."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        self.space = space
        self._beliefs = forest.beliefs
        self._sepsets = forest.sepsets
        self._entropies: dict[tuple[int | Edge, Scope], float] = {}
        # Marginals of the cliques as reduced so far: candidates start from them, not from the full belief.
        self._current: dict[int, Table] = {}

    def rank(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> tuple[float, ...]:
        """Return the loss per bit that the removal frees in its clique."""
        loss = 0.0 if removal.exact else self.loss(removal, scopes, sepsets)
        return (loss / max(self.space.log2[removal.variable], 1e-9), float(removal.variable))

    def loss(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> float:
        """Return Σ H(v | S∖v) over the sepsets minus Σ H(v | C∖v) over the cliques."""
        variable = removal.variable
        gained = sum(self._conditional_of_sepset(key, sepsets[key], variable) for key in removal.edges)
        lost = sum(self._conditional_of_clique(clique, scopes[clique], variable) for clique in removal.cliques)
        return gained - lost

    def _conditional_of_sepset(self, key: Edge, scope: set[int], variable: int) -> float:
        table = self._sepsets[key]
        whole = tuple(sorted(scope))
        rest = tuple(member for member in whole if member != variable)
        return self._entropy(key, whole, table) - self._entropy(key, rest, table)

    def _conditional_of_clique(self, clique: int, scope: set[int], variable: int) -> float:
        whole = tuple(sorted(scope))
        current = self._current.get(clique)
        if current is None or current.scope != whole:
            current = (current or self._beliefs[clique]).marginal(whole)
            self._current[clique] = current
        rest = tuple(member for member in whole if member != variable)
        return self._entropy(clique, whole, current) - self._entropy(clique, rest, current)

    def _entropy(self, key: int | Edge, scope: Scope, table: Table) -> float:
        found = self._entropies.get((key, scope))
        if found is None:
            found = (table if scope == table.scope else table.marginal(scope)).entropy() if scope else 0.0
            self._entropies[key, scope] = found
        return found


class MutualInformation(KullbackLeibler):
    """The paper's rule: remove the variable that tells least about the interface; interface variables go last."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        super().__init__(forest, interface, space)
        self._interface = interface
        self._pairs: dict[tuple[int, Scope], float] = {}

    def rank(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> tuple[float, ...]:
        """Return the largest mutual information with an interface variable of the clique, per bit."""
        clique, variable = removal.clique, removal.variable
        largest = max(
            (
                self._mutual(clique, variable, other)
                for other in scopes[clique]
                if other != variable and other in self._interface
            ),
            default=0.0,
        )
        return (
            float(variable in self._interface),
            largest / max(self.space.log2[variable], 1e-9),
            float(len(removal.cliques)),
            float(variable),
        )

    def _mutual(self, clique: int, first: int, second: int) -> float:
        pair = (min(first, second), max(first, second))
        found = self._pairs.get((clique, pair))
        if found is None:
            joint = self._beliefs[clique].marginal(pair)
            found = joint.marginal((first,)).entropy() + joint.marginal((second,)).entropy() - joint.entropy()
            self._pairs[clique, pair] = found
        return found


LOSSES: dict[str, Callable[[Forest, set[int], Space], LossRule]] = {
    "kl": KullbackLeibler,
    "mi": MutualInformation,
}


def loss_rule(name: str, forest: Forest, interface: set[int], space: Space) -> LossRule:
    """Return the rule of that name for one calibrated forest."""
    if name not in LOSSES:
        raise InputError(f"unknown loss rule {name!r}; expected one of {', '.join(sorted(LOSSES))}")
    return LOSSES[name](forest, interface, space)
