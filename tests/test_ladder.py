"""The ladder: what nothing beats at both time and worth, from the quickest to the best."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import pytest

from ibia import examples
from ibia.answer import Choices, prepare_model
from ibia.ladder import REDUCTIONS, Ladder, worth
from ibia.predict import Prediction, Predictor, Speed
from ibia.sequence import Settings, forward


@dataclass
class Machine:
    """A pretended model: tables take so long, and handling cliques so long whatever their size."""

    tables: float = 1.0
    graph: float = 0.0
    exact_bound: float = 30.0
    lowest_bound: float = 4.0

    def predict(self, bound: float, quick: bool = False, slices: str = "", reduce: float = 1.0) -> Prediction:
        seconds = (self.tables * 2.0**bound + self.graph) / reduce
        exact = bound >= self.exact_bound
        return Prediction(bound, exact, quick, 0.0, 0.0, 0.0, 2.0**bound, seconds, seconds, reduce=reduce)


def ways(
    machine: Machine,
    highest: float | None = None,
    most_bytes: float = math.inf,
    seconds: float = math.inf,
    above: float = -math.inf,
) -> list[Prediction]:
    ladder = Ladder(machine, highest, REDUCTIONS)  # type: ignore[arg-type]
    return ladder.predictions(lambda way: way.bytes <= most_bytes, seconds, above)


@pytest.mark.parametrize("graph", [0.0, 1e3, 1e6])
def test_each_way_takes_longer_and_is_worth_more_than_the_one_before(graph: float) -> None:
    machine = Machine(graph=graph)
    found = ways(machine)
    # Where nothing is reduced it does not matter by how much.
    assert (found[-1].exact, found[-1].reduce) == (True, 1.0)
    for sooner, later in itertools.pairwise(found):
        assert sooner.seconds < later.seconds
        assert sooner.worth < later.worth
    # Nothing that is left out beats what is there.
    for bound, reduce in itertools.product(range(4, 30), REDUCTIONS):
        other = machine.predict(float(bound), reduce=reduce)
        if reduce <= bound / 2:
            assert any(way.seconds <= other.seconds and way.worth >= other.worth for way in found)


def test_where_tables_cost_little_reduction_and_the_bound_are_high() -> None:
    small_tables = ways(Machine(graph=2.0**18), highest=16.0)
    assert {way.reduce for way in small_tables} > {6.0}
    assert min(way.bound for way in small_tables) >= 12.0
    assert (small_tables[-1].bound, small_tables[-1].reduce) == (16.0, 1.0)


def test_at_least_half_of_the_bound_is_left() -> None:
    assert all(way.reduce <= way.bound / 2 for way in ways(Machine()))
    # A reduction that was asked for is taken as it is.
    asked = Ladder(Machine(), 8.0, (6.0,)).predictions(lambda way: True, math.inf)  # type: ignore[arg-type]
    assert [(way.bound, way.reduce) for way in asked] == [(float(bound), 6.0) for bound in range(4, 9)]


def test_what_there_is_no_memory_for_comes_last() -> None:
    found = ways(Machine(), most_bytes=2.0**12)
    assert all(way.bytes <= 2.0**12 for way in found[:-1])
    assert found[-1].bytes > 2.0**12
    assert found[-1].worth > found[-2].worth
    # Where there is no memory for anything, it is what takes least.
    assert [way.bound for way in ways(Machine(), most_bytes=1.0)] == [4.0]


def test_one_that_takes_too_long_is_enough_and_what_is_worth_less_is_left_out() -> None:
    found = ways(Machine(), seconds=2.0**12, above=9.0)
    assert all(way.worth > 9.0 for way in found)
    late = [way for way in found if way.seconds > 2.0**12]
    assert 1 <= len(late) <= len(REDUCTIONS)


def test_a_bit_of_reduction_is_worth_less_than_a_bit_of_the_bound() -> None:
    assert worth(12.0, 1.0) == 12.0
    assert worth(12.0, 2.0) < worth(13.0, 2.0)
    assert worth(12.0, 1.0) < worth(13.0, 2.0)


@pytest.mark.parametrize("reduce", [2.0, 3.0])
def test_what_reduction_spares_is_predicted(reduce: float) -> None:
    prepared = prepare_model(examples.grid(18, 18, seed=1), {})
    predictor = Predictor(prepared.problems, Speed(1e-9, 1e-6), slices="never")
    predicted = predictor.predict(10.0, reduce=reduce).entries / predictor.predict(10.0).entries
    (problem,) = prepared.problems

    def entries(bits: float) -> float:
        steps = forward(problem, problem.order("elimination"), Settings(bound=10.0, reduce=bits))
        return math.fsum(step.entries for step in steps)

    assert predicted < 0.9
    assert 0.4 < predicted / (entries(reduce) / entries(1.0)) < 2.5


def test_reductions_are_to_choose_from_only_where_nobody_chose() -> None:
    assert Choices().reductions == REDUCTIONS
    assert Choices(update="links").reductions == (1.0,)
    assert Choices(reduce="demand").reductions == (1.0,)
    assert Choices(reduce=5.0).reductions == (5.0,)
