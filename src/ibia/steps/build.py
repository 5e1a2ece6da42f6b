"""Build (the paper's incremental build): add factors to a forest while its cliques stay within the bound.

A batch of factors touches a region of the forest: the smallest subtrees that span the cliques holding their variables.
Only that region is triangulated anew, from the scopes of the potentials in it (not from its cliques: earlier fill edges
may go), and put back in place. A batch that does not fit is halved; a factor that does not fit alone is deferred.

Trees are kept rooted, so that a region is found by climbing from its ends, at a cost proportional to its own size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ibia.forest.forest import Forest
from ibia.forest.triangulate import CliqueTree, triangulate
from ibia.tables import Scope, Space

__all__ = ["Growth", "Refusals", "grow"]

_EPSILON = 1e-9
_NO_HOMES: Mapping[int, list[tuple[int, Scope]]] = {}
# The cost of an attempt is counted in the scopes it triangulates, and so many more.
_ATTEMPT = 8
# The tables of a clique cost about as much time as so many scopes, and as one more for every so many entries.
_CLIQUE = 2
_ENTRIES = 1024
# Small forests are searched as long as one of so many units more.
_LEAST = 4096
# In forests of so many cliques the search goes on beyond what it may cost, by this part of it, and as long as what it
# finds is worth it.
_LARGE_FOREST, _BEYOND = 1024, 0.25


class Refusals:
    """What did not fit in this step and the one before: the same scopes need not be triangulated again."""

    def __init__(self) -> None:
        self._now: set[tuple[float, frozenset[Scope]]] = set()
        self._before: set[tuple[float, frozenset[Scope]]] = set()

    def next_step(self) -> None:
        """Forget what the last step did not ask for."""
        self._before, self._now = self._now, set()

    def add(self, limit: float, scopes: frozenset[Scope]) -> None:
        """Remember that `scopes` have no clique tree within `limit`."""
        self._now.add((limit, scopes))

    def known(self, limit: float, scopes: frozenset[Scope]) -> bool:
        """Tell whether `scopes` did not fit before."""
        key = (limit, scopes)
        if key in self._before:
            self._now.add(key)
        return key in self._now


@dataclass
class _Plan:
    """A clique tree to be put in the place of a region."""

    region: set[int]
    border: list[tuple[int, int, Scope]]
    tree: CliqueTree
    potentials: list[tuple[int, Scope]]


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
    holders
        Variable → cliques that hold it.
    parents
        Clique → the next clique on the way to the root of its tree (−1 for the root).
    bits
        Clique → its size.
    entries
        Entries of all cliques' tables.
    spent
        What attempts that failed have cost, counted in scopes triangulated.
    """

    space: Space
    refusals: Refusals = field(default_factory=Refusals)
    forest: Forest = field(default_factory=Forest)
    potentials: dict[int, Scope] = field(default_factory=dict)
    contents: dict[int, set[int]] = field(default_factory=dict)
    holders: dict[int, set[int]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    bits: dict[int, float] = field(default_factory=dict)
    entries: float = 0.0
    spent: int = 0
    next_clique: int = 0

    def __post_init__(self) -> None:
        # Which tree a clique is in: disjoint sets over all cliques there ever were, each with its size.
        self._leaders: list[int] = []
        self._sizes: list[int] = []

    def add_clique(self, scope: Scope) -> int:
        """Add an unconnected clique and return its number."""
        clique = self.next_clique
        self.next_clique += 1
        self.forest.add_clique(clique, scope)
        self.contents[clique] = set()
        for variable in scope:
            holders = self.holders.get(variable)
            if holders is None:
                self.holders[variable] = {clique}
            else:
                holders.add(clique)
        self.parents[clique] = -1
        self.bits[clique] = bits = self.space.bits(scope)
        self.entries += 2.0**bits
        self._leaders.append(clique)
        self._sizes.append(1)
        return clique

    def hang(self, clique: int, parent: int, sepset: Scope) -> None:
        """Join the tree whose root is `clique` to another one, at `parent`."""
        assert self.parents[clique] < 0
        self.parents[clique] = parent
        self.forest.connect(clique, parent, sepset)
        first, second = self._tree(clique), self._tree(parent)
        if first != second:
            if self._sizes[first] > self._sizes[second]:
                first, second = second, first
            self._leaders[first] = second
            self._sizes[second] += self._sizes[first]

    def _tree(self, clique: int) -> int:
        """Return the name of the clique's tree."""
        leaders = self._leaders
        while leaders[clique] != clique:
            leaders[clique] = leaders[leaders[clique]]
            clique = leaders[clique]
        return clique

    def _make_root(self, clique: int) -> None:
        """Turn the parents on the way from `clique` to its root around."""
        child = -1
        while clique >= 0:
            parent = self.parents[clique]
            self.parents[clique] = child
            child, clique = clique, parent

    def remove_clique(self, clique: int) -> None:
        """Remove a clique; its contents are the caller's to place again, its children become roots."""
        for variable in self.forest.scopes[clique]:
            holders = self.holders[variable]
            holders.discard(clique)
            if not holders:
                del self.holders[variable]
        for neighbour in self.forest.neighbours[clique]:
            if self.parents[neighbour] == clique:
                self.parents[neighbour] = -1
        self.forest.remove_clique(clique)
        del self.contents[clique], self.parents[clique]
        self.entries -= 2.0 ** self.bits.pop(clique)

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
        # Tree → the clique of its part of the region that is nearest to its root.
        tops: dict[int, int] = {}
        scopes_of = self.forest.scopes
        for variable in sorted(wanted, key=lambda variable: (len(self.holders[variable]), variable)):
            if variable not in wanted:
                continue
            holders = self.holders[variable]
            tree = self._tree(next(iter(holders)))
            if tree in tops:
                path, top = self._path(holders, region, tops[tree])
                tops[tree] = top
            else:
                # A tree not entered yet: start at the clique that holds most of what is wanted.
                path = [max(holders, key=lambda clique: (len(wanted.intersection(scopes_of[clique])), -clique))]
                tops[tree] = path[0]
            region.update(path)
            for clique in path:
                wanted.difference_update(scopes_of[clique])
        return region

    def _path(self, holders: set[int], region: set[int], top: int) -> tuple[list[int], int]:
        """Return the way from the cliques of a variable to a region of their tree, and the region's top with it.

        Both ends climb in turn, so the cost is at most twice the longer climb.
        """
        parents = self.parents
        below: dict[int, int] = {}
        above: dict[int, int] = {}
        here, child = next(iter(holders)), -1
        upper, beneath = parents[top], top
        while True:
            if here >= 0:
                below[here] = child
                if here in region or here in above:
                    meeting = here
                    break
                here, child = parents[here], here
            if upper >= 0:
                above[upper] = beneath
                if upper in below:
                    meeting = upper
                    break
                upper, beneath = parents[upper], upper
            assert here >= 0 or upper >= 0, "cliques of one tree have a common ancestor"
        path: list[int] = []
        if meeting not in region:
            path.append(meeting)
            while above[path[-1]] != top:
                path.append(above[path[-1]])
            path.reverse()
        for number, clique in enumerate(path):
            if clique in holders:
                return path[: number + 1], clique
        if path:
            top = meeting
        clique = meeting
        while clique not in holders:
            clique = below[clique]
            path.append(clique)
        return path, top

    def _plan(
        self,
        batch: list[tuple[int, Scope]],
        limit: float,
        restarts: int,
        homes: Mapping[int, list[tuple[int, Scope]]] = _NO_HOMES,
    ) -> _Plan | None:
        """Return what would take the place of the region of a batch that no clique holds, if it fits.

        Parameters
        ----------
        homes
            Clique → further potentials that are about to be multiplied into it: they lose it with the region.
        """
        region = self.region(scope for _, scope in batch)
        within: list[tuple[int, Scope]] = []
        border: list[tuple[int, int, Scope]] = []
        found = {scope for _, scope in batch}
        for clique in region:
            for potential in self.contents[clique]:
                scope = self.potentials[potential]
                within.append((potential, scope))
                found.add(scope)
            for neighbour, sepset in self.forest.neighbours[clique].items():
                if neighbour not in region:
                    border.append((clique, neighbour, sepset))
                    found.add(sepset)
            for potential, scope in homes.get(clique, ()):
                within.append((potential, scope))
                found.add(scope)
        scopes = frozenset(found)
        # Cliques that were too large before may stay so; the limit is for what is new.
        allowed = max(limit, max((self.bits[clique] for clique in region), default=0.0))
        if not self.refusals.known(allowed, scopes):
            tree = triangulate(scopes, self.space.log2, allowed + _EPSILON, restarts, good_enough=allowed)
            if tree is not None:
                return _Plan(region, border, tree, within + batch)
            self.refusals.add(allowed, scopes)
            self.spent += _ATTEMPT + len(scopes)
        return None

    def fits(self, scope: Scope, limit: float, restarts: int) -> bool:
        """Tell whether a factor could be added."""
        return self.clique_with(scope) is not None or self._plan([(-1, scope)], limit, restarts) is not None

    def try_add(self, batch: list[tuple[int, Scope]], limit: float, restarts: int) -> bool:
        """Add a batch of (potential, scope) if every clique stays within `limit` bits; change nothing otherwise."""
        outside: list[tuple[int, Scope]] = []
        homes: dict[int, list[tuple[int, Scope]]] = {}
        for potential, scope in batch:
            home = self.clique_with(scope)
            (outside if home is None else homes.setdefault(home, [])).append((potential, scope))
        if outside:
            plan = self._plan(outside, limit, restarts, homes)
            if plan is None:
                return False
            self.plant(plan.tree, plan.potentials, plan.region, plan.border)
        for home, added in homes.items():
            for potential, scope in added:
                if potential not in self.potentials:
                    self.place(potential, scope, home)
        return True

    def plant(
        self,
        tree: CliqueTree,
        potentials: list[tuple[int, Scope]],
        region: set[int] | None = None,
        border: list[tuple[int, int, Scope]] | None = None,
    ) -> None:
        """Put a clique tree in the place of a region (if any).

        Parameters
        ----------
        tree
            Every sepset of the border and every potential's scope lies in one of its cliques.
        potentials
            Numbers and scopes of what is to be multiplied into it.
        region
            Cliques to remove.
        border
            Edges that lead out of it: the clique in the region, the neighbour outside, their sepset.
        """
        edges = list(border or ())
        homes = tree.homes(sepset for _, _, sepset in edges)
        attached = [(*edge, home) for edge, home in zip(edges, homes, strict=True)]
        numbers = self.replace(region or set(), tree.cliques, tree.sepsets(), attached)
        homes = tree.homes(scope for _, scope in potentials)
        for (potential, scope), home in zip(potentials, homes, strict=True):
            self.place(potential, scope, numbers[home])

    def replace(
        self,
        region: set[int],
        scopes: list[Scope],
        edges: list[tuple[int, int, Scope]],
        border: list[tuple[int, int, Scope, int]],
    ) -> list[int]:
        """Put new cliques in the place of a region, which is one subtree per tree; return their numbers.

        Parameters
        ----------
        edges
            Pairs of positions in `scopes`, with their sepsets.
        border
            Edges that lead out of the region: the clique in it, the neighbour outside, their sepset, and the position
            of the new clique that takes the edge over.
        """
        above = [
            (neighbour, sepset, position)
            for clique, neighbour, sepset, position in border
            if self.parents[clique] == neighbour
        ]
        # The largest tree keeps its root; the others are turned around, at the cost of their depth.
        above.sort(key=lambda edge: -self._sizes[self._tree(edge[0])])
        for clique in region:
            self.remove_clique(clique)
        numbers = [self.add_clique(scope) for scope in scopes]
        neighbours: list[list[tuple[int, Scope]]] = [[] for _ in scopes]
        for first, second, sepset in edges:
            neighbours[first].append((second, sepset))
            neighbours[second].append((first, sepset))
        seen = [False] * len(scopes)
        for root in [*(position for _, _, position in above[:1]), *range(len(scopes))]:
            if seen[root]:
                continue
            seen[root] = True
            queue = [root]
            for position in queue:
                for other, sepset in neighbours[position]:
                    if not seen[other]:
                        seen[other] = True
                        self.hang(numbers[other], numbers[position], sepset)
                        queue.append(other)
        for number, (neighbour, sepset, position) in enumerate(above):
            if number == 0:
                self.hang(numbers[position], neighbour, sepset)
            else:
                self._make_root(neighbour)
                self.hang(neighbour, numbers[position], sepset)
        for _, neighbour, sepset, position in border:
            if numbers[position] not in self.forest.neighbours[neighbour]:
                self.hang(neighbour, numbers[position], sepset)
        return numbers

    def allowance(self) -> float:
        """Return what failed attempts may cost, in the unit of `spent`: what the tables cost, and a little more."""
        return _LEAST + _CLIQUE * len(self.bits) + self.entries / _ENTRIES


class _Budget:
    """What looking for factors that fit may cost in one step.

    Factors that do not fit are the first to be looked at again in the next step. In large forests they can use up all
    that a step may spend, again and again, while others behind them would fit. So there each factor found late may cost
    as much as those before it did, with the step itself, in the mean: looking on is then cheaper than another step.
    """

    def __init__(self, growth: Growth, effort: float) -> None:
        self._growth = growth
        self._effort = effort
        self._started = growth.spent
        # What a factor has cost, and how many were added, when the ordinary budget was used up.
        self._price = 0.0
        self._added: int | None = None

    def allows(self, added: int) -> bool:
        """Tell whether to look for more factors, when so many were added in this step."""
        spent = self._growth.spent - self._started
        ordinary = self._effort * self._growth.allowance()
        if spent <= ordinary:
            return True
        if len(self._growth.bits) < _LARGE_FOREST:
            return False
        if self._added is None:
            # The rest of the step takes about as long as looking may.
            self._added, self._price = added, (ordinary + spent) / max(added, 1)
        return spent <= (1.0 + _BEYOND) * ordinary + self._price * (added - self._added)


def grow(
    growth: Growth,
    remaining: list[tuple[int, Scope]],
    bound: float,
    *,
    restarts: int,
    effort: float = 1.0,
    children: list[frozenset[int]] | None = None,
    batch: int = 64,
) -> list[tuple[int, Scope]]:
    """Add the factors of `remaining` in order, as many as fit the bound, and return those deferred.

    Parameters
    ----------
    effort
        Stop looking when attempts that failed have cost so many times what the tables of the forest will cost; in
        large forests not before what is found is not worth it any more (see `_Budget`).
    children
        For topological order: the variables each factor is the conditional distribution of. Where a factor is deferred,
        so are all that hold such a variable, or they would come before their parents'.
    """
    withheld: set[int] = set()
    deferred: list[int] = []

    def defer(number: int) -> None:
        deferred.append(number)
        if children is not None:
            withheld.update(children[remaining[number][0]])

    budget = _Budget(growth, effort)
    position, size = 0, batch
    while position < len(remaining) and budget.allows(position - len(deferred)):
        growth.space.control.check()
        part = range(position, min(position + size, len(remaining)))
        position = part.stop
        before = len(deferred)
        waiting = [list(part)]
        while waiting:
            some = waiting.pop()
            free = next((at for at, n in enumerate(some) if not withheld.isdisjoint(remaining[n][1])), len(some))
            if free == 0:
                defer(some[0])
                if len(some) > 1:
                    waiting.append(some[1:])
            elif free < len(some):
                waiting += [some[free:], some[:free]]
            elif not growth.try_add([remaining[number] for number in some], bound, restarts):
                if len(some) == 1:
                    defer(some[0])
                else:
                    waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
        # Where most fail, they fail sooner one by one.
        failures = len(deferred) - before
        if 4 * failures > len(part):
            size = max(1, len(part) // 4)
        elif not failures:
            size = min(2 * size, batch)
    return [remaining[number] for number in sorted(deferred)] + remaining[position:]
