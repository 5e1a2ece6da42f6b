"""Sorting of short parts, within compiled functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import inside

__all__ = ["sort_parts"]


@inside()
def sort_parts(starts: NDArray[np.int64], members: NDArray[np.int64]) -> None:
    """Sort each of the parts that lie end to end in `members`, by insertion: they are short, and often sorted."""
    for part in range(starts.size - 1):
        for position in range(starts[part] + 1, starts[part + 1]):
            member = members[position]
            below = position
            while below > starts[part] and members[below - 1] > member:
                members[below] = members[below - 1]
                below -= 1
            members[below] = member
