"""Threads: helpers that stay, for parts of operations on large tables. Compiled work releases Python's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from ibia.control import Control, Stopped

__all__ = ["has_help", "run_all", "wait_for"]

Outcome = TypeVar("Outcome")

# How often who waits looks at the clock, in seconds.
_LOOK = 0.05

# Where a helper finds what it is to do.
_Tasks = SimpleQueue[Callable[[], None]]

# Those of the helpers that have nothing to do.
_free: list[_Tasks] = []
_engaging = threading.Lock()
# Whether this thread is at work on one of several functions.
_state = threading.local()


def has_help(control: Control) -> bool:
    """Tell whether another thread would do a part of what there is to do: not all that there may be are at work."""
    return control.engaged < control.threads - 1 and not getattr(_state, "helping", False)


def run_all(functions: Sequence[Callable[[], Outcome]], control: Control) -> list[Outcome]:
    """Call all functions, on the threads of the run, and return their results in order.

    Nobody waits for a thread that is at work on something else. A function that itself has parts does them one after
    the other: threads that wait for each other would never end.
    """
    helpers = _engage(min(len(functions), control.threads) - 1, control)
    if not helpers:
        return [function() for function in functions]
    results: list[Any] = [None] * len(functions)
    done: SimpleQueue[tuple[int, BaseException] | None] = SimpleQueue()
    # Popping from a list is atomic, so that each function is called once, by whoever is free.
    waiting = list(range(len(functions)))[::-1]

    def work() -> tuple[int, BaseException] | None:
        position = len(functions)
        try:
            while waiting:
                try:
                    position = waiting.pop()
                except IndexError:
                    break
                results[position] = functions[position]()
        except BaseException as raised:
            # Nobody needs the rest.
            waiting.clear()
            return position, raised
        return None

    for helper in helpers:
        _hand_over(work, helper, done, control)
    _state.helping = True
    try:
        errors = [work()]
    finally:
        _state.helping = False
    left = len(helpers)
    while left:
        try:
            errors.append(done.get())
            left -= 1
        except BaseException as interruption:
            # Tables must not go away while a helper is at work on them.
            waiting.clear()
            errors.append((len(functions), interruption))
    raised = [error for error in errors if error is not None]
    if raised:
        raise min(raised, key=lambda error: error[0])[1]
    return results


def wait_for(function: Callable[[], Outcome], control: Control) -> Outcome:
    """Call a function on a thread of its own, and return its result; meanwhile look at the clock and heed signals.

    What is compiled does neither, and may take seconds. If it is not waited for any more it ends at its next check.
    """
    outcomes: list[Outcome] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        try:
            outcomes.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=work, daemon=True, name="ibia-background").start()
    try:
        while not ended.wait(_LOOK):
            control.check()
    except Stopped:
        raise
    except BaseException:
        control.stopping = True
        raise
    if errors:
        raise errors[0]
    return outcomes[0]


def _engage(count: int, control: Control) -> list[_Tasks]:
    """Return up to so many helpers, as far as the run may have more; none if this thread is one itself."""
    if count <= 0 or not has_help(control):
        return []
    with _engaging:
        count = min(count, control.threads - 1 - control.engaged)
        while len(_free) < count:
            _free.append(_new_helper())
        helpers = [_free.pop() for _ in range(count)]
        control.engaged += len(helpers)
    return helpers


def _hand_over(work: Callable[[], Outcome], helper: _Tasks, done: SimpleQueue[Outcome], control: Control) -> None:
    """Have a helper do some work, and put what it returns."""

    def task() -> None:
        outcome = work()
        # First: who hears that it is done may have more to do.
        with _engaging:
            _free.append(helper)
            control.engaged -= 1
        done.put(outcome)

    helper.put(task)


def _new_helper() -> _Tasks:
    tasks: _Tasks = SimpleQueue()
    threading.Thread(target=_serve, args=(tasks,), daemon=True, name="ibia-helper").start()
    return tasks


def _serve(tasks: _Tasks) -> None:
    _state.helping = True
    while True:
        tasks.get()()


def _start_afresh() -> None:
    """After a fork: threads do not survive it, so the child starts its own when it needs them."""
    global _engaging
    _engaging = threading.Lock()
    _free.clear()


os.register_at_fork(after_in_child=_start_afresh)
