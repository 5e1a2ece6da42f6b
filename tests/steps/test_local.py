"""Local marginalisation: the paper's conditions a to c, and a loss that equals the true divergence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ibia.errors import InputError
from ibia.forest.checks import check_reduction
from ibia.forest.forest import Forest
from ibia.steps import local
from ibia.steps.exact import Core, marginalise_exactly
from ibia.steps.local import LocalReducer, Reduction
from ibia.steps.loss import Removal, loss_rule
from ibia.tables import Space, Table, threads

LOSSY_KINDS = ["grid", "dense", "with_zeros", "mixed", "deterministic", "bayesian"]


def core_of(problem_of, first_forest, kind: str, seed: int, bound: float) -> tuple[Space, Core, set[int]]:
    """Return a core and its interface (random, if the whole model fits)."""
    problem = problem_of(kind, seed)
    bound = max(bound, max(problem.space.bits(table.scope) for table in problem.factors))
    forest, deferred = first_forest(problem, bound)
    interface = {variable for _, scope in deferred for variable in scope}
    if not deferred:
        held = sorted(forest.holders())
        interface = set(np.random.default_rng(seed).choice(held, 2 * len(held) // 3, replace=False).tolist())
    return problem.space, marginalise_exactly(forest, interface, bound - 2.0, problem.space), interface


def reduced_joint(core: Core, reduction: Reduction, space: Space, product_of) -> np.ndarray:
    """Return the joint distribution of the reduced trees: marginals of their cliques over those of their sepsets."""
    beliefs = core.forest.beliefs
    joint = product_of(space, [beliefs[clique].marginal(scope) for clique, scope in reduction.scopes.items()])
    for (first, _), sepset in reduction.sepsets.items():
        divisor = product_of(space, [beliefs[first].marginal(sepset)])
        joint = joint * np.divide(1.0, divisor, out=np.zeros_like(divisor), where=divisor > 0.0)
    held = {variable for scope in reduction.scopes.values() for variable in scope}
    absent = tuple(variable for variable in range(joint.ndim) if variable not in held)
    return joint.mean(axis=absent, keepdims=True)


def divergence(before: np.ndarray, after: np.ndarray) -> float:
    """Return the Kullback–Leibler divergence of the second from the first."""
    before, after = np.broadcast_arrays(before, after)
    positive = before > 0.0
    assert (after[positive] > 0.0).all()
    return float((before[positive] * np.log(before[positive] / after[positive])).sum())


@pytest.mark.parametrize("rule", ["kl", "mi"])
@pytest.mark.parametrize("kind", LOSSY_KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_reduction_meets_the_conditions_of_the_paper(rule, kind, seed, problem_of, first_forest) -> None:
    space, core, interface = core_of(problem_of, first_forest, kind, seed, 4.0)
    reducer = LocalReducer(core.forest, interface, loss_rule(rule, core.forest, interface, space), space)
    limit = 2.0
    reducer.reduce(dict.fromkeys(core.forest.scopes, limit))
    reduction = reducer.reduction()
    check_reduction(core.forest, reduction, interface)
    # The same number of trees: none fell apart.
    edges = len(reduction.sepsets)
    assert len(reduction.scopes) - edges == len(list(core.forest.trees()))
    for clique, scope in reduction.scopes.items():
        if space.bits(scope) > limit + 1e-9:
            # Too large still: then there is no way left to take a variable out.
            assert not any(reducer.removals(clique, variable) for variable in scope)
    assert reduction.loss >= 0.0
    assert (reduction.loss > 1e-9) <= bool(reduction.removals)


@pytest.mark.parametrize("rule", ["kl", "mi"])
@pytest.mark.parametrize("all_needed", [True, False])
@pytest.mark.parametrize("kind", LOSSY_KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_loss_is_the_true_divergence(
    rule, all_needed, kind, seed, problem_of, first_forest, joint_of, product_of
) -> None:
    space, core, interface = core_of(problem_of, first_forest, kind, seed, 4.0)
    if all_needed:
        interface = set(core.forest.holders())
    reducer = LocalReducer(core.forest, interface, loss_rule(rule, core.forest, interface, space), space)
    reducer.reduce(dict.fromkeys(core.forest.scopes, 2.0))
    reduction = reducer.reduction()
    before = joint_of(core.forest, space)
    after = reduced_joint(core, reduction, space, product_of)
    kept = {variable for scope in reduction.scopes.values() for variable in scope}
    gone = tuple(variable for variable in range(before.ndim) if variable not in kept)
    true = divergence(before.sum(axis=gone, keepdims=True), after)
    if all_needed:
        assert reduction.loss == pytest.approx(true, abs=1e-9)
    else:
        # What was lost about a variable is forgiven when the variable is summed out altogether later.
        assert reduction.loss >= true - 1e-9
    assert sum(reduction.losses.values()) == pytest.approx(reduction.loss, abs=1e-12)
    assert after.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("kind", LOSSY_KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_beliefs_of_the_reduced_cliques_are_marginals(
    kind, seed, problem_of, first_forest, product_of
) -> None:
    """Proposition 1 of the paper: the joint belief within a clique of CTF_k,a is that of CTF_k."""
    space, core, interface = core_of(problem_of, first_forest, kind, seed, 4.0)
    reducer = LocalReducer(core.forest, interface, loss_rule("kl", core.forest, interface, space), space)
    reducer.reduce(dict.fromkeys(core.forest.scopes, 2.0))
    reduction = reducer.reduction()
    after = reduced_joint(core, reduction, space, product_of)
    for clique, scope in reduction.scopes.items():
        others = tuple(variable for variable in range(after.ndim) if variable not in scope)
        np.testing.assert_allclose(
            after.sum(axis=others).reshape(-1), core.forest.beliefs[clique].marginal(scope).values, atol=1e-10
        )


@pytest.mark.parametrize("seed", range(6))
def test_each_single_removal_loses_what_the_rule_says(
    seed, problem_of, first_forest, joint_of, product_of
) -> None:
    space, core, interface = core_of(problem_of, first_forest, "grid", seed, 4.0)
    before = joint_of(core.forest, space)
    tried = 0
    for clique, scope in core.forest.scopes.items():
        for variable in scope:
            rule = loss_rule("kl", core.forest, interface, space)
            count = len(LocalReducer(core.forest, interface, rule, space).removals(clique, variable))
            for way in range(count):
                rule = loss_rule("kl", core.forest, interface, space)
                reducer = LocalReducer(core.forest, interface, rule, space)
                removal = reducer.removals(clique, variable)[way]
                loss = 0.0 if removal.exact else rule.loss(removal)
                reducer._remove(removal)
                reduction = reducer.reduction()
                check_reduction(core.forest, reduction, interface)
                after = reduced_joint(core, reduction, space, product_of)
                gone = (variable,) if removal.exact else ()
                assert loss == pytest.approx(divergence(before.sum(axis=gone, keepdims=True), after), abs=1e-10)
                tried += 1
    assert tried


def two_cliques(space: Space, first: np.ndarray, conditional: np.ndarray) -> Forest:
    """Return the calibrated tree (0 1) – (1 2)."""
    joint = first[:, :, None] * conditional[None, :, :]
    forest = Forest()
    forest.add_clique(0, (0, 1))
    forest.add_clique(1, (1, 2))
    forest.connect(0, 1, (1,))
    forest.beliefs = {
        0: Table(space, (0, 1), joint.sum(axis=2).reshape(-1)),
        1: Table(space, (1, 2), joint.sum(axis=0).reshape(-1)),
    }
    forest.sepsets = {(0, 1): Table(space, (1,), joint.sum(axis=(0, 2)))}
    return forest


def test_a_sepset_is_never_emptied_nor_an_interface_variable_lost() -> None:
    space = Space((2, 2, 2))
    forest = two_cliques(space, np.array([[0.4, 0.1], [0.2, 0.3]]), np.array([[0.3, 0.7], [0.6, 0.4]]))
    for interface in ({0, 1, 2}, {0, 2}):
        reducer = LocalReducer(forest, interface, loss_rule("kl", forest, interface, space), space)
        assert reducer.removals(0, 1) == []
        assert reducer.removals(0, 0) == []
        assert not reducer.reduce({0: 0.0, 1: 0.0})
        assert reducer.reduction().scopes == forest.scopes
    reducer = LocalReducer(forest, {2}, loss_rule("kl", forest, {2}, space), space)
    assert reducer.removals(0, 0) == [Removal(0, 0, (0,), (), True)]
    assert reducer.reduce({0: 1.0})
    reduction = reducer.reduction()
    assert reduction.scopes == {0: (1,), 1: (1, 2)}
    assert (reduction.loss, reduction.removals, reduction.lossy) == (0.0, 0, set())


def triangle_pair(space: Space, copied: bool) -> Forest:
    """Return the calibrated tree (0 1 2) – (1 2 3); if `copied`, variable 2 is a copy of variable 1."""
    generator = np.random.default_rng(3)
    joint = generator.dirichlet(np.ones(16)).reshape(2, 2, 2, 2)
    if copied:
        joint = joint * np.eye(2)[None, :, :, None]
        joint /= joint.sum()
    middle = joint.sum(axis=(0, 3))
    forest = Forest()
    forest.add_clique(0, (0, 1, 2))
    forest.add_clique(1, (1, 2, 3))
    forest.connect(0, 1, (1, 2))
    forest.beliefs = {
        0: Table(space, (0, 1, 2), joint.sum(axis=3).reshape(-1)),
        1: Table(space, (1, 2, 3), joint.sum(axis=0).reshape(-1)),
    }
    forest.sepsets = {(0, 1): Table(space, (1, 2), middle.reshape(-1))}
    return forest


def test_removing_a_copy_costs_nothing_and_is_still_no_exact_operation() -> None:
    space = Space((2, 2, 2, 2))
    interface = {0, 1, 2, 3}
    forest = triangle_pair(space, copied=True)
    reducer = LocalReducer(forest, interface, loss_rule("kl", forest, interface, space), space)
    assert reducer.reduce({0: 2.0})
    reduction = reducer.reduction()
    assert reduction.removals == 1
    assert reduction.lossy == set()
    assert reduction.loss == pytest.approx(0.0, abs=1e-12)
    assert reduction.sepsets[0, 1] in ((1,), (2,))


def test_the_cheapest_removal_is_taken_and_mutual_information_prefers_others() -> None:
    space = Space((2, 2, 2, 2))
    forest = triangle_pair(space, copied=False)
    interface = {0, 1, 2, 3}
    rule = loss_rule("kl", forest, interface, space)
    reducer = LocalReducer(forest, interface, rule, space)
    losses = {variable: rule.loss(reducer.removals(0, variable)[0]) for variable in (1, 2)}
    assert reducer.reduce({0: 2.0})
    cheapest = min(losses, key=losses.__getitem__)
    assert cheapest not in reducer.scopes[0]
    assert reducer.loss == pytest.approx(losses[cheapest], abs=1e-12)
    # The paper's rule takes variables that are not in the interface first, whatever they cost.
    for spared in (1, 2):
        needed = {0, 3, spared}
        reducer = LocalReducer(forest, needed, loss_rule("mi", forest, needed, space), space)
        assert reducer.reduce({0: 2.0})
        assert reducer.scopes[0] == {0, spared}


def test_mutual_information_is_measured_in_nats() -> None:
    space = Space((2, 2, 2, 2))
    forest = triangle_pair(space, copied=True)
    interface = {1, 2}
    rule = loss_rule("mi", forest, interface, space)
    reducer = LocalReducer(forest, interface, rule, space)
    removal = reducer.removals(0, 2)[0]
    share = forest.sepsets[0, 1].values.reshape(2, 2).sum(axis=0)
    entropy = -math.fsum(p * math.log(p) for p in share.tolist())
    # Variable 2 tells all about its copy, variable 1, which is in the interface.
    assert rule.rank(removal, reducer.scopes[removal.clique])[1] == pytest.approx(entropy, abs=1e-12)


@pytest.mark.parametrize("rule", ["kl", "mi"])
@pytest.mark.parametrize("kind", LOSSY_KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_removal_chosen_is_the_best_of_all(rule, kind, seed, problem_of, first_forest) -> None:
    """Most removals are ruled out by a part of their loss; the choice must be as if all had been ranked."""
    space, core, interface = core_of(problem_of, first_forest, kind, seed, 5.0)
    reducer = LocalReducer(core.forest, interface, loss_rule(rule, core.forest, interface, space), space)
    earlier: list[Removal] = []
    for clique in sorted(core.forest.scopes):
        while True:
            ways = [way for variable in sorted(reducer.scopes[clique]) for way in reducer.removals(clique, variable)]
            fresh = loss_rule(rule, core.forest, interface, space)
            for removal in earlier:
                fresh.note(removal)
            ranks = [fresh.rank(way, reducer.scopes[way.clique]) for way in ways]
            made = reducer.reduce({clique: reducer.bits[clique] - 1e-6})
            earlier += made
            if not ways:
                assert not made
                break
            best = min(ranks)
            chosen = ranks[ways.index(made[0])]
            assert chosen == pytest.approx(best, abs=1e-9)
            if len(made[0].terms) > 1:
                assert sorted(made[0].edges) == sorted(key for key, _ in made[0].terms)
                assert sorted(made[0].cliques) == sorted(member for _, member in made[0].terms)


@pytest.mark.parametrize("kind", ["grid", "dense"])
def test_losses_are_the_same_to_the_last_bit_whenever_they_are_asked_for(kind, problem_of, first_forest) -> None:
    """Threads look at more than one alone does, and what is chosen must not depend on it."""
    space, core, interface = core_of(problem_of, first_forest, kind, 1, 5.0)
    early, late = (loss_rule("kl", core.forest, interface, space) for _ in range(2))
    reducer = LocalReducer(core.forest, interface, loss_rule("kl", core.forest, interface, space), space)
    compared = 0
    for removal in reducer.reduce(dict.fromkeys(core.forest.scopes, 3.5)):
        for rule in (early, late):
            rule.note(removal)
        for clique in sorted(reducer.scopes):
            for variable in sorted(set(core.forest.scopes[clique]) & reducer.scopes[clique]):
                for way in reducer.removals(clique, variable):
                    if not way.exact:
                        early.loss(way)
    for clique in sorted(reducer.scopes):
        for variable in sorted(reducer.scopes[clique]):
            for way in reducer.removals(clique, variable):
                if not way.exact:
                    assert late.loss(way) == early.loss(way)
                    compared += 1
    assert compared


@pytest.mark.parametrize("rule", ["kl", "mi"])
@pytest.mark.parametrize("kind", ["grid", "dense", "deterministic"])
def test_several_threads_choose_the_same_removals(
    rule, kind, problem_of, first_forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, core, interface = core_of(problem_of, first_forest, kind, 2, 6.0)
    limits = dict.fromkeys(core.forest.scopes, 2.0)
    alone = LocalReducer(core.forest, interface, loss_rule(rule, core.forest, interface, space), space)
    wanted = alone.reduce(limits)
    monkeypatch.setattr(local, "_WORTH_THREADS", 1)
    monkeypatch.setattr(threads, "_WORTH_WAKING", 1)
    space.control.threads = 4
    for _ in range(5):
        reducer = LocalReducer(core.forest, interface, loss_rule(rule, core.forest, interface, space), space)
        assert reducer.reduce(limits) == wanted
        assert reducer.loss == alone.loss
    assert wanted


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(InputError, match="unknown loss rule 'entropy'"):
        loss_rule("entropy", Forest(), set(), Space(()))
