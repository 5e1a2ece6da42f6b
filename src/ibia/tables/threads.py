"""Parts of one operation on a large table, on several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ibia.control import Control
from ibia.threads import run_all

__all__ = ["run_parts"]

Outcome = TypeVar("Outcome")


# Waking another thread takes longer than the work on so many entries.
_WORTH_WAKING = 2**19


def run_parts(functions: Sequence[Callable[[], Outcome]], entries: int, control: Control) -> list[Outcome]:
    """Call functions that handle so many table entries together, on as many threads as are free and worth while.

    They write to memory by its address. So this call is never interrupted (the command line looks for this module): who
    holds the memory must not go away before the last part is done.
    """
    if entries < _WORTH_WAKING:
        return [function() for function in functions]
    return run_all(functions, control)
