"""The pipeline in one screen: model → simplify → forward steps → backward update → marginals.

``infer`` is the one call of the package (a module of that name would hide it). Each connected component is solved on
its own; for each, a few orders of its factors are tried and the one whose steps agree best after one backward sweep is
finished.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ibia.backward.links import update_by_links
from ibia.backward.posterior import Posterior
from ibia.backward.sweeps import Sweeper
from ibia.errors import InputError, ZeroProbabilityError
from ibia.forest.calibrate import ZeroMassError
from ibia.gauge import estimate_error
from ibia.model import Model, check_evidence
from ibia.prepare import Problem, prepare
from ibia.result import Result, StepFigures
from ibia.sequence import Settings, Step, forward
from ibia.simplify import simplify
from ibia.simplify.working import NOTHING_POSSIBLE
from ibia.steps.loss import LOSSES
from ibia.steps.order import ORDERS

__all__ = ["UPDATES", "infer"]

UPDATES = ("sweeps", "links")

# Alternatives are tried until they have cost this many table entries, but a few at least and not more than there are
# (docs/decisions.md has the figures).
_WORK = 2.0**23
_FEWEST_CANDIDATES = 2
_VARIANTS = 3

Progress = Callable[[str, int, int], None]


def infer(
    model: Model,
    evidence: Mapping[str, str | int] | Mapping[int, str | int] | Mapping[str | int, str | int] | None = None,
    *,
    bound: float = 20.0,
    reduce: float | str = 1.0,
    loss: str = "kl",
    update: str = "sweeps",
    order: str = "auto",
    sweeps: int = 6,
    threshold: float = 1e-3,
    check: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Return the posterior marginals of all variables and log Z.

    Parameters
    ----------
    model
        The model.
    evidence
        Variable → observed state, both by name or number.
    bound
        Largest clique in bits: no table has more than 2^bound entries. If the model fits, the answer is exact.
    reduce
        After each step cliques are reduced to bound − reduce bits; ``"demand"``: only where the next factor needs it.
    loss
        ``"kl"``: exact Kullback–Leibler divergence; ``"mi"``: the paper's mutual information.
    update
        ``"sweeps"``: expectation propagation over the steps; ``"links"``: the paper's belief update.
    order
        Order in which factors are added: ``"elimination"``, ``"reverse"``, ``"breadth"``, ``"topological"`` (Bayesian
        networks), or ``"auto"``: the best of them by the agreement of their steps.
    sweeps
        At most this many backward sweeps.
    threshold
        With ``update="links"``: links are used for variables whose marginal changed by more than this.
    check
        Check every forest as it is made (slow).
    progress
        Called with what is being done, and how many factors of how many are placed.
    """
    started = time.perf_counter()
    settings = _settings(bound, reduce, loss, check)
    _check_choices(update, order, sweeps, threshold)
    observed = check_evidence(model, evidence or {})
    simplified = simplify(model, observed)
    cardinalities = [known.size for known in simplified.states]
    values: dict[int, NDArray[np.float64]] = {}
    disagreement: dict[int, float] = {}
    log_z = [simplified.log_constant]
    figures: list[StepFigures] = []
    solved: list[_Solved] = []
    for number, component in enumerate(simplified.components):
        problem = prepare(component, cardinalities, simplified.structure)
        try:
            outcome = _solve(problem, settings, update, order, sweeps, threshold, progress)
        except ZeroMassError:
            raise ZeroProbabilityError(NOTHING_POSSIBLE) from None
        solved.append(outcome)
        log_z += [problem.log_constant, outcome.posterior.log_z]
        figures += [_figures(number, place, step) for place, step in enumerate(outcome.figures)]
        for variable, marginal in outcome.posterior.marginals.items():
            values[problem.variables[variable]] = marginal
        for variable, difference in outcome.posterior.disagreement.items():
            disagreement[problem.variables[variable]] = difference
    marginals = []
    for variable, states in enumerate(simplified.states):
        marginal = np.zeros(model.cardinalities[variable])
        marginal[states] = values.get(variable, 1.0 / states.size)
        marginals.append(marginal)
    exact = all(outcome.exact for outcome in solved)
    total_loss = math.fsum(outcome.loss for outcome in solved)
    first = max((outcome.posterior.inconsistencies[0] for outcome in solved), default=0.0)
    return Result(
        model=model,
        evidence=observed,
        marginals=tuple(marginals),
        log_z=math.fsum(log_z),
        exact=exact,
        bound=settings.bound,
        loss=total_loss,
        inconsistency=max((outcome.posterior.inconsistency for outcome in solved), default=0.0),
        first_inconsistency=first,
        disagreement=tuple(disagreement.get(variable, 0.0) for variable in range(len(model.variables))),
        error=estimate_error(exact, total_loss, first),
        steps=tuple(figures),
        orders=tuple(sorted({outcome.order for outcome in solved if not outcome.exact})),
        seconds=time.perf_counter() - started,
    )


@dataclass
class _Solved:
    posterior: Posterior
    figures: list[Step]
    order: str
    update: str

    @property
    def exact(self) -> bool:
        """Whether no lossy operation was made: loss zero alone would not do (rounding hides small losses).

        Links are lossy themselves (they overwrite each other), so with them only a single step is exact.
        """
        if self.update == "links" and len(self.figures) > 1:
            return False
        return all(step.reduction is None or step.reduction.removals == 0 for step in self.figures)

    @property
    def loss(self) -> float:
        return math.fsum(step.loss for step in self.figures)


def _solve(
    problem: Problem,
    settings: Settings,
    update: str,
    order: str,
    sweeps: int,
    threshold: float,
    progress: Progress | None,
) -> _Solved:
    if update == "links":
        name = _usual_order(problem) if order == "auto" else order
        steps = forward(problem, problem.order(name), settings, _labelled(progress, name), name == "topological")
        return _Solved(update_by_links(steps, threshold, _barren(problem, name)), steps, name, update)
    best: tuple[float, str, Sweeper] | None = None
    work = 0.0
    for number, (name, variant, reduce) in enumerate(_candidates(problem, settings, order)):
        if number >= _FEWEST_CANDIDATES and work > _WORK:
            break
        attempt = settings if reduce is None else replace(settings, reduce=reduce)
        steps = forward(
            problem, problem.order(name, variant), attempt, _labelled(progress, name), name == "topological"
        )
        work += math.fsum(step.entries for step in steps)
        sweeper = Sweeper(problem, steps, settings.bound, _barren(problem, name))
        inconsistency = sweeper.first(math.inf if best is None else best[0])
        if best is None or inconsistency < best[0]:
            best = inconsistency, name, sweeper
        if len(steps) == 1:
            break
    assert best is not None
    _, name, sweeper = best
    return _Solved(sweeper.run(sweeps), sweeper.steps, name, update)


def _usual_order(problem: Problem) -> str:
    """The paper's choice: topological for Bayesian networks, else any other."""
    return "elimination" if problem.ranks is None else "topological"


def _barren(problem: Problem, order: str) -> frozenset[int]:
    return problem.barren if order == "topological" else frozenset()


def _candidates(problem: Problem, settings: Settings, order: str) -> Iterator[tuple[str, int, float | None]]:
    """Iterate over the ways to try: order, variant of the elimination order behind it, and reduction if not as set.

    First all orders, then all with one bit more of reduction, then both with other elimination orders.
    """
    if order != "auto":
        yield order, 0, None
        return
    usual = _usual_order(problem)
    names = [usual, *(name for name in reversed(ORDERS) if name not in (usual, "topological"))]
    reductions = [None] if settings.reduce is None else [None, settings.reduce + 1.0]
    for variant in range(_VARIANTS):
        for reduce in reductions:
            for name in names:
                if not (variant and name == "topological"):
                    yield name, variant, reduce


def _labelled(progress: Progress | None, name: str) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(name, done, total)


def _figures(component: int, place: int, step: Step) -> StepFigures:
    return StepFigures(
        component=component,
        step=place,
        cliques=len(step.forest.scopes),
        largest_bits=step.largest_bits,
        factors=step.added,
        bound=step.bound,
        loss=step.loss,
        seconds=step.seconds,
    )


def _settings(bound: float, reduce: float | str, loss: str, check: bool) -> Settings:
    if not (isinstance(bound, int | float) and math.isfinite(bound) and 1 <= bound <= 40):
        raise InputError(f"the bound is {bound!r}; expected a number of bits from 1 to 40")
    if isinstance(reduce, str):
        if reduce != "demand":
            raise InputError(f"reduce is {reduce!r}; expected a number of bits or 'demand'")
        amount = None
    else:
        if not (math.isfinite(reduce) and 0 <= reduce <= bound):
            raise InputError(f"reduce is {reduce!r}; expected a number of bits from 0 to the bound ({bound:g})")
        amount = float(reduce)
    if loss not in LOSSES:
        raise InputError(f"unknown loss {loss!r}; expected one of {', '.join(LOSSES)}")
    return Settings(bound=float(bound), reduce=amount, loss=loss, check=check)


def _check_choices(update: str, order: str, sweeps: int, threshold: float) -> None:
    if update not in UPDATES:
        raise InputError(f"unknown update {update!r}; expected one of {', '.join(UPDATES)}")
    if order != "auto" and order not in ORDERS:
        raise InputError(f"unknown order {order!r}; expected one of auto, {', '.join(ORDERS)}")
    if not (isinstance(sweeps, int) and sweeps >= 1):
        raise InputError(f"sweeps is {sweeps!r}; expected a whole number of at least 1")
    if not threshold >= 0:
        raise InputError(f"the threshold is {threshold!r}; expected a number of at least 0")
