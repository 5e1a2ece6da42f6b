"""Index maps: where each entry of a table finds its partner in a smaller table.

The partner of entry ``i`` is ``high[i // block] + low[(i % block) // run]`` plus, inside a contiguous run, the offset
in the run. Two small vectors replace one index per entry. Nothing here knows about factors or cliques.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BROADCAST", "CONTIGUOUS", "LOOKUP", "IndexMap", "index_map"]

LOOKUP, CONTIGUOUS, BROADCAST = 0, 1, 2

# Shorter runs are cheaper through the lookup vector than as a loop of their own; pairs with one partner have a loop
# that is unrolled by hand (measured: `python -m ibia.bench kernels`).
_SHORTEST_CONTIGUOUS = 8
_SHORTEST_BROADCAST = 4
_LOW_ENTRIES = 1024


class IndexMap(NamedTuple):
    """Partner positions of all entries of a table, in two levels and a run.

    Attributes
    ----------
    high, low
        Offsets of the outer and the inner axes.
    run
        Length of the innermost run (1 for lookup).
    kind
        ``LOOKUP``: no run. ``CONTIGUOUS``: the run is contiguous in the partner too. ``BROADCAST``: one partner entry
        serves the whole run.
    """

    high: NDArray[np.int64]
    low: NDArray[np.uint32]
    run: int
    kind: int


def _offsets(cardinalities: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    offsets = np.zeros(1, np.int64)
    for cardinality, stride in zip(cardinalities, strides, strict=True):
        offsets = (offsets[:, None] + np.arange(cardinality, dtype=np.int64) * stride).ravel()
    return offsets


def index_map(cardinalities: tuple[int, ...], strides: tuple[int, ...]) -> IndexMap:
    """Return the map of a table with axes `cardinalities` whose partner moves by `strides` (0: axis not in partner)."""
    axis, run, kind = len(cardinalities), 1, LOOKUP
    while axis > 0:
        stride = strides[axis - 1]
        if stride == 0 and kind != CONTIGUOUS:
            kind = BROADCAST
        elif stride == run and kind != BROADCAST:
            kind = CONTIGUOUS
        else:
            break
        axis -= 1
        run *= cardinalities[axis]
    worth_a_loop = run >= (_SHORTEST_CONTIGUOUS if kind == CONTIGUOUS else _SHORTEST_BROADCAST)
    if not worth_a_loop and not (run == 2 and kind == BROADCAST):
        axis, run, kind = len(cardinalities), 1, LOOKUP
    split, entries = axis, 1
    while split > 0 and entries * cardinalities[split - 1] <= _LOW_ENTRIES:
        split -= 1
        entries *= cardinalities[split]
    return IndexMap(
        _offsets(cardinalities[:split], strides[:split]),
        _offsets(cardinalities[split:axis], strides[split:axis]).astype(np.uint32),
        run,
        kind,
    )
