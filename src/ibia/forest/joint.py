"""Joint queries: the marginal of variables that no single clique of a calibrated forest holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from ibia.forest.forest import Forest
from ibia.tables import Scope, Space, Table
from ibia.tables.contract import LARGE

__all__ = ["Queried", "Rooted"]


class Rooted:
    """A forest as it hangs from any roots.

    Attributes
    ----------
    holders
        Variable → cliques that hold it.
    parents, depths
        Clique → the next one on the way to its root (−1: none), and how far that is.
    tops
        Variable → the clique that holds it and is nearest to the root.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.holders = forest.holders()
        self.parents: dict[int, int] = {}
        self.depths = {-1: -1}
        self.tops: dict[int, int] = {}
        for tree in forest.trees():
            for clique, parent in tree:
                self.parents[clique] = parent
                self.depths[clique] = self.depths[parent] + 1
                for variable in forest.scopes[clique]:
                    self.tops.setdefault(variable, clique)


@dataclass
class Queried:
    """A calibrated forest that answers joint queries.

    Attributes
    ----------
    beliefs
        Those of the forest's cliques; its own sepsets may be others'.
    limit
        Queries that would need a table of more bits are not answered.
    """

    rooted: Rooted
    beliefs: dict[int, Table]
    space: Space
    limit: float
    _reciprocals: dict[tuple[int, int], Table] = field(init=False, default_factory=dict)

    def joint(self, scope: Scope) -> Table | None:
        """Return the joint marginal over `scope`, normalised, or None if it would need too large a table.

        Messages run along the smallest subtree that holds the variables, towards a clique that holds most of them, the
        smallest such, with the wanted variables kept. Variables in different trees are independent.
        """
        if self.space.bits(scope) > self.limit:
            return None
        wanted = set(scope)
        result: Table | None = None
        while wanted:
            first = min(wanted, key=lambda variable: (len(self.rooted.holders[variable]), variable))
            root = min(self.rooted.holders[first], key=lambda clique: self._distance(clique, wanted))
            part = self._from_tree(root, wanted)
            if part is None:
                return None
            wanted.difference_update(part.scope)
            if result is None:
                result = part
            else:
                union = tuple(sorted((*result.scope, *part.scope)))
                if self.space.bits(union) > self.limit:
                    return None
                result = result.extended(union).multiply_in(part)
        assert result is not None
        result.normalise_in()
        return result

    def _distance(self, clique: int, wanted: set[int]) -> tuple[int, int, int]:
        """Return a sort key: cliques that hold most of the wanted variables first, then small ones."""
        return (-len(wanted.intersection(self.rooted.forest.scopes[clique])), self.beliefs[clique].values.size, clique)

    def _reciprocal(self, clique: int, parent: int) -> Table:
        """Return one over the belief of a sepset, as the clique that sends over it has it.

        Posteriors of neighbours need not agree, so the other direction has another one.
        """
        found = self._reciprocals.get((clique, parent))
        if found is None:
            sepset = self.rooted.forest.neighbours[clique][parent]
            found = self._reciprocals[clique, parent] = self.beliefs[clique].over(sepset).reciprocal()
        return found

    def _summed(self, scope: Scope, tables: list[Table], kept: Scope) -> Table:
        """Return the product of tables over `scope`, summed to `kept`."""
        if self.space.size(scope) >= LARGE:
            # It is never written down: it may be larger than any clique.
            return self.space.contraction(scope, tables, kept)
        if len(tables) == 1:
            return tables[0].marginal(kept)
        product = tables[0].extended(scope)
        for table in tables[1:]:
            product.multiply_in(table)
        return product.marginal(kept)

    def _subtree(self, root: int, wanted: set[int]) -> set[int]:
        """Return the smallest subtree around `root` that holds those of the wanted variables that its tree has."""
        scopes, parents, depths = self.rooted.forest.scopes, self.rooted.parents, self.rooted.depths
        needed = {root}
        for variable in wanted.difference(scopes[root]):
            # Whoever comes from outside enters the cliques of a variable at the top of them.
            clique, top = root, self.rooted.tops[variable]
            path: list[int] = []
            while clique != top and variable not in scopes[clique]:
                if depths[clique] >= depths[top]:
                    path.append(clique)
                    clique = parents[clique]
                else:
                    path.append(top)
                    top = parents[top]
                if clique < 0 or top < 0:
                    # They are in different trees.
                    break
            else:
                needed.update(path, (clique,))
        return needed

    def _from_tree(self, root: int, wanted: set[int]) -> Table | None:
        forest, space = self.rooted.forest, self.space
        needed = self._subtree(root, wanted)
        walk = forest.walk(root, needed)
        parents = dict(walk)
        order = [clique for clique, _ in reversed(walk)]
        # What each clique's product spans, and what of it is sent on: sets first, so that no table is made in vain.
        unions = {clique: set(forest.scopes[clique]) for clique in order}
        sent: dict[int, Scope] = {}
        for clique in order:
            parent = parents[clique]
            kept = wanted & unions[clique]
            if parent >= 0:
                kept.update(forest.neighbours[clique][parent])
                unions[parent] |= kept
            if len(unions[clique]) > len(forest.scopes[clique]) and space.bits(unions[clique]) > self.limit:
                return None
            sent[clique] = tuple(sorted(kept))
        messages: dict[int, list[Table]] = {clique: [] for clique in order}
        for clique in order:
            message = self._summed(
                tuple(sorted(unions[clique])), [self.beliefs[clique], *messages[clique]], sent[clique]
            )
            parent = parents[clique]
            if parent >= 0:
                # The parent holds the sepset's belief already: send what the branch adds to it.
                message.multiply_in(self._reciprocal(clique, parent))
                messages[parent].append(message)
        return message
