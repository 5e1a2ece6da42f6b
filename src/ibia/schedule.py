"""The schedule: who runs which alternative of which component, this process or others beside it.

Everyone who is free takes the next alternative that seems to be needed. The portfolios decide what counts as if all had
come one after the other, so the answers have the same bits whoever did what; a worker that is lost costs time only.
This process, when it has nothing else to do, finishes what will probably count. Cores that nobody runs an alternative
on help with the large tables of the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ibia.alternative import Alternative, Progress, Solved, Trial
from ibia.control import Control, Stopped
from ibia.portfolio import Portfolio
from ibia.prepare import Problem
from ibia.tables.memory import rest
from ibia.workers import RemoteTrial, Worker, Workers

__all__ = ["Schedule"]

# How often who waits for others looks at the clock, in seconds.
_PATIENCE = 0.05


class _NotNeeded(Exception):
    """The alternative under way has turned out not to count."""


class _Own:
    """This process, as a worker."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def start(self, problem: Problem, alternative: Alternative, report: Progress) -> Trial:
        return Trial(problem, alternative, report)

    def use_threads(self, threads: int) -> None:
        self._control.threads = threads

    def rest(self) -> None:
        rest()


_Hand = _Own | Worker
_Task = tuple[Portfolio, int]


class Schedule:
    """The alternatives of some components.

    Parameters
    ----------
    sweeps
        At most how many backward sweeps an alternative gets.
    control
        Its threads are shared by all who work.
    progress
        Called with the order being tried here, and how many factors of how many are placed.
    """

    def __init__(
        self, portfolios: Sequence[Portfolio], sweeps: int, control: Control, progress: Progress | None
    ) -> None:
        self._open = deque(portfolios)
        self._sweeps = sweeps
        self._control = control
        self._progress = progress
        self._threads = control.threads
        self._change = threading.Condition()
        self._held: dict[_Hand, dict[_Task, Trial | RemoteTrial]] = {}
        # What workers are finishing.
        self._finishing: dict[Worker, _Task] = {}
        self._busy: list[_Hand] = []
        self._over = False

    def run(self, workers: Workers) -> list[Solved]:
        """Return the answers of the components."""
        own = _Own(self._control)
        answers: list[Solved] = []
        workers.call(self._help)
        try:
            while self._open:
                self._control.check()
                with self._change:
                    answer = self._open[0].answer()
                    if answer is not None:
                        answers.append(answer)
                        self._open.popleft()
                        continue
                    task = self._take(own)
                    if task is None:
                        self._change.wait(_PATIENCE)
                if task is not None:
                    self._run_here(own, task, workers)
            return answers
        finally:
            with self._change:
                self._over = True
                self._change.notify_all()
            self._control.threads = self._threads
            workers.cancel()

    def _run_here(self, own: _Own, task: _Task, workers: Workers) -> None:
        portfolio, number = task
        try:
            self._run(own, task)
        except _NotNeeded:
            pass
        except Stopped:
            raise
        except MemoryError:
            # What does not fit beside others may fit alone.
            if not workers.dismiss():
                raise
            with self._change:
                portfolio.give_back(number)
        except Exception as error:
            with self._change:
                portfolio.note_error(number, error)

    def _help(self, worker: Worker) -> None:
        """Run alternatives on a worker until there are answers, or it is lost."""
        task: _Task | None = None
        try:
            while True:
                with self._change:
                    while not self._over and (task := self._take(worker)) is None:
                        self._change.wait()
                    if self._over or task is None:
                        return
                with suppress(_NotNeeded):
                    self._run(worker, task)
        except Stopped:
            return
        except Exception:
            # It is lost, most likely. Somebody else will do the work, and see if there is anything else.
            worker.close()
            with self._change:
                for portfolio, number in {*self._held.pop(worker, {}), *([task] if task else [])}:
                    portfolio.give_back(number)
                self._set_busy(worker, False)
                self._change.notify_all()

    def _take(self, hand: _Hand) -> _Task | None:
        """Return what is to be done next: something held of which it is known now what to do with it, or a new one."""
        task = next(self._tasks(hand), None)
        self._set_busy(hand, task is not None)
        return task

    def _tasks(self, hand: _Hand) -> Iterator[_Task]:
        for task in self._held.get(hand, {}):
            portfolio, number = task
            if portfolio.worth_finishing(number) is not None:
                yield task
        for portfolio in self._open:
            taken = portfolio.take()
            if taken is not None:
                yield portfolio, taken
        # While others are at work one can go on, and give up when it turns out to be in vain.
        if any(other is not hand for other in self._busy):
            for task in self._held.get(hand, {}):
                portfolio, number = task
                if portfolio.worth_a_try(number):
                    yield task

    def _set_busy(self, hand: _Hand, busy: bool) -> None:
        """Note who works, share out the threads, and leave memory to those who need it."""
        if busy == (hand in self._busy):
            return
        if busy:
            self._busy.append(hand)
        else:
            self._busy.remove(hand)
            hand.rest()
        for other in self._busy:
            other.use_threads(max(self._threads // len(self._busy), 1))

    def _run(self, hand: _Hand, task: _Task) -> None:
        """Run an alternative, or go on with one that is held, as far as it is known to be needed."""
        portfolio, number = task
        held = self._held.setdefault(hand, {})
        trial = held.pop(task, None)
        begun = trial is not None
        if trial is None:
            trial = self._try(hand, portfolio, number)
        with self._change:
            worth_finishing = portfolio.worth_finishing(number)
            # What was begun and not known to be needed was left; who takes it up again has nothing better to do.
            if worth_finishing is None and not begun:
                held[task] = trial
                return
        try:
            if worth_finishing is not False:
                answer = self._finish(hand, task, trial)
                with self._change:
                    portfolio.note_answer(number, answer)
                    self._noted()
        finally:
            trial.drop()

    def _finish(self, hand: _Hand, task: _Task, trial: Trial | RemoteTrial) -> Solved:
        """Sweep until there is an answer, unless that turns out to be in vain."""
        portfolio, number = task

        def proceed() -> None:
            with self._change:
                if portfolio.worth_finishing(number) is False:
                    raise _NotNeeded

        if isinstance(hand, _Own):
            return trial.answer(self._sweeps, proceed)
        # Who is far away cannot ask, and is told (`_noted`).
        with self._change:
            self._finishing[hand] = task
        try:
            proceed()
            return trial.answer(self._sweeps)
        except Stopped:
            if self._over:
                raise
            raise _NotNeeded from None
        finally:
            with self._change:
                del self._finishing[hand]

    def _noted(self) -> None:
        """Have others look at what is known now, and workers give up what is in vain."""
        for worker, (portfolio, number) in self._finishing.items():
            if portfolio.worth_finishing(number) is False:
                worker.give_up()
        self._change.notify_all()

    def _try(self, hand: _Hand, portfolio: Portfolio, number: int) -> Trial | RemoteTrial:
        """Run an alternative forward, and sweep backward once."""

        def report(label: str, done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(label, done, total)
            with self._change:
                if not portfolio.needed(number):
                    raise _NotNeeded

        trial = hand.start(portfolio.problem, portfolio.alternative(number), report)
        with self._change:
            portfolio.note_forward(number, trial.work, trial.exact, trial.loss)
            self._noted()
        first = trial.answer(1)
        with self._change:
            portfolio.note_first(number, first)
            self._noted()
        return trial
