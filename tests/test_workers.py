"""Other processes that help: the same bits with them, without them, and when they are lost; none is left behind."""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import ibia
from brute_force import grid
from ibia import pipeline, workers
from ibia.alternative import Alternative, Trial
from ibia.answer import prepare_model
from ibia.control import Control, Stopped
from ibia.limits import resident_memory
from ibia.model import Model, Variable
from ibia.result import Result
from ibia.tables import memory
from ibia.worker import _Service
from ibia.workers import Worker, Workers

# How models are approximated is looked at here: in slices the small ones would come out exact (test_slices.py).
infer = partial(pipeline.infer, slices="never")
SOURCE = str(Path(ibia.__file__).parents[1])


def two_grids() -> Model:
    one_grid = grid(np.random.default_rng(5))
    count = len(one_grid.variables)
    return Model.from_arrays(
        [Variable(f"X{number}", variable.cardinality) for number, variable in enumerate(2 * one_grid.variables)],
        [
            ([shift + variable for variable in factor.scope], factor.values ** (1.0 if shift else 1.5))
            for shift in (0, count)
            for factor in one_grid.factors
        ],
    )


@pytest.fixture(scope="module")
def alone() -> Result:
    return infer(two_grids(), bound=2, threads=1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Alternative]:
    """Have runs of any length use workers, two of which wait; return what is started on workers, as it comes."""
    monkeypatch.setattr("ibia.predict._WORTH_HELP", -1.0)
    start = Worker.start
    begun: list[Alternative] = []

    def noted(self: Worker, problem: Any, alternative: Alternative, report: Any) -> Any:
        begun.append(alternative)
        return start(self, problem, alternative, report)

    monkeypatch.setattr(Worker, "start", noted)
    park_workers(2)
    return begun


@pytest.fixture
def helped(started: list[Alternative], monkeypatch: pytest.MonkeyPatch) -> list[Alternative]:
    """As `started`; this process begins nothing before a worker has, which on a busy machine may wake late."""
    begin = Trial.__init__

    def begin_later(self: Trial, *arguments: Any) -> None:
        assert wait_until(lambda: bool(started))
        begin(self, *arguments)

    monkeypatch.setattr(Trial, "__init__", begin_later)
    return started


@pytest.fixture(scope="module", autouse=True)
def _close_parked() -> Iterator[None]:
    yield
    workers._close_parked()


def park_workers(count: int) -> None:
    """Have so many workers wait that have started."""
    staff = Workers(Control())
    staff.engage(count)
    ready = threading.Semaphore(0)
    staff.call(lambda worker: ready.release())
    for _ in range(count):
        assert ready.acquire(timeout=60)
    staff.leave()


def assert_same(one: Result, other: Result) -> None:
    assert not one.exact
    assert all((a == b).all() for a, b in zip(one.marginals, other.marginals, strict=True))
    assert (one.log_z, one.orders, one.inconsistency) == (other.log_z, other.orders, other.inconsistency)
    assert one.disagreement == other.disagreement


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool]) -> bool:
    patience = time.monotonic() + 30.0
    while not condition() and time.monotonic() < patience:
        time.sleep(0.01)
    return condition()


# The same answer whoever did the work.


@pytest.mark.parametrize("threads", [2, 3])
def test_alternatives_and_components_side_by_side_give_the_same_bits(
    threads: int, alone: Result, helped: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibia.tables.threads._WORTH_WAKING", 0)
    assert_same(alone, infer(two_grids(), bound=2, threads=threads))
    assert helped
    # They wait for the next run, and know nothing of this one any more, nor does it count what they hold.
    assert len(workers._parked) == 2
    assert (memory._limit, memory._beside, memory._relief) == (math.inf, None, None)
    assert_same(alone, infer(two_grids(), bound=2, threads=threads))


@pytest.mark.parametrize("stage", [("start",), ("answer", 1), ("answer", 6)])
def test_a_worker_that_is_killed_costs_time_only(
    stage: tuple[str, ...], alone: Result, helped: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Worker.ask
    killed = []

    def kill(self: Worker, name: str, *arguments: Any) -> Any:
        if name == stage[0] and arguments[len(arguments) - len(stage) + 1 :] == stage[1:]:
            assert self._process is not None
            os.kill(self._process.pid, signal.SIGKILL)
            killed.append(self._process.pid)
        return ask(self, name, *arguments)

    monkeypatch.setattr(Worker, "ask", kill)
    assert_same(alone, infer(two_grids(), bound=2, threads=2))
    assert killed
    assert wait_until(lambda: not is_running(killed[0]))


@pytest.fixture
def expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two alternatives tried, and only the better one finished, as where they take long."""
    monkeypatch.setattr("ibia.portfolio.WORK", 0.0)
    monkeypatch.setattr("ibia.portfolio.AVERAGED", 0.0)


def test_the_first_is_finished_while_a_worker_is_still_at_the_other(
    expensive: None, started: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = grid(np.random.default_rng(5))
    alone = infer(model, bound=2, threads=1)
    first = alone.orders[0]
    finished = threading.Event()
    answer, ask = Trial.answer, Worker.ask

    def noting(self: Trial, sweeps: int, *arguments: Any) -> Any:
        solved = answer(self, sweeps, *arguments)
        if sweeps > 1:
            finished.set()
        return solved

    def late(self: Worker, name: str, *arguments: Any) -> Any:
        # The worker is slow: it begins when this process has finished.
        assert name != "start" or finished.wait(30.0)
        return ask(self, name, *arguments)

    monkeypatch.setattr(Trial, "answer", noting)
    monkeypatch.setattr(Worker, "ask", late)
    assert_same(alone, infer(model, bound=2, threads=2))
    assert [alternative.order for alternative in started] != [first]


def test_what_turns_out_worse_is_given_up(
    expensive: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = grid(np.random.default_rng(5))
    firsts: list[str] = []
    trying = threading.Event()
    answer, ask = Trial.answer, Worker.ask

    def seems_off(solved: Any) -> float:
        firsts.append(solved.order)
        return float(solved.order == firsts[0])

    monkeypatch.setattr("ibia.portfolio._seems_off", seems_off)
    monkeypatch.setattr("ibia.portfolio.Portfolio.worth_a_try", lambda portfolio, number: True)
    alone = infer(model, bound=2, threads=1)
    assert alone.orders != (firsts[0],)
    given_up = []

    def waiting(self: Trial, sweeps: int, proceed: Callable[[], None] | None = None) -> Any:
        if sweeps > 1 and self._alternative.order == firsts[0]:
            assert proceed is not None
            trying.set()
            patience = time.monotonic() + 30.0
            try:
                while time.monotonic() < patience:
                    proceed()
                    time.sleep(0.01)
            except Exception:
                given_up.append(self)
                raise
        return answer(self, sweeps, proceed)

    def late(self: Worker, name: str, *arguments: Any) -> Any:
        # What shows that the other one is better comes when this process goes on with the first already.
        assert name != "answer" or trying.wait(30.0)
        return ask(self, name, *arguments)

    monkeypatch.setattr(Trial, "answer", waiting)
    monkeypatch.setattr(Worker, "ask", late)
    request.getfixturevalue("helped")
    assert_same(alone, infer(model, bound=2, threads=2))
    assert len(given_up) == 1


def test_what_turns_out_worse_on_a_worker_is_given_up(
    expensive: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with the second alternative while this process is at the first; then that turns out to be better."""
    model = grid(np.random.default_rng(5))
    firsts: list[str] = []
    trying, given_up = threading.Event(), threading.Event()
    answer, ask = Trial.answer, Worker.ask

    def seems_off(solved: Any) -> float:
        firsts.append(solved.order)
        return float(solved.order != best)

    best = "elimination"
    monkeypatch.setattr("ibia.portfolio._seems_off", seems_off)
    monkeypatch.setattr("ibia.portfolio.Portfolio.worth_a_try", lambda portfolio, number: True)
    alone = infer(model, bound=2, threads=1)
    assert alone.orders == (best,) == (firsts[0],)

    def waiting(self: Trial, sweeps: int, *arguments: Any) -> Any:
        assert sweeps > 1 or trying.wait(30.0)
        return answer(self, sweeps, *arguments)

    def asked(self: Worker, name: str, *arguments: Any) -> Any:
        if name != "answer" or arguments[1] == 1:
            return ask(self, name, *arguments)
        trying.set()
        assert given_up.wait(30.0)
        raise Stopped

    monkeypatch.setattr(Trial, "answer", waiting)
    monkeypatch.setattr(Worker, "ask", asked)
    monkeypatch.setattr(Worker, "give_up", lambda worker: given_up.set())
    request.getfixturevalue("helped")
    assert_same(alone, infer(model, bound=2, threads=2))
    assert given_up.is_set()
    # It lives on.
    assert len(workers._parked) == 2


@pytest.mark.parametrize("begun", [False, True])
def test_a_request_is_given_up_whether_it_has_begun_or_not(begun: bool) -> None:
    replies: SimpleQueue[Any] = SimpleQueue()
    service = _Service(BytesIO(), BytesIO())
    looked = threading.Event()

    def work() -> None:
        looked.set()
        while True:
            service._control.check()
            time.sleep(0.001)

    service.work = work  # type: ignore[attr-defined]
    service._reply = replies.put  # type: ignore[method-assign]
    service._listen = lambda: None  # type: ignore[method-assign]
    if not begun:
        service.stop(3)
    service._requests.put((3, "work", ()))
    service._requests.put((4, "drop_nothing", ()))
    service.drop_nothing = lambda: service._control.check()  # type: ignore[attr-defined]
    threading.Thread(target=service.run, daemon=True).start()
    if begun:
        assert looked.wait(30)
        service.stop(3)
    assert replies.get(timeout=30) == "ready"
    # The one after it is not concerned.
    assert [replies.get(timeout=30) for _ in range(2)] == [(False, None), (True, None)]


def test_what_goes_wrong_in_a_worker_is_done_here(
    alone: Result, helped: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Worker.ask
    monkeypatch.setattr(Worker, "ask", lambda self, name, *arguments: ask(self, f"{name}_nonsense", *arguments))
    assert_same(alone, infer(two_grids(), bound=2, threads=2))
    assert helped


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.mark.parametrize(
    "obstacle",
    [
        forbid,
        lambda monkeypatch: monkeypatch.setattr(sys, "frozen", True, raising=False),
        lambda monkeypatch: monkeypatch.setattr(sys, "executable", None),
        lambda monkeypatch: monkeypatch.setattr(sys, "executable", "/usr/bin/editor"),
        lambda monkeypatch: monkeypatch.setattr(sys, "executable", "/nowhere/python"),
        lambda monkeypatch: monkeypatch.setattr(sys, "executable", "/bin/false"),
    ],
)
def test_where_no_process_can_be_started_there_is_the_same_answer(
    obstacle: Callable[[pytest.MonkeyPatch], None], alone: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibia.predict._WORTH_HELP", -1.0)
    obstacle(monkeypatch)
    assert_same(alone, infer(two_grids(), bound=2, threads=2))


def test_short_runs_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("ibia.workers.Worker", refuse)
    infer(grid(np.random.default_rng(5)), bound=3, threads=2)


def test_problem_pickles_without_what_belongs_to_this_process() -> None:
    prepared = prepare_model(two_grids(), {})
    for problem in prepared.problems:
        copy = pickle.loads(pickle.dumps(problem))
        assert copy.variables == problem.variables
        assert (copy.ranks, copy.children, copy.barren) == (problem.ranks, problem.children, problem.barren)
        assert copy.order("breadth", 1) == problem.order("breadth", 1)
        assert len(pickle.dumps(problem)) < 20_000


# Time.


def test_a_run_that_is_stopped_leaves_no_process(
    helped: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control()
    seen: list[int] = []

    def stop(self: Worker, name: str, *arguments: Any) -> Any:
        assert self._process is not None
        seen.append(self._process.pid)
        control.stopping = True
        # The worker is in the middle of something.
        return self._read()

    monkeypatch.setattr(Worker, "ask", stop)
    began = time.monotonic()
    with pytest.raises(Stopped):
        infer(two_grids(), bound=2, threads=2, control=control)
    assert time.monotonic() - began < 10.0
    assert seen
    assert wait_until(lambda: not is_running(seen[0]))
    # The other one had nothing to do with it.
    assert len(workers._parked) == 1


def test_a_late_worker_is_not_waited_for(helped: list[Alternative], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "ask", lambda self, name, *arguments: self._read())
    # Nothing stands in for the first answer, which is waited for until the limit.
    monkeypatch.setattr("ibia.anytime._LAST_PATIENCE", math.inf)
    with pytest.raises(Stopped, match="within the time limit"):
        infer(two_grids(), bound=2, threads=2, time_limit=1.0)


def test_workers_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_IDLE", 0.05)
    park_workers(1)
    assert wait_until(lambda: not workers._parked)


# Memory.


@pytest.fixture
def staff() -> Iterator[Workers]:
    """A worker that is there, within a limit."""
    staff = Workers(Control(memory=8e9))
    staff.engage(1)
    begun = threading.Event()
    staff.call(lambda worker: begun.set())
    assert begun.wait(60)
    yield staff
    staff.engage(0)
    memory.limit_memory(math.inf)


def test_all_processes_together_keep_to_the_limit(staff: Workers) -> None:
    (worker,) = staff._workers
    # What waits for use would be given back first.
    memory.recover()
    assert 2e7 < resident_memory(worker.number) < 2e8
    before = resident_memory()
    assert memory._held() == pytest.approx(before + resident_memory(worker.number), rel=0.1)
    # What this process needs it gets; the worker ends.
    staff._control.memory = (before + 0.5 * resident_memory(worker.number)) / (1.0 - memory._ROOM_PART)
    staff.engage(1)
    memory.weigh(0)
    assert worker.closed
    assert not is_running(worker.number)
    assert memory._held() == pytest.approx(before, rel=0.1)
    assert not staff.dismiss()
    with pytest.raises(MemoryError):
        memory.weigh(2**30)


def test_without_a_limit_they_keep_to_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "available_memory", lambda: 1e9)
    staff = Workers(Control())
    staff.engage(1)
    (worker,) = staff._workers
    assert memory._limit == pytest.approx(resident_memory() + 0.8e9, rel=0.3)
    memory.weigh(2**31)
    assert memory._limit == math.inf
    assert worker.closed


def test_what_cannot_be_done_beside_others_is_done_alone(
    alone: Result, started: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is not the limit that memory is refused by."""
    begin = Trial.__init__
    failed: list[Workers] = []
    dismiss = Workers.dismiss

    def noting(self: Workers) -> bool:
        failed.append(self)
        return dismiss(self)

    def fail_once(self: Trial, *arguments: Any) -> None:
        if not failed:
            raise MemoryError
        begin(self, *arguments)

    monkeypatch.setattr(Trial, "__init__", fail_once)
    monkeypatch.setattr(Workers, "dismiss", noting)
    assert_same(alone, infer(two_grids(), bound=2, threads=2, memory_limit=2e9))
    assert len(failed) == 1


def test_who_is_short_of_memory_goes_on_alone(
    alone: Result, helped: list[Alternative], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Trial.__init__
    begun: list[bool] = []

    def begin_short(self: Trial, *arguments: Any) -> None:
        begin(self, *arguments)
        if not begun:
            monkeypatch.setattr(memory, "_limit", 1.0)
            memory.weigh(0)
        begun.append(memory._limit == 2e9)

    monkeypatch.setattr(Trial, "__init__", begin_short)
    assert_same(alone, infer(two_grids(), bound=2, threads=2, memory_limit=2e9))
    assert helped
    assert all(begun)
    # Of the two workers there were one was not needed, and waits for another run; the other one has ended.
    assert len(workers._parked) == 1


def test_a_worker_keeps_to_the_limit_of_all() -> None:
    service = _Service(BytesIO(), BytesIO())
    try:
        service.use_memory(1e9, [os.getpid()])
        assert service._control.memory == memory._limit == 1e9
        assert memory._held() == pytest.approx(2 * resident_memory(), rel=0.05)
        with pytest.raises(MemoryError):
            memory.weigh(2**30)
    finally:
        memory.limit_memory(math.inf)


def test_who_rests_leaves_memory_to_others_where_it_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.end_of_run()
    try:
        for limit, kept in ((math.inf, True), (4.0 * resident_memory(), True), (1.5 * resident_memory(), False)):
            memory.limit_memory(limit)
            array = memory.allocate_unset(2**17)
            del array
            memory.rest()
            assert bool(memory._kept) == kept
    finally:
        memory.limit_memory(math.inf)


# The end of the process that started a worker.

LONG = """
    import os, signal, sys, threading
    # Shells start what runs in the background with interruptions ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, {source!r})
    from ibia.control import Control
    from ibia.workers import Workers

    staff = Workers(Control())
    staff.engage(1)
    started = threading.Event()
    staff.call(lambda worker: (print(worker._process.pid, flush=True), started.set(), worker._read()))
    # Short waits: a signal may reach another thread than the one that waits.
    while not started.wait(0.1):
        pass
    {then}
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_a_worker_ends_with_the_process_that_started_it(how: signal.Signals | None) -> None:
    # Without a signal the process ends by itself in the middle of something.
    then = "while True: threading.Event().wait(0.1)" if how else "os._exit(0)"
    script = textwrap.dedent(LONG.format(source=SOURCE, then=then))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if how is not None:
            assert is_running(pid)
            parent.send_signal(how)
        parent.wait(60)
    assert wait_until(lambda: not is_running(pid))


def test_a_worker_ends_with_the_pipe() -> None:
    """Where the system does not end it with its parent."""
    command = f"import sys; sys.path.insert(0, {SOURCE!r}); from ibia import worker"
    command += "; worker._die_with = id; worker.main(0)"
    with subprocess.Popen(
        [sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert pickle.load(process.stdout) == "ready"
        # An interruption is meant for the process that started it.
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == b""
