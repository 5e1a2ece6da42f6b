"""Branches of trees: a partition that respects the trees, balanced where that is possible, the same for any threads."""

from __future__ import annotations

import numpy as np
import pytest

from ibia.control import Control
from ibia.forest.branches import cut_branches, walk_trees
from ibia.forest.calibrate import calibrate
from ibia.forest.forest import Forest
from ibia.tables import Space, Table


def random_parents(seed: int, count: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    # Now and then a new tree; long paths and bushes.
    near = int(generator.integers(1, count))
    parents = [max(0, place - int(generator.integers(1, near + 1))) for place in range(1, count)]
    return np.array([-1, *(parent if generator.random() > 0.05 else -1 for parent in parents)])


@pytest.mark.parametrize("seed", range(20))
def test_tasks_are_whole_branches_and_the_rest_is_a_trunk(seed: int) -> None:
    generator = np.random.default_rng(seed)
    parents = random_parents(seed, 200)
    sizes = 2.0 ** generator.integers(10, 20, 200)
    tasks, trunk = cut_branches(parents, sizes)
    assert tasks
    np.testing.assert_array_equal(np.sort(np.concatenate([*tasks, trunk])), np.arange(200))
    task_of = np.full(200, -1)
    for number, task in enumerate(tasks):
        assert (np.diff(task) > 0).all(), "parents come before children"
        task_of[task] = number
    for clique, parent in enumerate(parents.tolist()):
        if parent >= 0 and task_of[parent] >= 0:
            assert task_of[clique] == task_of[parent], "what hangs from a branch belongs to it"


def test_small_forests_are_not_cut() -> None:
    parents = random_parents(0, 50)
    for size in (10.0, 2.0**11):
        tasks, trunk = cut_branches(parents, np.full(50, size))
        assert tasks == []
        assert trunk.tolist() == list(range(50))


def chain(bits: int, count: int, control: Control) -> tuple[Forest, Space, dict[int, list[Table]]]:
    """A path of cliques, numbered from one end to the other."""
    generator = np.random.default_rng(0)
    space = Space((2,) * (bits + count), control)
    forest = Forest()
    potentials = {}
    for clique in range(count):
        scope = tuple(range(clique, clique + bits))
        forest.add_clique(clique, scope)
        if clique:
            forest.connect(clique - 1, clique, scope[:-1])
        potentials[clique] = [Table(space, scope[-3:], generator.random(8) + 0.1)]
    return forest, space, potentials


def test_a_path_is_rooted_in_its_middle_and_cut_in_halves() -> None:
    forest, space, _ = chain(17, 40, Control())
    walk = walk_trees(forest, space)
    assert walk[0][0] in (19, 20)
    place = {clique: number for number, (clique, _) in enumerate(walk)}
    parents = np.array([-1 if parent < 0 else place[parent] for _, parent in walk])
    tasks, trunk = cut_branches(parents, np.full(40, 2.0**17))
    assert sorted(task.size for task in tasks) in ([19, 20], [20, 20])
    assert trunk.size <= 1


def test_a_small_tree_keeps_its_root() -> None:
    forest, space, _ = chain(6, 40, Control())
    assert walk_trees(forest, space)[0] == (0, -1)


def test_branches_have_the_same_bits_on_any_number_of_threads() -> None:
    found = []
    for threads in (1, 2, 3):
        control = Control()
        control.threads = threads
        forest, space, potentials = chain(18, 24, control)
        log_z = calibrate(forest, space, potentials).log_z
        found.append((log_z, [belief.values.tobytes() for belief in forest.beliefs.values()]))
    assert found[0] == found[1] == found[2]
    # Against one table after the other, eliminated from the left.
    message = np.ones((2,) * 2)
    factors = [potentials[clique][0].values.reshape(2, 2, 2) for clique in range(24)]
    for factor in factors:
        message = np.einsum("ab,abc->bc", message, factor)
    # Variables that are in no factor double the mass.
    free = 18 + 23 - (24 + 2)
    assert found[0][0] == pytest.approx(np.log(message.sum()) + free * np.log(2.0), rel=1e-12)
