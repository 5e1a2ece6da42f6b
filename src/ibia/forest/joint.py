"""Joint queries: the marginal of variables that no single clique of a calibrated forest holds."""

from __future__ import annotations

from ibia.forest.forest import Forest
from ibia.tables import Scope, Space, Table

__all__ = ["joint_marginal"]


def joint_marginal(
    forest: Forest,
    beliefs: dict[int, Table],
    holders: dict[int, set[int]],
    scope: Scope,
    limit: float,
    space: Space,
) -> Table | None:
    """Return the joint marginal over `scope`, or None if it would need a table of more than `limit` bits.

    Messages run along the smallest subtree that holds the variables, towards the clique that holds most of them, with
    the wanted variables kept. Variables in different trees are independent.
    """
    wanted = set(scope)
    result: Table | None = None
    while wanted:
        first = min(wanted, key=lambda variable: (len(holders[variable]), variable))
        root = max(
            holders[first], key=lambda clique: (len(wanted.intersection(forest.scopes[clique])), -clique)
        )
        part = _from_tree(forest, beliefs, root, wanted, limit, space)
        if part is None:
            return None
        wanted.difference_update(part.scope)
        if result is None:
            result = part
        else:
            union = tuple(sorted((*result.scope, *part.scope)))
            if space.bits(union) > limit:
                return None
            result = result.extended(union).multiply_in(part)
    assert result is not None
    return result


def _from_tree(
    forest: Forest,
    beliefs: dict[int, Table],
    root: int,
    wanted: set[int],
    limit: float,
    space: Space,
) -> Table | None:
    parents = {root: -1}
    queue = [root]
    needed = {root}
    missing = wanted.difference(forest.scopes[root])
    for clique in queue:
        if not missing:
            break
        for neighbour in forest.neighbours[clique]:
            if neighbour not in parents:
                parents[neighbour] = clique
                queue.append(neighbour)
                if not missing.isdisjoint(forest.scopes[neighbour]):
                    step = neighbour
                    while step not in needed:
                        needed.add(step)
                        missing.difference_update(forest.scopes[step])
                        step = parents[step]
    messages: dict[int, list[Table]] = {clique: [] for clique in needed}
    for clique in reversed(queue):
        if clique not in needed:
            continue
        union = set(forest.scopes[clique]).union(*(message.scope for message in messages[clique]))
        belief = beliefs[clique]
        if messages[clique]:
            if space.bits(union) > limit:
                return None
            belief = belief.extended(tuple(sorted(union)))
            for message in messages[clique]:
                belief.multiply_in(message)
        parent = parents[clique]
        if parent < 0:
            return belief.marginal(tuple(sorted(wanted.intersection(union))))
        sepset = forest.neighbours[clique][parent]
        message = belief.marginal(tuple(sorted(set(sepset) | (wanted & union))))
        # The parent holds the sepset's belief already: send what the branch adds to it.
        message.multiply_in(beliefs[clique].marginal(sepset).reciprocal())
        messages[parent].append(message)
    raise AssertionError("the root is always needed")
