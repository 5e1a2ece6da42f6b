"""The whole pipeline against brute force: exact when it says so, near when it does not, and always well formed."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import (
    BUILDERS,
    Answer,
    bayesian,
    deterministic,
    grid,
    hellinger,
    largest_error,
    random_evidence,
    solve,
)
from ibia import alternative, examples, pipeline
from ibia.answer import Choices, prepare_model
from ibia.backward.posterior import Posterior
from ibia.control import Control, Stopped
from ibia.errors import InputError, RangeError, ZeroProbabilityError
from ibia.forest import search
from ibia.forest.calibrate import ZeroMassError
from ibia.forest.elimination import eliminate
from ibia.model import Factor, Model, Variable
from ibia.prepare import prepare
from ibia.result import Result
from ibia.sequence import Settings, forward
from ibia.simplify import simplify
from strategies import models

# How models are approximated is looked at here: in slices the small ones would come out exact (test_slices.py).
infer = partial(pipeline.infer, slices="never")
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=60)
ORDERS = ["elimination", "reverse", "breadth", "topological", "auto"]


def usable(order: str, model: Model) -> str:
    """Topological order is refused for Markov networks; another takes its place."""
    return "reverse" if order == "topological" and model.kind == "markov" else order

SEEDS = st.integers(0, 2**32 - 1)


def case(kind: str, seed: int) -> tuple[Model, dict[int, int], Answer]:
    """Return a model of a kind, possible evidence, and the exact answer."""
    generator = np.random.default_rng(seed)
    model = BUILDERS[kind](generator)
    evidence = random_evidence(generator, model)
    return model, evidence, solve(model, evidence)


def width(model: Model, evidence: dict[int, int] | None = None) -> float:
    """Return the bits of the largest clique of the model's triangulation."""
    simplified = simplify(model, evidence or {})
    problems = [prepare(component, simplified) for component in simplified.components]
    return max((problem.width for problem in problems), default=0.0)


def assert_well_formed(result: Result) -> None:
    """Marginals of every variable: finite, not negative, summing to one; evidence is certain."""
    assert len(result.marginals) == len(result.model.variables)
    for variable, marginal in zip(result.model.variables, result.marginals, strict=True):
        assert marginal.shape == (variable.cardinality,)
        assert np.isfinite(marginal).all()
        assert (marginal >= 0.0).all()
        assert float(marginal.sum()) == pytest.approx(1.0, abs=1e-9)
    for number, state in result.evidence.items():
        assert result.marginals[number][state] == 1.0
    assert math.isfinite(result.log_z)
    assert result.loss >= 0.0
    assert math.isfinite(result.inconsistency)
    assert 0.0 <= result.error.typical <= result.error.upper <= 1.0


def assert_exact(result: Result, answer: Answer) -> None:
    """The answer is that of brute force."""
    assert_well_formed(result)
    assert largest_error(result.marginals, answer) < 1e-9
    assert result.log_z == pytest.approx(answer.log_z, abs=1e-9 * max(1.0, abs(answer.log_z)))


# A bound that the model fits.


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("update", ["sweeps", "links"])
def test_model_that_fits_is_solved_exactly_in_one_step(kind: str, update: str) -> None:
    for seed in range(6):
        model, evidence, answer = case(kind, seed)
        result = infer(model, evidence, bound=20, update=update)
        assert result.exact
        assert result.sequence_length <= 1
        assert result.loss == 0.0
        assert_exact(result, answer)


@REPEATABLE
@given(models(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0, 1e-3])))
def test_small_models_of_any_shape_agree_with_brute_force(model: Model) -> None:
    answer = solve(model)
    if answer.log_z == -math.inf:
        with pytest.raises(ZeroProbabilityError):
            infer(model)
    else:
        assert_exact(infer(model), answer)


@pytest.mark.parametrize("kind", ["grid", "dense", "mixed", "bayesian"])
def test_bound_equal_to_the_width_is_enough(kind: str) -> None:
    for seed in range(8):
        model = BUILDERS[kind](np.random.default_rng(seed))
        bits = width(model)
        if bits > 1.0:
            result = infer(model, bound=bits)
            assert result.exact
            assert result.sequence_length == 1
            assert result.max_clique_bits <= bits + 1e-9
            assert_exact(result, solve(model))


def test_bound_equal_to_the_width_is_enough_for_larger_models() -> None:
    for seed in range(10):
        generator = np.random.default_rng(seed)
        scopes = [generator.choice(30, size=int(generator.integers(2, 4)), replace=False) for _ in range(45)]
        model = Model.from_arrays([2] * 30, [(scope.tolist(), generator.random([2] * scope.size)) for scope in scopes])
        result = infer(model, bound=width(model))
        assert result.exact
        assert result.sequence_length == 1


def test_models_without_factors_or_variables() -> None:
    assert infer(Model((), ())).log_z == 0.0
    free = infer(Model((Variable("a", 3), Variable("b", 1)), ()))
    assert free.exact
    assert free["a"].tolist() == [1 / 3] * 3
    assert free["b"].tolist() == [1.0]
    assert free.log_z == pytest.approx(math.log(3))
    observed = infer(Model((Variable("a", 3), Variable("b", 1)), ()), {"a": 2})
    assert observed["a"].tolist() == [0.0, 0.0, 1.0]
    assert observed.log_z == pytest.approx(0.0)


@pytest.mark.parametrize("spread", [60.0, 150.0, 300.0])
def test_strong_factors_neither_overflow_nor_vanish(spread: float) -> None:
    """Entries between e^-spread and e^spread are ordinary numbers; the model fits, so the answer is exact."""
    for seed in range(8):
        generator = np.random.default_rng(seed)
        tables = [
            (pair, np.exp(generator.uniform(-spread, spread, (2, 2)))) for pair in itertools.combinations(range(6), 2)
        ]
        model = Model.from_arrays([2] * 6, tables)
        # Enumerated in logarithms: products of such entries are beyond the range of floating point numbers.
        logs = np.zeros([2] * 6)
        for (first, second), table in tables:
            logs += np.log(table).reshape([2 if axis in (first, second) else 1 for axis in range(6)])
        joint = np.exp(logs - logs.max())
        total = float(joint.sum())
        marginals = tuple(joint.sum(axis=tuple(a for a in range(6) if a != v)) / total for v in range(6))
        assert_exact(infer(model, bound=20), Answer(marginals, float(logs.max()) + math.log(total)))


# Exactness is a promise.


@pytest.mark.parametrize("update", ["sweeps", "links"])
@pytest.mark.parametrize("kind", BUILDERS)
def test_whatever_is_called_exact_is_exact(kind: str, update: str) -> None:
    for seed, bound in itertools.product(range(8), (3, 5)):
        model, evidence, answer = case(kind, seed)
        for order, reduce in (("auto", 1), ("elimination", 2), ("breadth", "demand"), ("topological", "demand")):
            result = infer(model, evidence, bound=bound, reduce=reduce, order=usable(order, model), update=update)
            assert_well_formed(result)
            if result.exact:
                assert_exact(result, answer)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(SEEDS, st.sampled_from([3, 4, 5, 6]), st.sampled_from(ORDERS), st.sampled_from([1, 2, "demand"]), st.booleans())
def test_deterministic_networks_called_exact_are_exact(
    seed: int, bound: int, order: str, reduce: float | str, observe: bool
) -> None:
    generator = np.random.default_rng(seed)
    model = deterministic(generator, 12)
    evidence = random_evidence(generator, model) if observe else {}
    result = infer(model, evidence, bound=bound, order=order, reduce=reduce)
    assert_well_formed(result)
    if result.exact:
        assert_exact(result, solve(model, evidence))


@settings(derandomize=True, deadline=None, max_examples=80)
@given(SEEDS, st.sampled_from([4, 5]), st.sampled_from(ORDERS))
def test_bayesian_networks_without_evidence_called_exact_are_exact(seed: int, bound: int, order: str) -> None:
    """Every factor is barren here, but those added after their descendants (in any order) still change posteriors."""
    model = bayesian(np.random.default_rng(seed), 11)
    result = infer(model, bound=bound, order=order)
    if result.exact:
        assert_exact(result, solve(model))


@pytest.mark.parametrize("order", ORDERS)
def test_factor_deferred_past_its_descendants_still_counts(order: str) -> None:
    """The factor of X2 given X1, X0 and X4 exceeds the bound and comes after that of X3 given X4 and X2."""
    model = bayesian(np.random.default_rng(1), 5, largest=2)
    result = infer(model, bound=3, order=order)
    assert not result.exact or largest_error(result.marginals, solve(model)) < 1e-9


@pytest.mark.parametrize("order", ["elimination", "breadth"])
def test_several_steps_without_a_lossy_removal_are_exact(order: str) -> None:
    """A ladder of width three needs no local marginalisation if finished variables leave in time."""
    several = 0
    for seed in range(10):
        model = grid(np.random.default_rng(seed), 2, 7)
        result = infer(model, bound=4, reduce="demand", order=order)
        if width(model) <= 3.0 and result.sequence_length == 1:
            result = infer(model, bound=2.5, reduce="demand", order=order)
        several += result.exact and result.sequence_length > 1
        if result.exact:
            assert_exact(result, solve(model))
    chain_of_triples = [((v, v + 1, v + 2), 0.5 + np.random.default_rng(v).random((2, 2, 2))) for v in range(10)]
    model = Model.from_arrays([2] * 12, chain_of_triples)
    result = infer(model, bound=3, order=order)
    assert result.exact
    assert_exact(result, solve(model))


def test_exact_if_and_only_if_nothing_was_lost() -> None:
    """A run at a small bound with a positive loss is never called exact, and one called exact has none."""
    seen = set()
    for kind, seed in itertools.product(("grid", "dense", "bayesian"), range(5)):
        model = BUILDERS[kind](np.random.default_rng(seed))
        for bound in (3, 4, 6, 20):
            result = infer(model, bound=bound)
            if result.exact:
                assert result.loss == 0.0
                assert result.error.upper == 0.0
            if result.loss > 1e-9:
                assert not result.exact
            seen.add(result.exact)
    assert seen == {True, False}


# Small bounds.


@pytest.mark.parametrize("update", ["sweeps", "links"])
@pytest.mark.parametrize("loss", ["kl", "mi"])
def test_every_choice_gives_a_well_formed_answer(update: str, loss: str) -> None:
    for kind in ("grid", "bayesian", "with_zeros", "deterministic"):
        model, evidence, answer = case(kind, 3)
        for order, reduce in itertools.product(ORDERS, (0, 1, 2, "demand")):
            order = usable(order, model)
            result = infer(model, evidence, bound=4, reduce=reduce, order=order, update=update, loss=loss)
            assert_well_formed(result)
            assert abs(result.log_z - answer.log_z) < 3.0


@settings(derandomize=True, deadline=None, max_examples=100)
@given(SEEDS, st.sampled_from([1, 1.5, 2, 2.5, 3]), st.sampled_from(ORDERS), st.sampled_from([0, 0.5, "demand"]))
def test_factors_larger_than_the_bound_raise_it(seed: int, bound: float, order: str, reduce: float | str) -> None:
    """The bound gives way when a factor alone exceeds it: an answer, never a crash, and the steps say so."""
    model = BUILDERS["mixed"](np.random.default_rng(seed))
    result = infer(model, bound=bound, reduce=reduce, order=usable(order, model))
    assert_well_formed(result)
    for step in result.steps:
        assert step.largest_bits <= step.bound + 1e-9


def test_factor_larger_than_the_bound_that_touches_no_clique() -> None:
    generator = np.random.default_rng(0)
    scopes = [(3, 0, 1), (3, 2), (1, 0)]
    model = Model.from_arrays([2] * 4, [(scope, generator.random([2] * len(scope)) + 0.1) for scope in scopes])
    for order in ("elimination", "reverse", "breadth"):
        assert_well_formed(infer(model, bound=1.5, order=order))


def test_smallest_bound_works_with_the_default_reduction() -> None:
    model = grid(np.random.default_rng(0))
    assert_well_formed(infer(model, bound=1))


LOSSLESS_CASES = [
    (12, 5, 508, "reverse"),
    (12, 5, 522, "reverse"),
    (12, 5, 617, "breadth"),
    (14, 6, 142, "elimination"),
    (14, 6, 472, "elimination"),
]


@pytest.mark.parametrize(("count", "roots", "seed", "order"), LOSSLESS_CASES)
def test_removals_without_loss_are_undone_without_error(count: int, roots: int, seed: int, order: str) -> None:
    """A variable removed for nothing from one clique and then summed out of the last still has the right posterior."""
    model = bayesian(np.random.default_rng(seed), count, 3, certain=1.0, largest=2, roots=roots)
    result = infer(model, bound=4, order=order)
    far = largest_error(result.marginals, solve(model))
    assert result.loss > 1e-9 or far < 1e-6 or far <= result.error.upper


def mean_distances(answers: Callable[[Model, dict[int, int], float], Sequence[np.ndarray]]) -> dict[str, float]:
    """Return the mean Hellinger distance of a method's marginals over fixed sets of models at small bounds."""
    means = {}
    for kind, bound in (("grid", 3.0), ("bayesian", 4.0)):
        distances = []
        for seed in range(10):
            generator = np.random.default_rng(seed)
            model = grid(generator, 4, 4) if kind == "grid" else bayesian(generator)
            evidence = random_evidence(generator, model)
            pairs = zip(answers(model, evidence, bound), solve(model, evidence).marginals, strict=True)
            distances.append(np.mean([hellinger(found, exact) for found, exact in pairs]))
        means[kind] = float(np.mean(distances))
    return means


def without_backward_pass(model: Model, evidence: dict[int, int], bound: float) -> list[np.ndarray]:
    """Return each variable's marginal from the last forest that holds it, as the forward loop left it."""
    simplified = simplify(model, evidence)
    marginals = [np.full(cardinality, 1.0 / cardinality) for cardinality in model.cardinalities]
    for variable, states in enumerate(simplified.states):
        marginals[variable] = np.isin(np.arange(model.cardinalities[variable]), states) / states.size
    for component in simplified.components:
        problem = prepare(component, simplified)
        posterior = Posterior()
        for step in reversed(forward(problem, problem.order("elimination"), Settings(bound=bound))):
            posterior.read(step.forest.beliefs, problem.space.control)
        for number, values in posterior.marginals.items():
            variable = problem.variables[number]
            marginals[variable] = np.zeros(model.cardinalities[variable])
            marginals[variable][simplified.states[variable]] = values
    return marginals


LIMITS = {"sweeps": {"grid": 0.0018, "bayesian": 0.0012}, "links": {"grid": 0.005, "bayesian": 0.0025}}


@pytest.mark.parametrize("update", ["sweeps", "links"])
def test_small_bound_is_near_the_truth(update: str) -> None:
    """Limits about twice what was measured."""
    found = mean_distances(lambda m, e, b: infer(m, e, bound=b, order="elimination", update=update).marginals)
    for kind, distance in found.items():
        assert distance < LIMITS[update][kind], kind


def test_without_a_backward_pass_the_limits_are_missed() -> None:
    for kind, distance in mean_distances(without_backward_pass).items():
        assert distance > LIMITS["links"][kind], kind


# Same input, same output.


@pytest.mark.parametrize("update", ["sweeps", "links"])
def test_same_input_same_bits(update: str) -> None:
    for kind, bound in itertools.product(("grid", "bayesian", "deterministic", "mixed"), (4, 20)):
        model, evidence, _ = case(kind, 11)
        first = infer(model, evidence, bound=bound, update=update)
        second = infer(model, evidence, bound=bound, update=update)
        assert first.log_z == second.log_z
        assert first.loss == second.loss
        assert first.inconsistency == second.inconsistency
        assert all((a == b).all() for a, b in zip(first.marginals, second.marginals, strict=True))


def test_a_prepared_model_answers_any_number_of_times() -> None:
    """What was answered before, and how, leaves no trace."""
    model, evidence, _ = case("grid", 3)
    prepared = prepare_model(model, evidence)
    prepared.answer(3, Choices(), quick=True)
    prepared.answer(20, Choices())
    again, fresh = prepared.answer(4, Choices()), infer(model, evidence, bound=4)
    assert all((a == b).all() for a, b in zip(again.marginals, fresh.marginals, strict=True))
    assert again.log_z == fresh.log_z


def test_number_of_threads_does_not_matter() -> None:
    model, evidence, _ = case("grid", 3)
    one, two = (infer(model, evidence, bound=4, threads=threads) for threads in (1, 2))
    assert all((a == b).all() for a, b in zip(one.marginals, two.marginals, strict=True))


def test_order_of_evidence_does_not_matter() -> None:
    model = grid(np.random.default_rng(5))
    evidence = {0: 1, 5: 0, 9: 1}
    first = infer(model, evidence, bound=4)
    second = infer(model, dict(reversed(evidence.items())), bound=4)
    assert all((a == b).all() for a, b in zip(first.marginals, second.marginals, strict=True))


# Evidence and arguments.


def sprinkler() -> Model:
    """Rain, sprinkler, wet grass."""
    variables = [
        Variable("rain", 2, ("no", "yes")),
        Variable("sprinkler", 2, ("off", "on")),
        Variable("grass", 2, ("dry", "wet")),
    ]
    return Model.from_arrays(
        variables,
        [
            (["rain"], [0.8, 0.2]),
            (["rain", "sprinkler"], [[0.6, 0.4], [0.99, 0.01]]),
            (["sprinkler", "rain", "grass"], [[[1.0, 0.0], [0.2, 0.8]], [[0.1, 0.9], [0.01, 0.99]]]),
        ],
        "bayes",
    )


def test_evidence_by_name_and_by_number() -> None:
    model = sprinkler()
    by_name = infer(model, {"grass": "wet"})
    by_number = infer(model, {2: 1})
    assert by_name["rain"].tolist() == by_number["rain"].tolist()
    wet = {True: 0.2 * (0.99 * 0.8 + 0.01 * 0.99), False: 0.8 * (0.4 * 0.9)}
    assert by_name["rain"][1] == pytest.approx(wet[True] / (wet[True] + wet[False]), abs=1e-12)
    assert by_name.log_z == pytest.approx(math.log(wet[True] + wet[False]), abs=1e-12)
    assert by_name["grass"].tolist() == [0.0, 1.0]


def test_impossible_evidence_is_an_error() -> None:
    with pytest.raises(ZeroProbabilityError, match="probability zero"):
        infer(sprinkler(), {"rain": "no", "sprinkler": "off", "grass": "wet"})


def test_impossible_evidence_that_only_the_whole_joint_shows_is_an_error() -> None:
    """Three variables that must differ pairwise, of two states each: no pair of factors rules anything out."""
    differ = np.array([[0.0, 1.0], [1.0, 0.0]])
    model = Model.from_arrays([2] * 3, [((0, 1), differ), ((1, 2), differ), ((0, 2), differ)])
    for bound in (20, 2):
        with pytest.raises(ZeroProbabilityError):
            infer(model, bound=bound)


@pytest.mark.parametrize(
    "arguments",
    [
        {"bound": 0},
        {"bound": 41},
        {"bound": math.nan},
        {"bound": "much"},
        {"reduce": -1},
        {"bound": 20, "reduce": 21},
        {"reduce": 41},
        {"reduce": math.nan},
        {"reduce": "some"},
        {"loss": "none"},
        {"update": "none"},
        {"order": "none"},
        {"sweeps": 0},
        {"sweeps": 1.5},
        {"threshold": -1.0},
        {"threshold": math.nan},
        {"time_limit": 0},
        {"time_limit": -1.0},
        {"time_limit": math.nan},
        {"time_limit": math.inf},
        {"time_limit": "soon"},
        {"memory_limit": 0},
        {"memory_limit": 1000},
        {"memory_limit": math.nan},
        {"memory_limit": "8GB"},
        {"threads": 0},
        {"threads": 1.5},
        {"threads": True},
        {"evidence": {"nobody": 0}},
        {"evidence": {0: 2}},
    ],
)
def test_bad_arguments_are_input_errors(arguments: dict) -> None:
    with pytest.raises(InputError):
        infer(sprinkler(), **arguments)


def test_without_a_bound_small_models_are_exact_and_say_so() -> None:
    result = infer(sprinkler())
    assert result.exact
    assert result.bound_reason == f"{result.bound:g} bits are enough for an exact answer"
    assert [attempt.bound for attempt in result.attempts] == [result.bound]


def test_a_bound_is_as_asked() -> None:
    result = infer(grid(np.random.default_rng(1)), bound=4)
    assert result.bound_reason == "as asked"
    (attempt,) = result.attempts
    assert (attempt.bound, attempt.outcome, attempt.exact) == (4, "answered", result.exact)
    assert attempt.error_estimate == result.error.typical
    assert 0.0 < attempt.seconds <= result.seconds


def impossible_beside(model: Model) -> Model:
    """Return a model with a cycle of three variables beside it, each of which is to differ from the next."""
    count, differ = len(model.variables), np.array([0.0, 1.0, 1.0, 0.0])
    cycle = [Factor((count + one, count + other), differ) for one, other in ((0, 1), (1, 2), (2, 0))]
    names = ("first", "second", "third")
    return Model((*model.variables, *(Variable(name, 2) for name in names)), (*model.factors, *cycle), "markov")


def test_loopy_propagation_does_not_stand_in_for_what_is_impossible(monkeypatch) -> None:
    monkeypatch.setattr("ibia.anytime._SOON", 0.0)
    answers: list[Result] = []
    with pytest.raises(ZeroProbabilityError) as caught:
        infer(impossible_beside(examples.grid(12, 12, seed=1)), time_limit=60.0, bound=6, improved=answers.append)
    assert caught.value.certain
    # It does not notice.
    assert answers[0].loopy


def test_loopy_propagation_is_better_than_no_answer(monkeypatch) -> None:
    monkeypatch.setattr("ibia.anytime._SOON", 0.0)
    control = Control()
    model = examples.grid(12, 12, coupling=0.3, seed=1)
    labels: list[str] = []
    result = infer(
        model,
        time_limit=60.0,
        bound=6,
        control=control,
        improved=lambda answer: control.stop(),
        progress=lambda label, done, total: labels.append(label),
    )
    assert result.loopy
    assert labels[0] == "loopy propagation"
    assert not result.exact
    assert result.error.upper == 1.0
    truth = infer(model)
    assert truth.exact
    assert result.log_z == pytest.approx(truth.log_z, rel=1e-2)
    assert max(np.abs(one - other).max() for one, other in zip(result.marginals, truth.marginals, strict=True)) < 0.05
    assert "loopy propagation" in str(result)
    assert "forests" not in str(result)
    assert "loopy propagation" in result._repr_html_()
    assert result.to_dict()["loopy"] is True
    with pytest.raises(InputError, match="no steps to plot: loopy propagation"):
        result.plot_steps()
    # Whoever says how to approximate gets that, or nothing.
    control = Control()
    by_links = infer(model, time_limit=60.0, bound=6, update="links", control=control)
    assert not by_links.loopy


def test_a_time_limit_gives_the_best_of_several_answers() -> None:
    result = infer(examples.grid(8, 8, seed=1), bound=6, time_limit=600.0)
    assert len(result.attempts) > 1
    assert result.error.typical == min(
        attempt.error_estimate for attempt in result.attempts if attempt.error_estimate is not None
    )
    assert result.bound <= 6
    assert "attempts" in result.to_dict()


def test_a_run_that_is_stopped_returns_the_best_answer_so_far() -> None:
    control = Control()
    labels: list[str] = []

    def progress(label: str, done: int, total: int) -> None:
        labels.append(label)
        if "best so far" in label:
            control.stop()

    result = infer(examples.grid(8, 8, seed=1), bound=6, time_limit=600.0, progress=progress, control=control)
    assert [attempt.outcome for attempt in result.attempts] == ["answered", "stopped"]
    assert labels[0].split(", ")[0] == f"{result.bound:g} bits"


def test_a_run_that_is_stopped_before_any_answer_raises() -> None:
    control = Control()
    with pytest.raises(Stopped, match="4 bits was under way"):
        infer(grid(np.random.default_rng(1)), bound=4, control=control, progress=lambda *call: control.stop())
    with pytest.raises(Stopped, match="being prepared"):
        infer(grid(np.random.default_rng(1)), bound=4, control=Control(stopping=True))
    with pytest.raises(Stopped, match="no answer within the time limit"):
        infer(grid(np.random.default_rng(1)), time_limit=1e-6)


def test_reducing_by_more_than_a_chosen_bound_is_no_error() -> None:
    assert infer(examples.grid(8, 8, seed=1), time_limit=1e3, bound=6, reduce=5).attempts


def test_progress_is_told_and_ends_with_all_factors() -> None:
    calls: list[tuple[str, int, int]] = []
    infer(grid(np.random.default_rng(1)), bound=4, progress=lambda *call: calls.append(call))
    assert calls
    assert all(0 < done <= total for _, done, total in calls)
    assert {name for name, done, total in calls if done == total} == {name for name, _, _ in calls}


def test_checking_does_not_change_the_answer() -> None:
    model = grid(np.random.default_rng(2))
    plain, checked = infer(model, bound=4), infer(model, bound=4, check=True)
    assert all((a == b).all() for a, b in zip(plain.marginals, checked.marginals, strict=True))


def test_result_explains_itself() -> None:
    result = infer(grid(np.random.default_rng(3)), bound=3)
    text = str(result)
    assert "log Z" in text
    assert f"{result.sequence_length} in the longest sequence" in text
    assert len(result.to_dict()["marginals"]) == len(result)
    assert result.to_dict()["loss_nats"] == result.loss


def far_apart() -> Model:
    random = np.random.default_rng(0)
    pairs = [(first, second) for first in range(9) for second in range(first)]
    return Model.from_arrays(
        [Variable(f"X{number}", 4) for number in range(9)],
        [(pair, np.exp(-450.0 * random.random((4, 4)))) for pair in pairs],
    )


@pytest.mark.parametrize("update", ["sweeps", "links"])
@pytest.mark.parametrize("bound", [4, 6, 8, 10])
def test_numbers_that_vanish_are_found_again_in_logarithms(bound, update):
    """No entry is zero, so neither is the probability: the answer may be rough, and says so, but there is one."""
    model = far_apart()
    exact = infer(model, bound=18)
    assert exact.exact
    result = infer(model, bound=bound, slices="never", update=update)
    assert not result.exact
    assert math.isfinite(result.log_z)
    assert all(marginal.sum() == pytest.approx(1.0) for marginal in result.marginals)
    far = max(np.abs(a - b).max() for a, b in zip(result.marginals, exact.marginals, strict=True))
    assert far <= result.error.upper + 1e-6


def test_where_nothing_is_left_of_a_model_without_zeros_that_is_not_called_impossible(monkeypatch):
    def nothing(*arguments, **options):
        raise ZeroMassError

    monkeypatch.setattr(alternative, "forward", nothing)
    with pytest.raises(RangeError, match="with 6 bits there is no answer"):
        infer(far_apart(), bound=6, slices="never")


def test_small_tables_are_not_searched_a_long_time_for_a_better_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for no bound gets an exact answer then; for a bound that is too small every bit counts."""
    made = [0]

    def counting(*arguments):
        made[0] += 1
        return eliminate(*arguments)

    monkeypatch.setattr(search, "eliminate", counting)
    tried = {}
    for bound in (None, 30.0, 2.0):
        made[0] = 0
        prepare_model(examples.grid(8, 8), {}, bound=bound)
        tried[bound] = made[0]
    assert tried[30.0] <= tried[None] < tried[2.0] / 4


def test_an_answer_says_how_far_cliques_were_reduced_and_a_bound_alone_means_by_one_bit():
    model = examples.grid(9, 9, seed=3)
    usual, same = infer(model, bound=6), infer(model, bound=6, reduce="auto")
    assert usual.reduce == 1.0
    assert usual.log_z == same.log_z == infer(model, bound=6, reduce=1).log_z
    assert infer(model, bound=6, reduce=3).reduce == infer(model, bound=6, reduce=3).to_dict()["reduce"] == 3.0
    assert infer(model, bound=6, reduce="demand").reduce is None
    with pytest.raises(InputError, match="expected a number of bits, 'auto' or 'demand'"):
        infer(model, bound=6, reduce="much")


@pytest.mark.parametrize("size", [5, 30])
def test_loopy_propagation_answers_what_cannot_be_prepared_in_time(size, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(model, evidence, control, *rest):
        while True:
            control.check()
            time.sleep(0.001)

    monkeypatch.setattr(pipeline, "prepare_model", endless)
    model = examples.grid(size, size)
    answers: list[Result] = []
    started = time.monotonic()
    result = infer(model, {0: 1}, time_limit=1.0, improved=answers.append)
    assert 0.6 <= result.seconds <= time.monotonic() - started
    assert answers == [result]
    assert result.loopy
    assert not result.exact
    assert result.bound_reason == (
        "loopy propagation gave the only answer; preparing the model takes too long for the time limit"
    )
    assert result.marginals[0].tolist() == [0.0, 1.0]
    # The paper's way is left as it is.
    with pytest.raises(Stopped, match="no answer within the time limit; the model was still being prepared"):
        infer(model, time_limit=0.2, update="links")
    with pytest.raises(Stopped, match="stopped before there was an answer; the model was still being prepared"):
        infer(model, time_limit=5.0, control=Control(stopping=True))


def test_preparation_of_a_large_model_is_not_waited_for_where_it_does_not_look_at_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    monkeypatch.setattr(pipeline, "prepare_model", lambda *arguments: release.wait(60))
    started = time.monotonic()
    assert infer(examples.grid(30, 30), time_limit=1.0).loopy
    assert time.monotonic() - started < 30
    release.set()


def test_an_answer_within_a_time_limit_can_be_repeated_by_its_bound_and_reduction():
    # One that has no exact answer within reach: where there is one, trees are looked for in another way with a bound.
    model = examples.grid(19, 19, seed=2)
    answers: list[Result] = []
    infer(model, bound=9, time_limit=6.0, slices="never", threads=1, improved=answers.append)
    # Quick ones have one alternative; later ones may have more than usual.
    first = next(answer for answer in answers if answer.alternatives > 1)
    again = infer(model, bound=first.bound, reduce=first.reduce, slices="never", threads=2)
    assert again.log_z == first.log_z
    # A reduction that was asked for is kept to.
    asked = infer(model, bound=9, time_limit=2.0, slices="never", reduce=2)
    assert {attempt.reduce for attempt in asked.attempts} == {2.0}
