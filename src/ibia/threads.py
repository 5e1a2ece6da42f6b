"""Threads: workers that stay, for parts of tables and for whole computations, most of which is compiled work.

Compiled work releases Python's lock. How many threads are at work is counted in the run's `Control`, so that what is
done side by side can itself be cut in parts: those find helpers when a computation beside them has ended.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from ibia.control import Control

__all__ = ["run_all"]

Outcome = TypeVar("Outcome")

_tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
_workers: list[threading.Thread] = []
_starting = threading.Lock()


def run_all(functions: Sequence[Callable[[], Outcome]], control: Control) -> list[Outcome]:
    """Call all functions, on as many of the run's threads as are free, and return their results in order."""
    helpers = control.hire(len(functions) - 1) if len(functions) > 1 and control.threads > 1 else 0
    if not helpers:
        return [function() for function in functions]
    # A thread that waits for its helpers is replaced meanwhile, so there can be as many workers as threads.
    _start_workers(control.threads)
    results: list[Any] = [None] * len(functions)
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    # Popping from a list is atomic, so that each function is called once, by whoever is free.
    waiting = list(range(len(functions)))[::-1]

    def work() -> None:
        error: BaseException | None = None
        try:
            while waiting:
                try:
                    position = waiting.pop()
                except IndexError:
                    break
                results[position] = functions[position]()
        except BaseException as raised:
            error = raised
        # Before the word that it is done: who waits for that counts on it.
        control.dismiss()
        done.put(error)

    for _ in range(helpers):
        _tasks.put(work)
    work()
    errors = [error for error in (done.get() for _ in range(helpers + 1)) if error is not None]
    control.resume()
    if errors:
        raise errors[0]
    return results


def _start_workers(count: int) -> None:
    with _starting:
        while len(_workers) < count:
            worker = threading.Thread(target=_serve, daemon=True, name=f"ibia-{len(_workers) + 1}")
            worker.start()
            _workers.append(worker)


def _serve() -> None:
    while True:
        _tasks.get()()


def _start_afresh() -> None:
    """After a fork: threads do not survive it, so the child starts its own when it needs them."""
    global _starting, _tasks
    _starting = threading.Lock()
    _tasks = SimpleQueue()
    _workers.clear()


os.register_at_fork(after_in_child=_start_afresh)
