"""Parts on several threads: everything is done once, all threads are used, errors arrive."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from ibia.control import Control, Stopped
from ibia.threads import has_help, run_all, wait_for


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_order(threads: int) -> None:
    control = Control(threads=threads)
    assert run_all([partial(pow, number, 2) for number in range(20)], control) == [n * n for n in range(20)]


def test_threads_may_be_added_at_any_time() -> None:
    control = Control(threads=1)
    assert len(set(run_all([threading.get_ident] * 4, control))) == 1
    control.threads = 2
    both = threading.Barrier(2, timeout=30)
    # Passes only if both are worked on at once.
    assert sorted(run_all([both.wait, both.wait], control)) == [0, 1]


def test_errors_arrive_after_all_have_ended() -> None:
    done = []

    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        run_all([fail, *[partial(done.append, number) for number in range(10)]], Control(threads=2))
    assert done == sorted(done)


@pytest.mark.parametrize("threads", [2, 3])
def test_parts_within_parts_do_not_wait_for_each_other(threads: int) -> None:
    control = Control(threads=threads)
    both = threading.Barrier(2, timeout=30)

    def outer(number: int) -> int:
        if number < 2:
            # All threads are at work when they get here.
            both.wait()
        return sum(run_all([partial(pow, number, power) for power in range(4)], control))

    expected = [sum(number**power for power in range(4)) for number in range(6)]
    ended: list[list[int]] = []
    run = threading.Thread(
        target=lambda: ended.append(run_all([partial(outer, number) for number in range(6)], control)), daemon=True
    )
    run.start()
    run.join(timeout=60)
    assert ended == [expected]


def test_nobody_waits_for_a_thread_that_is_at_work_on_something_else() -> None:
    control = Control(threads=2)
    begun, release = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert release.wait(30)

    other = threading.Thread(target=run_all, args=([work, work], control), daemon=True)
    other.start()
    assert begun.wait(30)
    assert not has_help(control)
    # The only other thread of the run is not free: all is done here.
    assert set(run_all([threading.get_ident] * 4, control)) == {threading.get_ident()}
    release.set()
    other.join(30)
    assert has_help(control)
    both = threading.Barrier(2, timeout=30)
    assert sorted(run_all([both.wait, both.wait], control)) == [0, 1]


def test_several_runs_share_the_threads() -> None:
    """Two that have parts at the same time: each is done, whoever the helper is with."""
    results: list[list[int]] = []

    def run() -> None:
        for _ in range(200):
            results.append(run_all([partial(pow, number, 2) for number in range(5)], Control(threads=2)))

    runs = [threading.Thread(target=run, daemon=True) for _ in range(4)]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join(timeout=60)
    assert results == [[0, 1, 4, 9, 16]] * 800


def test_who_waits_for_something_gets_it_or_what_went_wrong() -> None:
    assert wait_for(lambda: threading.current_thread() is threading.main_thread(), Control()) is False
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0, Control())


def test_who_waits_looks_at_the_clock_though_what_is_waited_for_does_not() -> None:
    release = threading.Event()
    control = Control(deadline=time.monotonic() + 0.1)
    with pytest.raises(Stopped):
        wait_for(lambda: release.wait(60), control)
    assert time.monotonic() < control.deadline + 30
    assert not control.stopping
    release.set()


def test_an_interrupt_while_waiting_ends_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    control = Control()
    ended: list[bool] = []

    def work() -> None:
        try:
            while True:
                Control.check(control)
                time.sleep(0.001)
        except Stopped:
            ended.append(True)
            raise

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(control, "check", interrupt)
    with pytest.raises(KeyboardInterrupt):
        wait_for(work, control)
    deadline = time.monotonic() + 30
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended
