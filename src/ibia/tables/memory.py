"""Memory of tables: large arrays are used again when nobody holds them any more.

A fresh array costs as much as a pass over it, because the system clears its pages; steps and sweeps ask for the same
sizes again and again. An array from here gives its memory back when the last view of it is gone.
"""

from __future__ import annotations

import gc
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.limits import resident_memory
from ibia.tables.pages import give_back, new_memory

__all__ = [
    "KEPT_BYTES",
    "allocate",
    "allocate_unset",
    "end_of_run",
    "limit_memory",
    "recover",
    "release_all",
    "rest",
    "weigh",
]

Array = NDArray[np.float64]

# Tables of steps are kept for the way back while they take no more than this; others are computed again
# (docs/decisions.md).
KEPT_BYTES = 2.0**28

# Smaller arrays come from the heap, without a system call.
_SMALLEST = 2**15
# Memory that waits serves arrays that are smaller by so much.
_LARGER = 1.5
# No more than _KEPT waits beyond this part of a limit: what is not from here, and not weighed, needs room as well.
_LIMIT_PART = 0.7
# Bytes kept for further use at most, or, while a run lasts, what takes it no higher than it has been.
_KEPT = 2**29

# Of a limit so much is left for what is not weighed before it is made.
_ROOM_PART, _ROOM = 2.0**-5, 2.0**27

# New arrays of this many entries on are weighed against the limit before they are made.
_WEIGHED = 2**17

# Memory given back, not yet sorted in: that can happen at any point, on any thread, even while the lock is held.
_returned: deque[Array] = deque()
_lock = threading.Lock()
_free: dict[int, list[Array]] = {}
# Bytes that wait for further use, that are in use, and the most that were in use so far.
_kept = _used = _peak = 0
_limit = math.inf
# What other processes of the run hold, which counts as well, and what makes room before memory is refused.
_beside: Callable[[], float] | None = None
_relief: Callable[[], object] | None = None
_relieving = threading.Lock()
# Who has nothing to do keeps memory for further use while all hold no more than this part of the limit.
_PLENTY = 0.5


class _Lease:
    """Memory in use: the array on it holds this object, whose end gives the memory back."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: Array, size: int) -> None:
        self.memory = memory
        self.__array_interface__: dict[str, Any] = {**memory.__array_interface__, "shape": (size,)}

    def __del__(self) -> None:
        _returned.append(self.memory)
        _sort_in()


def _sort_in() -> None:
    """Put memory that was given back where it is found, unless another one is about to."""
    global _kept, _used
    while _returned and _lock.acquire(blocking=False):
        try:
            while _returned:
                memory = _returned.popleft()
                # The size goes to the end of the line, so that memory of sizes long unused goes to the system first.
                waiting = _free.pop(memory.size, [])
                waiting.append(memory)
                _free[memory.size] = waiting
                _kept += memory.nbytes
                _used -= memory.nbytes
            _keep_within_reason()
        finally:
            _lock.release()


def _keep_within_reason() -> None:
    """Give memory that waits for further use back to the system where it is too much (with the lock held)."""
    while _kept > max(_KEPT, min(_peak, _LIMIT_PART * _limit) - _used):
        _give_one_back()


def _give_one_back() -> None:
    """Give some of the memory of the size that was unused for longest back to the system (with the lock held)."""
    give_back(_take(next(iter(_free))))


def _take(size: int) -> Array:
    """Take memory of a size that some waits of (with the lock held)."""
    global _kept
    waiting = _free[size]
    memory = waiting.pop()
    if not waiting:
        del _free[size]
    _kept -= memory.nbytes
    return memory


def _lend(capacity: int) -> Array | None:
    """Take memory for use, if some waits that is large enough and not much larger; note what more is in use."""
    global _used, _peak
    memory, found = None, capacity
    with _lock:
        while found <= _LARGER * capacity and memory is None:
            memory = _take(found) if found in _free else None
            found = _capacity(found + 1)
        _used += 8 * capacity if memory is None else memory.nbytes
        _peak = max(_peak, _used)
        _keep_within_reason()
    return memory


def _capacity(size: int) -> int:
    """Round up to a whole number of eighths of a power of two, so that similar sizes share memory."""
    eighth = 1 << ((size - 1).bit_length() - 4)
    return -(-size // eighth) * eighth


def allocate_unset(size: int) -> Array:
    """Return a new array of `size` entries that are about to be written."""
    if size < _SMALLEST:
        return np.empty(size)
    capacity = _capacity(size)
    memory = _lend(capacity)
    _sort_in()
    if memory is None:
        memory = _new(capacity)
    return np.asarray(_Lease(memory, size))


def _new(capacity: int) -> Array:
    """Return new memory, which is counted as in use."""
    global _used
    try:
        if capacity >= _WEIGHED and _limit < math.inf:
            weigh(8 * capacity)
        return new_memory(capacity)
    except MemoryError:
        with _lock:
            _used -= 8 * capacity
        raise


def limit_memory(
    limit: float, beside: Callable[[], float] | None = None, relief: Callable[[], object] | None = None
) -> None:
    """Let no large array be made that would take the process beyond so many bytes of resident memory.

    Parameters
    ----------
    beside
        Returns what other processes hold: that counts as well.
    relief
        Called, once, where memory is short, to make room, and to set another limit.
    """
    global _limit, _beside, _relief
    _limit, _beside, _relief = limit, beside, relief


def weigh(size: int, limit: float | None = None) -> None:
    """Raise `MemoryError` where so many bytes more would take the run (almost) to its limit, or to the one given.

    Small arrays, and what Python holds, are weighed now and then only: some room is left for them. Before anything is
    refused, what waits for use is given back, and those are asked who can make room.
    """

    def fits() -> bool:
        most = _limit if limit is None else limit
        return _held() + size <= most - min(_ROOM_PART * most, _ROOM)

    global _relief
    while not fits():
        release_all()
        # Who comes while another thread makes room waits for that.
        with _relieving:
            if fits():
                return
            if _relief is None:
                raise MemoryError
            relief, _relief = _relief, None
            relief()


def _held() -> float:
    """Return the bytes that this process holds, and those beside it."""
    return resident_memory() + (0.0 if _beside is None else _beside())


def rest() -> None:
    """Leave memory that waits for use to other processes, unless there is plenty: this one has nothing to do."""
    if _held() > _PLENTY * _limit:
        release_all()


def allocate(size: int, value: float) -> Array:
    """Return a new array of `size` entries, all `value`."""
    array = allocate_unset(size)
    # Not by `fill`, which keeps Python's lock: another thread would wait.
    array[:] = value
    return array


def _start_afresh() -> None:
    """After a fork: whoever held the lock is not there any more, nor is what it did half."""
    global _lock, _relieving, _kept, _used, _peak
    _lock, _relieving = threading.Lock(), threading.Lock()
    _returned.clear()
    _free.clear()
    _kept = _used = _peak = 0


os.register_at_fork(after_in_child=_start_afresh)


def end_of_run() -> None:
    """Keep no more memory for further use than a next run is sure to need."""
    global _peak
    with _lock:
        _peak = 0
        _keep_within_reason()


def release_all() -> None:
    """Give the memory that waits for further use back to the system."""
    with _lock:
        while _free:
            _give_one_back()


def recover() -> None:
    """After a run that was out of memory: give back all that nobody uses, also what objects that hold each other hold.

    An error holds what was under way when it was raised, and often itself; while a run lasts such objects are not
    looked for.
    """
    gc.collect()
    release_all()
