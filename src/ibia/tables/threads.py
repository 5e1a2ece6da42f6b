"""Threads for large tables: workers that stay, each given compiled work that releases the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

__all__ = ["run_all"]

_tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
_workers: list[threading.Thread] = []
_starting = threading.Lock()


def run_all(functions: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """Call all functions, on up to `threads` threads, and return their results in order."""
    if threads <= 1 or len(functions) <= 1:
        return [function() for function in functions]
    helpers = min(threads, len(functions)) - 1
    _start_workers(helpers)
    results: list[Any] = [None] * len(functions)
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    # Popping from a list is atomic, so that each function is called once, by whoever is free.
    waiting = list(range(len(functions)))[::-1]

    def work() -> None:
        try:
            while waiting:
                try:
                    position = waiting.pop()
                except IndexError:
                    break
                results[position] = functions[position]()
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)

    for _ in range(helpers):
        _tasks.put(work)
    work()
    errors = [error for error in (done.get() for _ in range(helpers + 1)) if error is not None]
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


# Threads do not survive a fork: the child starts its own when it needs them.
os.register_at_fork(after_in_child=_workers.clear)
