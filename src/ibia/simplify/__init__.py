"""Exact simplifications: from a model and evidence to small independent problems with the same answer.

Evidence is sliced in, impossible states are pruned, irrelevant axes dropped, products split, and what falls apart is
solved apart. The constant that is taken out and the states that are left are kept: all variables get their marginals,
and log Z keeps its scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ibia.flat import positions
from ibia.model import Model
from ibia.simplify.alone import settle_alone
from ibia.simplify.components import split_components
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.shape import split_products
from ibia.simplify.structure import Structure, find_structure
from ibia.simplify.support import prune_support
from ibia.simplify.working import Factors, Indices, Values, WorkingModel

__all__ = ["Factors", "Simplified", "Structure", "simplify"]


@dataclass(frozen=True)
class Simplified:
    """The outcome of the simplifications.

    Attributes
    ----------
    sizes
        Variable → the number of its possible states.
    state_starts, possible
        Variable → where its possible states begin in `possible`, and those states (original numbers).
    components
        Independent problems: factors that hang together.
    marginals
        Over the possible states of all variables; they hold for those that are in no component.
    log_constant
        To be added to the components' log Z.
    """

    model: Model
    evidence: dict[int, int]
    sizes: Indices
    state_starts: Indices
    possible: Indices
    components: tuple[Factors, ...]
    marginals: Values
    log_constant: float

    @property
    def states(self) -> tuple[NDArray[np.int64], ...]:
        """The possible states of each variable."""
        return tuple(self.possible[start:stop] for start, stop in pairwise(self.state_starts.tolist()))

    def whole_marginals(self, found: Mapping[int, Values]) -> tuple[Values, ...]:
        """Return the marginals of all variables over all their states, given those of the variables of components."""
        marginals = self.marginals.copy()
        if found:
            variables = np.fromiter(found, np.int64, len(found))
            marginals[positions(self.state_starts[variables], self.sizes[variables])] = np.concatenate(
                list(found.values())
            )
        starts = self.model.layout.state_starts
        if marginals.size < starts[-1]:
            possible = marginals
            marginals = np.zeros(int(starts[-1]))
            marginals[starts[:-1].repeat(self.sizes) + self.possible] = possible
        return tuple([marginals[start:stop] for start, stop in pairwise(starts.tolist())])

    @cached_property
    def log2(self) -> Values:
        """Bits of each variable."""
        bits = {size: math.log2(size) for size in set(self.sizes.tolist())}
        return np.array([bits[size] for size in self.sizes.tolist()])

    @cached_property
    def structure(self) -> Structure | None:
        """Direction of a Bayesian network, if it is one. Exact answers do without, so it is sought when asked for."""
        return find_structure(WorkingModel.of(self.model), self.model.kind == "bayes", self.evidence)


def simplify(model: Model, evidence: dict[int, int]) -> Simplified:
    """Return the components to solve; raises ZeroProbabilityError when the evidence is impossible."""
    working = WorkingModel.of(model)
    slice_evidence(working, evidence)
    # Each once: smaller tables rule out the same states, and to a table it does not matter what became of the others.
    prune_support(working)
    split_products(working)
    marginals = settle_alone(working)
    return Simplified(
        model,
        evidence,
        working.sizes,
        working.state_starts,
        working.states,
        split_components(working.factors, working.sizes.size),
        marginals,
        working.log_constant,
    )
