"""The forward loop: what the paper proves of every sequence of clique-tree forests, and its running example."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import (
    BUILDERS,
    bayesian,
    forest_joint,
    marginal_of,
    messages_joint,
    problem_joint,
    random_evidence,
    solve,
)
from ibia.backward.posterior import last_informed_step
from ibia.forest.calibrate import Structure, calibrate
from ibia.forest.checks import check_forest, check_reduction
from ibia.forest.forest import Forest
from ibia.model import Model, Variable
from ibia.prepare import Problem, prepare
from ibia.sequence import Settings, Step, _extra_reduction, forward, potentials_of
from ibia.simplify import simplify
from ibia.steps.build import Growth
from ibia.steps.exact import marginalise_exactly
from ibia.steps.local import LocalReducer
from ibia.steps.loss import loss_rule
from ibia.tables import Space

KINDS = st.sampled_from(["grid", "dense", "mixed", "with_zeros", "bayesian", "deterministic"])
SEEDS = st.integers(0, 2**32 - 1)
BOUNDS = st.sampled_from([3.0, 4.0, 5.0, 6.5, 8.0])
REDUCTIONS = st.sampled_from([1.0, 2.0, 0.0, None])


def problems(model: Model, evidence: dict[int, int] | None = None) -> Iterator[Problem]:
    """Yield the prepared components of a model."""
    simplified = simplify(model, evidence or {})
    for component in simplified.components:
        yield prepare(component, simplified)


def orders(problem: Problem) -> list[str]:
    """Return the names of the orders that the problem allows."""
    return ["elimination", "reverse", "breadth", *(["topological"] if problem.ranks is not None else [])]


def interfaces(problem: Problem, steps: list[Step]) -> list[set[int]]:
    """Return for each step the variables that factors of later steps hold."""
    result: list[set[int]] = []
    later: set[int] = set()
    for step in reversed(steps):
        result.append(set(later))
        for inside in step.contents.values():
            later.update(v for potential in inside if potential >= 0 for v in problem.factors[potential].scope)
    return result[::-1]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.sampled_from(sorted(BUILDERS)), SEEDS, BOUNDS, REDUCTIONS, st.sampled_from(["kl", "mi"]))
def test_every_forest_is_valid_calibrated_and_within_its_bound(
    kind: str, seed: int, bound: float, reduce: float | None, loss: str
) -> None:
    for problem in problems(BUILDERS[kind](np.random.default_rng(seed))):
        for order in orders(problem):
            steps = forward(problem, problem.order(order), Settings(bound=bound, reduce=reduce, loss=loss))
            for step, interface in zip(steps, interfaces(problem, steps), strict=True):
                assert step.bound >= bound
                check_forest(step.forest, problem.space, step.bound)
                if step.core is not None and step.reduction is not None:
                    check_forest(step.core.forest, problem.space)
                    check_reduction(step.core.forest, step.reduction, interface)


@settings(derandomize=True, deadline=None, max_examples=80)
@given(KINDS, SEEDS, BOUNDS, REDUCTIONS)
def test_all_factors_are_placed_once_inside_their_clique(
    kind: str, seed: int, bound: float, reduce: float | None
) -> None:
    for problem in problems(BUILDERS[kind](np.random.default_rng(seed))):
        steps = forward(problem, problem.order("elimination"), Settings(bound=bound, reduce=reduce))
        placed: list[int] = []
        before = None
        for step in steps:
            expected = set() if before is None else {-1 - clique for clique in before.scopes}
            messages = set()
            for clique, inside in step.contents.items():
                for potential in inside:
                    if potential >= 0:
                        scope = problem.factors[potential].scope
                        placed.append(potential)
                    else:
                        assert before is not None
                        scope = before.scopes[-1 - potential]
                        messages.add(potential)
                    assert set(scope) <= set(step.forest.scopes[clique])
                    assert step.location[potential] == clique
            assert messages == expected
            before = step.messages
        assert sorted(placed) == list(range(len(problem.factors)))
        assert sum(step.added for step in steps) == len(problem.factors)
        assert before is None


@settings(derandomize=True, deadline=None, max_examples=60)
@given(KINDS, SEEDS, BOUNDS, REDUCTIONS)
def test_reduced_beliefs_are_marginals_of_the_forest(kind: str, seed: int, bound: float, reduce: float | None) -> None:
    """Proposition 1, against the enumerated joint of each forest; and the messages' joint has those marginals."""
    for problem in problems(BUILDERS[kind](np.random.default_rng(seed))):
        space = problem.space
        for step in forward(problem, problem.order("breadth"), Settings(bound=bound, reduce=reduce)):
            if step.core is None or step.messages is None:
                continue
            axes = sorted({variable for scope in step.forest.scopes.values() for variable in scope})
            joint = forest_joint(step.forest, space, axes)
            assert joint.sum() == pytest.approx(1.0, abs=1e-9)
            for clique, scope in step.core.forest.scopes.items():
                expected = marginal_of(joint, axes, scope)
                assert np.abs(step.core.forest.beliefs[clique].values - expected).max() < 1e-9
            kept = sorted({variable for scope in step.messages.scopes.values() for variable in scope})
            sent = messages_joint(step.messages, space, kept)
            assert sent.sum() == pytest.approx(1.0, abs=1e-9)
            for scope in step.messages.scopes.values():
                assert np.abs(marginal_of(sent, kept, scope) - marginal_of(joint, axes, scope)).max() < 1e-9


@settings(derandomize=True, deadline=None, max_examples=60)
@given(KINDS, SEEDS, BOUNDS, REDUCTIONS)
def test_loss_is_the_divergence_between_forest_and_messages(
    kind: str, seed: int, bound: float, reduce: float | None
) -> None:
    for problem in problems(BUILDERS[kind](np.random.default_rng(seed))):
        for step in forward(problem, problem.order("elimination"), Settings(bound=bound, reduce=reduce)):
            if step.messages is None or step.core is None:
                continue
            held = sorted({variable for scope in step.core.forest.scopes.values() for variable in scope})
            kept = sorted({variable for scope in step.messages.scopes.values() for variable in scope})
            exact = marginal_of(forest_joint(step.core.forest, problem.space, held), held, tuple(kept))
            sent = messages_joint(step.messages, problem.space, kept).reshape(-1)
            possible = exact > 0.0
            divergence = float((exact[possible] * np.log(exact[possible] / sent[possible])).sum())
            # What non-interface variables summed out of the reduced trees knew is not lost: the sum is an upper bound.
            assert divergence <= step.loss + 1e-9
            if held == kept:
                assert divergence == pytest.approx(step.loss, abs=1e-9)


@pytest.mark.parametrize("kind", BUILDERS)
def test_one_step_is_exact(kind: str) -> None:
    for seed in range(4):
        for problem in problems(BUILDERS[kind](np.random.default_rng(seed))):
            (step,) = forward(problem, problem.order("elimination"), Settings(bound=problem.width))
            joint = problem_joint(problem)
            axes = range(joint.ndim)
            for clique, scope in step.forest.scopes.items():
                assert np.abs(step.forest.beliefs[clique].values - marginal_of(joint, axes, scope)).max() < 1e-9


def singles(step: Step) -> dict[int, np.ndarray]:
    """Return the marginal of every variable of a forest."""
    found = {}
    for belief in step.forest.beliefs.values():
        for variable in belief.scope:
            found[variable] = belief.marginal((variable,)).values
    return found


@pytest.mark.parametrize("bound", [4.0, 5.0, 6.0])
@pytest.mark.parametrize("loss", ["kl", "mi"])
def test_priors_of_a_bayesian_network_are_the_same_in_all_forests(bound: float, loss: str) -> None:
    """Corollaries 1 and 2: topological order, no evidence; also when a factor had to be deferred."""
    several = 0
    for seed in range(25):
        model = bayesian(np.random.default_rng(seed), 11)
        for problem in problems(model):
            steps = forward(problem, problem.order("topological"), Settings(bound=bound, loss=loss), topological=True)
            several += len(steps) > 1
            # Factors are scaled to a largest entry of one, so log Z is zero together with the scales.
            assert math.fsum(step.log_z for step in steps) + problem.log_constant == pytest.approx(0.0, abs=1e-9)
            for step, following in itertools.pairwise(steps):
                before, after = singles(step), singles(following)
                for variable in before.keys() & after.keys():
                    assert np.abs(before[variable] - after[variable]).max() < 1e-9
    assert several > 10


@pytest.mark.parametrize("bound", [4.0, 5.0])
def test_posteriors_do_not_change_after_the_last_informed_step(bound: float) -> None:
    """Theorem 1: from I_E on, all forests that hold a variable agree about it."""
    compared = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        model = bayesian(generator, 11)
        for problem in problems(model, random_evidence(generator, model, 2)):
            steps = forward(problem, problem.order("topological"), Settings(bound=bound), topological=True)
            informed = last_informed_step(steps, problem.barren)
            for step, following in itertools.pairwise(steps[informed:]):
                before, after = singles(step), singles(following)
                for variable in before.keys() & after.keys():
                    compared += 1
                    assert np.abs(before[variable] - after[variable]).max() < 1e-9
    assert compared > 20


EXAMPLE = ["dmo", "jh", "il", "fmn", "hi", "dhk", "fdh", "jm", "klo", "fo"]


def running_example(seed: int) -> tuple[Model, Problem, list[int], dict[str, int]]:
    """Return the paper's example, prepared, with its factors in the paper's order and its letters as numbers."""
    letters = sorted(set("".join(EXAMPLE)))
    generator = np.random.default_rng(seed)
    tables = [
        ([letters.index(letter) for letter in scope], 0.1 + generator.random([2] * len(scope))) for scope in EXAMPLE
    ]
    model = Model.from_arrays([2] * len(letters), tables)
    (problem,) = problems(model)
    number = {letters[variable]: place for place, variable in enumerate(problem.variables)}
    scopes = [table.scope for table in problem.factors]
    order = [scopes.index(tuple(sorted(number[letter] for letter in scope))) for scope in EXAMPLE]
    return model, problem, order, number


@pytest.mark.parametrize("loss", ["kl", "mi"])
def test_running_example_of_the_paper(loss: str) -> None:
    """Two forests, bounds 4 and 3; a better triangulation than the paper's may take one of its two deferred factors."""
    for seed in range(5):
        model, problem, order, number = running_example(seed)
        steps = forward(problem, order, Settings(bound=4.0, reduce=1.0, loss=loss))
        first, second = steps
        assert first.added >= 8
        assert {potential for inside in first.contents.values() for potential in inside} >= set(order[:8])
        assert {v for scope in first.forest.scopes.values() for v in scope} == set(number.values())
        (interface, nothing) = interfaces(problem, steps)
        assert interface <= {number[letter] for letter in "fklo"}
        assert not nothing
        assert first.reduction is not None
        kept = {v for scope in first.reduction.scopes.values() for v in scope}
        assert {v for scope in second.forest.scopes.values() for v in scope} == kept
        answer, found = solve(model), singles(second)
        for step in steps:
            check_forest(step.forest, problem.space, 4.0)
        for place in kept:
            assert np.abs(found[place] - answer.marginals[problem.variables[place]]).max() < 0.02


@pytest.mark.parametrize("loss", ["kl", "mi"])
def test_approximation_of_the_running_example(loss: str) -> None:
    """CTF_1 as in the paper's figure, of the first eight factors: interface f k l o; j, n and i go without loss."""
    for seed in range(5):
        _, problem, order, number = running_example(seed)
        space = problem.space
        growth = Growth(space)
        for factor in order[:8]:
            assert growth.try_add([(factor, problem.factors[factor].scope)], 4.0, restarts=3)
            check_forest(growth.forest, space, 4.0)
        calibrate(growth.forest, space, potentials_of(growth.contents, problem.factors, None))
        interface = {number[letter] for letter in "fklo"}
        core = marginalise_exactly(growth.forest, interface, 3.0, space)
        check_forest(core.forest, space)
        held = {v for scope in core.forest.scopes.values() for v in scope}
        assert held.isdisjoint(number[letter] for letter in "jni")
        assert interface <= held
        axes, held_axes = range(len(number)), sorted(held)
        whole = marginal_of(forest_joint(growth.forest, space, axes), axes, tuple(held_axes))
        assert np.abs(forest_joint(core.forest, space, held_axes).reshape(-1) - whole).max() < 1e-12
        reducer = LocalReducer(core.forest, interface, loss_rule(loss, core.forest, interface, space), space)
        reducer.reduce(dict.fromkeys(core.forest.scopes, 3.0))
        reduction = reducer.reduction()
        check_reduction(core.forest, reduction, interface)
        assert all(space.bits(scope) <= 3.0 for scope in reduction.scopes.values())


def test_same_problem_same_sequence() -> None:
    for kind in ("grid", "bayesian", "mixed"):
        for problem in problems(BUILDERS[kind](np.random.default_rng(4))):
            runs = [forward(problem, problem.order("breadth"), Settings(bound=4.0)) for _ in range(2)]
            assert len(runs[0]) == len(runs[1])
            for first, second in zip(*runs, strict=True):
                assert first.forest.scopes == second.forest.scopes
                assert first.forest.neighbours == second.forest.neighbours
                assert first.log_z == second.log_z
                assert first.loss == second.loss


def test_more_is_reduced_where_a_sequence_would_become_long() -> None:
    settings = Settings(bound=8.0, reduce=1.0)

    def steps(*added: int) -> list[Step]:
        nothing = Structure(Forest(), Space(()))
        return [Step(Forest(), nothing, {}, 0.0, number, 8.0) for number in added]

    # At ten factors a step, 500 take 50 steps more, 5000 take 500.
    assert _extra_reduction(steps(*[10] * 8), 500, 0.0, settings) == 0.0
    assert _extra_reduction(steps(*[10] * 8), 5000, 0.0, settings) == 1.0
    assert _extra_reduction(steps(*[10] * 8), 5000, 1.0, settings) == 2.0
    assert _extra_reduction(steps(*[10] * 8), 5000, 3.0, settings) == 3.0, "half of the bound is left"
    assert _extra_reduction(steps(*[100] * 8), 4000, 2.0, settings) == 2.0
    assert _extra_reduction(steps(*[100] * 8), 1000, 2.0, settings) == 1.0, "with a bit less there are still few steps"
    assert _extra_reduction(steps(1000, *[1] * 8), 500, 0.0, settings) == 1.0, "the last steps count"
    assert _extra_reduction(steps(1, 1, 1), 5000, 0.0, settings) == 0.0, "three steps tell little"
    assert _extra_reduction(steps(*[1] * 8), 5000, 0.0, Settings(bound=2.0, reduce=2.0)) == 0.0
    few, many, hurry = steps(100, 100), steps(100, 100), Settings(bound=8.0, hurry=True)
    for step in many:
        step.forest.scopes = dict.fromkeys(range(16_000), (0,))
    assert _extra_reduction(few, 3000, 0.0, hurry) == 0.0
    assert _extra_reduction(many, 3000, 0.0, settings) == 0.0
    assert _extra_reduction(many, 3000, 0.0, hurry) == 1.0, "30 steps of so many cliques would take long"


def test_a_dense_model_needs_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 40
    table = [[2.0, 1.0], [1.0, 2.0]]
    pairs = list(itertools.combinations(range(count), 2))
    model = Model.from_arrays([Variable(f"X{n}", 2) for n in range(count)], [(pair, table) for pair in pairs])
    simplified = simplify(model, {})
    problem = prepare(simplified.components[0], simplified)
    lengths = []
    for most in (math.inf, 10):
        monkeypatch.setattr("ibia.sequence._MOST_STEPS", most)
        steps = forward(problem, problem.order("elimination"), Settings(bound=6.0))
        assert sum(step.added for step in steps) == len(pairs)
        lengths.append(len(steps))
    assert lengths[1] < 0.7 * lengths[0], lengths
