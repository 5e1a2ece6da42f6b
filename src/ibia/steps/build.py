"""Build (the paper's incremental build): add factors to a forest while its cliques stay within the bound.

A batch of factors touches a region of the forest: the smallest subtrees that span the cliques holding their variables.
Only that region is triangulated anew, from the scopes of the potentials in it (not from its cliques: earlier fill edges
may go), and put back in place. A batch that does not fit is halved; a factor that does not fit alone is deferred.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ibia.forest.forest import Forest
from ibia.forest.triangulate import CliqueTree, triangulate
from ibia.tables import Scope, Space

__all__ = ["Growth", "grow"]

_EPSILON = 1e-9


@dataclass
class Growth:
    """A forest under construction, and where its potentials are.

    Attributes
    ----------
    forest
        Structure only.
    potentials
        Scope of each potential, by number: messages of the former step and factors alike.
    contents
        Clique → potentials multiplied into it.
    """

    space: Space
    forest: Forest = field(default_factory=Forest)
    potentials: dict[int, Scope] = field(default_factory=dict)
    contents: dict[int, set[int]] = field(default_factory=dict)
    holders: dict[int, set[int]] = field(default_factory=dict)
    next_clique: int = 0

    def add_clique(self, scope: Scope) -> int:
        """Add an unconnected clique and return its number."""
        clique = self.next_clique
        self.next_clique += 1
        self.forest.add_clique(clique, scope)
        self.contents[clique] = set()
        for variable in scope:
            self.holders.setdefault(variable, set()).add(clique)
        return clique

    def remove_clique(self, clique: int) -> None:
        """Remove a clique; its contents are the caller's to place again."""
        for variable in self.forest.scopes[clique]:
            holders = self.holders[variable]
            holders.discard(clique)
            if not holders:
                del self.holders[variable]
        self.forest.remove_clique(clique)
        del self.contents[clique]

    def clique_with(self, scope: Scope) -> int | None:
        """Return the smallest clique that contains `scope`, if there is one."""
        candidates: list[set[int]] = []
        for variable in scope:
            holders = self.holders.get(variable)
            if holders is None:
                return None
            candidates.append(holders)
        candidates.sort(key=len)
        within = candidates[0].intersection(*candidates[1:]) if candidates else set(self.forest.scopes)
        scopes = self.forest.scopes
        return min(within, key=lambda clique: (len(scopes[clique]), clique), default=None)

    def place(self, potential: int, scope: Scope, clique: int) -> None:
        """Record that a potential is multiplied into a clique that contains its scope."""
        self.potentials[potential] = scope
        self.contents[clique].add(potential)

    def region(self, scopes: Iterable[Scope]) -> set[int]:
        """Return the cliques of the smallest subtrees (greedily) that hold the variables of `scopes`."""
        wanted = {variable for scope in scopes for variable in scope if variable in self.holders}
        region: set[int] = set()
        scopes_of = self.forest.scopes
        while wanted:
            # A tree not entered yet: start at the clique that holds most of what is wanted.
            first = min(wanted, key=lambda variable: (len(self.holders[variable]), variable))
            start = max(
                self.holders[first], key=lambda clique: (len(wanted.intersection(scopes_of[clique])), -clique)
            )
            parents = {start: -1}
            queue = [start]
            region.add(start)
            wanted.difference_update(scopes_of[start])
            for clique in queue:
                if not wanted:
                    break
                for neighbour in self.forest.neighbours[clique]:
                    if neighbour in parents:
                        continue
                    parents[neighbour] = clique
                    queue.append(neighbour)
                    if not wanted.isdisjoint(scopes_of[neighbour]):
                        step = neighbour
                        while step not in region:
                            region.add(step)
                            wanted.difference_update(scopes_of[step])
                            step = parents[step]
        return region

    def try_add(self, batch: list[tuple[int, Scope]], limit: float, restarts: int) -> bool:
        """Add a batch of (potential, scope) if every clique stays within `limit` bits; change nothing otherwise."""
        homes = {potential: self.clique_with(scope) for potential, scope in batch}
        outside = [(potential, scope) for potential, scope in batch if homes[potential] is None]
        if outside:
            region = self.region(scope for _, scope in outside)
            inside = [potential for clique in region for potential in self.contents[clique]]
            within = [(potential, self.potentials[potential]) for potential in inside]
            within += [(potential, scope) for potential, scope in batch if homes[potential] in region]
            border = [
                (clique, neighbour, sepset)
                for clique in region
                for neighbour, sepset in self.forest.neighbours[clique].items()
                if neighbour not in region
            ]
            scopes = {scope for _, scope in within}
            scopes.update(scope for _, scope in outside)
            scopes.update(sepset for _, _, sepset in border)
            # Cliques that were too large before may stay so; the limit is for what is new.
            largest = max((self.space.bits(self.forest.scopes[clique]) for clique in region), default=0.0)
            allowed = max(limit, largest)
            tree = triangulate(
                sorted(scopes), self.space.log2, allowed + _EPSILON, restarts, good_enough=allowed
            )
            if tree is None:
                return False
            self.replace(region, border, tree, within + outside)
        for potential, scope in batch:
            home = homes[potential]
            if home is not None and potential not in self.potentials:
                self.place(potential, scope, home)
        return True

    def replace(
        self,
        region: set[int],
        border: list[tuple[int, int, Scope]],
        tree: CliqueTree,
        potentials: list[tuple[int, Scope]],
    ) -> None:
        """Put a clique tree in the place of a region.

        Parameters
        ----------
        region
            Cliques to remove.
        border
            Edges that lead out of it: the clique in the region, the neighbour outside, their sepset.
        tree
            What takes its place; every sepset of the border and every potential's scope lies in one of its cliques.
        potentials
            Numbers and scopes of what is to be multiplied into it.
        """
        for clique in region:
            self.remove_clique(clique)
        numbers = [self.add_clique(scope) for scope in tree.cliques]
        for first, second in tree.edges:
            sepset = tuple(sorted(set(tree.cliques[first]).intersection(tree.cliques[second])))
            self.forest.connect(numbers[first], numbers[second], sepset)
        place = {variable: position for position, variable in enumerate(tree.order)}

        def home(scope: Scope) -> int:
            return numbers[tree.home[min(scope, key=place.__getitem__)]]

        for potential, scope in potentials:
            self.place(potential, scope, home(scope))
        for _, neighbour, sepset in border:
            self.forest.connect(home(sepset), neighbour, sepset)


def grow(
    growth: Growth,
    remaining: list[tuple[int, Scope]],
    bound: float,
    *,
    restarts: int,
    patience: int,
    children: list[frozenset[int]] | None = None,
    batch: int = 64,
) -> list[tuple[int, Scope]]:
    """Add the factors of `remaining` in order, as many as fit the bound, and return those deferred.

    Parameters
    ----------
    patience
        Stop looking after this many factors in a row did not fit.
    children
        For topological order: the variables each factor is the conditional distribution of. Where a factor is deferred,
        so are all that hold such a variable, or they would come before their parents'.
    """
    withheld: set[int] = set()
    deferred: list[tuple[int, Scope]] = []
    position, size, failures = 0, batch, 0
    while position < len(remaining) and failures < patience:
        part = remaining[position : position + size]
        held_back = [number for number, (_, scope) in enumerate(part) if not withheld.isdisjoint(scope)]
        if held_back:
            part = part[: max(held_back[0], 1)]
        if held_back[:1] != [0] and growth.try_add(part, bound, restarts):
            position += len(part)
            size = min(2 * size, batch)
            failures = 0
        elif len(part) == 1:
            deferred.append(part[0])
            position += 1
            failures += 1
            if children is not None:
                withheld.update(children[part[0][0]])
        else:
            size = len(part) // 2
    return deferred + remaining[position:]
