"""Evidence: slice the observed states into the factors, so that observed variables are gone."""

from __future__ import annotations

import numpy as np

from ibia.simplify.working import WorkingModel

__all__ = ["slice_evidence"]


def slice_evidence(working: WorkingModel, evidence: dict[int, int]) -> None:
    """Keep the observed states only; observed variables, and those of one state, have no axis any more."""
    if not evidence and (working.sizes > 1).all() and working.factors.lengths.all():
        return
    variables = np.fromiter(evidence.keys(), np.int64, len(evidence))
    states = np.fromiter(evidence.values(), np.int64, len(evidence))
    unobserved = np.ones(working.sizes.size, np.bool_)
    unobserved[variables] = False
    kept = unobserved.repeat(working.sizes)
    kept[working.state_starts[variables] + states] = True
    working.keep_states(kept)
