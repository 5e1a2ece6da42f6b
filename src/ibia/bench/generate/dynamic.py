"""Dynamic Bayesian networks: the same slice again and again, each joined to the one before by a few variables."""

from __future__ import annotations

import numpy as np

from ibia.errors import InputError
from ibia.model import Factor, Model, Variable

__all__ = ["dynamic"]


def dynamic(slices: int, hidden: int, interface: int, sensors: int, states: int, seed: int) -> Model:
    """Return a dynamic Bayesian network; the sensors of each slice are its last variables.

    Parameters
    ----------
    slices
        Number of slices.
    hidden
        Hidden variables of a slice. The first `interface` of them each depend on themselves and another one in the
        slice before, the others on two before them in their own slice.
    sensors
        Variables of a slice that are meant to be observed, each depending on two hidden ones.
    states
        Number of states of each variable.
    seed
        Of the random parents and tables, which are the same in all slices but the first.
    """
    if min(slices, states) < 1 or not 2 <= interface <= hidden or sensors < 0:
        raise InputError(
            f"There is no dynamic network of {slices} slices with {interface} of {hidden} variables in the interface, "
            f"{sensors} sensors and {states} states: expected 2 ≤ interface ≤ hidden, and at least 1 slice and state."
        )
    random = np.random.default_rng(seed)
    parents = [_others(random, place, interface) for place in range(interface)]
    parents += [tuple(random.choice(place, size=2, replace=False).tolist()) for place in range(interface, hidden)]
    parents += [tuple(random.choice(hidden, size=2, replace=False).tolist()) for _ in range(sensors)]
    priors = random.dirichlet(np.ones(states), size=interface)
    tables = random.dirichlet(np.ones(states), size=(hidden + sensors, states * states))
    width = hidden + sensors
    factors = []
    for first in range(0, slices * width, width):
        for place in range(width):
            before = first - width if place < interface else first
            if before < 0:
                factors.append(Factor((place,), priors[place]))
            else:
                scope = (*(before + parent for parent in parents[place]), first + place)
                factors.append(Factor(scope, tables[place].reshape(-1)))
    names = [f"state_{number}" for number in range(hidden)] + [f"sensor_{number}" for number in range(sensors)]
    variables = [Variable(f"{name}_at_{time}", states) for time in range(slices) for name in names]
    return Model(tuple(variables), tuple(factors), kind="bayes", name=f"{slices} slices")


def _others(random: np.random.Generator, place: int, count: int) -> tuple[int, int]:
    """Return a place and another one."""
    return place, int((place + random.integers(1, count)) % count)
