"""Predictions: made from the cliques alone, exact where the model fits, near where it does not, and better with use."""

from __future__ import annotations

import itertools
import math
import time

import pytest

from ibia import costs, examples, portfolio, predict
from ibia.answer import Choices, Prepared, prepare_model
from ibia.limits import WORKER_MEMORY
from ibia.model import Model
from ibia.predict import Predictor, Speed
from ibia.sequence import Settings, forward

SPEED = Speed(1e-9, 1e-6)
MODELS = {
    "grid": examples.grid(12, 12, seed=1),
    "diagnosis": examples.diagnosis(25, 40, seed=1),
    "chain": examples.chain(50),
}


def prepared(model: Model) -> Prepared:
    return prepare_model(model, {})


def predictor(model: Model) -> Predictor:
    return Predictor(prepared(model).problems, SPEED, slices="never")


def entries(model: Model, bound: float) -> float:
    """Return the table entries of all steps of one alternative."""
    return math.fsum(
        step.entries
        for problem in prepared(model).problems
        for step in forward(problem, problem.order("elimination"), Settings(bound=bound))
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_fits_is_predicted_exactly(name: str) -> None:
    found = predictor(MODELS[name])
    prediction = found.predict(found.exact_bound)
    assert prediction.exact
    assert prediction.entries == pytest.approx(entries(MODELS[name], found.exact_bound))
    assert not found.predict(found.exact_bound - 0.1).exact


@pytest.mark.parametrize("bound", [6, 9, 12])
@pytest.mark.parametrize("name", ["grid", "diagnosis"])
def test_a_model_that_does_not_is_predicted_within_a_few_times(name: str, bound: int) -> None:
    found = predictor(MODELS[name]).predict(bound)
    if not found.exact:
        assert 0.2 < found.entries / entries(MODELS[name], bound) < 5.0


def test_larger_bounds_need_more_memory_and_more_table_entries() -> None:
    found = predictor(examples.grid(30, 30, seed=1))
    predictions = [found.predict(bound) for bound in range(4, 30)]
    assert all(later.entries > sooner.entries for sooner, later in itertools.pairwise(predictions))
    assert predictions[-1].bytes > 2 * predictions[-5].bytes
    assert predictions[-1].seconds > 2 * predictions[-5].seconds


def test_a_quick_answer_costs_less() -> None:
    found = predictor(MODELS["grid"])
    assert found.predict(8, quick=True).seconds < 0.5 * found.predict(8).seconds


def test_processes_are_planned_for_long_runs_where_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "available_memory", lambda: 1e12)
    problems = prepared(examples.grid(30, 30, seed=1)).problems
    alone = Predictor(problems, SPEED).predict(15)
    plenty = Predictor(problems, SPEED, processes=2).predict(15)
    assert (alone.processes, plenty.processes) == (1, 2)
    assert plenty.seconds < alone.seconds
    # Each holds its own tables, one of them more, and together they stay within the limit, whatever that is.
    beside = plenty.bytes - alone.bytes
    assert WORKER_MEMORY < beside < alone.bytes
    for room in (-0.1, 0.1):
        limit = plenty.bytes + room * beside
        limited = Predictor(problems, SPEED, processes=2, memory=limit).predict(15)
        assert limited.processes == (2 if room > 0 else 1)
        assert limited.bytes <= limit
    # There is nothing to share in an exact run, or a quick one.
    several = Predictor(problems, SPEED, processes=8)
    assert several.predict(15).processes > 1
    assert several.predict(several.exact_bound).processes == 1
    assert several.predict(15, quick=True).processes == 1


def test_what_is_learned_does_not_depend_on_the_number_of_processes() -> None:
    problems = prepared(examples.grid(30, 30, seed=1)).problems
    alone, two = Predictor(problems, SPEED), Predictor(problems, SPEED, processes=2)
    alone.learn(alone.predict(15), 3.0 * alone.predict(15).seconds)
    two.learn(two.predict(15), 3.0 * two.predict(15).seconds)
    assert two.predict(8, quick=True).seconds == pytest.approx(alone.predict(8, quick=True).seconds, rel=0.02)


def test_one_order_costs_less_than_several() -> None:
    problems = prepared(MODELS["grid"]).problems
    several, one = (Predictor(problems, SPEED, alternatives, slices="never") for alternatives in (True, False))
    assert one.predict(8).seconds < 0.5 * several.predict(8).seconds


def test_models_without_anything_to_solve_cost_nothing() -> None:
    found = Predictor((), SPEED)
    assert (found.width, found.exact_bound) == (0.0, 1.0)
    prediction = found.predict(1.0)
    assert (prediction.seconds, prediction.entries, prediction.exact) == (0.0, 0.0, True)


def test_what_runs_took_corrects_what_follows() -> None:
    found = predictor(MODELS["grid"])
    before = found.predict(10)
    found.learn(found.predict(6, quick=True), 7.0 * found.predict(6, quick=True).seconds)
    small = found.predict(10).seconds / before.seconds
    found.learn(found.predict(8), 1000.0)
    large = found.predict(10).seconds / before.seconds
    assert small < large, "long runs tell more"
    uncorrected = predictor(MODELS["grid"]).predict(8).seconds
    assert large == pytest.approx(1000.0 / uncorrected, rel=0.05)


def test_a_busy_machine_takes_longer() -> None:
    problems = prepared(MODELS["grid"]).problems
    idle, busy = Predictor(problems, SPEED), Predictor(problems, Speed(1e-9, 1e-6, waiting=3.0))
    assert busy.predict(8).seconds == pytest.approx(3.0 * idle.predict(8).seconds)


def test_the_speed_is_measured_once_and_quickly() -> None:
    predict.measure_speed.cache_clear()
    predict.measure_speed()
    predict.measure_speed.cache_clear()
    began = time.process_time()
    speed = predict.measure_speed()
    assert time.process_time() - began < 0.1
    assert 1e-11 < speed.entry < 1e-6
    assert 1e-8 < speed.clique < 1e-3
    assert predict.measure_speed() is speed


def test_predicting_takes_no_time_worth_mentioning() -> None:
    model = prepared(examples.grid(30, 30, seed=1))
    began = time.process_time()
    found = Predictor(model.problems, SPEED)
    for bound in range(4, 41):
        found.predict(bound)
    assert time.process_time() - began < 0.5


def test_seconds_are_of_the_right_size() -> None:
    """A rough check with wide limits: other programs may run on this machine."""
    model = prepared(MODELS["grid"])
    found = Predictor(model.problems, predict.measure_speed())
    model.answer(8, Choices(), quick=True)
    began = time.process_time()
    model.answer(8, Choices(), quick=True)
    actual = time.process_time() - began
    assert 0.05 < found.predict(8, quick=True).seconds / actual < 20.0


def test_alternatives_are_counted_as_the_portfolio_does() -> None:
    problem = prepared(MODELS["grid"]).problems[0]
    alternatives = list(portfolio._alternatives(problem, Settings(bound=8), "auto"))
    assert len(alternatives) == costs._MOST
