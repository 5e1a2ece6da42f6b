"""The model while it is being simplified: flat factors, the states still possible, and the constant taken out.

Models have many small factors, so the simplifications are compiled loops over all factors at once, and the scopes and
tables lie end to end in a few arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside
from ibia.errors import ZeroProbabilityError
from ibia.flat import ends, positions
from ibia.model import Model
from ibia.tables.memory import allocate_unset

__all__ = [
    "NOTHING_POSSIBLE",
    "Factors",
    "Indices",
    "Values",
    "WorkingModel",
    "compiled",
    "compiled_inside",
]

NOTHING_POSSIBLE = (
    "The evidence has probability zero (or the model's factors are zero everywhere), "
    "so there are no posterior marginals."
)

Indices = NDArray[np.int64]
Values = NDArray[np.float64]

# Arithmetic is that of IEEE throughout: whether a table is a product is a matter of its last digits.
compiled = entry()
compiled_inside = inside()


class Factors(NamedTuple):
    """Scopes and tables of factors, end to end (a tuple, since compiled code takes it as it is).

    Attributes
    ----------
    starts
        Factor → where its scope begins in `members`; one number more says where the last one ends.
    members
        Variables of the scopes, the last of a scope varying fastest in the table.
    offsets
        Factor → where its table begins in `values`; one number more says where the last one ends.
    values
        Entries of the tables.
    origins
        Factor → the number of the model's factor it came from.
    """

    starts: Indices
    members: Indices
    offsets: Indices
    values: Values
    origins: Indices

    @property
    def lengths(self) -> Indices:
        """The number of variables of each factor."""
        return self.starts[1:] - self.starts[:-1]

    @property
    def sizes(self) -> Indices:
        """The number of entries of each factor."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def scopes(self) -> list[tuple[int, ...]]:
        """The variables of each factor."""
        first = int(self.starts[0])
        members = self.members[first : self.starts[-1]].tolist()
        return [tuple(members[start:stop]) for start, stop in pairwise((self.starts - first).tolist())]

    @property
    def tables(self) -> list[Values]:
        """The entries of each factor."""
        return [self.values[start:stop] for start, stop in pairwise(self.offsets.tolist())]

    def between(self, first: int, last: int) -> Factors:
        """Return the factors from `first` up to, not including, `last`; arrays are shared."""
        starts, offsets = self.starts[first : last + 1], self.offsets[first : last + 1]
        return Factors(starts, self.members, offsets, self.values, self.origins[first:last])

    def taken(self, numbers: Indices) -> Factors:
        """Return the factors of these numbers, in this order; arrays are copied."""
        lengths, sizes = self.lengths[numbers], self.sizes[numbers]
        members = self.members[positions(self.starts[numbers], lengths)]
        values = self.values[positions(self.offsets[numbers], sizes)]
        return Factors(ends(lengths), members, ends(sizes), values, self.origins[numbers])

    def chosen(self, which: NDArray[np.bool_]) -> Factors:
        """Return the factors for which that is true; arrays are copied."""
        lengths, sizes = self.lengths, self.sizes
        members, values = self.members[which.repeat(lengths)], self.values[which.repeat(sizes)]
        return Factors(ends(lengths[which]), members, ends(sizes[which]), values, self.origins[which])


@dataclass
class WorkingModel:
    """Everything the simplifications pass along.

    Attributes
    ----------
    sizes
        Variable → the number of its states that are still possible.
    states
        Those states, variable after variable, by their numbers in the model.
    state_starts
        Variable → where its states begin in `states`; one number more says where the last ones end.
    factors
        What is left of the factors; those without variables are in the constant. Their arrays belong to this model
        and may be overwritten.
    log_constant
        Logarithm of everything that was taken out of the factors; log Z needs it.
    """

    sizes: Indices
    states: Indices
    state_starts: Indices
    factors: Factors
    log_constant: float = 0.0

    @classmethod
    def of(cls, model: Model) -> WorkingModel:
        """Return a model as it is, its factors copied (also those without variables)."""
        sizes, state_starts, states, starts, members, offsets = model.layout
        values = allocate_unset(int(offsets[-1]))
        if values.size:
            np.concatenate([factor.values for factor in model.factors], out=values)
        factors = Factors(starts, members.copy(), offsets, values, np.arange(starts.size - 1))
        return cls(sizes, states, state_starts, factors)

    def keep_states(self, kept: NDArray[np.bool_]) -> None:
        """Restrict the variables to some of their states, and the tables with them.

        Variables left with one state lose their axes; factors without variables go into the constant.
        """
        places = self.state_starts[:-1]
        local = positions(np.zeros_like(places), self.sizes)[kept]
        new_sizes = np.add.reduceat(kept, places, dtype=np.int64) if places.size else self.sizes
        self.state_starts = ends(new_sizes)
        self.factors, log_constant = _restrict(self.factors, self.sizes, new_sizes, self.state_starts, local)
        self.sizes = new_sizes
        self.states = self.states[kept]
        self.add_constant(log_constant)

    def add_constant(self, log_constant: float) -> None:
        """Add to the constant; minus infinity means that nothing is possible."""
        if log_constant == -np.inf:
            raise ZeroProbabilityError(NOTHING_POSSIBLE)
        self.log_constant += log_constant


@compiled
def _restrict(
    factors: Factors, old_sizes: Indices, new_sizes: Indices, state_starts: Indices, chosen: Indices
) -> tuple[Factors, float]:
    """Return the factors over the chosen states, and the logarithm of those that have no variable any more."""
    starts, members, offsets, values, origins = factors
    count = origins.size
    total, most = 0, 1
    for factor in range(count):
        size = 1
        for member in range(starts[factor], starts[factor + 1]):
            size *= new_sizes[members[member]]
        total += size
        most = max(most, starts[factor + 1] - starts[factor])
    out_starts = np.zeros(count + 1, np.int64)
    out_members = np.empty(members.size, np.int64)
    out_offsets = np.zeros(count + 1, np.int64)
    out_values = np.empty(total, np.float64)
    out_origins = np.empty(count, np.int64)
    digits = np.zeros(most, np.int64)
    strides = np.empty(most, np.int64)
    kept, log_constant = 0, 0.0
    for factor in range(count):
        position, stride, size = offsets[factor], 1, 1
        first = out_starts[kept]
        dimensions = 0
        # From the inside out; the scope and its strides are turned round afterwards.
        for member in range(starts[factor + 1] - 1, starts[factor] - 1, -1):
            variable = members[member]
            position += stride * chosen[state_starts[variable]]
            if new_sizes[variable] > 1:
                out_members[first + dimensions] = variable
                strides[dimensions] = stride
                size *= new_sizes[variable]
                dimensions += 1
            stride *= old_sizes[variable]
        if dimensions == 0:
            log_constant += np.log(values[position])
            continue
        target = out_offsets[kept]
        if size == stride:
            for entry in range(size):
                out_values[target + entry] = values[position + entry]
        else:
            for entry in range(target, target + size):
                out_values[entry] = values[position]
                for axis in range(dimensions):
                    variable = out_members[first + axis]
                    state = state_starts[variable] + digits[axis]
                    digits[axis] += 1
                    if digits[axis] < new_sizes[variable]:
                        position += strides[axis] * (chosen[state + 1] - chosen[state])
                        break
                    position -= strides[axis] * (chosen[state] - chosen[state_starts[variable]])
                    digits[axis] = 0
        for axis in range(dimensions // 2):
            other = first + dimensions - 1 - axis
            out_members[first + axis], out_members[other] = out_members[other], out_members[first + axis]
        out_origins[kept] = origins[factor]
        kept += 1
        out_starts[kept] = first + dimensions
        out_offsets[kept] = target + size
    result = Factors(
        out_starts[: kept + 1],
        out_members[: out_starts[kept]],
        out_offsets[: kept + 1],
        out_values[: out_offsets[kept]],
        out_origins[:kept],
    )
    return result, log_constant
