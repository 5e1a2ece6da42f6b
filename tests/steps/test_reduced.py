"""The reduced trees: kept up to date removal by removal, they are as if made afresh."""

from __future__ import annotations

import pytest

from ibia.forest.checks import check_forest
from ibia.steps.build import Refusals
from ibia.steps.exact import marginalise_exactly
from ibia.steps.local import LocalReducer
from ibia.steps.loss import loss_rule
from ibia.steps.reduced import ReducedTrees, message_number


@pytest.mark.parametrize("kind", ["grid", "dense", "with_zeros", "mixed", "deterministic", "bayesian"])
@pytest.mark.parametrize("seed", range(6))
def test_updated_trees_are_those_made_afresh(kind, seed, problem_of, first_forest) -> None:
    problem = problem_of(kind, seed)
    space = problem.space
    bound = max(5.0, max(space.bits(table.scope) for table in problem.factors))
    forest, deferred = first_forest(problem, bound)
    interface = {variable for _, scope in deferred for variable in scope} or set(forest.holders())
    core = marginalise_exactly(forest, interface, bound - 2.0, space)
    reducer = LocalReducer(core.forest, interface, loss_rule("kl", core.forest, interface, space), space)
    trees = ReducedTrees(reducer, Refusals())
    for limit in (4.0, 3.0, 2.0):
        trees.update(reducer.reduce(dict.fromkeys(core.forest.scopes, limit)))
        growth = trees.growth
        check_forest(growth.forest, space)
        afresh = ReducedTrees(reducer, Refusals())
        assert sorted(growth.forest.scopes.values()) == sorted(afresh.growth.forest.scopes.values())
        assert len(list(growth.forest.trees())) == len(list(afresh.growth.forest.trees()))
        # No clique lies inside a neighbour, and each holds the one message that fills it.
        for first, second, sepset in growth.forest.edges():
            assert len(sepset) < min(len(growth.forest.scopes[first]), len(growth.forest.scopes[second]))
        for number, clique in trees.cliques.items():
            assert growth.contents[number] == {message_number(clique)}
            assert set(growth.forest.scopes[number]) == reducer.scopes[clique]
        scopes, parents = trees.messages()
        assert scopes.keys() == parents.keys() == set(trees.cliques.values())
        for clique, (parent, shared) in parents.items():
            assert (parent < 0) == (not shared)
            assert set(shared) == (set(scopes[clique]).intersection(scopes[parent]) if parent >= 0 else set())
