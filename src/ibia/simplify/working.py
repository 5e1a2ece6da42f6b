"""The model while it is being simplified: shaped factors, the states still possible, and the constant taken out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ibia.errors import ZeroProbabilityError

__all__ = ["NOTHING_POSSIBLE", "WorkingFactor", "WorkingModel"]

NOTHING_POSSIBLE = (
    "The evidence has probability zero (or the model's factors are zero everywhere), "
    "so there are no posterior marginals."
)


@dataclass
class WorkingFactor:
    """A factor as an array with one axis per variable of its scope.

    Attributes
    ----------
    scope
        Variables, in any order.
    values
        One axis per variable.
    origins
        Numbers of the model's factors it came from.
    """

    scope: tuple[int, ...]
    values: NDArray[np.float64]
    origins: tuple[int, ...]


@dataclass
class WorkingModel:
    """Everything the simplifications pass along.

    Attributes
    ----------
    states
        Variable → its states that are still possible, as numbers of the original states.
    factors
        What is left of the factors.
    log_constant
        Logarithm of everything that was taken out of the factors; log Z needs it.
    """

    states: list[NDArray[np.int64]]
    factors: list[WorkingFactor] = field(default_factory=list)
    log_constant: float = 0.0

    def take_constant(self, value: float) -> None:
        """Move a constant factor into the constant; a zero means that nothing is possible."""
        if value <= 0.0:
            raise ZeroProbabilityError(NOTHING_POSSIBLE)
        self.log_constant += math.log(value)

    def drop_empty(self) -> None:
        """Move factors without variables into the constant."""
        kept = []
        for factor in self.factors:
            if factor.scope:
                kept.append(factor)
            else:
                self.take_constant(float(factor.values.reshape(())))
        self.factors = kept

    def keep_states(self, variable: int, kept: NDArray[np.bool_]) -> None:
        """Restrict a variable to some of its possible states (factors are the caller's business)."""
        self.states[variable] = self.states[variable][kept]
