"""What a local marginalisation loses: rules that rank removals, chosen by name.

``kl``: the exact Kullback–Leibler divergence between the trees before and after (both are calibrated),
Σ over sepsets H(v | S∖v) − Σ over cliques H(v | C∖v). ``mi``: the paper's rule, the largest mutual information between
the variable and an interface variable of the clique, interface variables last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from ibia.errors import InputError
from ibia.forest.forest import Edge, Forest
from ibia.tables import Scope, Space, Table
from ibia.tables.contract import LARGE
from ibia.tables.threads import run_parts

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

    def foresee(self, removals: list[Removal], scopes: Scopes, sepsets: Sepsets) -> None:
        """Hear which removals are about to be ranked."""
        ...

    def rank(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> tuple[float, ...]:
        """Return the sort key of a removal."""
        ...

    def loss(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> float:
        """Return the exact loss of a removal in nats."""
        ...

    def forget(self, removal: Removal) -> None:
        """Hear that a removal was made: what is known of its cliques and sepsets holds no longer."""
        ...


class KullbackLeibler:
    """Exact loss per bit freed."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        self.space = space
        self._beliefs = forest.beliefs
        self._sepsets = forest.sepsets
        # The marginal of each clique and sepset as reduced so far (the next one starts from it), its entropy, and
        # H(v | rest) of the variables asked for: sums over many of them are made again and again.
        self._current: dict[int | Edge, Table] = {}
        self._entropies: dict[int | Edge, float] = {}
        self._conditionals: dict[int | Edge, dict[int, float]] = {}

    def rank(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> tuple[float, ...]:
        """Return the loss per bit that the removal frees in its clique."""
        loss = 0.0 if removal.exact else self.loss(removal, scopes, sepsets)
        return (loss / max(self.space.log2[removal.variable], 1e-9), float(removal.variable))

    def loss(self, removal: Removal, scopes: Scopes, sepsets: Sepsets) -> float:
        """Return Σ H(v | S∖v) over the sepsets minus Σ H(v | C∖v) over the cliques."""
        variable, conditionals = removal.variable, self._conditionals
        try:
            gained = sum([conditionals[key][variable] for key in removal.edges])
            lost = sum([conditionals[clique][variable] for clique in removal.cliques])
        except KeyError:
            self._measure([removal], scopes, sepsets)
            return self.loss(removal, scopes, sepsets)
        return gained - lost

    def foresee(self, removals: list[Removal], scopes: Scopes, sepsets: Sepsets) -> None:
        """Compute what the ranks of some removals need."""
        self._measure([removal for removal in removals if not removal.exact], scopes, sepsets)

    def forget(self, removal: Removal) -> None:
        """Forget the entropies of what has changed."""
        changed: tuple[int | Edge, ...] = (*removal.edges, *removal.cliques)
        for key in changed:
            self._conditionals.pop(key, None)
            self._entropies.pop(key, None)

    def _measure(self, removals: list[Removal], scopes: Scopes, sepsets: Sepsets) -> None:
        """Compute the entropies that the losses of removals need, on several threads if that is much work."""
        conditionals = self._conditionals
        missing: dict[tuple[int | Edge, int], Table] = {}
        for removal in removals:
            variable = removal.variable
            keys: tuple[int | Edge, ...] = (*removal.edges, *removal.cliques)
            for key in keys:
                if key not in conditionals or variable not in conditionals[key]:
                    missing[key, variable] = self._table(key, sepsets[key] if isinstance(key, tuple) else scopes[key])
        if not missing:
            return
        whole = {key: table for (key, _), table in missing.items() if key not in self._entropies}
        tasks = [table.entropy for table in whole.values()]
        tasks += [partial(table.entropy_without, variable) for (_, variable), table in missing.items()]
        entries = sum(table.values.size for table in missing.values())
        if entries >= LARGE:
            self.space.control.check()
            found = run_parts(tasks, entries, self.space.control)
        else:
            found = [task() for task in tasks]
        self._entropies.update(zip(whole, found, strict=False))
        for (key, variable), entropy in zip(missing, found[len(whole) :], strict=True):
            conditionals.setdefault(key, {})[variable] = self._entropies[key] - entropy

    def _table(self, key: int | Edge, scope: set[int]) -> Table:
        """Return the marginal of a clique or sepset over what is left of its scope."""
        current = self._current.get(key)
        if current is None or len(current.scope) != len(scope):
            belief = self._sepsets[key] if isinstance(key, tuple) else self._beliefs[key]
            if current is None and len(belief.scope) == len(scope):
                current = belief
            else:
                current = (current or belief).marginal(tuple(sorted(scope)))
            self._current[key] = current
        return current


class MutualInformation(KullbackLeibler):
    """The paper's rule: remove the variable that tells least about the interface; interface variables go last."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        super().__init__(forest, interface, space)
        self._interface = interface
        self._pairs: dict[tuple[int, Scope], float] = {}

    def foresee(self, removals: list[Removal], scopes: Scopes, sepsets: Sepsets) -> None:
        """Do nothing: ranks are made of pairs of variables, which are cheap."""

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
