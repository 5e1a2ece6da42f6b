"""The pipeline in one screen: model → simplify → forward steps → backward update → marginals.

``infer`` is the one call of the package (a module of that name would hide it). Each connected component is solved on
its own (``portfolio.py``) and the answers are put together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError, ZeroProbabilityError
from ibia.forest.calibrate import ZeroMassError
from ibia.gauge import estimate_error
from ibia.model import Model, check_evidence
from ibia.portfolio import Backward, Solved, solve
from ibia.prepare import prepare
from ibia.result import Result, StepFigures
from ibia.sequence import Settings
from ibia.simplify import simplify
from ibia.simplify.working import NOTHING_POSSIBLE
from ibia.steps.loss import LOSSES
from ibia.steps.order import ORDERS

__all__ = ["UPDATES", "infer"]

UPDATES = ("sweeps", "links")

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
    solved: list[Solved] = []
    for number, component in enumerate(simplified.components):
        problem = prepare(component, cardinalities, simplified.structure)
        try:
            outcome = solve(problem, settings, order, Backward(update, sweeps, threshold), progress)
        except ZeroMassError:
            raise ZeroProbabilityError(NOTHING_POSSIBLE) from None
        solved.append(outcome)
        log_z += [problem.log_constant, outcome.posterior.log_z]
        figures += [replace(step, component=number) for step in outcome.steps]
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
    remaining = max((outcome.posterior.inconsistency for outcome in solved), default=0.0)
    unchecked = math.fsum(outcome.posterior.unchecked_loss for outcome in solved)
    first = max((outcome.posterior.inconsistencies[0] for outcome in solved), default=0.0)
    return Result(
        model=model,
        evidence=observed,
        marginals=tuple(marginals),
        log_z=math.fsum(log_z),
        exact=exact,
        bound=settings.bound,
        loss=total_loss,
        inconsistency=remaining,
        first_inconsistency=first,
        disagreement=tuple(disagreement.get(variable, 0.0) for variable in range(len(model.variables))),
        error=estimate_error(exact, total_loss - unchecked, first, remaining, unchecked),
        steps=tuple(figures),
        orders=tuple(sorted({outcome.order for outcome in solved if not outcome.exact})),
        seconds=time.perf_counter() - started,
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
