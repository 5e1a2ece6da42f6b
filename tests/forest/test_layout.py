"""Flat clique trees: the same as those of a forest, and every marginal is read from where it is smallest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ibia.forest.calibrate import Structure
from ibia.forest.forest import Forest
from ibia.forest.graph import graph_of
from ibia.forest.layout import Trees, assign_readings, lay_out
from ibia.forest.search import search
from ibia.forest.triangulate import clique_tree, maximal_cliques
from ibia.tables import Space

CARDINALITIES = np.array([2, 3, 2, 4, 2, 2, 3, 2, 2, 5, 2, 2])


def random_trees(seed: int) -> tuple[Trees, Forest]:
    """Return the trees of a random model with two parts, laid out and as a forest."""
    generator = np.random.default_rng(seed)
    scopes = [generator.choice(7, 2, replace=False) for _ in range(8)]
    scopes += [7 + generator.choice(5, 2, replace=False) for _ in range(5)]
    members = np.concatenate([*scopes, np.arange(12)])
    variables, graph = graph_of(np.array([2] * 13 + [1] * 12), members)
    best = search(graph, np.log2(CARDINALITIES), math.inf, 2, 0.0, seed, math.inf)
    trees, _ = lay_out(*maximal_cliques(best.order, best.starts, best.members, variables)[:4])
    tree = clique_tree(best, variables)
    forest = Forest()
    for clique, scope in enumerate(tree.cliques):
        forest.add_clique(clique, scope)
    for first, second, sepset in tree.sepsets():
        forest.connect(first, second, sepset)
    return trees, forest


@pytest.mark.parametrize("seed", range(10))
def test_trees_are_laid_out_as_a_forest_is_walked(seed: int) -> None:
    trees, forest = random_trees(seed)
    walked = Structure(forest, Space(tuple(CARDINALITIES.tolist()))).shape.trees
    for own, other in zip(trees, walked, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("seed", range(10))
def test_every_variable_is_read_once_from_the_smallest_sepset(seed: int) -> None:
    trees, _ = random_trees(seed)
    readings = assign_readings(trees, CARDINALITIES)
    assert sorted([*readings.variables.tolist(), *readings.sepset_variables.tolist()]) == list(range(12))
    count = trees.parents.size
    sepsets = [trees.sepsets[trees.sepset_starts[k] : trees.sepset_starts[k + 1]].tolist() for k in range(count)]
    scopes = [trees.scopes[trees.scope_starts[k] : trees.scope_starts[k + 1]].tolist() for k in range(count)]
    for clique in range(count):
        for variable in readings.variables[readings.starts[clique] : readings.starts[clique + 1]]:
            assert variable in scopes[clique]
            assert not any(variable in sepset for sepset in sepsets)
        for variable in readings.sepset_variables[readings.sepset_starts[clique] : readings.sepset_starts[clique + 1]]:
            sizes = [math.prod(CARDINALITIES[sepset].tolist()) for sepset in sepsets if variable in sepset]
            assert math.prod(CARDINALITIES[sepsets[clique]].tolist()) == min(sizes)
