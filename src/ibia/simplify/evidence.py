"""Evidence: slice the observed states into the factors, so that observed variables are gone."""

from __future__ import annotations

import numpy as np

from ibia.model import Model
from ibia.simplify.working import WorkingFactor, WorkingModel

__all__ = ["slice_evidence"]


def slice_evidence(model: Model, evidence: dict[int, int]) -> WorkingModel:
    """Return the working model in which observed variables, and those of one state, have no axis any more."""
    cardinalities = model.cardinalities
    states = [
        np.array([evidence[variable]]) if variable in evidence else np.arange(cardinality)
        for variable, cardinality in enumerate(cardinalities)
    ]
    working = WorkingModel(states)
    fixed = {variable: evidence.get(variable, 0) for variable, known in enumerate(states) if known.size == 1}
    for number, factor in enumerate(model.factors):
        wide = [variable for variable in factor.scope if cardinalities[variable] > 1]
        values = factor.values.reshape([cardinalities[variable] for variable in wide])
        if any(variable in fixed for variable in wide):
            values = values[tuple(fixed.get(variable, slice(None)) for variable in wide)]
        scope = tuple(variable for variable in wide if variable not in fixed)
        working.factors.append(WorkingFactor(scope, np.asarray(values), (number,)))
    working.drop_empty()
    return working
