"""Calibration: two passes of messages per tree, after which neighbouring beliefs agree on their sepsets.

Hugin propagation (Lauritzen and Spiegelhalter 1988): a message is the new sepset belief over the old one. Beliefs are
normalised on the way; the constants are collected in log Z, so nothing over- or underflows.
"""

from __future__ import annotations

import math

from ibia.forest.forest import Forest, edge
from ibia.tables import Table

__all__ = ["ZeroMassError", "calibrate"]


class ZeroMassError(ArithmeticError):
    """The product of all tables of a tree is zero everywhere."""


def calibrate(forest: Forest) -> float:
    """Calibrate every tree in place and return log Z, the sum of the trees' logarithms of total mass.

    Beliefs must be filled. A missing sepset table counts as ones, so potentials and re-calibration of changed beliefs
    are the same call. Afterwards every belief and sepset sums to one.
    """
    return math.fsum(_calibrate_tree(forest, tree) for tree in list(forest.trees()))


def _calibrate_tree(forest: Forest, tree: list[tuple[int, int]]) -> float:
    beliefs, sepsets = forest.beliefs, forest.sepsets
    log_z = 0.0
    for clique, parent in reversed(tree[1:]):
        key = edge(clique, parent)
        log_mass = beliefs[clique].normalise_in()
        if log_mass == -math.inf:
            raise ZeroMassError
        log_z += log_mass
        message = beliefs[clique].marginal(forest.neighbours[clique][parent])
        _send(beliefs[parent], message, sepsets.get(key))
        sepsets[key] = message
    root = tree[0][0]
    log_mass = beliefs[root].normalise_in()
    if log_mass == -math.inf:
        raise ZeroMassError
    log_z += log_mass
    for clique, parent in tree[1:]:
        _distribute(forest, parent, clique)
    return log_z


def _send(belief: Table, message: Table, old: Table | None) -> None:
    belief.multiply_in(message if old is None else message.copy().divide_in(old))


def _distribute(forest: Forest, source: int, target: int) -> None:
    key = edge(source, target)
    message = forest.beliefs[source].marginal(forest.neighbours[source][target])
    message.normalise_in()
    _send(forest.beliefs[target], message, forest.sepsets[key])
    if forest.beliefs[target].normalise_in() == -math.inf:
        raise ZeroMassError
    forest.sepsets[key] = message
