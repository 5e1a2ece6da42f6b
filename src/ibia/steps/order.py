"""The order in which factors are added, chosen by name.

Order decides how soon variables leave the interface, and so how much is lost. Each strategy gets the scopes of the
factors, an elimination order found by triangulating the whole component, and, for Bayesian networks, the topological
rank of each factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ibia.errors import InputError
from ibia.tables import Scope

__all__ = ["ORDERS", "Ordering", "factor_order"]


@dataclass(frozen=True)
class Ordering:
    """What a strategy may look at.

    Attributes
    ----------
    scopes
        Variables of each factor.
    place
        Variable → its place in an elimination order.
    ranks
        Topological rank of each factor of a Bayesian network.
    """

    scopes: list[Scope]
    place: list[int]
    ranks: list[int] | None

    def span(self, number: int) -> tuple[int, int]:
        """Return the first and the last place of a factor's variables in the elimination order."""
        places = [self.place[variable] for variable in self.scopes[number]]
        return min(places), max(places)


def elimination(ordering: Ordering) -> list[int]:
    """Bucket by bucket of the elimination order: early variables become non-interface early."""
    return sorted(range(len(ordering.scopes)), key=lambda number: (*ordering.span(number), number))


def reverse(ordering: Ordering) -> list[int]:
    """The buckets from last to first: from the core of the model outwards."""

    def key(number: int) -> tuple[int, int, int]:
        first, last = ordering.span(number)
        return -last, -first, number

    return sorted(range(len(ordering.scopes)), key=key)


def breadth(ordering: Ordering) -> list[int]:
    """Breadth first from a peripheral variable: the interface is a front that moves through the model."""
    neighbours: dict[int, set[int]] = {}
    for scope in ordering.scopes:
        for variable in scope:
            neighbours.setdefault(variable, set()).update(scope)
    sorted_neighbours = {
        variable: sorted(others, key=ordering.place.__getitem__) for variable, others in neighbours.items()
    }
    start = min(neighbours, key=ordering.place.__getitem__)
    for _ in range(2):
        layers = _distances(sorted_neighbours, start)
        start = max(
            layers, key=lambda variable: (layers[variable], -len(neighbours[variable]), -ordering.place[variable])
        )
    reached = {variable: number for number, variable in enumerate(_distances(sorted_neighbours, start))}

    def key(number: int) -> tuple[int, int, int]:
        places = [reached[variable] for variable in ordering.scopes[number]]
        return max(places), min(places), number

    return sorted(range(len(ordering.scopes)), key=key)


def topological(ordering: Ordering) -> list[int]:
    """Conditional distributions after those of their parents (the paper's TP), ancestors of evidence first."""
    if ordering.ranks is None:
        raise InputError("order 'topological' needs a Bayesian network, and this model is none")
    ranks = ordering.ranks
    return sorted(range(len(ranks)), key=lambda number: (ranks[number], number))


def _distances(neighbours: dict[int, list[int]], start: int) -> dict[int, int]:
    """Return the distance of each variable from `start`, in the order in which they are reached."""
    distances = {start: 0}
    queue = [start]
    for variable in queue:
        for other in neighbours[variable]:
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
