"""Parts of one operation on a large table, or the same on many tables, on several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.threads import has_help, run_all

__all__ = ["WORTH_SHARING", "run_batches", "run_each", "run_parts", "worth_sharing"]

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

Integers = NDArray[np.int64]

# Waking another thread takes longer than the work on so many entries.
_WORTH_WAKING = 2**17
# With smaller tables, in the mean, most of the work is Python's, whose lock threads would fight for.
WORTH_SHARING = 2**12
# Work that is shared is cut into so many batches for each thread; the clock is looked at after so many entries.
_BATCHES, _LONGEST_BATCH = 4, 2**26


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


def run_batches(function: Callable[[Integers], None], entries: Integers, control: Control) -> None:
    """Call a function with batches of the numbers of items that take so many entries each, as `run_parts` does.

    What is done for an item must not depend on the others in its batch. The largest are begun first.
    """
    total = int(entries.sum())
    count = max(_BATCHES * control.threads if worth_sharing(total, control) else 1, -(-total // _LONGEST_BATCH))
    order = np.argsort(-entries, kind="stable")
    shares = (entries[order].cumsum() - 0.5 * entries[order]) * (count / max(total, 1))
    batches = np.split(order, np.searchsorted(shares, np.arange(1, count)))

    def work(batch: Integers) -> None:
        control.check()
        function(batch)

    run_parts([partial(work, batch) for batch in batches if batch.size], total, control)
