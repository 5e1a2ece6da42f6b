"""The reduced trees (CTF_k,a): what local marginalisation left, and the forest the next step starts from.

Reduced cliques that lie inside a neighbour are merged into it. When more is removed, only what changed is merged anew,
so that room can be made for one factor after another at a cost that does not depend on the size of the forest.
"""

from __future__ import annotations

from collections.abc import Iterable

from ibia.forest.forest import edge
from ibia.steps.build import Growth, Refusals
from ibia.steps.local import LocalReducer
from ibia.steps.loss import Removal
from ibia.tables import Scope

__all__ = ["ReducedTrees", "message_number"]


def message_number(clique: int) -> int:
    """Return the potential number that stands for the message of a clique of the former step."""
    return -1 - clique


class ReducedTrees:
    """The trees of the reduced cliques, without those that lie inside a neighbour.

    Attributes
    ----------
    growth
        The trees, each clique with its message as its only potential.
    cliques
        Clique of the growth → clique of the core.
    """

    def __init__(self, reducer: LocalReducer, refusals: Refusals) -> None:
        self.reducer = reducer
        self.growth = Growth(reducer.space, refusals)
        self.cliques: dict[int, int] = {}
        # Clique of the core → clique of the growth that it is merged into, and the other way round.
        self._home: dict[int, int] = {}
        self._members: dict[int, list[int]] = {}
        self._rebuild(reducer.scopes)

    def messages(self) -> tuple[dict[int, Scope], dict[int, tuple[int, Scope]]]:
        """Return the scope of each clique that sends a message, and its parent with the variables they share."""
        forest, cliques = self.growth.forest, self.cliques
        scopes = {cliques[number]: scope for number, scope in forest.scopes.items()}
        parents: dict[int, tuple[int, Scope]] = {}
        for number, parent in self.growth.parents.items():
            parents[cliques[number]] = (
                (cliques[parent], forest.neighbours[number][parent]) if parent >= 0 else (-1, ())
            )
        return scopes, parents

    def update(self, removals: Iterable[Removal]) -> None:
        """Follow removals that the reducer has made."""
        for removal in removals:
            self._rebuild(member for number in self._homes(removal.cliques) for member in self._members[number])

    def _homes(self, cliques: Iterable[int]) -> list[int]:
        return list(dict.fromkeys(self._home[clique] for clique in cliques))

    def _rebuild(self, cliques: Iterable[int]) -> None:
        """Merge the cliques of a subtree of the core anew; they are all that is merged into some of the growth's."""
        members = list(cliques)
        inside: dict[int, list[int]] | None = None
        while inside is None:
            scopes, inside, neighbours, outside = self._merge(members)
            if outside is not None:
                # One of them lies inside a clique next to them now: then that is merged anew as well.
                members += self._members[outside]
                inside = None
        region = set(self._homes(member for member in members if member in self._home))
        position = {clique: number for number, clique in enumerate(inside)}
        edges, border = [], []
        for clique in inside:
            for neighbour, sepset in neighbours[clique].items():
                if neighbour not in position:
                    number = -1 - neighbour
                    touching = next(near for near in self.growth.forest.neighbours[number] if near in region)
                    border.append((touching, number, sepset, position[clique]))
                elif clique < neighbour:
                    edges.append((position[clique], position[neighbour], sepset))
        for number in region:
            del self._members[number]
            del self.growth.potentials[message_number(self.cliques.pop(number))]
        numbers = self.growth.replace(region, [scopes[clique] for clique in inside], edges, border)
        for (clique, merged), number in zip(inside.items(), numbers, strict=True):
            self.growth.place(message_number(clique), scopes[clique], number)
            self.cliques[number] = clique
            self._members[number] = merged
            for member in merged:
                self._home[member] = number

    def _merge(
        self, members: list[int]
    ) -> tuple[dict[int, Scope], dict[int, list[int]], dict[int, dict[int, Scope]], int | None]:
        """Merge cliques into neighbours that contain them.

        Return their scopes, clique → what is merged into it, their neighbours (−1 − the number of a clique of the
        growth that is not one of `members`), and the number of such a clique that contains one of them, if any.
        """
        core, reducer = self.reducer.forest, self.reducer
        here = set(members)
        scopes = {clique: tuple(sorted(reducer.scopes[clique])) for clique in members}
        inside = {clique: [clique] for clique in members}
        neighbours: dict[int, dict[int, Scope]] = {
            clique: {
                (near if near in here else -1 - self._home[near]): tuple(sorted(reducer.sepsets[edge(clique, near)]))
                for near in core.neighbours[clique]
            }
            for clique in members
        }
        waiting = list(members)
        while waiting:
            clique = waiting.pop()
            if clique not in inside:
                continue
            size = len(scopes[clique])
            host = next((near for near, sepset in neighbours[clique].items() if len(sepset) == size), None)
            if host is None:
                continue
            if host < 0:
                return scopes, inside, neighbours, -1 - host
            for near, sepset in neighbours.pop(clique).items():
                if near >= 0:
                    del neighbours[near][clique]
                if near != host:
                    neighbours[host][near] = sepset
                    if near >= 0:
                        neighbours[near][host] = sepset
            inside[host] += inside.pop(clique)
            waiting.append(host)
        return scopes, inside, neighbours, None
