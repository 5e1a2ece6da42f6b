"""Branches of trees: pieces that respect the trees, done in their turn, and the same bits for any threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from ibia.control import Control
from ibia.forest.branches import Branches, walk_trees
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
def test_pieces_are_a_partition_whose_parents_come_first(seed: int) -> None:
    generator = np.random.default_rng(seed)
    parents = random_parents(seed, 200)
    sizes = 2.0 ** generator.integers(10, 20, 200)
    branches = Branches.cut(parents, sizes)
    assert len(branches.pieces) > 8
    np.testing.assert_array_equal(np.sort(np.concatenate(branches.pieces)), np.arange(200))
    piece_of = np.empty(200, int)
    for number, piece in enumerate(branches.pieces):
        assert (np.diff(piece) > 0).all(), "parents come before children"
        assert branches.entries[number] == sizes[piece].sum()
        assert branches.parents[number] < number
        piece_of[piece] = number
    for clique, parent in enumerate(parents.tolist()):
        here = int(piece_of[clique])
        there = int(piece_of[parent]) if parent >= 0 else -1
        assert there == here or there == branches.parents[here], "a piece hangs on one other at most"


@pytest.mark.parametrize("seed", range(5))
def test_no_piece_is_large_but_for_a_single_clique(seed: int) -> None:
    generator = np.random.default_rng(seed)
    # A star: one clique with very many branches.
    stars = np.array([-1, *[0] * 499])
    for parents in (random_parents(seed, 500), stars):
        sizes = 2.0 ** generator.integers(8, 20, 500)
        branches = Branches.cut(parents, sizes)
        for piece, entries in zip(branches.pieces, branches.entries, strict=True):
            assert entries - sizes[piece].max() <= sizes.sum() / 16


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_everything_is_done_once_and_in_its_turn(seed: int, threads: int) -> None:
    parents = random_parents(seed, 200)
    branches = Branches.cut(parents, np.full(200, 2.0**16))
    assert len(branches.pieces) > 8
    generator = np.random.default_rng(seed)
    for inwards in (True, False):
        done: list[int] = []

        def work(cliques: np.ndarray, done: list[int] = done) -> None:
            done.extend(cliques.tolist())
            time.sleep(float(generator.random()) * 1e-3)

        (branches.inwards if inwards else branches.outwards)(work, Control(threads=threads))
        assert sorted(done) == list(range(200))
        place = {clique: number for number, clique in enumerate(done)}
        for clique, parent in enumerate(parents.tolist()):
            if parent >= 0:
                assert (place[clique] < place[parent]) == inwards


@pytest.mark.parametrize("threads", [2, 3])
def test_an_error_ends_all(threads: int) -> None:
    branches = Branches.cut(random_parents(1, 200), np.full(200, 2.0**16))
    calls = []

    def work(cliques: np.ndarray) -> None:
        calls.append(cliques)
        if len(calls) == 5:
            raise MemoryError

    with pytest.raises(MemoryError):
        branches.outwards(work, Control(threads=threads))
    assert len(calls) < len(branches.pieces)


def test_branches_of_two_sides_are_worked_on_at_once() -> None:
    forest, space, _ = chain(17, 40, Control())
    walk = walk_trees(forest, space)
    place = {clique: number for number, (clique, _) in enumerate(walk)}
    parents = np.array([-1 if parent < 0 else place[parent] for _, parent in walk])
    branches = Branches.cut(parents, np.full(40, 2.0**17))
    both = threading.Barrier(2, timeout=30)
    met = []

    def work(cliques: np.ndarray) -> None:
        # The first two pieces are the two ends, and pass only together.
        met.append(cliques)
        if len(met) <= 2:
            both.wait()

    branches.inwards(work, Control(threads=2))


def test_small_forests_are_not_cut() -> None:
    parents = random_parents(0, 50)
    for size in (10.0, 2.0**11):
        branches = Branches.cut(parents, np.full(50, size))
        assert [piece.tolist() for piece in branches.pieces] == [list(range(50))]


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


def test_a_path_is_rooted_in_its_middle() -> None:
    forest, space, _ = chain(17, 40, Control())
    assert walk_trees(forest, space)[0][0] in (19, 20)


def test_a_small_tree_keeps_its_root() -> None:
    forest, space, _ = chain(6, 40, Control())
    assert walk_trees(forest, space)[0] == (0, -1)


@pytest.mark.parametrize("seed", range(8))
def test_large_cliques_among_small_ones_have_the_same_bits_on_any_number_of_threads(seed: int) -> None:
    # A clique that threads share is handled apart from the small ones that follow it.
    generator = np.random.default_rng(seed)
    scopes = [(0, 17), *((17, 18 + place) for place in range(12)), tuple(range(17))]
    found = []
    tables = [generator.random(2 ** len(scope)) for scope in scopes]
    for threads in (1, 2):
        space = Space((2,) * 30, Control(threads=threads))
        forest = Forest()
        for clique, scope in enumerate(scopes):
            forest.add_clique(clique, scope)
            if clique:
                forest.connect(0, clique, (0,) if len(scope) == 17 else (17,))
        potentials = {clique: [Table(space, scopes[clique], table)] for clique, table in enumerate(tables)}
        found.append(calibrate(forest, space, potentials).log_z)
    assert found[0] == found[1]


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
