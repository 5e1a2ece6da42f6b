"""Links: the paper's belief update (section 3.2, procedures FindLinks and BeliefUpdate of Algorithm InferMarginals).

A link joins a clique C of CTF_k, the clique C' of CTF_k,a made from it, and the clique C~ of CTF_k+1 that contains C'.
For a chosen few links, smallest change first, the belief of C is updated and one round of messages sent from it. Later
updates overwrite earlier ones: that is why sweeps are the default.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ibia.backward.posterior import Posterior, last_informed_step, most_lost
from ibia.forest.forest import Forest, edge
from ibia.prepare import Problem
from ibia.sequence import Step
from ibia.steps.reduced import message_number
from ibia.tables import Scope, Table

__all__ = ["Link", "find_links", "select_links", "update_by_links"]


class Link(NamedTuple):
    """C in CTF_k, C' in CTF_k,a, C~ in CTF_k+1, and the link variables C ∩ C'."""

    clique: int
    reduced: int
    following: int
    variables: Scope


def find_links(step: Step, following: Step) -> list[Link]:
    """Return all links between a step and the following one (FindLinks)."""
    assert step.core is not None
    assert step.messages is not None
    links = []
    for reduced, scope in step.messages.scopes.items():
        target = following.location[message_number(reduced)]
        for clique in step.core.origin[reduced]:
            variables = tuple(variable for variable in scope if variable in set(step.forest.scopes[clique]))
            if variables:
                links.append(Link(clique, reduced, target, variables))
    return links


def select_links(
    links: list[Link], changes: dict[int, float], threshold: float, trees: dict[int, int]
) -> list[Link]:
    """Choose links that cover the variables whose marginal changed, and at least one per tree; smallest change first.

    Parameters
    ----------
    changes
        Link variable → largest change of its marginal between the two steps.
    trees
        Clique of CTF_k → its tree.
    """
    uncovered = {variable for link in links for variable in link.variables if changes[variable] > threshold}
    chosen: list[Link] = []
    waiting = list(links)
    # Greedy set cover: the link that covers most of what is left, the smallest clique among equals.
    while uncovered:
        best = max(waiting, key=lambda link: (len(uncovered.intersection(link.variables)), -len(link.variables)))
        chosen.append(best)
        waiting.remove(best)
        uncovered.difference_update(best.variables)
    reached = {trees[link.clique] for link in chosen}
    for link in sorted(waiting, key=lambda link: (-len(link.variables), link)):
        if trees[link.clique] not in reached:
            reached.add(trees[link.clique])
            chosen.append(link)
    return sorted(chosen, key=lambda link: (max(changes[variable] for variable in link.variables), link))


def update_by_links(
    problem: Problem, steps: list[Step], threshold: float, barren: frozenset[int] = frozenset()
) -> Posterior:
    """Back-propagate beliefs from the last informed step to the first and read all marginals (BeliefUpdate)."""
    informed = last_informed_step(steps, barren)
    result = Posterior(
        log_z=math.fsum(step.log_z for step in steps),
        unchecked_loss=math.fsum(step.loss for step in steps[informed:]),
        worst_loss=most_lost(steps[:informed]),
    )
    following = steps[-1].forest
    result.read(following.beliefs, problem.space.control)
    for number in range(len(steps) - 2, -1, -1):
        step = steps[number]
        step.ensure(problem.factors, problem.space)
        informs = number < informed
        following = _update(step, steps[number + 1], following, threshold, result) if informs else step.forest
        result.read(following.beliefs, problem.space.control)
        steps[number + 1].release()
    if len(steps) > 1:
        result.doubt_numbers(problem, steps)
    result.inconsistencies = [result.inconsistency]
    return result


def _update(step: Step, next_step: Step, following: Forest, threshold: float, result: Posterior) -> Forest:
    """Return CTF_k with beliefs updated through the chosen links to CTF_k+1."""
    forest = step.forest.share_tables()
    links = find_links(step, next_step)
    changes: dict[int, float] = {}
    for link in links:
        joint = forest.beliefs[link.clique].marginal(link.variables)
        target = _normalised(following.beliefs[link.following].marginal(link.variables))
        for variable in link.variables:
            if variable not in changes:
                changes[variable] = joint.marginal((variable,)).distance(target.marginal((variable,)))
    trees = {clique: tree[0][0] for tree in forest.trees() for clique, _ in tree}
    for link in select_links(links, changes, threshold, trees):
        belief = forest.beliefs[link.clique]
        target = _normalised(following.beliefs[link.following].marginal(link.variables))
        updated = belief.times(target.divide_in(belief.marginal(link.variables)))
        if updated.normalise_in() == -math.inf:
            continue
        before = dict(forest.beliefs), dict(forest.sepsets)
        forest.beliefs[link.clique] = updated
        if not _send_from(forest, link.clique):
            # Earlier updates contradict this one: it is left out.
            forest.beliefs, forest.sepsets = before
    for link in links:
        target = _normalised(following.beliefs[link.following].marginal(link.variables))
        result.note_difference(
            link.variables, forest.beliefs[link.clique].marginal(link.variables).distance(target)
        )
    return forest


def _send_from(forest: Forest, root: int) -> bool:
    """Pass messages from `root` to its tree, replacing tables (so that a failed round can be taken back)."""
    for clique, parent in forest.walk(root)[1:]:
        message = _normalised(forest.beliefs[parent].marginal(forest.neighbours[parent][clique]))
        belief = forest.beliefs[clique].times(message.copy().divide_in(forest.sepsets[edge(parent, clique)]))
        if belief.normalise_in() == -math.inf:
            return False
        forest.beliefs[clique] = belief
        forest.sepsets[edge(parent, clique)] = message
    return True


def _normalised(table: Table) -> Table:
    table.normalise_in()
    return table
