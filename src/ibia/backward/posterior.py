"""What a backward pass returns: marginals of all variables of a component, and how well the steps agree."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.flat import ends
from ibia.forest.calibrate import ZeroMassError
from ibia.prepare import Problem
from ibia.sequence import Step
from ibia.tables import Table
from ibia.tables.threads import run_each

__all__ = ["Marginals", "Posterior", "largest_distance", "last_informed_step", "most_lost"]

# How many variables count as those that lost most: what one marginal is off by is mostly lost around it.
_FEW = 10

# Variable → its marginal.
Marginals = dict[int, NDArray[np.float64]]


def largest_distance(marginals: Marginals, others: Marginals) -> float:
    """Return the largest Hellinger distance between two marginals of the same variable."""
    if not marginals:
        return 0.0
    starts = ends([values.size for values in marginals.values()])[:-1]
    roots = np.sqrt(np.concatenate(list(marginals.values())))
    differences = roots - np.sqrt(np.concatenate([others[variable] for variable in marginals]))
    return math.sqrt(0.5 * np.add.reduceat(differences**2, starts).max())


@dataclass
class Posterior:
    """Marginals of one component.

    Attributes
    ----------
    marginals
        Variable → its posterior marginal, from the last step that holds it.
    log_z
        Estimate of the component's log Z.
    inconsistency
        Largest difference between the beliefs of neighbouring steps over what they share.
    inconsistencies
        The same after each sweep; the gauge takes the second one, the best single sign of the error (docs/gauge.md).
    unchecked_loss
        Nats lost in steps from which no sweep leads back, so that no inconsistency shows them.
    worst_loss
        Nats lost by the variables that lost most (see `most_lost`), where sweeps lead back.
    disagreement
        Variable → largest such difference in a clique that holds it.
    """

    marginals: Marginals = field(default_factory=dict)
    log_z: float = 0.0
    inconsistency: float = 0.0
    inconsistencies: list[float] = field(default_factory=list)
    unchecked_loss: float = 0.0
    worst_loss: float = 0.0
    disagreement: dict[int, float] = field(default_factory=dict)

    def read(self, beliefs: dict[int, Table], control: Control) -> None:
        """Take the marginals of variables not seen yet from the smallest clique that holds them.

        Raises `ZeroMassError` if one has no possible state.
        """
        smallest: dict[int, int] = {}
        for clique, table in beliefs.items():
            for variable in table.scope:
                if variable not in self.marginals and (
                    variable not in smallest or table.values.size < beliefs[smallest[variable]].values.size
                ):
                    smallest[variable] = clique
        chosen: dict[int, list[int]] = {}
        for variable, clique in smallest.items():
            chosen.setdefault(clique, []).append(variable)

        def marginals_of(clique: int) -> list[Table]:
            return beliefs[clique].marginals([(variable,) for variable in chosen[clique]])

        sizes = [beliefs[clique].values.size for clique in chosen]
        found = run_each(marginals_of, list(chosen), sizes, control)
        for variables, tables in zip(chosen.values(), found, strict=True):
            for variable, table in zip(variables, tables, strict=True):
                if table.normalise_in() == -math.inf:
                    raise ZeroMassError
                self.marginals[variable] = table.values

    def note_difference(self, variables: tuple[int, ...], difference: float) -> None:
        """Record how far two steps are apart on a clique."""
        self.inconsistency = max(self.inconsistency, difference)
        for variable in variables:
            self.disagreement[variable] = max(self.disagreement.get(variable, 0.0), difference)

    def doubt_numbers(self, problem: Problem, steps: list[Step]) -> None:
        """Where numbers may have vanished, record that steps disagree: that they agree says nothing there.

        All of them may have lost the same, if single tables have entries so far apart that they outweigh all others.
        """
        if steps[0].far_apart or problem.far_apart:
            self.note_difference((), 1.0)


def most_lost(steps: list[Step]) -> float:
    """Return the nats lost by removals of a few variables, those that lost most.

    The whole loss grows with the number of variables; this, as the error of the worst marginal, far more slowly.
    """
    lost: dict[int, float] = {}
    for step in steps:
        for variable, loss in step.losses.items():
            lost[variable] = lost.get(variable, 0.0) + loss
    return math.fsum(nlargest(_FEW, lost.values()))


def last_informed_step(steps: list[Step], barren: frozenset[int]) -> int:
    """Return the paper's I_E: from the step after it on, only barren factors are added and no posterior changes.

    Parameters
    ----------
    barren
        Factors that are conditional distributions of variables without observed descendants. It must be empty unless
        the factors were added in topological order: a child's distribution that comes after its own children's does
        change what is already there.
    """
    last = len(steps) - 1
    while last > 0:
        added = (potential for inside in steps[last].contents.values() for potential in inside if potential >= 0)
        if not all(potential in barren for potential in added):
            break
        last -= 1
    return last
