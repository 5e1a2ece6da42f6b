"""How far marginals are from the true ones: the paper's error measures.

Knows marginals as sequences of arrays; nothing of models, files or inference.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ibia.errors import InputError

__all__ = ["Score", "hellinger", "score"]


@dataclass(frozen=True)
class Score:
    """Errors over the variables that are not observed.

    Attributes
    ----------
    average, largest
        Mean and largest Hellinger distance (the paper's HD_avg and HD_max).
    largest_absolute
        Largest absolute error of a single probability.
    worst
        The variable of the largest Hellinger distance; None if every variable is observed.
    """

    average: float
    largest: float
    largest_absolute: float
    worst: int | None


def hellinger(first: ArrayLike, second: ArrayLike) -> float:
    """Return the Hellinger distance of two distributions, from 0 (the same) to 1 (no state in common)."""
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise InputError(f"Distributions of {one.size} and {other.size} states cannot be compared.")
    # Published answers hold the odd negative zero or rounding residue.
    difference = np.sqrt(np.maximum(one, 0.0)) - np.sqrt(np.maximum(other, 0.0))
    return math.sqrt(float(np.dot(difference, difference)) / 2.0)


def score(answer: Sequence[ArrayLike], reference: Sequence[ArrayLike], observed: Container[int] = ()) -> Score:
    """Compare marginals with the true ones.

    Parameters
    ----------
    answer, reference
        A distribution for each variable.
    observed
        Variables to leave out: their marginals are given, not computed.
    """
    if len(answer) != len(reference):
        raise InputError(f"The answer has {len(answer)} marginals, the reference {len(reference)}.")
    distances: list[tuple[float, int]] = []
    largest_absolute = 0.0
    for variable, (found, true) in enumerate(zip(answer, reference, strict=True)):
        values = np.asarray(found, dtype=np.float64)
        if not (np.isfinite(values).all() and values.min() >= -1e-9 and abs(float(values.sum()) - 1.0) <= 1e-3):
            raise InputError(f"The marginal of variable {variable} is not a distribution: {values[:6]}.")
        if variable not in observed:
            distances.append((hellinger(values, true), variable))
            largest_absolute = max(largest_absolute, float(np.abs(values - np.asarray(true)).max()))
    if not distances:
        return Score(0.0, 0.0, 0.0, None)
    largest, worst = max(distances, key=lambda entry: entry[0])
    return Score(math.fsum(distance for distance, _ in distances) / len(distances), largest, largest_absolute, worst)
