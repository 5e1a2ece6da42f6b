"""Parts of one operation on a large table, or the same on many tables, on several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ibia.control import Control
from ibia.threads import has_help, run_all

__all__ = ["WORTH_SHARING", "run_each", "run_parts", "worth_sharing"]

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


# Waking another thread takes longer than the work on so many entries.
_WORTH_WAKING = 2**19
# With smaller tables, in the mean, most of the work is Python's, whose lock threads would fight for.
WORTH_SHARING = 2**12


def worth_sharing(entries: int, control: Control) -> bool:
    """Tell whether work on so many table entries, if cut in parts, would be done on several threads."""
    return entries >= _WORTH_WAKING and has_help(control)


def run_parts(functions: Sequence[Callable[[], Outcome]], entries: int, control: Control) -> list[Outcome]:
    """Call functions that handle so many table entries together, on as many threads as are free and worth while.

    They write to memory by its address. So this call is never interrupted (the command line looks for this module): who
    holds the memory must not go away before the last part is done.
    """
    if entries < _WORTH_WAKING:
        return [function() for function in functions]
    return run_all(functions, control)


def run_each(
    function: Callable[[Item], Outcome], items: Sequence[Item], sizes: Sequence[int], control: Control
) -> list[Outcome]:
    """Call a function with each of some items, whose tables have these sizes, as `run_parts` does.

    The largest are begun first, so that nobody waits long for who has one more.
    """
    entries = sum(sizes)
    if entries < WORTH_SHARING * len(items):
        return [function(item) for item in items]
    order = sorted(range(len(items)), key=lambda place: -sizes[place])
    outcomes = run_parts([partial(function, items[place]) for place in order], entries, control)
    return [outcome for _, outcome in sorted(zip(order, outcomes, strict=True), key=lambda pair: pair[0])]
