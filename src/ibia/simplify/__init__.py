"""Exact simplifications: from a model and evidence to small independent problems with the same answer.

Evidence is sliced in, impossible states are pruned, irrelevant axes dropped, products split, and what falls apart is
solved apart. The constant that is taken out and the states that are left are kept: all variables get their marginals,
and log Z keeps its scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ibia.model import Model
from ibia.simplify.components import split_components
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.shape import split_products
from ibia.simplify.structure import Structure, find_structure
from ibia.simplify.support import prune_support
from ibia.simplify.working import Factors, WorkingModel

__all__ = ["Factors", "Simplified", "Structure", "simplify"]


@dataclass(frozen=True)
class Simplified:
    """The outcome of the simplifications.

    Attributes
    ----------
    states
        Variable → its possible states (original numbers).
    components
        Independent problems: factors that hang together.
    free
        Variables in no factor: uniform over their possible states.
    log_constant
        To be added to the components' log Z.
    structure
        Direction of a Bayesian network, if it is one.
    """

    states: tuple[NDArray[np.int64], ...]
    components: tuple[Factors, ...]
    free: tuple[int, ...]
    log_constant: float
    structure: Structure | None


def simplify(model: Model, evidence: dict[int, int]) -> Simplified:
    """Return the components to solve; raises ZeroProbabilityError when the evidence is impossible."""
    working = WorkingModel.of(model)
    structure = find_structure(working, model.kind == "bayes", evidence)
    slice_evidence(working, evidence)
    # Each once: smaller tables rule out the same states, and to a table it does not matter what became of the others.
    prune_support(working)
    split_products(working)
    components = split_components(working.factors, working.sizes.size)
    free = np.ones(working.sizes.size, np.bool_)
    free[working.factors.members] = False
    log_constant = working.log_constant + float(np.log(working.sizes[free]).sum())
    states = tuple(working.states[start:stop] for start, stop in pairwise(working.state_starts.tolist()))
    return Simplified(states, components, tuple(np.flatnonzero(free).tolist()), log_constant, structure)
