"""Forward sampling of Bayesian networks: evidence drawn from it is possible, and as likely as it should be."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import TopologicalSorter

import numpy as np

from ibia.model import Model

__all__ = ["sample", "sampled_evidence"]


def sample(model: Model, random: np.random.Generator) -> list[int]:
    """Return a state for each variable of a Bayesian network whose rows sum to one; each variable needs a table."""
    tables = {factor.scope[-1]: factor for factor in model.factors}
    states = [0] * len(model.variables)
    for child in TopologicalSorter({child: tables[child].scope[:-1] for child in tables}).static_order():
        *parents, _ = tables[child].scope
        row = 0
        for parent in parents:
            row = row * model.cardinalities[parent] + states[parent]
        size = model.cardinalities[child]
        below = np.cumsum(tables[child].values[row * size : (row + 1) * size])
        # To the right: a state of probability zero adds nothing and is never drawn.
        states[child] = int(np.searchsorted(below, random.random() * below[-1], side="right"))
    return states


def sampled_evidence(model: Model, observed: Iterable[int], random: np.random.Generator) -> dict[int, int]:
    """Return the states that a sample has for the observed variables."""
    states = sample(model, random)
    return {variable: states[variable] for variable in observed}
