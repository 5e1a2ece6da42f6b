"""Many parts of different lengths laid end to end in one array, as compiled code wants them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

__all__ = ["MANY", "Remembered", "ends", "flat", "positions"]

Integers = NDArray[np.int64]

# What follows from the structure of forests of more cliques than this is worked out again whenever it is needed: kept
# for all steps it would take hundreds of megabytes (docs/decisions.md).
MANY = 4096


def ends(lengths: Sequence[int] | Integers) -> Integers:
    """Return where each of some parts laid end to end begins, and where the last one ends."""
    result = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=result[1:])
    return result


def flat(parts: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Return where each part starts, and all parts one after the other."""
    starts = ends([len(part) for part in parts])
    return starts, np.fromiter(chain.from_iterable(parts), np.int64, int(starts[-1]))


class Remembered:
    """What `flat` has returned last, for as long as the parts stay the same: that they do is seen much faster.

    Of many parts nothing is remembered.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[int, ...]] | None = None
        self._flat = flat([])

    def flat(self, parts: list[tuple[int, ...]]) -> tuple[Integers, Integers]:
        """Return where each part starts, and all parts one after the other."""
        if len(parts) > MANY:
            return flat(parts)
        if parts != self._parts:
            self._parts, self._flat = parts, flat(parts)
        return self._flat


def positions(starts: Integers, lengths: Integers) -> Integers:
    """Return the positions of the entries of parts that begin at `starts` and have so many entries, part after part."""
    own = ends(lengths)
    result: Integers = np.arange(own[-1]) + (starts - own[:-1]).repeat(lengths)
    return result
