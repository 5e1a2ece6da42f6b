"""Work on several threads: everything is done once, helpers are found when there are some, errors arrive."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from ibia.control import Control
from ibia.threads import run_all


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_order(threads: int) -> None:
    control = Control(threads=threads)
    assert run_all([partial(pow, number, 2) for number in range(20)], control) == [n * n for n in range(20)]
    assert control.hire(100) == threads - 1


def test_parts_of_what_is_done_side_by_side_share_the_threads() -> None:
    control = Control(threads=2)
    most, working, lock = 0, 0, threading.Lock()

    def leaf(number: int) -> int:
        nonlocal most, working
        with lock:
            working += 1
            most = max(most, working)
        threading.Event().wait(0.002)
        with lock:
            working -= 1
        return number

    def branch(number: int) -> int:
        return sum(run_all([partial(leaf, 10 * number + k) for k in range(5)], control))

    assert run_all([partial(branch, number) for number in range(4)], control) == [10, 60, 110, 160]
    assert most == 2
    assert control.hire(100) == 1


def test_the_last_of_several_finds_helpers() -> None:
    control = Control(threads=2)
    both = threading.Barrier(2, timeout=30)

    def long_one() -> list[int]:
        ended.wait(30)
        # The thread beside it may need a moment to say that it is free.
        while not control.hire(1):
            pass
        control.dismiss()
        # Passes only if both parts are worked on at once.
        return run_all([both.wait, both.wait], control)

    ended = threading.Event()
    assert sorted(run_all([ended.set, long_one], control)[1] or []) == [0, 1]


def test_errors_arrive_after_all_have_ended() -> None:
    control = Control(threads=2)
    done = []

    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        run_all([fail, *[partial(done.append, number) for number in range(10)]], control)
    assert control.hire(100) == 1
