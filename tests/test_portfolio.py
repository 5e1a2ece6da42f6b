"""Alternatives may end in any order, on any number of hands: what counts is decided as if they came one by one."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ibia.alternative import Solved
from ibia.backward.posterior import Posterior
from ibia.portfolio import Portfolio
from ibia.sequence import Settings

ALTERNATIVES = 18

Case = tuple[float, float, bool]


def cases_of(chance: random.Random, exact: float = 0.05) -> list[Case]:
    """Return table entries, disagreement and exactness of alternatives, most of about the same size."""
    usual = chance.choice([2.0**18, 2.0**20, 2.0**22, 2.0**24, 2.0**26, 2.0**28])
    return [
        (
            usual * chance.choice([0.5, 1.0, 1.0, 2.0]),
            chance.choice([0.01, 0.012, 0.02, 0.03, 0.1, 0.3]),
            chance.random() < exact,
        )
        for _ in range(ALTERNATIVES)
    ]


def portfolio_of_eighteen() -> Portfolio:
    problem: Any = SimpleNamespace(ranks=None)
    portfolio = Portfolio(problem, Settings(), "auto")
    assert portfolio.alternative(ALTERNATIVES - 1).variant == 2
    return portfolio


def answer_of(number: int, disagreement: float) -> Solved:
    marginals = {0: np.array([0.5, 0.5])}
    return Solved(Posterior(marginals, 2.0**number, inconsistencies=[disagreement]), False, 0.0, str(number), ())


def one_by_one(cases: list[Case], fewest: int = 2) -> list[int]:
    """Return the alternatives that make the answer when each is tried, and finished, before the next one."""
    finished: list[int] = []
    waiting: list[int] = []
    least, total = math.inf, 0.0
    for number, (entries, disagreement, lossless) in enumerate(cases):
        if number >= fewest and total > 2.0**23:
            break
        total += entries
        if lossless:
            return [number]
        if disagreement <= 1.5 * least:
            if total <= 2.0**27:
                finished.append(number)
            elif disagreement < least:
                waiting = [number]
            least = min(least, disagreement)
    best = min(cases[number][1] for number in finished + waiting)
    return [number for number in finished + waiting if cases[number][1] <= 1.5 * best]


class Hand:
    """Runs one alternative after the other, a stage at a time.

    Parameters
    ----------
    eager
        Whether it goes on with what will probably count, where there is nothing else to do.
    """

    def __init__(self, portfolio: Portfolio, cases: list[Case], eager: bool = False) -> None:
        self.portfolio, self.cases, self.eager = portfolio, cases, eager
        self.number: int | None = None
        self.stage = 0
        self.held: list[int] = []
        self.finished: list[int] = []
        self.tried: list[int] = []

    def step(self) -> bool:
        """Do a little; return whether there was anything to do."""
        portfolio = self.portfolio
        if self.number is None:
            decided = [number for number in self.held if portfolio.worth_finishing(number) is not None]
            if decided:
                self.held.remove(decided[0])
                self.number, self.stage = decided[0], 2
            else:
                self.number, self.stage = portfolio.take(), 0
            if self.number is None and self.eager:
                tried = [number for number in self.held if portfolio.worth_a_try(number)]
                if tried:
                    self.held.remove(tried[0])
                    self.tried.append(tried[0])
                    portfolio.note_answer(tried[0], answer_of(tried[0], self.cases[tried[0]][1]))
                    return True
            return self.number is not None
        entries, disagreement, lossless = self.cases[self.number]
        if self.stage == 0:
            portfolio.note_forward(self.number, entries, lossless, float(self.number % 3))
        elif self.stage == 1:
            portfolio.note_first(self.number, answer_of(self.number, disagreement))
        else:
            worth_finishing = portfolio.worth_finishing(self.number)
            if worth_finishing is None:
                self.held.append(self.number)
            elif worth_finishing:
                self.finished.append(self.number)
                portfolio.note_answer(self.number, answer_of(self.number, disagreement))
            self.number = None
        self.stage += 1
        return True

    def lose(self) -> None:
        """Lose what is under way and held."""
        for number in [*self.held, *([] if self.number is None else [self.number])]:
            self.portfolio.give_back(number)
        self.held, self.number = [], None


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("losses", [0.0, 0.02])
@pytest.mark.parametrize("eager", [False, True])
def test_answer_is_that_of_one_hand(count: int, losses: float, eager: bool) -> None:
    tried = 0
    for seed in range(200):
        chance = random.Random(seed)
        cases = cases_of(chance)
        portfolio = portfolio_of_eighteen()
        hands = [Hand(portfolio, cases, eager) for _ in range(count)]
        while (answer := portfolio.answer()) is None:
            hand = chance.choice(hands)
            if chance.random() < losses:
                hand.lose()
            elif not hand.step():
                # Somebody has something to do as long as there is no answer.
                assert sum(other.step() for other in hands)
        expected = one_by_one(cases)
        assert answer.posterior.log_z == math.fsum(2.0**number for number in expected) / len(expected)
        assert answer.order == str(min(expected, key=lambda number: cases[number][1]))
        tried += sum(len(hand.tried) for hand in hands)
    assert bool(tried) == (eager and count > 1)


@pytest.mark.parametrize("count", [1, 3])
def test_more_alternatives_are_those_of_one_hand(count: int) -> None:
    for seed in range(200):
        chance = random.Random(seed)
        cases = cases_of(chance)
        portfolio = portfolio_of_eighteen()
        for fewest in (2, 4, 7, 30):
            portfolio.ask_for(fewest)
            # What the hands before them held, and were doing, is lost.
            hands = [Hand(portfolio, cases) for _ in range(count)]
            while (answer := portfolio.answer()) is None:
                if not chance.choice(hands).step():
                    assert sum(other.step() for other in hands)
            expected = one_by_one(cases, fewest)
            assert answer.posterior.log_z == math.fsum(2.0**number for number in expected) / len(expected)


def test_who_has_lost_less_goes_on_while_others_are_not_as_far() -> None:
    portfolio = portfolio_of_eighteen()
    work = 2.0**28
    assert [portfolio.take(), portfolio.take()] == [0, 1]
    portfolio.note_forward(1, work, False, 2.0)
    portfolio.note_first(1, answer_of(1, 0.1))
    # Nothing is known of the first one yet, which will be better more often than not.
    assert not portfolio.worth_a_try(1)
    portfolio.note_forward(0, work, False, 3.0)
    assert portfolio.worth_a_try(1)
    portfolio.note_forward(0, work, False, 1.0)
    assert not portfolio.worth_a_try(1)
    # Now it is known which one is to be finished.
    portfolio.note_first(0, answer_of(0, 0.2))
    assert not portfolio.worth_a_try(0)
    assert not portfolio.worth_a_try(1)
    assert [portfolio.worth_finishing(number) for number in (0, 1)] == [False, True]


def test_spread_is_the_mean_distance_from_the_answer() -> None:
    portfolio = portfolio_of_eighteen()
    marginals = [np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([1.0, 0.0])]
    for number, (marginal, disagreement) in enumerate(zip(marginals, [0.01, 0.5, 0.5], strict=True)):
        assert portfolio.take() == number
        portfolio.note_forward(number, 2.0**21.6, False, 1.0)
        answer = Solved(Posterior({0: marginal}, inconsistencies=[disagreement]), False, 0.0, "", ())
        portfolio.note_first(number, answer)
        if portfolio.worth_finishing(number):
            portfolio.note_answer(number, answer)
    combined = portfolio.answer()
    assert combined is not None
    assert combined.tried == 3
    # The answer is the first one.
    distances = [math.sqrt(1.0 - math.sqrt(0.45) - math.sqrt(0.05)), math.sqrt(1.0 - math.sqrt(0.5))]
    assert combined.spread == pytest.approx(sum(distances) / 2)


@pytest.mark.parametrize("seed", range(20))
def test_one_hand_tries_nothing_in_vain(seed: int) -> None:
    cases = cases_of(random.Random(seed), exact=0.0)
    portfolio = portfolio_of_eighteen()
    hand = Hand(portfolio, cases)
    tried = set()
    while portfolio.answer() is None:
        assert hand.step()
        tried.add(hand.number)
    total = 0.0
    for number in range(ALTERNATIVES):
        assert (number in tried) == (number < 2 or total <= 2.0**23)
        total += cases[number][0]


def test_errors_count_if_the_alternative_does() -> None:
    portfolio = portfolio_of_eighteen()
    numbers = [portfolio.take(), portfolio.take()]
    assert numbers == [0, 1]
    portfolio.note_error(1, ZeroDivisionError())
    assert portfolio.answer() is None
    portfolio.note_forward(0, 1.0, False, 1.0)
    portfolio.note_first(0, answer_of(0, 0.1))
    with pytest.raises(ZeroDivisionError):
        portfolio.answer()
    other = portfolio_of_eighteen()
    numbers = [other.take(), other.take()]
    other.note_error(1, ZeroDivisionError())
    other.note_forward(0, 1.0, True, 0.0)
    other.note_first(0, answer_of(0, 0.0))
    other.note_answer(0, answer_of(0, 0.0))
    assert other.answer() is not None
