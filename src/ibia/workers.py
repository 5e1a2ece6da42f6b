"""Workers: processes beside this one that run alternatives (``worker.py``), as seen from here.

Each has a thread that starts it, talks to it and ends it. It starts while other work goes on, and nobody waits for it:
a worker that is not there yet, cannot be started or is lost does not help, that is all. After a run workers wait a
while for the next one. They are programs of their own: a forked process would be unsafe beside threads, and one started
by ``multiprocessing`` would run the user's script again.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ibia.alternative import Alternative, Progress, Solved
from ibia.backward.sweeps import Proceed
from ibia.control import Control, Stopped
from ibia.limits import FREE_PART, available_memory, resident_memory
from ibia.prepare import Problem
from ibia.tables.memory import limit_memory

__all__ = ["RemoteTrial", "Worker", "Workers"]

# Seconds that a worker waits for another run, and that one may take to end.
_IDLE, _ENDING = 20.0, 5.0

_parked: list[Worker] = []
_parking = threading.Lock()


class _WorkerLost(Exception):
    """A worker does not answer any more."""


class Worker:
    """A process that runs alternatives.

    Attributes
    ----------
    closed
        Whether it has ended, or is about to.
    """

    def __init__(self) -> None:
        self.closed = False
        self._jobs: SimpleQueue[Callable[[Worker], None]] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._writing = threading.Lock()
        self._cancelled = False
        self._number = 0
        self._known: dict[int, Problem] = {}
        threading.Thread(target=self._serve, daemon=True, name="ibia-worker").start()

    def call(self, job: Callable[[Worker], None]) -> None:
        """Have its thread do something with it, as soon as it has started and is free."""
        self._jobs.put(job)

    def start(self, problem: Problem, alternative: Alternative, report: Progress) -> RemoteTrial:
        """Run an alternative forward. Nothing is reported: two that take turns would tell nothing."""
        if id(problem) not in self._known:
            self.tell("know", id(problem), problem)
            self._known[id(problem)] = problem
        key = self._number
        return RemoteTrial(self, key, *self.ask("start", key, id(problem), alternative))

    def use_threads(self, threads: int) -> None:
        """Let it spread operations on large tables over so many cores, from now on."""
        self.tell("use_threads", threads)

    def rest(self) -> None:
        """Have it leave memory to others while it has nothing to do."""
        self.tell("rest")

    @property
    def number(self) -> int | None:
        """The number of its process, once that has started."""
        return None if self._process is None else self._process.pid

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return what the worker answers; raises Stopped when it was told to stop."""
        with self._writing:
            if self._cancelled:
                raise Stopped
            self._number += 1
            self._write(self._number, name, *arguments)
        done, answer = self._read()
        if not done:
            raise Stopped
        return answer

    def tell(self, name: str, *arguments: Any) -> None:
        """Send a message that needs no answer; if the worker is lost, who asks it next will know."""
        with self._writing, contextlib.suppress(_WorkerLost):
            self._write(0, name, *arguments)

    def give_up(self) -> None:
        """Have it give up what it does, if it does anything: who waits for the answer gets Stopped."""
        with self._writing, contextlib.suppress(_WorkerLost):
            self._write(0, "stop", self._number)

    def cancel(self) -> None:
        """The same, and let nothing be asked any more."""
        self._cancelled = True
        self.give_up()

    def park(self) -> None:
        """Have it forget what it knows and wait for another run."""
        self.tell("forget_all")
        self._known.clear()
        with _parking:
            _parked.append(self)

    def close(self) -> None:
        """End it at once."""
        self.closed = True
        if self._process is not None:
            self._process.kill()

    def wait(self) -> None:
        """Wait until it has ended, and the system has its memory back."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING)

    def _serve(self) -> None:
        """Live its life: the system ends a worker with the thread that started it."""
        self._process = process = _start()
        if process is None:
            self.closed = True
            return
        # What could not be written any more need not be.
        with contextlib.suppress(OSError), process:
            try:
                self._read()
                while (job := self._next_job()) is not None:
                    self._cancelled = False
                    job(self)
                    self.tell("forget_trials")
            except _WorkerLost:
                pass
            finally:
                self.close()

    def _next_job(self) -> Callable[[Worker], None] | None:
        while not self.closed:
            try:
                return self._jobs.get(timeout=_IDLE)
            except Empty:
                with _parking:
                    if self in _parked:
                        _parked.remove(self)
                        break
        return None

    def _write(self, number: int, name: str, *arguments: Any) -> None:
        process = self._process
        try:
            assert process is not None
            assert process.stdin is not None
            pickle.dump((number, name, arguments), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        except Exception:
            self.close()
            raise _WorkerLost from None

    def _read(self) -> Any:
        process = self._process
        try:
            assert process is not None
            assert process.stdout is not None
            if not self.closed:
                return pickle.load(process.stdout)
        except Exception:
            self.close()
        raise _WorkerLost


class RemoteTrial:
    """An alternative after its forward pass, on a worker (see `Trial`)."""

    def __init__(self, worker: Worker, key: int, work: float, exact: bool, loss: float) -> None:
        self.work = work
        self.exact = exact
        self.loss = loss
        self._worker = worker
        self._key = key

    def answer(self, sweeps: int, proceed: Proceed | None = None) -> Solved:
        """Sweep backward; who is far away is not asked to proceed (see `Worker.give_up`)."""
        answer: Solved = self._worker.ask("answer", self._key, sweeps)
        return answer

    def drop(self) -> None:
        """Let go of the tables."""
        self._worker.tell("drop", self._key)


class Workers:
    """The workers of one run.

    Parameters
    ----------
    control
        Of the run. What it says of memory holds for all processes together. Who would exceed it gives way: a worker
        ends, and where this process needs more, all of them do.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._workers: list[Worker] = []
        self._limit = math.inf
        self._changing = threading.Lock()

    def engage(self, count: int) -> None:
        """Have so many workers: others go, and new ones start while this process goes on."""
        # Any thread that is short of memory may dismiss them.
        with self._changing:
            self._workers = [worker for worker in self._workers if not worker.closed]
            while len(self._workers) > count:
                self._workers.pop().close()
            # Without threads there are no workers either.
            with contextlib.suppress(RuntimeError):
                while len(self._workers) < count:
                    self._workers.append(_unpark() or Worker())
            self._limit_memory()

    def call(self, job: Callable[[Worker], None]) -> None:
        """Have all of them do something as soon as they can."""

        def begin(worker: Worker) -> None:
            with self._changing:
                # All that have started, since those before did not know of this one.
                started = [other for other in self._workers if other.number is not None]
                numbers = [os.getpid(), *(other.number for other in started)]
                for other in started:
                    other.tell("use_memory", self._limit, [number for number in numbers if number != other.number])
            job(worker)

        for worker in self._workers:
            worker.call(begin)

    def cancel(self) -> None:
        """Have them give up what they do."""
        for worker in self._workers:
            worker.cancel()

    def dismiss(self) -> bool:
        """End them, so that this process has all the memory; return whether that makes a difference."""
        had = list(self._workers)
        self.engage(0)
        for worker in had:
            worker.wait()
        return bool(had)

    def leave(self) -> None:
        """End the run: they wait for another one, unless this one was stopped in the middle of something."""
        if not (self._control.stopping or self._control.late):
            while self._workers:
                self._workers.pop().park()
        self.engage(0)

    def _limit_memory(self) -> None:
        """Limit the memory of all processes together."""
        self._limit = limit = self._control.memory
        if not self._workers:
            limit_memory(limit)
            return
        if limit == math.inf:
            self._limit = resident_memory() + self._held() + FREE_PART * available_memory()
        limit_memory(self._limit, self._held, self.dismiss)

    def _held(self) -> float:
        """Return the bytes that they hold."""
        return math.fsum(resident_memory(number) for worker in self._workers if (number := worker.number) is not None)


def _unpark() -> Worker | None:
    with _parking:
        while _parked:
            worker = _parked.pop()
            if not worker.closed:
                return worker
    return None


def _start() -> subprocess.Popen[bytes] | None:
    """Start the process of a worker, if that is possible here."""
    program = sys.executable or ""
    # A program that has the interpreter built in would start itself again.
    if getattr(sys, "frozen", False) or not Path(program).name.lower().startswith(("python", "pypy")):
        return None
    path = [*sys.path, str(Path(__file__).parents[1])]
    command = f"import sys; sys.path[:] = {path!r}; from ibia.worker import main; main({os.getpid()})"
    try:
        return subprocess.Popen(
            [program, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except Exception:
        # Some places forbid it.
        return None


def _start_afresh() -> None:
    """After a fork: workers belong to the process that started them."""
    global _parking
    _parking = threading.Lock()
    _parked.clear()


@atexit.register
def _close_parked() -> None:
    while (worker := _unpark()) is not None:
        worker.close()


os.register_at_fork(after_in_child=_start_afresh)
