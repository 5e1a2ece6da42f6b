"""Variables alone: those in no factor, and those whose only factor holds nothing else, need no engine."""

from __future__ import annotations

import numpy as np

from ibia.flat import positions
from ibia.simplify.working import Values, WorkingModel

__all__ = ["settle_alone"]


def settle_alone(working: WorkingModel) -> Values:
    """Take variables that stand alone out of the model, and return marginals over all possible states.

    Marginals of variables that are in a factor afterwards are uniform, and mean nothing.
    """
    sizes, factors = working.sizes, working.factors
    holders = np.bincount(factors.members, minlength=sizes.size)
    marginals = (1.0 / sizes).repeat(sizes)
    working.add_constant(float(np.log(sizes[holders == 0]).sum()))
    single = factors.lengths == 1
    single[single] = holders[factors.members[factors.starts[:-1][single]]] == 1
    if single.any():
        settled = factors.chosen(single)
        working.factors = factors.chosen(~single)
        starts = settled.offsets[:-1]
        largest = np.maximum.reduceat(settled.values, starts)
        values = settled.values / largest.repeat(settled.sizes)
        totals = np.add.reduceat(values, starts)
        working.add_constant(float((np.log(largest) + np.log(totals)).sum()))
        values *= (1.0 / totals).repeat(settled.sizes)
        marginals[positions(working.state_starts[settled.members], settled.sizes)] = values
    return marginals
