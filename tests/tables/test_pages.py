"""Memory from the system: arrays that share a region do not meet, and what is given back is gone."""

from __future__ import annotations

import mmap
import os

import pytest

from ibia.limits import resident_memory
from ibia.tables import kernels, pages

advice = pytest.mark.skipif(not pages._HAS_ADVICE, reason="this system takes no advice on pages")
SIZES = (2**15, 2**15 + 2**12, 2**17, 2**18, 9 * 2**15, 2**20 - 2**17, 2**20, 2**20 + 2**17, 2**22)


def test_arrays_do_not_meet() -> None:
    arrays = [pages.new_memory(size) for size in SIZES * 3]
    for number, array in enumerate(arrays):
        array[:] = number
    for number, array in enumerate(arrays):
        assert array.size == SIZES[number % len(SIZES)]
        assert (array == number).all()


@advice
def test_large_pages_are_asked_for_and_no_more_than_whole_ones() -> None:
    array = pages.new_memory(pages._OWN // 8 + 2**15)
    assert kernels.address_of(array) % pages._LARGE_PAGE == 0
    first, last = kernels.address_of(array), kernels.address_of(array) + array.nbytes
    advised = 0
    with open("/proc/self/smaps") as lines:
        for line in lines:
            head = line.split()[0]
            if "-" in head and not head.endswith(":"):
                begin, end = (int(place, 16) for place in head.split("-"))
            elif head == "VmFlags:" and "hg" in line.split():
                advised += max(min(end, last) - max(begin, first), 0)
    assert advised == array.nbytes // pages._LARGE_PAGE * pages._LARGE_PAGE


@advice
@pytest.mark.parametrize("size", [2**19, 2**23])
def test_what_is_given_back_no_longer_counts_though_its_region_stays(size: int) -> None:
    array, other = pages.new_memory(size), pages.new_memory(size)
    array[:] = 1.0
    other[:] = 2.0
    before = resident_memory()
    pages.give_back(array)
    assert resident_memory() <= before - 0.9 * array.nbytes
    assert (other == 2.0).all()
    assert not array.any()


@advice
def test_a_region_goes_with_the_last_array_in_it() -> None:
    arrays = [pages.new_memory(2**19) for _ in range(64)]
    for array in arrays:
        array[:] = 1.0
    before = resident_memory()
    del arrays, array
    # The last region is still being cut.
    assert resident_memory() <= before - 64 * 2**22 + 2 * pages._SHARED


def test_where_the_system_has_nothing_left_that_is_an_error_of_memory() -> None:
    if not pages._HAS_ADVICE:
        pytest.skip("NumPy says so itself")
    with pytest.raises(MemoryError):
        pages.new_memory(2**50)


@advice
def test_a_system_without_large_pages_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 12345)
    with pytest.raises(OSError, match="Invalid argument"):
        mmap.mmap(-1, mmap.PAGESIZE).madvise(mmap.MADV_HUGEPAGE)
    array = pages.new_memory(pages._OWN // 8)
    array[:] = 1.0
    pages.give_back(array)
    assert not array.any()


def test_elsewhere_arrays_come_from_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_HAS_ADVICE", False)
    monkeypatch.setattr(mmap, "mmap", None)
    array = pages.new_memory(2**16)
    array[:] = 1.0
    pages.give_back(array)
    assert (array == 1.0).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system knows no forks")
def test_after_a_fork_each_process_has_memory_of_its_own() -> None:
    array = pages.new_memory(2**15)
    array[:] = 1.0
    with pages._cutting:
        child = os.fork()
        if not child:
            array[:] = 2.0
            own = pages.new_memory(2**15)
            own[:] = 3.0
            os._exit(0 if (array == 2.0).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (array == 1.0).all()
    mine = pages.new_memory(2**15)
    assert not mine.any()
