"""Batches of work on many tables: each item once, whatever it takes, and the clock is looked at."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from ibia.control import Control, Stopped
from ibia.tables import threads
from ibia.tables.threads import run_batches


def batches_of(entries: np.ndarray, count: int) -> list[np.ndarray]:
    batches: list[np.ndarray] = []
    run_batches(batches.append, entries, Control(threads=count))
    return batches


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 5, 400])
def test_each_item_is_in_one_batch(count: int, size: int) -> None:
    entries = np.random.default_rng(size).integers(1, 2**17, size)
    batches = batches_of(entries, count)
    assert sorted(np.concatenate([*batches, np.empty(0, np.int64)]).tolist()) == list(range(size))
    assert all(batch.size for batch in batches)


def test_batches_are_about_equal_but_for_large_items() -> None:
    entries = np.array([2**20, *[2**12] * 2**10])
    batches = batches_of(entries, 2)
    assert len(batches) > 4
    whole = entries.sum()
    for batch in batches:
        assert batch.size == 1 or entries[batch].sum() < whole / 4


def test_little_work_is_not_cut() -> None:
    assert len(batches_of(np.full(100, 2**5), 2)) == 1


def test_batches_are_worked_on_at_once() -> None:
    both = threading.Barrier(2, timeout=30)
    met: list[np.ndarray] = []

    def work(batch: np.ndarray) -> None:
        # The first two pass only together.
        met.append(batch)
        if len(met) <= 2:
            both.wait()

    run_batches(work, np.full(64, 2**14), Control(threads=2))


def test_the_clock_is_looked_at_also_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_LONGEST_BATCH", 2**10)
    control = Control()
    done: list[int] = []

    def work(batch: np.ndarray) -> None:
        done.extend(batch.tolist())
        control.stopping = True

    with pytest.raises(Stopped):
        run_batches(work, np.full(8, 2**10), control)
    assert len(done) == 1
