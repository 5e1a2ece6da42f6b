"""Pages: memory for large arrays, taken from the system in large pages where it has some.

The system clears a page when it is first touched. Large pages take it a fraction of the time, above all where several
processes ask for memory at once, but only a region of several megabytes has any: arrays that are smaller share one.
"""

from __future__ import annotations

import mmap
import os
import threading
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

__all__ = ["give_back", "new_memory"]

Array = NDArray[np.float64]

_LARGE_PAGE = 2**21
# Bytes of a region that arrays share, and from which on an array has a region of its own.
_SHARED, _OWN = 2**25, 2**23
# Elsewhere, or where pages are larger than the steps in which sizes go, arrays come from NumPy.
_HAS_ADVICE = hasattr(mmap, "MADV_HUGEPAGE") and mmap.PAGESIZE <= 2**15

# What is left of the region that arrays share.
_rest = np.empty(0)
_cutting = threading.Lock()


def new_memory(size: int) -> Array:
    """Return an array of `size` entries (a whole number of pages) that has never been touched."""
    global _rest
    if not _HAS_ADVICE:
        return np.empty(size)
    if 8 * size >= _OWN:
        return _region(size)
    with _cutting:
        if _rest.size < size:
            _rest = _region(_SHARED // 8)
        memory, _rest = _rest[:size], _rest[size:]
    return memory


def give_back(memory: Array) -> None:
    """Let the system have the memory of an array that nobody will read again, though others may share its region."""
    if _HAS_ADVICE:
        mapping: object = memory
        while isinstance(mapping, np.ndarray):
            mapping = mapping.base
        assert isinstance(mapping, mmap.mmap)
        mapping.madvise(mmap.MADV_DONTNEED, memory.ctypes.data - _address(mapping), memory.nbytes)


def _region(size: int) -> Array:
    """Return a region of so many entries, which goes back to the system with the last array in it."""
    try:
        # Regions begin with a large page, wherever the system puts them.
        mapping = mmap.mmap(-1, 8 * size + _LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError from error
    start = -_address(mapping) % _LARGE_PAGE
    # What does not fill a large page would take a whole one; some systems know the word but have none.
    with suppress(OSError):
        mapping.madvise(mmap.MADV_HUGEPAGE, start, 8 * size // _LARGE_PAGE * _LARGE_PAGE)
    return np.ndarray(size, buffer=mapping, offset=start)


def _address(mapping: mmap.mmap) -> int:
    return np.ndarray(1, buffer=mapping).ctypes.data


def _start_afresh() -> None:
    """After a fork: whoever held the lock is not there any more."""
    global _cutting
    _cutting = threading.Lock()


os.register_at_fork(after_in_child=_start_afresh)
