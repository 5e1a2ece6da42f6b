"""Memory of large arrays: used again when nobody holds it, kept within a limit, refused beyond one."""

from __future__ import annotations

import gc
import math
import threading
import time

import numpy as np
import pytest

from ibia.tables import kernels, memory


@pytest.fixture(autouse=True)
def nothing_kept():
    memory.end_of_run()
    memory.release_all()
    yield
    memory.limit_memory(math.inf)
    memory.end_of_run()
    memory.release_all()


def test_memory_is_used_again_only_when_no_view_of_it_is_left() -> None:
    array = memory.allocate(2**16, 3.0)
    place, view = kernels.address_of(array), array[5:9]
    del array
    gc.collect()
    other = memory.allocate_unset(2**16)
    assert kernels.address_of(other) != place
    np.testing.assert_array_equal(view, 3.0)
    del view
    gc.collect()
    assert kernels.address_of(memory.allocate_unset(2**16)) == place


def test_no_more_is_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_KEPT", 3 * 2**19)
    for size in (2**16, 2**15 + 9, 2**16):
        arrays = [memory.allocate_unset(size) for _ in range(5)]
        assert len({kernels.address_of(array) for array in arrays}) == 5
        del arrays
        gc.collect()
        memory.end_of_run()
        assert memory._kept <= 3 * 2**19
        assert memory._kept == sum(array.nbytes for waiting in memory._free.values() for array in waiting)


def test_arrays_beyond_the_limit_are_refused() -> None:
    memory.limit_memory(1.0)
    with pytest.raises(MemoryError):
        memory.allocate_unset(2**18)
    memory.limit_memory(math.inf)
    assert memory.allocate_unset(2**18).size == 2**18


def test_while_a_run_lasts_memory_is_kept_up_to_the_most_that_was_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_KEPT", 2**20)
    before = memory._used
    arrays = [memory.allocate_unset(2**17) for _ in range(5)]
    places = {kernels.address_of(array) for array in arrays}
    del arrays
    gc.collect()
    assert memory._kept == 5 * 2**20
    assert memory._used == before
    arrays = [memory.allocate_unset(2**17) for _ in range(5)]
    assert {kernels.address_of(array) for array in arrays} == places
    del arrays
    gc.collect()
    # Others take their place: together they never are more than there was.
    other = memory.allocate_unset(2**19)
    assert memory._kept == 2**20
    assert memory._used == before + 2**22
    del other
    gc.collect()
    assert memory._kept == 5 * 2**20
    # Not beyond a part of a limit.
    arrays = [memory.allocate_unset(2**17) for _ in range(5)]
    memory.limit_memory((before + 4 * 2**20) / 0.7)
    del arrays
    gc.collect()
    assert memory._kept == 4 * 2**20
    memory.limit_memory(math.inf)
    memory.end_of_run()
    assert memory._kept <= 2**20


def test_who_can_make_room_is_asked_once_before_memory_is_refused() -> None:
    asked = []

    def relieve() -> None:
        asked.append(threading.current_thread())
        time.sleep(0.05)
        memory.limit_memory(math.inf)

    memory.limit_memory(1.0, lambda: 1e6, relieve)
    # Several threads are short of it at the same time: they wait for whoever asks first.
    threads = [threading.Thread(target=memory.allocate_unset, args=(2**18,)) for _ in range(4)]
    failures: list[object] = []
    hook, threading.excepthook = threading.excepthook, failures.append
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        threading.excepthook = hook
    assert len(asked) == 1
    assert not failures
    # Where that is of no use there is none.
    memory.limit_memory(1.0, None, lambda: asked.append(threading.current_thread()))
    with pytest.raises(MemoryError):
        memory.weigh(0)
    assert len(asked) == 2


def test_what_others_hold_counts() -> None:
    limit = 2.0 * memory._held()
    memory.limit_memory(limit, lambda: limit)
    with pytest.raises(MemoryError):
        memory.weigh(0)
    memory.limit_memory(limit, lambda: 0.0)
    memory.weigh(0)


def test_memory_that_is_refused_does_not_count_as_used() -> None:
    before = memory._used
    memory.limit_memory(1.0)
    with pytest.raises(MemoryError):
        memory.allocate_unset(2**18)
    assert memory._used == before


def test_memory_serves_what_is_not_much_smaller() -> None:
    array = memory.allocate_unset(3 * 2**15)
    place = kernels.address_of(array)
    del array
    gc.collect()
    much_smaller = memory.allocate_unset(2**15)
    assert kernels.address_of(much_smaller) != place
    smaller = memory.allocate_unset(2**16)
    assert kernels.address_of(smaller) == place
    assert smaller.size == 2**16


def test_memory_is_recovered_also_from_objects_that_hold_each_other() -> None:
    gc.collect()
    memory.release_all()
    gc.disable()
    try:
        before = memory._used
        holder: list[object] = [memory.allocate(2**16, 1.0)]
        holder.append(holder)
        del holder
        assert memory._used > before
        memory.recover()
    finally:
        gc.enable()
    assert memory._used == before
    assert memory._kept == 0
