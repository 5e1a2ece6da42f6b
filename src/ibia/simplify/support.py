"""Support pruning: states that some factor rules out are removed, which may rule out others, until nothing changes.

A state is possible only if every factor has a non-zero entry with it. Each factor counts these entries for each state;
a state whose count falls to zero takes its entries along in all factors. So every entry is struck out once at most
(Mohr and Henderson's arc consistency, AC-4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.errors import ZeroProbabilityError
from ibia.flat import ends
from ibia.simplify.working import NOTHING_POSSIBLE, Factors, Indices, WorkingModel, compiled

__all__ = ["prune_support"]


def prune_support(working: WorkingModel) -> None:
    """Remove impossible states from variables and factors."""
    smallest = np.minimum.reduceat(working.factors.values, working.factors.offsets[:-1])
    if smallest.all():
        return
    # Only factors with zeros can rule anything out.
    factors = working.factors.chosen(smallest == 0.0)
    holding = ends(np.bincount(factors.members, minlength=working.sizes.size))
    possible = _possible_states(
        factors,
        working.sizes,
        working.state_starts,
        np.arange(factors.origins.size).repeat(factors.lengths),
        ends(working.sizes[factors.members]),
        holding,
        factors.members.argsort(kind="stable"),
    )
    if not np.logical_or.reduceat(possible, working.state_starts[:-1]).all():
        raise ZeroProbabilityError(NOTHING_POSSIBLE)
    if not possible.all():
        working.keep_states(possible)


@compiled
def _possible_states(
    factors: Factors,
    sizes: Indices,
    state_starts: Indices,
    owners: Indices,
    count_starts: Indices,
    holding: Indices,
    holders: Indices,
) -> NDArray[np.bool_]:
    """Return which states are possible, and strike out the entries of the others.

    Parameters
    ----------
    owners
        Member of a scope → its factor.
    count_starts
        Member of a scope → where the counts of its states begin.
    holding, holders
        Variable → where its members of scopes begin among the holders; one number more says where the last ones end.
    """
    starts, members, offsets, values, _ = factors
    counts = np.zeros(count_starts[-1], np.int64)
    for factor in range(starts.size - 1):
        for entry in range(offsets[factor], offsets[factor + 1]):
            if values[entry] > 0.0:
                rest = entry - offsets[factor]
                for member in range(starts[factor + 1] - 1, starts[factor] - 1, -1):
                    size = sizes[members[member]]
                    counts[count_starts[member] + rest % size] += 1
                    rest //= size
    possible = np.ones(state_starts[-1], np.bool_)
    # States to be struck out, each as a member of a scope and its state.
    waiting = np.empty((count_starts[-1], 2), np.int64)
    top = 0
    for member in range(members.size):
        for state in range(sizes[members[member]]):
            place = state_starts[members[member]] + state
            if counts[count_starts[member] + state] == 0 and possible[place]:
                possible[place] = False
                waiting[top, 0], waiting[top, 1] = member, state
                top += 1
    while top:
        top -= 1
        variable, state = members[waiting[top, 0]], waiting[top, 1]
        for place in range(holding[variable], holding[variable + 1]):
            factor = owners[holders[place]]
            stride = 1
            for member in range(holders[place] + 1, starts[factor + 1]):
                stride *= sizes[members[member]]
            for block in range(offsets[factor] + state * stride, offsets[factor + 1], stride * sizes[variable]):
                for entry in range(block, block + stride):
                    if values[entry] == 0.0:
                        continue
                    values[entry] = 0.0
                    rest = entry - offsets[factor]
                    for member in range(starts[factor + 1] - 1, starts[factor] - 1, -1):
                        size = sizes[members[member]]
                        digit = rest % size
                        rest //= size
                        count = count_starts[member] + digit
                        counts[count] -= 1
                        if counts[count] == 0 and possible[state_starts[members[member]] + digit]:
                            possible[state_starts[members[member]] + digit] = False
                            waiting[top, 0], waiting[top, 1] = member, digit
                            top += 1
    return possible
