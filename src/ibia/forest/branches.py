"""Branches: which cliques of large forests can be worked on side by side, and where to root a tree so that they can.

All of it follows from sizes alone, whoever does the work afterwards: so do the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.forest.forest import Forest
from ibia.tables import Space
from ibia.tables.threads import WORTH_SHARING, run_parts

__all__ = ["Branches", "cut_branches", "walk_trees"]

Outcome = TypeVar("Outcome")

Integers = NDArray[np.int64]
Walk = list[tuple[int, int]]

# Forests with fewer entries are worked through faster than they are shared out.
_LARGE = 2**22
# Branches have at most such a part of the whole; which, is decided as if there were so many workers.
_PARTS = (0.5, 0.35, 0.25, 0.15, 0.1, 0.05)
_WORKERS = 4
# Small branches are put together to so many tasks.
_TASKS = 16


def walk_trees(forest: Forest, space: Space) -> Walk:
    """Return the cliques of all trees, parents before children, each with its parent (−1 for roots).

    A large tree is rooted in its middle, so that what hangs from the root can be done side by side.
    """
    walks: Walk = []
    for walk in forest.trees():
        sizes = [space.size(forest.scopes[clique]) for clique, _ in walk]
        if _worth_sharing(sum(sizes), len(sizes)):
            walk = forest.walk(_centre(walk, sizes))
        walks.extend(walk)
    return walks


def _worth_sharing(entries: float, cliques: int) -> bool:
    return entries >= max(_LARGE, WORTH_SHARING * cliques)


def _centre(walk: Walk, sizes: Sequence[int]) -> int:
    """Return the clique from which no branch holds more than half of all entries."""
    below = dict(zip((clique for clique, _ in walk), sizes, strict=True))
    for clique, parent in reversed(walk[1:]):
        below[parent] += below[clique]
    half = sum(sizes) / 2
    # Of all that hold half or more the last, which is the furthest from the root.
    return [clique for clique, _ in walk if below[clique] >= half][-1]


def cut_branches(parents: Integers, sizes: NDArray[np.float64]) -> tuple[list[Integers], Integers]:
    """Return tasks that can be done side by side, each a list of whole branches, and the cliques of the trunk.

    Parents come before children in all of them.

    Parameters
    ----------
    sizes
        Entries of each clique.
    """
    count, whole = parents.size, float(sizes.sum())
    if not _worth_sharing(whole, count):
        return [], np.arange(count)
    below = sizes.copy()
    for clique in range(count - 1, -1, -1):
        if parents[clique] >= 0:
            below[parents[clique]] += below[clique]
    above = np.where(parents >= 0, below[parents], np.inf)

    def duration(part: float) -> float:
        branches = below[(below <= part * whole) & (above > part * whole)]
        trunk = float(sizes[below > part * whole].sum())
        return trunk + max(float(branches.max(initial=0.0)), float(branches.sum()) / _WORKERS)

    most = whole * min(_PARTS, key=duration)
    # The largest branches first, each to the task that has least.
    first = np.flatnonzero((below <= most) & (above > most))
    loads = [0.0] * _TASKS
    task_of = np.full(count, -1)
    for clique in first[np.argsort(-below[first], kind="stable")].tolist():
        task = loads.index(min(loads))
        loads[task] += float(below[clique])
        task_of[clique] = task
    for clique in np.flatnonzero(above <= most).tolist():
        task_of[clique] = task_of[parents[clique]]
    tasks = [np.flatnonzero(task_of == task) for task in range(_TASKS)]
    return [task for task in tasks if task.size], np.flatnonzero(task_of < 0)


class Branches(NamedTuple):
    """Pieces of work that form trees, cut into what can be done side by side and the rest.

    Attributes
    ----------
    tasks, trunk
        See `cut_branches`.
    entries
        Of all tasks.
    """

    tasks: list[Integers]
    trunk: Integers
    entries: int

    @classmethod
    def cut(cls, parents: Integers, sizes: NDArray[np.float64]) -> Branches:
        """Cut trees, given for each piece the one that it hangs on (one before it; −1: none) and its entries."""
        tasks, trunk = cut_branches(parents, sizes)
        return cls(tasks, trunk, int(sum(sizes[task].sum() for task in tasks)))

    def inwards(self, work: Callable[[Integers], Outcome], control: Control) -> list[Outcome]:
        """Have all pieces done, each after those that hang on it; return what the calls returned."""
        outcomes = run_parts([partial(work, task[::-1]) for task in self.tasks], self.entries, control)
        return [*outcomes, work(self.trunk[::-1])]

    def outwards(self, work: Callable[[Integers], Outcome], control: Control) -> list[Outcome]:
        """Have all pieces done, each after the one that it hangs on; return what the calls returned."""
        outcome = work(self.trunk)
        return [outcome, *run_parts([partial(work, task) for task in self.tasks], self.entries, control)]
