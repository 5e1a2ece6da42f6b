"""Joint distributions of a few variables, by the chain rule: P(a, b, c) = P(a) P(b | a) P(c | a, b).

Each conditional is a run with more evidence, so the answer is exact where the runs are, and agrees with the marginal of
the variable that comes first. Weighting runs by log Z instead is no more accurate where they are not exact. Branches of
probability zero are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.model import Model
from ibia.result import Result

__all__ = ["joint_marginal"]

# A joint distribution of more would take hours, and is a mistake.
_MOST_RUNS = 10_000


def joint_marginal(
    model: Model,
    variables: Sequence[str | int],
    evidence: Mapping[int, int] | None = None,
    *,
    start: Result | None = None,
    **options: Any,
) -> NDArray[np.float64]:
    """Return the posterior joint distribution of some variables, with an axis for each.

    Parameters
    ----------
    variables
        Names or numbers, at least one and none twice.
    evidence
        Variable → observed state, by number.
    start
        The answer without further evidence, if it is known.
    options
        Passed to `ibia.infer`.
    """
    numbers = [model.index(variable) for variable in variables]
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError("A joint distribution is asked for of at least one variable, and of none twice.")
    # The last variable takes no runs of its own, so it should be the one with most states.
    order = sorted(range(len(numbers)), key=lambda place: model.cardinalities[numbers[place]])
    ordered = [numbers[place] for place in order]
    sizes = [model.cardinalities[number] for number in ordered]
    runs = sum(math.prod(sizes[:depth]) for depth in range(len(sizes)))
    if runs > _MOST_RUNS:
        raise InputError(
            f"The joint distribution of {len(sizes)} variables with {math.prod(sizes)} combinations of states takes "
            f"{runs} runs; at most {_MOST_RUNS} are made. Ask for fewer variables, or for their marginals."
        )
    found = _chain(model, ordered, dict(evidence or {}), start, options)
    return found.transpose(np.argsort(order))


def _chain(
    model: Model, numbers: list[int], evidence: dict[int, int], known: Result | None, options: dict[str, Any]
) -> NDArray[np.float64]:
    """Return the distribution of variables given evidence: the first one's, times that of the others given it."""
    from ibia.pipeline import infer

    first, *others = numbers
    marginal = (infer(model, evidence, **options) if known is None else known).marginals[first]
    if not others:
        return marginal
    joint = np.zeros([model.cardinalities[number] for number in numbers])
    for state, probability in enumerate(marginal.tolist()):
        if probability > 0.0:
            joint[state] = probability * _chain(model, others, {**evidence, first: state}, None, options)
    return joint
