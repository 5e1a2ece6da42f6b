"""What a local marginalisation loses: rules that rank removals, chosen by name.

``kl``: the exact Kullback–Leibler divergence between the trees before and after (both are calibrated),
Σ over sepsets H(v | S∖v) − Σ over cliques H(v | C∖v). ``mi``: the paper's rule, the largest mutual information between
the variable and an interface variable of the clique, interface variables last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from ibia.errors import InputError
from ibia.forest.forest import Edge, Forest
from ibia.tables import Scope, Space, Table
from ibia.tables.contract import LARGE
from ibia.tables.threads import run_each, run_parts

__all__ = ["LOSSES", "LossRule", "Removal", "loss_rule"]

# What sums of entropies (nats) may be off by rounding.
_ROUNDING = 1e-9
# Losses are compared to so many digits after the point: what is equal stays equal however sums are rounded.
_DIGITS = 13


class Removal(NamedTuple):
    """A way to remove a variable from a clique: from which cliques and sepsets it has to go.

    Attributes
    ----------
    exact
        Whether no other clique holds the variable.
    terms
        The edges and cliques in pairs: the edge towards what keeps the variable with the clique itself, and from there
        outwards each other clique with the edge that leads to it. Each pair adds H(v | S∖v) − H(v | C∖v) to the loss,
        which is never negative, since S lies in C.
    """

    variable: int
    clique: int
    cliques: tuple[int, ...]
    edges: tuple[Edge, ...]
    exact: bool
    terms: tuple[tuple[Edge, int], ...] = ()


def _keys(removal: Removal) -> tuple[int | Edge, ...]:
    """Return all sepsets and cliques that a removal changes."""
    return (*removal.edges, *removal.cliques)


class LossRule(Protocol):
    """Ranks removals (smaller is better) and tells their loss in nats; several threads may ask it at a time."""

    def floors(self, clique: int, edges: dict[int, list[Edge]]) -> dict[int, float]:
        """Return for each variable what the first figure of no removal of it from a clique is below.

        Parameters
        ----------
        edges
            Variable → the edges of the clique that hold it.
        """
        ...

    def rank(
        self, removal: Removal, scope: Collection[int], best: tuple[float, ...] | None = None
    ) -> tuple[float, ...] | None:
        """Return the sort key of a removal; it may be None where the key would be above `best`.

        Parameters
        ----------
        scope
            What is left of its clique.
        """
        ...

    def loss(self, removal: Removal) -> float:
        """Return the exact loss of a removal in nats."""
        ...

    def note(self, removal: Removal) -> None:
        """Hear that a removal was made: what is known of its cliques and sepsets holds no longer."""
        ...


class KullbackLeibler:
    """Exact loss per bit freed."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        self.space = space
        self._beliefs = forest.beliefs
        self._sepsets = forest.sepsets
        # The variables removed from each clique and sepset, its marginal without them as far as it was asked for, its
        # entropy, and H(v | rest) of the variables asked for: sums over many of them are made again and again.
        self._removed: dict[int | Edge, list[int]] = {}
        self._current: dict[int | Edge, Table] = {}
        self._entropies: dict[int | Edge, float] = {}
        self._conditionals: dict[int | Edge, dict[int, float]] = {}

    def rank(
        self, removal: Removal, scope: Collection[int], best: tuple[float, ...] | None = None
    ) -> tuple[float, ...] | None:
        """Return the loss per bit that the removal frees in its clique."""
        variable = removal.variable
        bits = max(self.space.log2[variable], 1e-9)
        if removal.exact:
            return (0.0, float(variable))
        if best is not None and not self._within(removal, best[0] * bits + _ROUNDING):
            return None
        return (round(self.loss(removal), _DIGITS) / bits, float(variable))

    def _within(self, removal: Removal, most: float) -> bool:
        """Tell whether a removal loses no more than `most`, looking at no more of it than that takes."""
        variable, conditionals = removal.variable, self._conditionals
        loss = 0.0
        for key, clique in removal.terms:
            try:
                loss += conditionals[key][variable] - conditionals[clique][variable]
            except KeyError:
                self._measure([(key, variable), (clique, variable)])
                loss += conditionals[key][variable] - conditionals[clique][variable]
            if loss > most:
                return False
        return True

    def loss(self, removal: Removal) -> float:
        """Return Σ H(v | S∖v) over the sepsets minus Σ H(v | C∖v) over the cliques."""
        variable, conditionals = removal.variable, self._conditionals
        try:
            gained = sum([conditionals[key][variable] for key in removal.edges])
            lost = sum([conditionals[clique][variable] for clique in removal.cliques])
        except KeyError:
            self._measure([(key, variable) for key in _keys(removal)])
            return self.loss(removal)
        return gained - lost

    def floors(self, clique: int, edges: dict[int, list[Edge]]) -> dict[int, float]:
        """Return the least loss per bit of any pair of the clique itself and one of its edges."""
        conditionals = self._conditionals
        shared = {variable: keys for variable, keys in edges.items() if keys}
        wanted: list[tuple[int | Edge, int]] = [(clique, variable) for variable in shared]
        wanted += [(key, variable) for variable, keys in shared.items() for key in keys]
        self._measure(wanted)
        floors = dict.fromkeys(edges, 0.0)
        for variable, keys in shared.items():
            loss = min(conditionals[key][variable] for key in keys) - conditionals[clique][variable]
            floors[variable] = (loss - _ROUNDING) / max(self.space.log2[variable], 1e-9)
        return floors

    def note(self, removal: Removal) -> None:
        """Forget the entropies of what has changed."""
        for key in _keys(removal):
            self._removed.setdefault(key, []).append(removal.variable)
            self._conditionals.pop(key, None)
            self._entropies.pop(key, None)

    def _measure(self, wanted: list[tuple[int | Edge, int]]) -> None:
        """Compute H(v | rest) of pairs of a clique or sepset and a variable v, if not known, on threads if worth it."""
        conditionals = self._conditionals
        unknown = [
            (key, variable)
            for key, variable in wanted
            if key not in conditionals or variable not in conditionals[key]
        ]
        if not unknown:
            return
        tables = self._tables(dict.fromkeys(key for key, _ in unknown))
        missing = {(key, variable): tables[key] for key, variable in unknown}
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

    def _tables(self, keys: Iterable[int | Edge]) -> dict[int | Edge, Table]:
        """Return the marginals of cliques and sepsets over what is left of their scopes."""
        tables: dict[int | Edge, Table] = {}
        larger: dict[int | Edge, tuple[Table, list[int]]] = {}
        for key in keys:
            table = self._current.get(key)
            if table is None:
                table = self._sepsets[key] if isinstance(key, tuple) else self._beliefs[key]
            tables[key] = table
            gone = [variable for variable in self._removed.get(key, ()) if variable in table.scope]
            if gone:
                larger[key] = table, gone

        def summed(key: int | Edge) -> Table:
            table, gone = larger[key]
            # One after the other: then sums are the same whenever they are asked for.
            for variable in gone:
                table = table.marginal(tuple(other for other in table.scope if other != variable))
            return table

        if larger:
            sizes = [table.values.size for table, _ in larger.values()]
            tables.update(zip(larger, run_each(summed, list(larger), sizes, self.space.control), strict=True))
        self._current.update(tables)
        return tables


class MutualInformation(KullbackLeibler):
    """The paper's rule: remove the variable that tells least about the interface; interface variables go last."""

    def __init__(self, forest: Forest, interface: set[int], space: Space) -> None:
        super().__init__(forest, interface, space)
        self._interface = interface
        self._pairs: dict[tuple[int, Scope], float] = {}

    def floors(self, clique: int, edges: dict[int, list[Edge]]) -> dict[int, float]:
        """Return nothing that would rule out a variable: pairs are cheap."""
        return dict.fromkeys(edges, 0.0)

    def rank(
        self, removal: Removal, scope: Collection[int], best: tuple[float, ...] | None = None
    ) -> tuple[float, ...]:
        """Return the largest mutual information with an interface variable of the clique, per bit."""
        clique, variable = removal.clique, removal.variable
        largest = max(
            (
                self._mutual(clique, variable, other)
                for other in scope
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
