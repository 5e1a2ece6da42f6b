"""The order in which factors are added, chosen by name.

Order decides how soon variables leave the interface, and so how much is lost. Each strategy gets the scopes of the
factors, the elimination order found by triangulating the whole component (variables are numbered by it), and, for
Bayesian networks, the topological rank of each factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ibia.errors import InputError
from ibia.tables import Scope

__all__ = ["ORDERS", "Ordering", "factor_order"]


@dataclass(frozen=True)
class Ordering:
    """What a strategy may look at: scopes over variables numbered by elimination, and topological ranks if any."""

    scopes: list[Scope]
    ranks: list[int] | None


def elimination(ordering: Ordering) -> list[int]:
    """Bucket by bucket of the elimination order: early variables become non-interface early."""
    scopes = ordering.scopes
    return sorted(range(len(scopes)), key=lambda number: (scopes[number][0], scopes[number][-1], number))


def reverse(ordering: Ordering) -> list[int]:
    """The buckets from last to first: from the core of the model outwards."""
    scopes = ordering.scopes
    return sorted(range(len(scopes)), key=lambda number: (-scopes[number][-1], -scopes[number][0], number))


def breadth(ordering: Ordering) -> list[int]:
    """Breadth first from a peripheral variable: the interface is a front that moves through the model."""
    neighbours: dict[int, set[int]] = {}
    for scope in ordering.scopes:
        for variable in scope:
            neighbours.setdefault(variable, set()).update(scope)
    start = min(neighbours)
    for _ in range(2):
        layers = _distances(neighbours, start)
        start = max(layers, key=lambda variable: (layers[variable], -len(neighbours[variable]), -variable))
    place = {variable: number for number, variable in enumerate(_distances(neighbours, start))}
    scopes = ordering.scopes
    return sorted(
        range(len(scopes)),
        key=lambda number: (max(place[v] for v in scopes[number]), min(place[v] for v in scopes[number]), number),
    )


def topological(ordering: Ordering) -> list[int]:
    """Conditional distributions after those of their parents (the paper's TP), ancestors of evidence first."""
    if ordering.ranks is None:
        raise InputError("order 'topological' needs a Bayesian network, and this model is none")
    ranks = ordering.ranks
    return sorted(range(len(ranks)), key=lambda number: (ranks[number], number))


def _distances(neighbours: dict[int, set[int]], start: int) -> dict[int, int]:
    distances = {start: 0}
    queue = [start]
    for variable in queue:
        for other in sorted(neighbours[variable]):
            if other not in distances:
                distances[other] = distances[variable] + 1
                queue.append(other)
    return distances


ORDERS: dict[str, Callable[[Ordering], list[int]]] = {
    "elimination": elimination,
    "reverse": reverse,
    "breadth": breadth,
    "topological": topological,
}


def factor_order(name: str, ordering: Ordering) -> list[int]:
    """Return the factor numbers in the order of that name."""
    if name not in ORDERS:
        raise InputError(f"unknown order {name!r}; expected one of auto, {', '.join(ORDERS)}")
    return ORDERS[name](ordering)
