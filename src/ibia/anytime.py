"""Anytime: which bounds and reductions to try, within time and memory, and which answer to keep.

A first answer comes soon, from one order of the factors. Then what is worth more (``ladder.py``) is tried while it is
predicted to fit in what is left; the answers' own estimates of their error decide which is kept. What time remains goes
to more alternatives of the last one. How an answer is computed, and what it costs, others know (``answer.py``,
``predict.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ibia.control import Control, Stopped, TooSlow
from ibia.errors import RangeError, ZeroProbabilityError
from ibia.ladder import Ladder, worth
from ibia.limits import available_memory, resident_memory, seconds_in_words, size_in_words
from ibia.predict import Prediction, Predictor
from ibia.result import Attempt, Result, bits_in_words
from ibia.tables.memory import recover

__all__ = ["Goal", "Search"]

# Without any limit an answer should take about this long, and this part of the free memory.
USUAL_SECONDS = 10.0
_USUAL_PART = 0.5
# An exact answer that was to take that long is given up where it takes so many times as long: numbers so far apart that
# logarithms are needed, which predictions know nothing of.
_UNUSUAL = 3.0
# The first answer may take this part of the time, and not more than so many seconds.
_FIRST_PART, _FIRST_SECONDS = 0.05, 2.0
# Where nothing takes as little, one that takes twice as long as another must be worth so many bits more: the quickest
# may be reduced by so much, for little, that it tells nothing. Up to this part of the time, or to so many times as long
# as the quickest takes.
_DOUBLING, _PART, _LITTLE_MORE = 2.0, 0.25, 1.25
_INSTANT = 1e-9
# Without a time limit, a first answer that takes more than this part of the usual time is the only one.
_ONLY_PART = 0.25
# Where it should take more than so many seconds, or this part of the time, loopy propagation comes before it, for up to
# so much of the time.
_SOON, _SOON_PART, _LOOPY_PART = 5.0, 0.25, 0.15
# A first answer that is not there after this part of the time is given up for one that should take so many times less.
_PATIENCE, _SHORTER = 0.25, 8.0
# If there is no such one, nor any other answer, it is given up after this part of the time, so that loopy propagation
# can stand in.
_LAST_PATIENCE = 0.6
# Predictions made from short runs are off at times: an attempt that should take more than so many times as long as the
# one before it, and than this part of the time left, comes after a shorter one, if there is one.
_GROWTH, _NEXT_PART = 8.0, 0.15
# A thorough answer may well be better than a quick one of less than so many bits more.
_QUICK_GAIN = 3.0
# An exact answer in slices is not looked for where it should take more than so many times the time there is: to look
# for it longer makes that less, often by half or more.
_WORTH_SLICING = 4.0
# A deadline cuts off what takes longer than predicted, so predictions must leave room for their own error: those of
# approximations are less certain than those of exact runs.
_MARGIN, _UNCERTAIN = 1.3, 1.6
# Slices show early whether the time will do, so they are worth a try when they should take this much of what is left.
_HOPE = 1.2
# How many times as long as an exact answer should take there must be for anything else to come before it.
_AMPLE = 2.0
_HIGHEST = "there is no higher bound to try"
# How an attempt ended, where more depends on it than words.
_OUT_OF_MEMORY, _TOO_SLOW = "out of memory", "too slow"


@dataclass(frozen=True)
class Goal:
    """What the user asked for.

    Attributes
    ----------
    bound
        The bound, or, with a time limit, the highest to try; None: choose one.
    time_limit
        Seconds there are for everything, from `started` on (`time.monotonic`).
    memory_limit
        Bytes of memory the process may reach.
    """

    bound: float | None
    time_limit: float | None
    memory_limit: float | None
    started: float

    @property
    def memory(self) -> float:
        """Bytes that predictions have to stay within."""
        if self.memory_limit is not None:
            return self.memory_limit
        if self.bound is not None and self.time_limit is None:
            # Who names a bound and no limit means it.
            return math.inf
        return resident_memory() + _USUAL_PART * available_memory()


Answer = Callable[[Prediction, str], Result]
# Gets the time at which it has to end (`time.monotonic`).
Loopy = Callable[[float], Result]


class Search:
    """The search for the best answer that time and memory allow.

    Parameters
    ----------
    answer
        Computes the answer that was predicted; also gets the words for the best one so far. It raises `Stopped` when
        it has to give up.
    ladder
        The bounds, and reductions, to choose from.
    control
        Its deadline and its memory are those of the goal.
    improved
        Called with each answer that is the best so far.
    loopy
        Returns the answer of loopy propagation, where that may stand in for others.
    """

    def __init__(
        self,
        answer: Answer,
        predictor: Predictor,
        ladder: Ladder,
        goal: Goal,
        control: Control,
        improved: Callable[[Result], None] | None = None,
        loopy: Loopy | None = None,
    ) -> None:
        self._improved = improved
        self._loopy = loopy
        self._answer = answer
        self._predictor = predictor
        self._ladder = ladder
        self._goal = goal
        self._control = control
        self._memory = control.memory
        self._attempts: list[Attempt] = []
        self._best: Result | None = None
        self._out_of_range: RangeError | ZeroProbabilityError | None = None
        self._too_slow = False
        # Whether an exact run ended with numbers that vanished: another one would, too.
        self._vanished = False
        # The lowest bounds at which an approximation, and an exact run, needed more memory than there is.
        self._ran_out = {False: math.inf, True: math.inf}
        self._reason = ""
        # From when on the usual time counts, where there is no limit.
        self._usual_from = goal.started

    def run(self) -> Result:
        """Return the best answer; raises `Stopped` if there is none."""
        with self._control.interruptible():
            self._search()
        if self._best is None:
            if self._out_of_range is not None:
                raise self._out_of_range
            if any(attempt.outcome == _OUT_OF_MEMORY for attempt in self._attempts):
                raise MemoryError
            raise Stopped(self._no_answer())
        reason = self._reason_in_words() + self._excess_in_words()
        seconds = time.monotonic() - self._goal.started
        return replace(self._best, attempts=tuple(self._attempts), bound_reason=reason, seconds=seconds)

    def _search(self) -> None:
        goal = self._goal
        if goal.bound is not None and goal.time_limit is None:
            self._answer_asked(goal.bound)
            return
        if not self._begin():
            return
        while (following := self._next()) is not None:
            if not self._try(following):
                return
            if goal.time_limit is None and self._attempts[-1].outcome not in (_OUT_OF_MEMORY, _TOO_SLOW):
                return
        while goal.time_limit is not None and (following := self._further()) is not None:
            if not self._try(following):
                return

    def _begin(self) -> bool:
        """Get a first answer; return whether it is worth while to go on.

        On a busy machine it may take far longer than predicted. Then it is given up for a smaller one.
        """
        predicted = self._first()
        limited = self._goal.time_limit is not None
        late = limited and predicted.seconds > _SOON_PART * self._left()
        if late or (predicted.seconds > _SOON and not predicted.exact):
            self._propagate()
        while True:
            # Where most of the time is graph work, smaller bounds take no less.
            shorter = self._quick_below(predicted) if limited else []
            shorter = [other for other in shorter if other.seconds <= predicted.seconds / _SHORTER]
            patience = math.inf
            if shorter:
                patience = _PATIENCE * self._left()
            elif limited and self._loopy is not None and self._best is None:
                patience = _LAST_PATIENCE * self._left()
            going_on = self._try(predicted, patience)
            outcome = self._attempts[-1].outcome
            if outcome not in (_OUT_OF_MEMORY, _TOO_SLOW):
                return going_on
            if outcome == _OUT_OF_MEMORY:
                shorter = [other for other in self._quick_below(predicted) if other.bound < predicted.bound]
            elif not shorter and predicted.exact:
                # An approximation instead, as good as there is time for.
                shorter = self._quick_below(predicted)
                shorter = [self._soon(shorter)] if shorter else []
            if not shorter:
                if outcome == _TOO_SLOW and self._best is None:
                    self._propagate()
                return False
            predicted = shorter[-1]

    def _propagate(self) -> None:
        """Have the answer of loopy propagation, where that may stand in for others."""
        if self._loopy is not None:
            self._control.check()
            self._keep(self._loopy(time.monotonic() + _LOOPY_PART * max(self._left(), 0.0)))

    def _quick_below(self, predicted: Prediction) -> list[Prediction]:
        """Return what quick answers that are worth less than another will cost, which are approximations."""
        quick = self._ladder.predictions(self._may_do, self._left(), quick=True, slices="never")
        return [other for other in quick if not other.exact and other.worth < predicted.worth]

    def _answer_asked(self, bound: float) -> None:
        """Answer at the bound asked for, or at the highest one below that memory allows."""
        predicted = self._within_memory(bound)
        while True:
            self._try(predicted)
            lower = [other for other in self._ladder.bounds() if other < predicted.bound]
            if self._attempts[-1].outcome != _OUT_OF_MEMORY or not lower:
                return
            self._reason = f"{predicted.bound:g} bits ran out of memory ({size_in_words(self._memory)} may be used)"
            predicted = self._predictor.predict(lower[-1], reduce=self._ladder.usual)

    def _try(self, predicted: Prediction, patience: float = math.inf) -> bool:
        """Run an attempt and keep its answer if it is the best; return whether it is worth while to go on.

        Parameters
        ----------
        patience
            Seconds after which it is given up.
        """
        began = time.monotonic()
        deadline = self._control.deadline
        result: Result | None = None
        outcome = "stopped"
        unlimited = self._goal.time_limit is None and self._goal.bound is None
        if unlimited and predicted.exact:
            patience = min(patience, _UNUSUAL * USUAL_SECONDS)
        try:
            self._control.check()
            self._control.deadline = min(deadline, began + patience)
            result = self._answer(predicted, self._best_in_words())
            # The same alternatives and more are better, whatever they say.
            same = self._best is not None and (self._best.bound, self._best.reduce) == (result.bound, result.reduce)
            more = predicted.alternatives > 0 and same
            outcome = "answered"
            if self._best is None or more or _quality(result) <= _quality(self._best):
                self._keep(result)
        except MemoryError:
            outcome = _OUT_OF_MEMORY
            self._ran_out[predicted.exact] = min(predicted.bound, self._ran_out[predicted.exact])
        except TooSlow:
            outcome, self._too_slow = _TOO_SLOW, True
        except Stopped:
            self._control.deadline = deadline
            if self._control.stopping or self._control.late:
                raise
            outcome, self._too_slow = _TOO_SLOW, self._too_slow or (unlimited and predicted.exact)
        except (RangeError, ZeroProbabilityError) as error:
            # An approximation may have ruled out what is possible, or numbers vanished: other bounds may do.
            # Whoever is certain that nothing is possible knows more than approximations do.
            certain = isinstance(error, ZeroProbabilityError) and error.certain
            if certain or (predicted.exact and self._best is None):
                raise
            outcome, self._out_of_range = "out of range", error
            self._vanished = self._vanished or predicted.exact
        finally:
            self._control.deadline = deadline
            seconds = time.monotonic() - began
            self._attempts.append(
                Attempt(
                    bound=predicted.bound,
                    quick=predicted.quick,
                    predicted_seconds=predicted.seconds,
                    seconds=seconds,
                    predicted_bytes=predicted.bytes,
                    outcome=outcome,
                    exact=result is not None and result.exact,
                    error_estimate=None if result is None else result.error.typical,
                    alternatives=0 if result is None else result.alternatives,
                    reduce=predicted.reduce,
                )
            )
        if outcome == _OUT_OF_MEMORY:
            recover()
        if outcome == _TOO_SLOW and unlimited:
            # Nobody is waiting for the end of a limit: what comes instead has its usual time.
            self._usual_from = time.monotonic()
        if result is None:
            # Other steps may do.
            return outcome in ("out of range", _TOO_SLOW, _OUT_OF_MEMORY)
        if not predicted.alternatives:
            self._predictor.learn(predicted, seconds)
        return not result.exact

    def _keep(self, result: Result) -> None:
        """Have an answer that is the best so far."""
        self._best = result
        if self._improved is not None:
            self._improved(result)

    def _left(self) -> float:
        """Return the seconds that are left."""
        if self._goal.time_limit is None:
            return self._usual_from + USUAL_SECONDS - time.monotonic()
        return self._goal.started + self._goal.time_limit - time.monotonic()

    def _within_memory(self, bound: float) -> Prediction:
        """Return the prediction for the bound, or for the highest one below it that fits the memory."""
        usual = self._ladder.usual
        asked = self._predictor.predict(bound, reduce=usual)
        self._reason = "as asked"
        if asked.bytes <= self._memory:
            return asked
        lower = [self._predictor.predict(other, reduce=usual) for other in self._ladder.bounds() if other < bound]
        fitting = [prediction for prediction in lower if prediction.bytes <= self._memory]
        chosen = fitting[-1] if fitting else min([*lower, asked], key=lambda prediction: prediction.bytes)
        self._reason = (
            f"{bound:g} bits were asked for, but would need about {size_in_words(asked.bytes)} of memory; "
            + (
                f"{chosen.bound:g} bits fit the limit of {size_in_words(self._memory)}"
                if fitting
                else f"nothing fits the limit of {size_in_words(self._memory)}, and {chosen.bound:g} bits need least"
            )
        )
        return chosen

    def _first(self) -> Prediction:
        """Return what to try first: the exact answer if that is quick, else the highest bound that is."""
        left = max(self._left(), 0.0)
        # Little is lost when an exact answer takes longer than predicted, unless the time is limited.
        most = left if self._goal.time_limit is None else self._first_seconds()
        exact = self._exact(most, most)
        if exact is not None:
            return exact
        # To look for slices takes time: that is done for the exact answer alone.
        quick = self._soon(self._ladder.predictions(self._may_do, left, quick=True, slices="never"))
        # An approximation may take longer than the exact answer, or more memory.
        most = quick.seconds if self._may_do(quick) else max(left, most)
        return self._exact(most, most) or quick

    def _first_seconds(self) -> float:
        """Return how long a first answer may take."""
        return min(_FIRST_PART * max(self._left(), 0.0), _FIRST_SECONDS)

    def _soon(self, quick: list[Prediction]) -> Prediction:
        """Return the best of some quick answers that is soon there, or not much later than the first one could be."""
        quick = [prediction for prediction in quick if prediction.bytes <= self._memory] or quick[:1]
        soonest = max(min(prediction.seconds for prediction in quick), _INSTANT)
        left = self._left()
        most = self._first_seconds()
        if self._goal.time_limit is None and soonest > _ONLY_PART * left:
            # There will be no time for another one.
            most = left / _MARGIN
        soon = [prediction for prediction in quick if prediction.seconds <= most]
        if soon:
            return soon[-1]
        most = max(_LITTLE_MORE * soonest, _PART * left)
        return max(
            (prediction for prediction in quick if prediction.seconds <= most),
            key=lambda way: worth(way.bound, way.reduce) - _DOUBLING * math.log2(max(way.seconds / soonest, 1.0)),
        )

    def _exact(self, most: float, in_slices: float) -> Prediction | None:
        """Return the cheapest way to an exact answer, if there is one that takes not too long.

        Parameters
        ----------
        most, in_slices
            Seconds that it may take as a whole, and in slices.
        """
        if self._vanished or (self._too_slow and self._goal.time_limit is None):
            return None
        # Slices take about as long as the whole; to find them takes time too.
        whole = self._predictor.predict(self._predictor.exact_bound, reduce=self._ladder.usual)
        if whole.seconds > _WORTH_SLICING * in_slices:
            return None
        ladder = self._ladder.bounds()
        if ladder[-1] >= whole.bound and self._may_do(whole) and whole.seconds <= most:
            return whole
        best: Prediction | None = None
        for bound in reversed([bound for bound in ladder if bound < whole.bound]):
            predicted = self._predictor.predict_exact(bound)
            if predicted is None or self._too_slow:
                break
            if best is not None and predicted.seconds >= best.seconds:
                # Lower bounds take more and more.
                break
            if predicted.seconds > _WORTH_SLICING * in_slices:
                break
            if self._may_do(predicted) and predicted.seconds <= in_slices:
                best = predicted
        return best

    def _next(self) -> Prediction | None:
        """Return what to try next, if anything fits in what is left; say why, if nothing does."""
        left = self._left()
        last = self._last()
        # After a quick look the same bound, and one a little lower, is worth a thorough one.
        least = worth(last.bound, last.reduce) - (_QUICK_GAIN if last.quick else 0.0)
        predictions = self._ladder.predictions(self._may_do, left, least)
        affordable = self._affordable(predictions, left)
        exact = self._exact(left, left) if self._goal.time_limit is None else self._exact(left / _MARGIN, _HOPE * left)
        if exact is not None:
            affordable = [*(sooner for sooner in affordable if sooner.seconds < exact.seconds), exact]
        if not affordable and last.quick:
            least = worth(last.bound, last.reduce)
            quick = self._ladder.predictions(self._may_do, left, least, quick=True)
            affordable = self._affordable(quick, left)
            predictions = quick or predictions
        if not affordable:
            self._reason = self._too_much(predictions[0], left) if predictions else _HIGHEST
            return None
        chosen = affordable[-1]
        patience = max(_GROWTH * last.seconds, _NEXT_PART * left)
        if chosen.seconds > patience and self._goal.time_limit is not None:
            chosen = self._step_on_the_way(chosen, affordable, patience, left)
        beyond = [prediction for prediction in predictions if prediction.worth > chosen.worth]
        self._reason = self._too_much(beyond[0], left) if beyond else _HIGHEST
        return chosen

    def _step_on_the_way(
        self, goal: Prediction, affordable: list[Prediction], patience: float, left: float
    ) -> Prediction:
        """Return what to try before something long, or instead of it.

        Parameters
        ----------
        patience
            Seconds that it may take at most.
        """
        steps = [sooner for sooner in affordable if sooner.seconds <= patience]
        # Best is one that leaves time for both, and tells enough about the other.
        room = left - (_AMPLE if goal.exact else self._margin(goal)) * goal.seconds
        both = [sooner for sooner in steps if goal.seconds / _GROWTH <= sooner.seconds <= room]
        if both or goal.exact:
            # Exact answers are worth more than a step.
            return [goal, *both][-1]
        return [goal, *steps][-1]

    def _last(self) -> Attempt:
        """Return the last attempt, apart from those that would have taken too long, or too much memory."""
        return [attempt for attempt in self._attempts if attempt.outcome not in (_TOO_SLOW, _OUT_OF_MEMORY)][-1]

    def _further(self) -> Prediction | None:
        """Return the same bound with more alternatives, if there are more and there is time for them."""
        last = self._last()
        same = [
            attempt
            for attempt in self._attempts
            if (attempt.bound, attempt.reduce) == (last.bound, last.reduce) and not attempt.quick
        ]
        if not same or last.alternatives <= 1 or (len(same) > 1 and last.alternatives == same[-2].alternatives):
            return None
        usual = self._predictor.predict(last.bound, reduce=last.reduce)
        seconds = math.fsum(attempt.seconds for attempt in same) * usual.processes / last.alternatives
        if _MARGIN * seconds > self._left():
            return None
        return replace(usual, seconds=seconds, alternatives=last.alternatives + usual.processes)

    def _affordable(self, predictions: list[Prediction], left: float) -> list[Prediction]:
        """Return the predictions that fit the memory and the time left."""
        return [
            prediction
            for prediction in predictions
            if self._may_do(prediction) and self._margin(prediction) * prediction.seconds <= left
        ]

    def _margin(self, prediction: Prediction) -> float:
        """Return how many times as long as predicted there must be for a run."""
        if self._goal.time_limit is None:
            return 1.0
        return _MARGIN if prediction.exact else _UNCERTAIN

    def _may_do(self, prediction: Prediction) -> bool:
        """Tell whether there should be memory for a run, by its prediction and by how others ended before."""
        if prediction.exact and self._vanished:
            return False
        return prediction.bytes <= self._memory and prediction.bound < self._ran_out[prediction.exact]

    def _too_much(self, prediction: Prediction, left: float) -> str:
        """Say why a bound is not tried."""
        ran_out = self._ran_out[prediction.exact]
        if prediction.bound >= ran_out:
            return f"{ran_out:g} bits ran out of memory"
        if prediction.bytes > self._memory:
            return (
                f"{prediction.bound:g} bits would need about {size_in_words(prediction.bytes)} of memory, "
                f"and {size_in_words(self._memory)} may be used"
            )
        time_left = f"{seconds_in_words(max(left, 0.0))} were left"
        if self._goal.time_limit is None:
            time_left = f"{time_left} of the usual ten" if left > 0.0 else "the usual ten are over"
        bits = bits_in_words(prediction.bound, prediction.reduce)
        return f"{bits} would take about {seconds_in_words(prediction.seconds)}, and {time_left}"

    def _reason_in_words(self) -> str:
        """Say why the answer is of its bound."""
        assert self._best is not None
        if self._goal.bound is not None and self._goal.time_limit is None:
            return self._reason
        bound = "loopy propagation" if self._best.loopy else bits_in_words(self._best.bound, self._best.reduce)
        if not self._attempts:
            return f"{bound} gave the only answer; nothing else was tried"
        last = self._attempts[-1]
        if self._best.exact:
            slices = f", in {self._best.slices} slices" if self._best.slices > 1 else ""
            return f"{self._best.bound:g} bits are enough for an exact answer{slices}"
        reason = self._reason
        if last.outcome == _OUT_OF_MEMORY:
            reason = f"{last.bound:g} bits ran out of memory"
        elif last.outcome == "out of range":
            lost = isinstance(self._out_of_range, ZeroProbabilityError)
            what = "nothing was possible any more" if lost else "numbers vanished that are not zero"
            reason = f"with {last.bound:g} bits {what}"
        elif last.outcome == _TOO_SLOW:
            run = "a quick run" if last.quick else "an exact run"
            reason = f"{run} of {last.bound:g} bits would have taken too long"
        elif last.outcome == "stopped":
            reason = f"the run with {last.bound:g} bits was stopped"
        first = self._attempts[0].predicted_seconds
        if self._goal.time_limit is None and first > USUAL_SECONDS:
            reason = f"even the quickest was to take {seconds_in_words(first)}; {reason}"
        answers = sum(attempt.outcome == "answered" for attempt in self._attempts)
        return f"{bound} gave the {f'best of {answers} answers' if answers > 1 else 'only answer'}; {reason}"

    def _excess_in_words(self) -> str:
        """Say so where more memory was held than the user allows: a run may always add a little to what is there."""
        limit = self._goal.memory_limit
        if limit is None or (held := max(self._control.held, resident_memory())) <= limit:
            return ""
        return f"; {size_in_words(held)} of memory were held, more than the limit, which is too low for this model"

    def _best_in_words(self) -> str:
        if self._best is None:
            return ""
        if self._best.loopy:
            return "best so far: loopy propagation"
        bits = bits_in_words(self._best.bound, self._best.reduce)
        return f"best so far: {bits}, off by about {self._best.error.typical:.1g}"

    def _no_answer(self) -> str:
        tried = f"; a run with {self._attempts[-1].bound:g} bits was under way" if self._attempts else ""
        if self._goal.time_limit is not None and self._control.late:
            return f"no answer within the time limit{tried}"
        return f"stopped before there was an answer{tried}"


def _quality(result: Result) -> tuple[bool, bool, float, float]:
    """Return a sort key, the best first: exact answers, then small errors; among equals what is worth more.

    Loopy propagation comes last: it knows nothing of its error.
    """
    return (not result.exact, result.loopy, result.error.typical, -worth(result.bound, result.reduce or 1.0))
