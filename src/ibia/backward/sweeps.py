"""Sweeps: posteriors of all steps by expectation propagation over the sequence (the default backward pass).

Backward, the posterior of CTF_k+1 over each reduced clique, divided by what was sent forward, is multiplied into CTF_k
before local marginalisation; one calibration then gives its posterior. Forward again, the messages are the projections
of that posterior without the part that came from behind. Repeated until neighbouring steps agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ibia.forest.calibrate import ZeroMassError, calibrate
from ibia.forest.joint import joint_marginal
from ibia.prepare import Problem
from ibia.sequence import Settings, Step, conditionals, fill, message_number
from ibia.steps.exact import Core, replay
from ibia.tables import Table

__all__ = ["Posterior", "sweep"]


@dataclass
class Posterior:
    """Marginals of one component after the backward pass, and how well the steps agree."""

    marginals: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    log_z: float = 0.0
    inconsistency: float = 0.0
    history: list[tuple[float, float]] = field(default_factory=list)
    disagreement: dict[int, float] = field(default_factory=dict)


def sweep(problem: Problem, steps: list[Step], settings: Settings, sweeps: int = 4) -> Posterior:
    """Sweep backward and forward until the steps agree or agree no better."""
    backward = [dict[int, Table]() for _ in steps]
    cores: list[Core | None] = [step.core for step in steps]
    best: Posterior | None = None
    trace = []
    forward_log_z = math.fsum(step.log_z for step in steps)
    for number in range(sweeps):
        try:
            if number > 0:
                cores = _forward(problem, steps, backward, cores)
            posterior = _backward(problem, steps, backward, cores, settings)
        except ZeroMassError:
            break
        trace.append(posterior)
        if best is None or posterior.inconsistency < best.inconsistency:
            best = posterior
        if len(steps) == 1 or posterior.inconsistency < 1e-7:
            break
    assert best is not None
    best.history = [(p.inconsistency, p.log_z) for p in trace]
    best.trace = trace
    best.forward_log_z = forward_log_z
    return best


def _backward(problem, steps, backward, cores, settings) -> Posterior:
    space = problem.space
    result = Posterior()
    posterior = dict(steps[-1].forest.beliefs)
    log_zs = [steps[-1].log_z]
    _read_marginals(steps[-1], posterior, result)
    for number in range(len(steps) - 2, -1, -1):
        step, following, core = steps[number], steps[number + 1], cores[number]
        assert step.messages is not None and step.reduction is not None and core is not None
        messages = step.messages
        wanted: dict[int, Table] = {}

        def of_following(clique: int, scope, posterior=posterior, following=following, wanted=wanted) -> Table:
            table = posterior[following.location[message_number(clique)]].marginal(scope)
            table.normalise_in()
            wanted[clique] = table.copy()
            return table

        targets = conditionals(messages, of_following)
        for clique, target in targets.items():
            backward[number][clique] = target.divide_in(messages.tables[clique], 1.0)
        tilted, log_mass = _tilt(core, backward[number])
        log_zs.append(step.log_z + log_mass)
        for clique, scope in messages.scopes.items():
            difference = tilted.forest.beliefs[clique].marginal(scope).distance(wanted[clique])
            result.inconsistency = max(result.inconsistency, difference)
        beliefs = dict(tilted.forest.beliefs)
        if step.reduction.removals:
            _query_lossless(step, following, core, posterior, beliefs, settings, space)
        posterior = core.restore(beliefs, set(step.forest.scopes))
        _read_marginals(step, posterior, result)
    result.log_z = math.fsum(log_zs)
    return result


def _query_lossless(step, following, core, posterior, beliefs, settings, space) -> None:
    """Replace the posteriors of cliques that lost variables at no loss by joint queries to the following step."""
    holders = following.forest.holders()
    for clique, scope in core.forest.scopes.items():
        reduced = step.reduction.scopes[clique]
        if clique in step.reduction.lossy or (scope == reduced and step.reduction.lossy):
            continue
        present = tuple(variable for variable in scope if variable in holders)
        joint = joint_marginal(following.forest, posterior, holders, present, settings.bound + 3, space)
        if joint is None:
            continue
        joint.normalise_in()
        if present == scope:
            beliefs[clique] = joint
        else:
            old = core.forest.beliefs[clique]
            extended = old.copy().multiply_in(joint.divide_in(old.marginal(present)))
            extended.normalise_in()
            beliefs[clique] = extended


def _tilt(core: Core, backward: dict[int, Table]) -> tuple[Core, float]:
    """Multiply the backward messages into a copy of the core and calibrate it."""
    forest = core.forest.share_tables()
    for clique in forest.scopes:
        forest.beliefs[clique] = forest.beliefs[clique].copy()
        if clique in backward:
            forest.beliefs[clique].multiply_in(backward[clique])
    log_mass = calibrate(forest)
    return Core(forest, core.full, core.detached, core.operations, core.origin), log_mass


def _forward(problem, steps, backward, cores) -> list[Core | None]:
    new_cores: list[Core | None] = []
    messages = None
    for number, step in enumerate(steps):
        step.log_z = fill(step.forest, step.contents, problem.factors, messages, problem.space)
        step.log_z += calibrate(step.forest)
        if step.core is None:
            new_cores.append(None)
            break
        core = replay(step.core, step.forest)
        new_cores.append(core)
        messages = step.messages
        source = core
        if step.reduction.lossy:
            source, _ = _tilt(core, backward[number])
        tables = conditionals(messages, lambda c, s, source=source: source.forest.beliefs[c].marginal(s))
        if step.reduction.lossy:
            for clique, table in tables.items():
                old = messages.tables[clique]
                divisor = backward[number][clique]
                table.divide_in(divisor, np.nan)
                missing = np.isnan(table.values)
                table.values[missing] = old.values[missing]
        messages.tables = tables
    return new_cores


def _read_marginals(step: Step, posterior: dict[int, Table], result: Posterior) -> None:
    smallest: dict[int, int] = {}
    for clique, table in posterior.items():
        for variable in table.scope:
            if variable not in smallest or table.values.size < posterior[smallest[variable]].values.size:
                smallest[variable] = clique
    for variable, clique in smallest.items():
        if variable not in result.marginals:
            table = posterior[clique].marginal((variable,))
            table.normalise_in()
            result.marginals[variable] = table.values
