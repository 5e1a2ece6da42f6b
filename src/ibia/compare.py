"""Which marginals say something: the most certain ones, those worth seeing, and those that evidence changed.

Reads results and changes nothing. Knows nothing of how they are shown.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ibia.errors import InputError
from ibia.result import Result

__all__ = ["Certain", "Change", "changes", "most_certain", "undecided", "worth_seeing"]

# A marginal whose largest probability is this near to one says nothing more.
_CERTAIN = 1.0 - 1e-9


class Certain(NamedTuple):
    """A variable that is not observed, and its likeliest state.

    Attributes
    ----------
    variable, state
        Their names.
    probability
        Of the state.
    """

    variable: str
    state: str
    probability: float


class Change(NamedTuple):
    """A variable whose marginal changed, and the state whose probability changed most.

    Attributes
    ----------
    variable, state
        Their names.
    distance
        Hellinger distance between the two marginals, from 0 to 1.
    before, after
        Probability of the state.
    """

    variable: str
    distance: float
    state: str
    before: float
    after: float


def most_certain(result: Result, count: int) -> list[Certain]:
    """Return the variables that are not observed with the likeliest states, the most certain first."""
    found = []
    for number, (variable, marginal) in enumerate(zip(result.model.variables, result.marginals, strict=True)):
        if number not in result.evidence:
            best = int(marginal.argmax())
            found.append(Certain(variable.name, variable.states[best], float(marginal[best])))
    return sorted(found, key=lambda certain: -certain.probability)[:count]


def changes(result: Result, prior: Result) -> list[Change]:
    """Return how the marginals of variables that are not observed differ from another result's, the largest first."""
    if result.model.variables != prior.model.variables:
        raise InputError("The two results are not about the same variables, so there is nothing to compare.")
    found = []
    pairs = zip(result.model.variables, prior.marginals, result.marginals, strict=True)
    for number, (variable, before, after) in enumerate(pairs):
        if number not in result.evidence:
            distance = math.sqrt(0.5) * float(np.linalg.norm(np.sqrt(before) - np.sqrt(after)))
            state = int(np.abs(after - before).argmax())
            name, then, now = variable.states[state], float(before[state]), float(after[state])
            found.append(Change(variable.name, distance, name, then, now))
    return sorted(found, key=lambda change: -change.distance)


def undecided(result: Result) -> list[int]:
    """Return the variables that are neither observed nor certain."""
    return [
        number
        for number, marginal in enumerate(result.marginals)
        if number not in result.evidence and marginal.max() < _CERTAIN
    ]


def worth_seeing(result: Result, count: int) -> list[int]:
    """Return the variables most worth seeing: all that are not observed, or the farthest from uniform not certain."""
    free = [number for number in range(len(result.marginals)) if number not in result.evidence]
    if len(free) <= count:
        return free
    return sorted(sorted(undecided(result), key=lambda number: _decided(result, number))[-count:])


def _decided(result: Result, number: int) -> float:
    """Return how far a marginal is from uniform: what its entropy lacks to the largest possible one, from 0 to 1."""
    values: list[float] = result.marginals[number].tolist()
    entropy = -math.fsum(value * math.log(value) for value in values if value > 0)
    return 1.0 - entropy / math.log(len(values))
