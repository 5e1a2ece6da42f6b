"""The answer of a prepared model at one bound: its components solved one by one, and put together.

A model is simplified and laid out once (`Prepared`) and then answered at one bound or at several (`Run`). Each
connected component is solved on its own (``portfolio.py``, ``slices.py``), several side by side (``schedule.py``).
Which bounds are tried is decided elsewhere (``anytime.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ibia.alternative import Progress, Solved
from ibia.control import Control
from ibia.costs import SLICES, Costs, Sizes
from ibia.errors import InputError, RangeError, ZeroProbabilityError
from ibia.forest.calibrate import ZeroMassError
from ibia.gauge import Signs, estimate_error, loopy_error
from ibia.ladder import REDUCTIONS
from ibia.model import Model
from ibia.portfolio import Portfolio, fits, solve_by_links, solve_whole
from ibia.prepare import Problem, prepare_components
from ibia.result import Result, StepFigures
from ibia.schedule import Schedule
from ibia.sequence import Settings
from ibia.simplify import Simplified, simplify
from ibia.simplify.working import NOTHING_POSSIBLE
from ibia.slices import solve_by_slices
from ibia.steps.loss import LOSSES
from ibia.steps.order import ORDERS
from ibia.workers import Workers

__all__ = ["UPDATES", "Choices", "Prepared", "Run", "answer_by_loopy_propagation", "prepare_model"]

UPDATES = ("sweeps", "links")

# The order of the factors that a quick answer uses: every model has it.
_QUICK_ORDER = "elimination"
# Where loopy propagation stands in for a first answer, messages need not be settled further; what has not come to rest
# after so many sweeps hardly ever does.
_LOOPY_TOLERANCE, _LOOPY_SWEEPS = 1e-4, 100
_NOTHING_LEFT = (
    "With {:g} bits nothing is possible any more: the evidence has probability zero (or the model's factors are zero "
    "everywhere), or products of very small numbers vanished."
)
_OUT_OF_RANGE = (
    "The tables hold numbers so far apart that products of them vanish, although none of them is zero: with {:g} bits "
    "there is no answer; another bound may help."
)


@dataclass(frozen=True)
class Choices:
    """How to infer, whatever the bound (see `infer`)."""

    reduce: float | str = "auto"
    loss: str = "kl"
    update: str = "sweeps"
    order: str = "auto"
    sweeps: int = 6
    threshold: float = 1e-3
    slices: str = "auto"
    check: bool = False

    @property
    def slicing(self) -> str:
        """Whether components are solved in slices: not of itself where it was said how to approximate."""
        said = self.order != "auto" or self.update != "sweeps"
        return "never" if said and self.slices == "auto" else self.slices

    @property
    def alternatives(self) -> bool:
        """Whether several alternatives are tried."""
        return self.order == "auto" and self.update == "sweeps"

    @property
    def reductions(self) -> tuple[float, ...]:
        """By how many bits cliques may be reduced after each step, the usual way first."""
        if isinstance(self.reduce, str):
            # The paper's way is left as it is.
            return REDUCTIONS if self.reduce == "auto" and self.update == "sweeps" else REDUCTIONS[:1]
        return (float(self.reduce),)

    def validate(self, bound: float | None) -> None:
        """Raise InputError for a choice, or a bound, that there is not."""
        if bound is not None and not (isinstance(bound, int | float) and math.isfinite(bound) and 1 <= bound <= 40):
            raise InputError(f"the bound is {bound!r}; expected a number of bits from 1 to 40")
        if isinstance(self.reduce, str):
            if self.reduce not in ("auto", "demand"):
                raise InputError(f"reduce is {self.reduce!r}; expected a number of bits, 'auto' or 'demand'")
        elif not (math.isfinite(self.reduce) and 0 <= self.reduce <= (40 if bound is None else bound)):
            most = "" if bound is None else f" to the bound ({bound:g})"
            raise InputError(f"reduce is {self.reduce!r}; expected a number of bits from 0{most}")
        if self.loss not in LOSSES:
            raise InputError(f"unknown loss {self.loss!r}; expected one of {', '.join(LOSSES)}")
        if self.update not in UPDATES:
            raise InputError(f"unknown update {self.update!r}; expected one of {', '.join(UPDATES)}")
        if self.order != "auto" and self.order not in ORDERS:
            raise InputError(f"unknown order {self.order!r}; expected one of auto, {', '.join(ORDERS)}")
        if self.slices not in SLICES:
            raise InputError(f"slices is {self.slices!r}; expected one of {', '.join(SLICES)}")
        if not (isinstance(self.sweeps, int) and self.sweeps >= 1):
            raise InputError(f"sweeps is {self.sweeps!r}; expected a whole number of at least 1")
        if not (isinstance(self.threshold, int | float) and self.threshold >= 0):
            raise InputError(f"the threshold is {self.threshold!r}; expected a number of at least 0")

    def settings(self, bound: float, hurry: bool) -> Settings:
        """Return the settings of the forward steps at a bound."""
        # A bound that was chosen, not given, may be smaller than what should be freed.
        amount = None if self.reduce == "demand" else min(self.reductions[0], bound)
        return Settings(bound=float(bound), reduce=amount, loss=self.loss, hurry=hurry, check=self.check)


@dataclass(frozen=True)
class Prepared:
    """A model with its evidence, simplified and laid out: ready to be answered at any bound, any number of times.

    Attributes
    ----------
    problems
        The connected components.
    control
        What runs may use.
    """

    model: Model
    evidence: dict[int, int]
    simplified: Simplified
    problems: tuple[Problem, ...]
    control: Control

    def answer(
        self,
        bound: float,
        choices: Choices,
        progress: Progress | None = None,
        *,
        quick: bool = False,
    ) -> Result:
        """Return the answer at a bound (see `Run`)."""
        return Run(self, bound, choices, quick=quick).answer(progress)

    def assemble(self, solved: list[Solved], settings: Settings, seconds: float) -> Result:
        """Put the answers of the components together."""
        model = self.model
        values: dict[int, NDArray[np.float64]] = {}
        disagreement: dict[int, float] = {}
        log_z = [self.simplified.log_constant]
        figures: list[StepFigures] = []
        for number, (problem, outcome) in enumerate(zip(self.problems, solved, strict=True)):
            log_z += [problem.log_constant, outcome.posterior.log_z]
            figures += [replace(step, component=number) if number else step for step in outcome.steps]
            found = outcome.posterior.marginals
            values.update(zip(map(problem.variables.__getitem__, found), found.values(), strict=True))
            for variable, difference in outcome.posterior.disagreement.items():
                disagreement[problem.variables[variable]] = difference
        exact = all(outcome.exact for outcome in solved)
        total_loss = math.fsum(outcome.loss for outcome in solved)
        remaining = max((outcome.posterior.inconsistency for outcome in solved), default=0.0)
        unchecked = math.fsum(outcome.posterior.unchecked_loss for outcome in solved)
        # Up to two of each: where there was no second sweep, the first one tells.
        early = [outcome.posterior.inconsistencies[:2] for outcome in solved]
        first, second = (max((found[place] for found in early), default=0.0) for place in (0, -1))
        spread = max((outcome.spread for outcome in solved), default=0.0)
        compared = all(outcome.exact or outcome.tried > 1 for outcome in solved)
        worst_loss = max((outcome.posterior.worst_loss for outcome in solved), default=0.0)
        signs = Signs(worst_loss, first, second, spread if compared else None, remaining, unchecked, total_loss)
        return Result(
            model=model,
            evidence=self.evidence,
            marginals=self.simplified.whole_marginals(values),
            log_z=math.fsum(log_z),
            exact=exact,
            bound=settings.bound,
            reduce=settings.reduce,
            loss=total_loss,
            worst_loss=worst_loss,
            unchecked_loss=unchecked,
            inconsistency=remaining,
            first_inconsistency=first,
            second_inconsistency=second,
            disagreement=tuple(disagreement.get(variable, 0.0) for variable in range(len(model.variables))),
            spread=spread,
            alternatives=max((outcome.tried for outcome in solved if not outcome.exact), default=1),
            error=estimate_error(exact, signs),
            steps=tuple(figures),
            orders=tuple(sorted({outcome.order for outcome in solved if not outcome.exact})),
            seconds=seconds,
        )


class Run:
    """A prepared model at one bound: answered, and answered again with more alternatives if there is time.

    Parameters
    ----------
    quick
        Try only one order of the factors, with one backward sweep.
    """

    def __init__(self, prepared: Prepared, bound: float, choices: Choices, *, quick: bool = False) -> None:
        self.bound = bound
        self._prepared = prepared
        self._control = prepared.control
        self._settings = choices.settings(bound, quick)
        self._order, self._sweeps, self._threshold = choices.order, choices.sweeps, choices.threshold
        if quick:
            self._order, self._sweeps = _QUICK_ORDER if choices.order == "auto" else choices.order, 1
        self._by_links = choices.update == "links"
        self._choices, self._quick = choices, quick
        self._alone: list[Solved | None] = []
        self._portfolios: list[Portfolio] = []

    def answer(self, progress: Progress | None = None, workers: Workers | None = None, alternatives: int = 0) -> Result:
        """Return the answer.

        Parameters
        ----------
        workers
            Processes that help.
        alternatives
            Try at least so many for each component that does not fit, if there are so many.
        """
        started = time.monotonic()

        def report(label: str, done: int, total: int) -> None:
            self._control.check()
            if progress is not None:
                progress(label, done, total)

        try:
            if not self._alone:
                self._begin(report, progress is not None)
            for portfolio in self._portfolios:
                portfolio.ask_for(alternatives)
            schedule = Schedule(self._portfolios, self._sweeps, self._control, report)
            others = iter(schedule.run(workers or Workers(self._control)))
        except ZeroMassError:
            if all(fits(problem, self.bound) for problem in self._prepared.problems):
                raise ZeroProbabilityError(NOTHING_POSSIBLE, certain=True) from None
            if all(problem.positive for problem in self._prepared.problems):
                raise RangeError(_OUT_OF_RANGE.format(self.bound)) from None
            raise ZeroProbabilityError(_NOTHING_LEFT.format(self.bound)) from None
        solved = [next(others) if outcome is None else outcome for outcome in self._alone]
        return self._prepared.assemble(solved, self._settings, time.monotonic() - started)

    def _begin(self, report: Progress, listening: bool) -> None:
        """Solve the components of which there is one way to be solved, and list the alternatives of the others."""
        alone: list[Solved | None] = []
        for problem in self._prepared.problems:
            self._control.check()
            if fits(problem, self.bound) and problem.narrow:
                # It is solved at a stroke: without a listener there is nothing to report.
                with _certainly():
                    alone.append(solve_whole(problem, self._settings, self._order, report if listening else None))
            elif (costs := self._costs(problem)).slices is not None:
                with _certainly():
                    alone.append(solve_by_slices(problem, costs, self._settings, self._order, report))
            elif self._by_links:
                alone.append(solve_by_links(problem, self._settings, self._order, self._threshold, report))
            else:
                alone.append(None)
                self._portfolios.append(Portfolio(problem, self._settings, self._order))
        self._alone = alone

    def _costs(self, problem: Problem) -> Costs:
        """Return what a component will cost, and by it how it is solved."""
        choices = self._choices
        return Sizes(problem).costs(
            self.bound, self._quick, choices.alternatives, choices.slicing, not self._quick, choices.reductions[0]
        )


@contextmanager
def _certainly() -> Iterator[None]:
    """Solve a component exactly: if nothing is possible in it, nothing is in the model."""
    try:
        yield
    except ZeroMassError:
        raise ZeroProbabilityError(NOTHING_POSSIBLE, certain=True) from None


def answer_by_loopy_propagation(model: Model, evidence: dict[int, int], deadline: float) -> Result:
    """Return the answer of loopy propagation, as far as it comes by then (`time.monotonic`)."""
    from ibia.loopy import loopy_marginals

    started = time.monotonic()
    found = loopy_marginals(model, evidence, tolerance=_LOOPY_TOLERANCE, sweeps=_LOOPY_SWEEPS, deadline=deadline)
    return Result(
        model=model,
        evidence=evidence,
        marginals=found.marginals,
        log_z=found.log_z,
        exact=False,
        bound=0.0,
        loss=0.0,
        worst_loss=0.0,
        unchecked_loss=0.0,
        inconsistency=0.0,
        first_inconsistency=0.0,
        second_inconsistency=0.0,
        disagreement=(0.0,) * len(model.variables),
        spread=0.0,
        alternatives=0,
        error=loopy_error(found.converged),
        steps=(),
        orders=(),
        seconds=time.monotonic() - started,
        loopy=True,
    )


def prepare_model(
    model: Model,
    evidence: dict[int, int],
    control: Control | None = None,
    bound: float | None = None,
    time_limit: float = math.inf,
) -> Prepared:
    """Simplify a model with its evidence and lay out its components, for one bound or (None) for any."""
    control = Control() if control is None else control
    simplified = simplify(model, evidence)
    return Prepared(model, evidence, simplified, prepare_components(simplified, control, bound, time_limit), control)
