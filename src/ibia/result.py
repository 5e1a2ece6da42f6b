"""The answer: marginals, log Z, what was done and how far to trust it. Knows nothing of how it was computed.

How it is shown and compared, others know (``compare.py``, ``notebook.py``, ``plots.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ibia.gauge import ErrorEstimate
from ibia.model import Model
from ibia.shown import plain

if TYPE_CHECKING:
    from ibia.compare import Certain, Change

__all__ = ["Attempt", "Result", "StepFigures", "bits_in_words"]


@dataclass(frozen=True)
class Attempt:
    """One bound that was tried: what it was predicted to cost and what came of it.

    Attributes
    ----------
    bound
        Bits of the largest clique.
    reduce
        Bits by which cliques were reduced after each step; of no meaning where the answer is exact, or that was done
        only where the next factor needed room.
    quick
        Whether only one order of the factors was tried, with one backward sweep, for a first answer soon.
    predicted_seconds, seconds
        The time it should take, and took.
    predicted_bytes
        Most memory the process should hold.
    outcome
        ``"answered"``, ``"stopped"`` (the time was up, or the user asked for it), ``"out of memory"``, ``"out of
        range"`` (nothing was possible any more, or numbers vanished that are not zero), or ``"too slow"`` (given up,
        because the time would not do).
    exact, error_estimate, alternatives
        Of the answer, if there was one.
    """

    bound: float
    quick: bool
    predicted_seconds: float
    seconds: float
    predicted_bytes: float
    outcome: str = "answered"
    exact: bool = False
    error_estimate: float | None = None
    alternatives: int = 0
    reduce: float = 1.0

    @property
    def in_words(self) -> str:
        """The bound, and the reduction where it is not the usual one."""
        return bits_in_words(self.bound, self.reduce)


def bits_in_words(bound: float, reduce: float | None) -> str:
    """Return a bound, and by how much cliques are reduced after each step where that is not the usual one."""
    return f"{bound:g} bits" if reduce in (None, 1.0) else f"{bound:g} bits, reduced by {reduce:g}"


@dataclass(frozen=True)
class StepFigures:
    """What one step (one clique-tree forest of the sequence) was like.

    Attributes
    ----------
    step, component
        Which step of which component of the model, from zero.
    cliques, largest_bits
        Number of cliques, and bits of the largest.
    factors
        Factors added.
    bound
        The bound in force: the user's, unless nothing would have fitted.
    loss
        Nats lost by the local marginalisations after the step.
    seconds
        Time of building, calibrating and approximating.
    slices
        How often the forest was gone through, with some variables held in other states each time.
    """

    step: int
    cliques: int
    largest_bits: float
    factors: int
    bound: float
    loss: float
    seconds: float
    component: int = 0
    slices: int = 1


@dataclass(frozen=True, repr=False)
class Result:
    """Posterior marginals of all variables, and log Z.

    ``result["name"]`` is the marginal of a variable; ``print(result)`` sums up what was done, and notebooks show it.

    Attributes
    ----------
    model
        The model, with a factor for each likelihood.
    evidence
        Observed variable → its state, both by number.
    marginals
        One array per variable, in the order of the model; evidence variables included.
    log_z
        Natural logarithm of the partition function (of the probability of the evidence, in a Bayesian network).
    exact
        True only if no lossy operation was made.
    bound
        Bits that the largest clique was allowed.
    reduce
        Bits by which cliques were reduced after each step (None: only where the next factor needed room); of no meaning
        where the answer is exact, or of loopy propagation.
    loss
        Nats lost by all local marginalisations (Kullback–Leibler divergence).
    worst_loss
        The part of it that was lost by removals of the ten variables that lost most, where sweeps lead back (of the
        component where that is most). With the size of the model it grows far more slowly.
    unchecked_loss
        The part of it that was lost in steps that no backward sweep leads back to.
    inconsistency, first_inconsistency, second_inconsistency
        Largest difference between beliefs of neighbouring steps, after the last backward sweep, the first and the
        second (the first again, if there was only one).
    disagreement
        The same for each variable: where neighbouring steps differ about it.
    spread
        How far alternatives (other orders of the factors, say) are from the answer: the largest Hellinger distance
        between marginals, in the mean over those tried (one less is counted: they include the answer).
    alternatives
        How many were tried for a component that did not fit the bound.
    error
        Estimate of the largest error of a marginal.
    steps
        Figures of each step.
    orders
        Orders of the factors that were used for components that did not fit the bound.
    seconds
        Time of the whole call.
    bound_reason
        Why the answer is of this bound.
    attempts
        All bounds that were tried, in order; the answer is the best of them.
    loopy
        Whether the answer is that of loopy belief propagation, because there was none at any bound. Its bound is zero.
    """

    model: Model
    evidence: dict[int, int]
    marginals: tuple[NDArray[np.float64], ...]
    log_z: float
    exact: bool
    bound: float
    loss: float
    worst_loss: float
    unchecked_loss: float
    inconsistency: float
    first_inconsistency: float
    second_inconsistency: float
    disagreement: tuple[float, ...]
    spread: float
    alternatives: int
    error: ErrorEstimate
    steps: tuple[StepFigures, ...]
    orders: tuple[str, ...]
    seconds: float
    bound_reason: str = "as asked"
    attempts: tuple[Attempt, ...] = ()
    loopy: bool = False
    reduce: float | None = 1.0

    @property
    def log10_z(self) -> float:
        """Decimal logarithm of the partition function."""
        return self.log_z / math.log(10)

    @property
    def max_clique_bits(self) -> float:
        """Bits of the largest clique table that was used."""
        return max((step.largest_bits for step in self.steps), default=0.0)

    @property
    def sequence_length(self) -> int:
        """Number of forests in the longest sequence (1: every component fitted the bound)."""
        return max((step.step + 1 for step in self.steps), default=0)

    @property
    def slices(self) -> int:
        """In how many slices a component was solved that did not fit the bound as a whole (1: there is none)."""
        return max((step.slices for step in self.steps), default=1)

    @property
    def size_in_words(self) -> str:
        """The largest clique and what was allowed."""
        if self.loopy:
            return "loopy propagation, which has no cliques"
        return f"largest clique {self.max_clique_bits:.1f} of {self.bound:g} bits allowed"

    def __getitem__(self, variable: str | int) -> NDArray[np.float64]:
        """Return the marginal of a variable given by name or number."""
        return self.marginals[self.model.index(variable)]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the variables."""
        return iter(self.model.names)

    def __len__(self) -> int:
        return len(self.marginals)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, as the command line writes it to JSON."""
        return {
            "log10_z": self.log10_z,
            "log_z": self.log_z,
            "exact": self.exact,
            "loopy": self.loopy,
            "bound": self.bound,
            "reduce": self.reduce,
            "max_clique_bits": self.max_clique_bits,
            "steps": self.sequence_length,
            "slices": self.slices,
            "loss_nats": self.loss,
            "worst_loss_nats": self.worst_loss,
            "unchecked_loss_nats": self.unchecked_loss,
            "inconsistency": self.inconsistency,
            "first_inconsistency": self.first_inconsistency,
            "second_inconsistency": self.second_inconsistency,
            "spread": self.spread,
            "alternatives": self.alternatives,
            "error_estimate": self.error.typical,
            "error_upper": self.error.upper,
            "error_words": self.error.words,
            "orders": list(self.orders),
            "seconds": self.seconds,
            "bound_reason": self.bound_reason,
            "attempts": [vars(attempt) for attempt in self.attempts],
            "step_figures": [vars(step) for step in self.steps],
            "marginals": {
                name: marginal.tolist() for name, marginal in zip(self.model.names, self.marginals, strict=True)
            },
        }

    def to_pandas(self) -> Any:
        """Return the marginals as a pandas DataFrame: a row for each state of each variable."""
        from ibia.optional import require

        variables = self.model.variables
        sizes = self.model.cardinalities
        return require("pandas", "pandas", "pandas").DataFrame(
            {
                "variable": np.repeat(np.array(self.model.names, dtype=object), sizes),
                "state": [state for variable in variables for state in variable.states],
                "probability": np.concatenate([*self.marginals, np.empty(0)]),
                "observed": np.repeat([number in self.evidence for number in range(len(variables))], sizes),
            }
        )

    def most_certain(self, count: int = 10) -> list[Certain]:
        """Return the variables that are not observed with the likeliest states, the most certain first."""
        from ibia.compare import most_certain

        return most_certain(self, count)

    def changed_from(self, prior: Result) -> list[Change]:
        """Return how variables that are not observed differ from another result (without evidence, say), most first."""
        from ibia.compare import changes

        return changes(self, prior)

    def plot(self, prior: Result | None = None, variables: Sequence[str | int] | None = None) -> Any:
        """Return a matplotlib figure of marginals, against another result's if there is one.

        Parameters
        ----------
        prior
            The other result, without evidence, say.
        variables
            Which ones; None: those that differ most from `prior`, or else those most worth seeing.
        """
        from ibia.plots import plot_marginals

        return plot_marginals(self, prior, variables)

    def plot_steps(self) -> Any:
        """Return a matplotlib figure of the longest sequence of forests: sizes, numbers of cliques, losses."""
        from ibia.plots import plot_steps

        return plot_steps(self)

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        from ibia.notebook import result_html

        return result_html(self)

    def __repr__(self) -> str:
        return f"<Result of {self.model!r}: log10 Z = {self.log10_z:.6g}, {'exact' if self.exact else 'approximate'}>"

    def __str__(self) -> str:
        """Say what was done and how good it is, then show the first marginals."""
        lines = [
            f"{len(self.marginals)} variables, {len(self.evidence)} observed; log Z = {self.log_z:.8g} "
            f"(log10 Z = {self.log10_z:.8g})",
            self.error.words,
            f"{self.size_in_words}; {'' if self.loopy else self._forests_in_words() + '; '}{self.seconds:.2f} s",
            f"bound: {self.bound_reason}",
        ]
        if self.steps and not self.exact:
            lines.append(f"loss {self.loss:.3g} nats, inconsistency {self.inconsistency:.2g}; {self._steps_in_words()}")
        width = max((len(name) for name in self.model.names[:10]), default=0)
        for variable, marginal in list(zip(self.model.variables, self.marginals, strict=True))[:10]:
            shown = "  ".join(
                f"{state}: {value:.4f}" for state, value in list(zip(variable.states, marginal, strict=True))[:6]
            )
            lines.append(plain(f"  {variable.name:<{width}}  {shown}{'  …' if marginal.size > 6 else ''}"))
        if len(self.marginals) > 10:
            lines.append(f"  … and {len(self.marginals) - 10} more")
        return "\n".join(lines)

    def _forests_in_words(self) -> str:
        slices = f", in up to {self.slices} slices" if self.slices > 1 else ""
        return f"{len(self.steps)} forests in all, {self.sequence_length} in the longest sequence{slices}"

    def _steps_in_words(self) -> str:
        raised = sum(1 for step in self.steps if step.bound > self.bound)
        if raised:
            return f"{raised} steps needed more than the bound"
        return f"factors added by {' and '.join(self.orders)} order" if self.orders else "all within the bound"
