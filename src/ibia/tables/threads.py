"""Parts of one operation on a large table, on several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ibia.control import Control
from ibia.threads import run_all

__all__ = ["run_parts"]

Outcome = TypeVar("Outcome")


def run_parts(functions: Sequence[Callable[[], Outcome]], control: Control) -> list[Outcome]:
    """Call all functions, on as many threads as are free, and return their results in order.

    They write to memory by its address. So this call is never interrupted (the command line looks for this module): who
    holds the memory must not go away before the last part is done.
    """
    return run_all(functions, control)
