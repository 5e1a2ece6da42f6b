"""The search for the best answer within time and memory, on a pretended machine with a clock of its own."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass, field, replace

import pytest

from ibia import anytime, examples
from ibia.answer import Run
from ibia.anytime import Goal, Search
from ibia.control import Control, Stopped, TooSlow
from ibia.errors import RangeError, ZeroProbabilityError
from ibia.gauge import ErrorEstimate
from ibia.ladder import REDUCTIONS, Ladder
from ibia.pipeline import infer
from ibia.predict import Prediction
from ibia.result import Result

TEMPLATE = infer(examples.student(), bound=20)


@dataclass
class Machine:
    """A pretended model and machine: time doubles with every bit, and predictions are off by a factor.

    It is predictor, engine and clock in one.
    """

    width: float = 30.0
    first: float = 0.001
    off: float = 1.0
    bytes_per_entry: float = 0.0
    fails_from: float = math.inf
    vanishes_below: float = 0.0
    impossible_from: float = math.inf
    impossible_below: float = 0.0
    errors: dict[float, float] = field(default_factory=dict)
    now: float = 100.0
    control: Control = field(default_factory=Control)
    correction: float = 1.0
    seen: list[tuple[float, bool, str]] = field(default_factory=list)

    alternatives: int = 1
    tried: int = 0
    reported: list[Result] = field(default_factory=list)
    stands_in: bool = False

    # What takes as long whatever the size of tables.
    graph: float = 0.0
    reductions: tuple[float, ...] = (1.0,)
    # The power of the reduction that takes less time.
    spared: float = 1.0
    # What an exact run takes, of time and memory, and how it ends.
    exact_part: float = 1.0
    exact_fails: Exception | None = None

    sliced: float = 0.0
    slow_slices: float = 0.0

    lowest_bound = 4.0

    @property
    def exact_bound(self) -> float:
        return self.width

    def monotonic(self) -> float:
        return self.now

    def actual(self, bound: float, quick: bool, reduce: float = 1.0) -> float:
        tables = self.first * 2.0 ** (bound - 4.0)
        part = self.exact_part if bound >= self.width else 1.0
        return (tables + self.graph) / reduce**self.spared * (0.1 if quick else 1.0) * part

    def predict(self, bound: float, quick: bool = False, slices: str = "", reduce: float = 1.0) -> Prediction:
        seconds = self.actual(bound, quick, reduce) / self.off * self.correction
        size = self.bytes_per_entry * 2.0**bound * (self.exact_part if bound >= self.width else 1.0)
        return Prediction(bound, bound >= self.width, quick, 0.0, 0.0, 0.0, size, seconds, seconds, reduce=reduce)

    def predict_exact(self, bound: float) -> Prediction | None:
        if bound >= self.width:
            return self.predict(bound)
        if bound < self.width - self.sliced:
            return None
        # Slices take half a bit more for each bit that they spare.
        seconds = self.actual(self.width + 0.5 * (self.width - bound), False) / self.off * self.correction
        size = self.bytes_per_entry * 2.0**bound
        return Prediction(bound, True, False, 0.0, 0.0, 0.0, size, seconds, seconds, slices="always")

    def learn(self, predicted: Prediction, seconds: float) -> None:
        self.correction *= seconds / predicted.seconds

    def answer(self, predicted: Prediction, best: str) -> Result:
        self.seen.append((predicted.bound, predicted.quick, best))
        if predicted.bound >= self.fails_from:
            raise MemoryError
        if predicted.slices == "always" and self.slow_slices:
            self.now += self.slow_slices
            raise TooSlow
        if predicted.bound < self.vanishes_below:
            raise RangeError("numbers vanish")
        if predicted.bound >= self.impossible_from or predicted.bound < self.impossible_below:
            raise ZeroProbabilityError("nothing is possible")
        before, self.tried = (self.tried, predicted.alternatives) if predicted.alternatives else (0, 2)
        self.tried = min(self.tried, self.alternatives)
        seconds = self.actual(predicted.bound, predicted.quick, predicted.reduce)
        if predicted.slices == "always":
            seconds = self.actual(self.width + 0.5 * (self.width - predicted.bound), False)
        # Two alternatives are usual.
        self.now += seconds * (self.tried - before) / 2 if self.alternatives > 1 and not predicted.quick else seconds
        if self.now > self.control.deadline:
            self.now = self.control.deadline
            raise Stopped
        exact = predicted.exact
        if exact and self.exact_fails is not None:
            raise self.exact_fails
        error = 0.0 if exact else self.errors.get(predicted.bound, 2.0**-predicted.worth)
        return replace(
            TEMPLATE,
            bound=predicted.bound,
            reduce=predicted.reduce,
            exact=exact,
            error=ErrorEstimate(error, 2 * error, ""),
            alternatives=1 if predicted.quick else self.tried,
        )

    def search(self, bound: float | None, time_limit: float | None, memory_limit: float | None = None) -> Result:
        goal = Goal(bound, time_limit, memory_limit, self.now)
        self.control.memory = goal.memory
        self.control.deadline = math.inf if time_limit is None else self.now + time_limit
        loopy = self.propagated if self.stands_in else None
        ladder = Ladder(self, bound, self.reductions)  # type: ignore[arg-type]
        search = Search(self.answer, self, ladder, goal, self.control, self.reported.append, loopy)  # type: ignore[arg-type]
        return search.run()

    def propagated(self, deadline: float) -> Result:
        """Stand in for loopy propagation, which takes as long as it may."""
        self.now = deadline
        return replace(TEMPLATE, exact=False, bound=0.0, loopy=True, error=ErrorEstimate(1e-9, 1.0, ""))


@pytest.fixture
def machine(monkeypatch):
    def make(**figures) -> Machine:
        made = Machine(**figures)
        monkeypatch.setattr(anytime, "time", made)
        monkeypatch.setattr("ibia.control.time", made)
        monkeypatch.setattr(anytime, "resident_memory", lambda: 0.0)
        monkeypatch.setattr("ibia.control.resident_memory", lambda: 0.0)
        monkeypatch.setattr("ibia.tables.memory.resident_memory", lambda: 0.0)
        monkeypatch.setattr(anytime, "available_memory", lambda: 2.0**32)
        return made

    return make


def test_a_bound_without_limits_is_taken_as_it_is(machine):
    made = machine(bytes_per_entry=1e9)
    result = made.search(20.0, None)
    assert [attempt.bound for attempt in result.attempts] == [20.0]
    assert result.bound_reason == "as asked"


def test_a_bound_too_large_for_the_memory_is_lowered_and_says_so(machine):
    result = machine(bytes_per_entry=64.0).search(20.0, None, memory_limit=2.0**22)
    assert result.bound == 16.0
    assert "20 bits were asked for" in result.bound_reason
    assert "16 bits fit the limit of 4 MiB" in result.bound_reason


def test_where_nothing_fits_the_smallest_is_tried(machine):
    result = machine(bytes_per_entry=64.0).search(20.0, None, memory_limit=100.0)
    assert result.bound == 4.0
    assert "nothing fits" in result.bound_reason


@pytest.mark.parametrize("off", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("limit", [1.0, 10.0, 60.0, 1200.0])
def test_a_time_limit_is_used_and_kept(machine, off, limit):
    """Even when predictions are off by three times, the answer is at most a few bits from the best possible."""
    made = machine(off=off)
    result = made.search(None, limit)
    assert made.now <= 100.0 + limit + 1e-9
    best = max(bound for bound in range(4, 31) if made.actual(bound, False) <= limit)
    assert best - 3 <= result.bound <= best + 1
    assert result.attempts[0].quick
    assert result.attempts[0].seconds <= 0.2 * limit
    assert sum(attempt.quick for attempt in result.attempts) <= 2
    assert len(result.attempts) <= 6


def test_time_that_is_left_goes_to_more_alternatives_at_the_last_bound(machine):
    made = machine(alternatives=100, errors={9.0: 0.1})
    result = made.search(9.0, 1.0)
    assert result.bound == 9.0
    usual = [attempt for attempt in result.attempts if attempt.alternatives <= 2]
    further = result.attempts[len(usual) :]
    assert [attempt.alternatives for attempt in further] == list(range(3, 3 + len(further)))
    assert all(attempt.bound == 9.0 and attempt.outcome == "answered" for attempt in further)
    # The answer is that of the most alternatives, and there was no time for another one.
    assert result.alternatives == further[-1].alternatives
    assert 1.0 - 3 * further[-1].seconds <= made.now - 100.0 <= 1.0


def test_where_numbers_vanish_higher_bounds_are_tried(machine):
    result = machine(vanishes_below=20.0).search(None, 1000.0)
    assert result.attempts[0].outcome == "out of range"
    assert result.bound >= 20.0
    with pytest.raises(RangeError):
        machine(vanishes_below=100.0).search(None, 1.0)


def test_an_answer_is_kept_when_a_higher_bound_finds_nothing_possible(machine):
    result = machine(impossible_from=19.0).search(None, 1000.0)
    assert result.bound < 19.0
    assert result.attempts[-1].outcome == "out of range"
    with pytest.raises(ZeroProbabilityError):
        machine(impossible_from=0.0).search(None, 1000.0)


def test_loopy_propagation_stands_in_until_there_is_another_answer(machine):
    soon = machine(first=0.001, stands_in=True)
    assert not any(result.loopy for result in [soon.search(None, 40.0), *soon.reported])
    late = machine(first=100.0, stands_in=True)
    result = late.search(None, 40.0)
    # Any other answer is better, whatever their estimates say.
    assert [answer.loopy for answer in late.reported[:2]] == [True, False]
    assert not result.loopy
    never = machine(first=10_000.0, stands_in=True)
    result = never.search(None, 40.0)
    assert result.loopy
    assert not result.exact
    assert result.bound_reason == "loopy propagation gave the only answer; the run with 4 bits was stopped"
    assert never.now <= 100.0 + 40.0 + 1e-9


def test_alternatives_end_where_there_are_no_more(machine):
    result = machine(alternatives=5).search(9.0, 1000.0)
    assert result.alternatives == 5
    assert result.attempts[-2].alternatives == 5
    assert result.attempts[-1].seconds == 0.0


def test_without_a_time_limit_there_are_no_more_alternatives_than_usual(machine):
    assert machine(alternatives=5).search(9.0, None).alternatives == 2
    assert machine(alternatives=5).search(None, None).alternatives <= 2


def test_the_bound_is_the_highest_to_try_within_a_time_limit(machine):
    result = machine().search(9.5, 1000.0)
    assert result.bound == 9.5
    assert "no higher bound" in result.bound_reason


def test_where_tables_cost_little_cliques_are_reduced_by_more(machine):
    """The same time gives a better answer than with the usual reduction, and the words say what was done."""
    usual = machine(graph=4.0).search(None, 20.0)
    result = machine(graph=4.0, reductions=REDUCTIONS).search(None, 20.0)
    assert result.error.typical < usual.error.typical
    assert result.reduce > 1.0
    assert f"{result.bound:g} bits, reduced by {result.reduce:g} gave the best" in result.bound_reason
    assert result.reduce in [attempt.reduce for attempt in result.attempts]
    # Where reduction spares hardly any time, there is nothing to gain.
    assert machine(graph=4.0, reductions=REDUCTIONS, spared=0.01).search(None, 20.0).reduce == 1.0


def test_a_thorough_run_that_does_not_fit_is_the_reason(machine):
    result = machine(graph=10.0).search(4.0, 8.0)
    assert [attempt.quick for attempt in result.attempts] == [True]
    assert "4 bits would take about" in result.bound_reason


def test_further_alternatives_are_of_the_same_bound_and_reduction(machine):
    made = machine(graph=4.0, reductions=REDUCTIONS, alternatives=6)
    result = made.search(12.0, 60.0)
    assert result.alternatives == 6
    last = [attempt for attempt in result.attempts if attempt.alternatives > 2]
    assert len(last) > 1
    assert {(attempt.bound, attempt.reduce) for attempt in last} == {(result.bound, result.reduce)}


@pytest.mark.parametrize("seconds", [5.0, None])
def test_an_exact_answer_comes_first_where_approximations_take_longer(machine, seconds):
    """They handle each clique many times, an exact run once."""
    made = machine(width=12.0, graph=300.0, exact_part=0.01)
    result = made.search(None, seconds)
    assert result.exact
    assert len(result.attempts) == 1


def test_an_exact_answer_comes_first_where_approximations_need_more_memory(machine):
    made = machine(width=12.0, graph=1000.0, bytes_per_entry=1.0, exact_part=0.001)
    result = made.search(None, 5.0, memory_limit=8.0)
    assert result.exact
    assert len(result.attempts) == 1


def test_an_exact_run_in_which_numbers_vanish_is_not_repeated(machine):
    made = machine(width=19.0, exact_fails=RangeError("numbers vanish"))
    result = made.search(None, 300.0)
    assert not result.exact
    assert [attempt.outcome for attempt in result.attempts].count("out of range") == 1


def test_what_is_certainly_impossible_has_no_answer_whatever_approximations_say(machine):
    made = machine(width=19.0, exact_fails=ZeroProbabilityError("nothing is possible", certain=True))
    with pytest.raises(ZeroProbabilityError):
        made.search(None, 300.0)
    assert made.reported


def test_a_first_answer_that_is_far_too_late_gives_way_to_loopy_propagation(machine):
    """Predicted to take two seconds, it takes more than a minute, and nothing else would take less."""
    made = machine(graph=1000.0, off=50.0, stands_in=True)
    result = made.search(None, 60.0)
    assert result.loopy
    assert result.attempts[0].outcome == "too slow"
    assert made.now <= 160.0
    # Who has no such answer waits for the other one.
    with pytest.raises(Stopped):
        machine(graph=1000.0, off=50.0).search(None, 60.0)


def test_a_first_answer_that_takes_much_of_the_time_comes_after_loopy_propagation_and_may_take_all(machine):
    """It is not given up for loopy propagation then, which was there already."""
    made = machine(graph=10.0, off=1.0, stands_in=True)
    result = made.search(None, 1.5)
    assert [answer.loopy for answer in made.reported] == [True, False]
    assert not result.loopy
    assert made.now > 100.0 + 0.6 * 1.5
    exact = machine(width=8.0, graph=10.0, exact_part=0.5, stands_in=True)
    assert [answer.loopy for answer in [exact.search(None, 1.5), *exact.reported]] == [False, True, False]


def test_a_quick_run_that_was_given_up_is_called_that(machine):
    result = machine(graph=1000.0, off=50.0, stands_in=True).search(None, 60.0)
    assert "; a quick run of " in result.bound_reason
    assert result.bound_reason.endswith(" bits would have taken too long")


def test_no_exact_answer_is_looked_for_beyond_the_time_where_nothing_else_fits_the_memory(machine, monkeypatch):
    """Slices need no more memory than their bound, but to find them may take minutes where there are seconds."""
    for seconds in (30.0, None):
        made = machine(width=60.0, bytes_per_entry=1.0, sliced=60.0)
        looked: list[float] = []
        monkeypatch.setattr(made, "predict_exact", looked.append)
        assert not made.search(None, seconds, 8.0).exact
        assert not looked


def test_the_reason_says_that_even_the_quickest_takes_longer_than_usual(machine):
    result = machine(graph=1000.0).search(None, None)
    assert "gave the only answer; even the quickest was to take " in result.bound_reason
    assert "and the usual ten are over" in result.bound_reason
    assert "even the quickest" not in machine(graph=1000.0).search(None, 400.0).bound_reason
    assert "even the quickest" not in machine(graph=1.0).search(None, None).bound_reason


def test_the_reason_says_that_more_memory_was_held_than_allowed(machine):
    made = machine()
    made.control.held = 3e12
    assert made.search(9.0, None, memory_limit=2e12).bound_reason == (
        "as asked; 2.73 TiB of memory were held, more than the limit, which is too low for this model"
    )
    assert made.search(9.0, None, memory_limit=4e12).bound_reason == "as asked"
    assert made.search(9.0, None).bound_reason == "as asked"


def test_where_only_one_answer_fits_into_the_usual_time_it_is_as_good_as_that_allows(machine):
    made = machine(graph=40.0)
    result = made.search(None, None)
    assert len(result.attempts) == 1
    assert 6.0 < made.now - 100.0 < 10.0


@pytest.mark.parametrize("seconds", [20.0, 10.0])
def test_a_first_answer_that_takes_little_more_than_the_quickest_is_not_reduced_by_more(machine, seconds):
    """Where nothing is soon there, the quickest may be no quicker by much, and tell much less."""
    made = machine(graph=90.0, reductions=REDUCTIONS, spared=0.05)
    first = made.search(12.0, seconds).attempts[0]
    assert (first.quick, first.bound, first.reduce) == (True, 12.0, 1.0)


def test_a_long_run_comes_after_a_shorter_one(machine):
    """Predictions from a run of milliseconds are not trusted with a minute."""
    result = machine(first=1e-5).search(None, 60.0)
    seconds = [attempt.seconds for attempt in result.attempts]
    assert all(later <= max(9.0 * sooner, 10.0) for sooner, later in itertools.pairwise(seconds))


def test_an_exact_answer_that_is_cheap_comes_at_once(machine):
    result = machine(width=10.37).search(None, 60.0)
    assert [(attempt.bound, attempt.exact) for attempt in result.attempts] == [(10.37, True)]
    assert "exact" in result.bound_reason


def test_an_exact_answer_in_reach_is_gone_for_after_a_quick_one(machine):
    result = machine(width=17.0).search(None, 12.0)
    assert result.exact
    assert [attempt.bound for attempt in result.attempts][-1] == 17.0
    assert len(result.attempts) == 2


def test_memory_stops_the_search_before_time_does(machine):
    result = machine(bytes_per_entry=64.0).search(None, 1e6, memory_limit=2.0**20)
    assert result.bound == 14.0
    assert "memory" in result.bound_reason


def test_half_of_the_free_memory_is_the_usual_limit(machine):
    result = machine(bytes_per_entry=64.0, first=1e-9).search(None, None)
    assert result.bound == 25.0


def test_without_any_limit_an_answer_takes_about_ten_seconds(machine):
    made = machine(off=2.0)
    result = made.search(None, None)
    assert 2.0 < made.now - 100.0 <= 11.0
    assert len(result.attempts) == 2
    assert "were left of the usual ten" in result.bound_reason


def test_the_answer_with_the_smallest_error_is_kept(machine):
    result = machine(errors=dict.fromkeys(range(19, 30), 0.5)).search(None, 60.0)
    assert result.bound == 18.0
    assert result.attempts[-1].bound == 19.0


def test_the_larger_bound_wins_ties(machine):
    result = machine(errors=dict.fromkeys(range(30), 0.5)).search(None, 60.0)
    assert result.bound == max(attempt.bound for attempt in result.attempts if attempt.outcome == "answered")


def test_running_out_of_memory_costs_the_attempt_and_not_the_answer(machine):
    result = machine(fails_from=19.0).search(None, 60.0)
    outcomes = [(attempt.bound, attempt.outcome) for attempt in result.attempts]
    # What is left of the time goes to the highest bound that there is memory for.
    assert outcomes[-1] == (18.0, "answered")
    assert [bound for bound, outcome in outcomes if outcome == "out of memory"] == [19.0]
    assert result.bound == 18.0
    assert "19 bits ran out of memory" in result.bound_reason


def test_bounds_that_run_out_of_memory_are_not_tried_again(machine, monkeypatch):
    recovered: list[bool] = []
    # By then the error, which holds all that was under way, has to be forgotten.
    monkeypatch.setattr(anytime, "recover", lambda: recovered.append(sys.exc_info()[1] is None))
    result = machine(fails_from=19.0).search(None, 1000.0)
    assert result.bound == 18.0
    failed = [attempt.bound for attempt in result.attempts if attempt.outcome == "out of memory"]
    assert recovered == [True] * len(failed)
    assert len(failed) > 1
    assert failed == sorted(set(failed), reverse=True), "no bound runs out of memory twice, nor a higher one after it"
    assert "ran out of memory" in result.bound_reason


def test_without_a_time_limit_a_lower_bound_is_tried_where_memory_runs_out(machine):
    usual = machine().search(None, None).bound
    result = machine(fails_from=usual).search(None, None)
    assert [attempt.outcome for attempt in result.attempts][-2:] == ["out of memory", "answered"]
    assert result.bound == usual - 1.0


def test_alternatives_that_join_others_do_so_although_memory_ran_out_in_between(machine):
    result = machine(alternatives=8, fails_from=19.0).search(None, 1000.0)
    last = result.attempts[-1]
    assert (last.bound, last.outcome, last.alternatives) == (18.0, "answered", 8)


def test_running_out_of_memory_at_once_is_an_error(machine):
    with pytest.raises(MemoryError):
        machine(fails_from=0.0).search(12.0, None)


def test_no_answer_in_time_is_a_sentence(machine):
    with pytest.raises(Stopped, match="no answer within the time limit; a run with 4 bits"):
        machine(first=1000.0).search(None, 1.0)


def test_an_attempt_cut_off_is_told(machine):
    # Everything from 18 bits on takes a hundred times as long as what came before lets expect.
    made = machine()
    real_answer = made.answer

    def answer(predicted: Prediction, best: str) -> Result:
        if predicted.bound >= 18.0:
            made.now += 99.0 * made.actual(predicted.bound, predicted.quick)
        return real_answer(predicted, best)

    made.answer = answer  # type: ignore[method-assign]
    result = made.search(None, 30.0)
    assert result.attempts[-1].outcome == "stopped"
    assert result.attempts[-1].error_estimate is None
    assert "was stopped" in result.bound_reason


def test_the_best_so_far_is_told_to_the_next(machine):
    made = machine()
    made.search(None, 60.0)
    assert made.seen[0][2] == ""
    assert all(best.startswith("best so far: ") for _, _, best in made.seen[1:])


def test_a_run_asked_to_stop_returns_the_best_so_far(machine):
    made = machine()
    real_answer = made.answer

    def answer(predicted: Prediction, best: str) -> Result:
        result = real_answer(predicted, best)
        if len(made.seen) == 2:
            made.control.stop()
        return result

    made.answer = answer  # type: ignore[method-assign]
    result = made.search(None, 1200.0)
    assert [attempt.outcome for attempt in result.attempts] == ["answered", "stopped"]
    assert result.bound == result.attempts[0].bound


def test_slices_are_gone_for_where_the_whole_does_not_fit_the_memory(machine) -> None:
    # The whole takes 2^20 milliseconds and 2^24 bytes; there is memory for a sixteenth.
    pretended = machine(width=24.0, bytes_per_entry=1.0, sliced=10.0)
    result = pretended.search(None, 20000.0, memory_limit=2.0**20)
    assert result.exact
    assert result.bound == 20.0
    assert pretended.seen[0][1], "a quick answer comes first"


def test_of_slices_the_cheapest_are_made(machine) -> None:
    pretended = machine(width=24.0, bytes_per_entry=1.0, sliced=10.0)
    result = pretended.search(22.0, 20000.0)
    assert (result.exact, result.bound) == (True, 22.0)


def test_slices_that_turn_out_too_slow_are_not_tried_again(machine) -> None:
    pretended = machine(width=24.0, bytes_per_entry=1.0, sliced=10.0, slow_slices=30.0)
    result = pretended.search(None, 6000.0, memory_limit=2.0**20)
    outcomes = [attempt.outcome for attempt in result.attempts]
    assert outcomes.count("too slow") == 1
    assert not result.exact
    # The rest of the time goes to what memory allows.
    assert outcomes[-1] == "answered"
    assert result.bound == 20.0


def test_each_better_answer_is_reported_and_no_other(machine):
    made = machine(off=3.0)
    result = made.search(None, 120.0)
    answered = [attempt for attempt in result.attempts if attempt.outcome == "answered"]
    errors = [answer.error.typical for answer in made.reported]
    assert 2 <= len(errors) < len(answered)
    assert errors == sorted(errors, reverse=True)
    assert made.reported[-1].bound == result.bound


def test_an_answer_at_a_bound_is_reported_once():
    reported = []
    result = infer(examples.student(), bound=20, improved=reported.append)
    assert [answer.log_z for answer in reported] == [result.log_z]


def test_a_stop_while_an_answer_is_reported_does_not_lose_it():
    control = Control()
    result = infer(examples.grid(24, 24), time_limit=60, control=control, improved=lambda answer: control.stop())
    assert [attempt.outcome for attempt in result.attempts] == ["answered"]
    assert result.seconds < 30


def test_a_first_answer_that_takes_too_long_is_given_up_for_a_smaller_one(machine) -> None:
    # Predictions are a thousand times too low, as on a machine that many others use.
    pretended = machine(off=1000.0, first=0.05)
    result = pretended.search(None, 8.0)
    outcomes = [attempt.outcome for attempt in result.attempts]
    assert outcomes[0] == "too slow"
    assert result.attempts[0].seconds == pytest.approx(2.0)
    assert "answered" in outcomes
    bounds = [attempt.bound for attempt in result.attempts[: outcomes.index("answered") + 1]]
    assert bounds == sorted(bounds, reverse=True)


def test_memory_that_runs_out_at_first_is_no_reason_to_give_up(machine) -> None:
    pretended = machine(fails_from=9.0)
    result = pretended.search(None, 60.0)
    assert result.attempts[0].outcome == "out of memory"
    assert result.bound < 9.0


def test_where_an_approximation_rules_out_everything_higher_bounds_are_tried(machine) -> None:
    result = machine(impossible_below=20.0).search(None, 1000.0)
    assert result.attempts[0].outcome == "out of range"
    assert result.bound >= 20.0


def test_slices_that_are_too_slow_at_first_are_followed_by_an_approximation(machine) -> None:
    # The lowest bound there is, so nothing quick is below it.
    pretended = machine(width=4.5, sliced=0.5, slow_slices=1.0, bytes_per_entry=8.0)
    result = pretended.search(None, 60.0, memory_limit=8.0 * 2.0**4)
    assert [(attempt.bound, attempt.quick, attempt.outcome) for attempt in result.attempts][:2] == [
        (4.0, False, "too slow"),
        (4.0, True, "answered"),
    ]


def outcomes_of(result: Result) -> list[tuple[float, bool, str]]:
    return [(attempt.bound, attempt.quick, attempt.outcome) for attempt in result.attempts]


def test_without_limits_slices_that_are_too_slow_are_followed_by_a_usual_answer(machine) -> None:
    # The whole does not fit the memory; slices should take eight seconds.
    pretended = machine(width=17.0, first=0.0005, bytes_per_entry=1.0, sliced=4.0, slow_slices=25.0)
    began = pretended.now
    result = pretended.search(None, None, memory_limit=2.0**15)
    first, *others = outcomes_of(result)
    assert first == (15.0, False, "too slow")
    assert {outcome for _, _, outcome in others} == {"answered"}
    assert others[-1][0] == result.bound == 15.0
    # The time that was spent in vain is not counted.
    assert pretended.now - began <= 25.0 + 10.0


def test_without_limits_an_exact_answer_that_is_too_slow_is_followed_by_a_usual_one(machine) -> None:
    # Predictions are twenty times too low: eight seconds instead of 164.
    pretended = machine(width=17.0, first=0.02, off=20.0)
    began = pretended.now
    result = pretended.search(None, None)
    first, *others = outcomes_of(result)
    assert first == (17.0, False, "too slow")
    assert result.attempts[0].seconds == pytest.approx(30.0)
    assert others
    assert {outcome for _, _, outcome in others} == {"answered"}
    assert not result.exact
    assert pretended.now - began < 60.0


def test_an_exact_answer_at_a_bound_takes_as_long_as_it_takes(machine) -> None:
    result = machine(width=17.0, first=0.02, off=20.0).search(17.0, None)
    assert outcomes_of(result) == [(17.0, False, "answered")]
    assert result.exact


def test_alternatives_join_those_of_their_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    run_answer = Run.answer
    made: list[tuple[float, int]] = []

    def limited(run: Run, *arguments, **options) -> Result:
        if run.bound > 6.0:
            raise MemoryError
        result = run_answer(run, *arguments, **options)
        made.append((run.bound, result.alternatives))
        return result

    monkeypatch.setattr(Run, "answer", limited)
    result = infer(examples.grid(9, 9, seed=2), time_limit=8.0, threads=1, slices="never")
    assert any(attempt.outcome == "out of memory" for attempt in result.attempts)
    last = [alternatives for bound, alternatives in made if bound == 6.0]
    assert max(last) > 2
    assert result.bound == 6.0
