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

_tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
_helpers: list[threading.Thread] = []
_starting = threading.Lock()
# Whether this thread is at work on one of several functions.
_state = threading.local()


def has_help(control: Control) -> bool:
    """Tell whether `run_all` would use other threads, for as many functions as there are threads."""
    return control.threads > 1 and not getattr(_state, "helping", False)


def run_all(functions: Sequence[Callable[[], Outcome]], control: Control) -> list[Outcome]:
    """Call all functions, on the threads of the run, and return their results in order.

    A function that itself has parts does them one after the other: threads that wait for each other would never end.
    """
    helpers = min(len(functions), control.threads) - 1
    if helpers <= 0 or not has_help(control):
        return [function() for function in functions]
    _start_helpers(helpers)
    results: list[Any] = [None] * len(functions)
    done: SimpleQueue[tuple[int, BaseException] | None] = SimpleQueue()
    # Popping from a list is atomic, so that each function is called once, by whoever is free.
    waiting = list(range(len(functions)))[::-1]

    def work() -> None:
        error: tuple[int, BaseException] | None = None
        position = len(functions)
        _state.helping = True
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
            error = position, raised
        finally:
            _state.helping = False
        done.put(error)

    for _ in range(helpers):
        _tasks.put(work)
    work()
    errors: list[tuple[int, BaseException]] = []
    while helpers >= 0:
        try:
            error = done.get()
            helpers -= 1
        except BaseException as interruption:
            # Tables must not go away while a helper is at work on them.
            waiting.clear()
            error = len(functions), interruption
        if error is not None:
            errors.append(error)
    if errors:
        raise min(errors, key=lambda error: error[0])[1]
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


def _start_helpers(count: int) -> None:
    with _starting:
        while len(_helpers) < count:
            helper = threading.Thread(target=_serve, daemon=True, name=f"ibia-{len(_helpers) + 1}")
            helper.start()
            _helpers.append(helper)


def _serve() -> None:
    while True:
        _tasks.get()()


def _start_afresh() -> None:
    """After a fork: threads do not survive it, so the child starts its own when it needs them."""
    global _starting, _tasks
    _starting = threading.Lock()
    _tasks = SimpleQueue()
    _helpers.clear()


os.register_at_fork(after_in_child=_start_afresh)
