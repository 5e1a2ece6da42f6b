"""Evidence: slice the observed states into the factors, so that observed variables are gone."""

from __future__ import annotations

import numpy as np

from ibia.simplify.working import WorkingModel

__all__ = ["slice_evidence"]


def slice_evidence(working: WorkingModel, evidence: dict[int, int]) -> None:
    """Keep the observed states only; observed variables, and those of one state, have no axis any more."""
    starts = working.state_starts
    kept = np.ones(working.states.size, np.bool_)
    for variable, state in evidence.items():
        kept[starts[variable] : starts[variable + 1]] = False
        kept[starts[variable] + state] = True
    working.keep_states(kept)
