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
    # What each clique's product spans, and what of it is sent on: sets first, so that no table is made in vain.
    order = [clique for clique in reversed(queue) if clique in needed]
    unions = {clique: set(forest.scopes[clique]) for clique in order}
    sent: dict[int, Scope] = {}
    for clique in order:
        parent = parents[clique]
        kept = wanted & unions[clique]
        if parent >= 0:
            kept.update(forest.neighbours[clique][parent])
            unions[parent] |= kept
        if len(unions[clique]) > len(forest.scopes[clique]) and space.bits(unions[clique]) > limit:
            return None
        sent[clique] = tuple(sorted(kept))
    messages: dict[int, list[Table]] = {clique: [] for clique in order}
    for clique in order:
        # The product of belief and messages is never written down: it may be larger than any clique.
        message = space.contraction(
            tuple(sorted(unions[clique])), [beliefs[clique], *messages[clique]], sent[clique]
        )
        parent = parents[clique]
        if parent >= 0:
            # The parent holds the sepset's belief already: send what the branch adds to it.
            message.multiply_in(beliefs[clique].marginal(forest.neighbours[clique][parent]).reciprocal())
            messages[parent].append(message)
    return message
