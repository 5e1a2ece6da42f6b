"""How far marginals are from the true ones: the paper's error measures, and some more.

Knows marginals as sequences of arrays; nothing of models, files or inference.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibia.errors import InputError

__all__ = ["Score", "divergence", "find_nonsense", "hellinger", "score"]

# What an answer may be off by rounding: below zero, and in the sum of a distribution (six digits are printed often).
_BELOW_ZERO, _OFF_ONE = 1e-9, 1e-3


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
    average_divergence, largest_divergence
        Mean and largest Kullback–Leibler divergence of the answer from the truth, in nats; infinite if the answer rules
        out what is possible.
    ruled_out
        Number of variables with a possible state that the answer rules out.
    """

    average: float
    largest: float
    largest_absolute: float
    worst: int | None
    average_divergence: float = 0.0
    largest_divergence: float = 0.0
    ruled_out: int = 0


def hellinger(first: ArrayLike, second: ArrayLike) -> float:
    """Return the Hellinger distance of two distributions, from 0 (the same) to 1 (no state in common)."""
    one, other = _two(first, second)
    difference = np.sqrt(one) - np.sqrt(other)
    return math.sqrt(float(np.dot(difference, difference)) / 2.0)


def divergence(truth: ArrayLike, answer: ArrayLike) -> float:
    """Return the Kullback–Leibler divergence of an answer from the truth: Σ p log(p / q), in nats.

    Rounded numbers can bring it a little below zero; it is zero then.
    """
    true, found = _two(truth, answer)
    possible = true > 0.0
    if (found[possible] == 0.0).any():
        return math.inf
    terms = true[possible] * np.log(true[possible] / found[possible])
    return max(math.fsum(terms.tolist()), 0.0)


def _two(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape:
        raise InputError(f"Distributions of {one.size} and {other.size} states cannot be compared.")
    # Published answers hold the odd negative zero or rounding residue.
    return np.maximum(one, 0.0), np.maximum(other, 0.0)


def find_nonsense(answer: Sequence[ArrayLike], cardinalities: Sequence[int]) -> str | None:
    """Return a sentence about what is wrong with an answer whatever the truth is, None if nothing is.

    Parameters
    ----------
    answer
        A distribution for each variable.
    cardinalities
        How many states each variable has.
    """
    if len(answer) != len(cardinalities):
        return f"There are {len(answer)} marginals for {len(cardinalities)} variables."
    for variable, (found, cardinality) in enumerate(zip(answer, cardinalities, strict=True)):
        values = np.asarray(found, dtype=np.float64)
        if values.shape != (cardinality,):
            return f"The marginal of variable {variable} has {values.size} states instead of {cardinality}."
        if not _is_distribution(values):
            return f"The marginal of variable {variable} is not a distribution: {values[:6]}."
    return None


def _is_distribution(values: NDArray[np.float64]) -> bool:
    return bool(
        np.isfinite(values).all() and values.min() >= -_BELOW_ZERO and abs(float(values.sum()) - 1.0) <= _OFF_ONE
    )


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
    divergences: list[float] = []
    largest_absolute = 0.0
    for variable, (found, true) in enumerate(zip(answer, reference, strict=True)):
        values = np.asarray(found, dtype=np.float64)
        if not _is_distribution(values):
            raise InputError(f"The marginal of variable {variable} is not a distribution: {values[:6]}.")
        if variable not in observed:
            distances.append((hellinger(values, true), variable))
            divergences.append(divergence(true, values))
            largest_absolute = max(largest_absolute, float(np.abs(values - np.asarray(true)).max()))
    if not distances:
        return Score(0.0, 0.0, 0.0, None)
    largest, worst = max(distances, key=lambda entry: entry[0])
    ruled_out = sum(1 for value in divergences if math.isinf(value))
    return Score(
        average=math.fsum(distance for distance, _ in distances) / len(distances),
        largest=largest,
        largest_absolute=largest_absolute,
        worst=worst,
        average_divergence=math.inf if ruled_out else math.fsum(divergences) / len(divergences),
        largest_divergence=max(divergences),
        ruled_out=ruled_out,
    )
