"""Loopy belief propagation on the factor graph: the baseline everybody knows, and a first answer for large models.

Messages are logarithms, damped, sent by all factors at once (flooding) or first by the factor whose incoming messages
changed most (residual belief propagation without lookahead: Sutton and McCallum, 2007). Evidence and states that some
factor rules out are taken away first, so that no message has zeros. Nothing of the engine's other simplifications is
used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.flat import ends
from ibia.loopy.messages import FactorGraph, Queue, bethe, flood, follow
from ibia.model import Model, check_evidence
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.support import prune_support
from ibia.simplify.working import WorkingModel

__all__ = ["SCHEDULES", "LoopyResult", "loopy_marginals"]

Indices = NDArray[np.int64]
Values = NDArray[np.float64]

SCHEDULES = ("flooding", "residual")

# Factors wait in this many queues; each is for residuals twice as large as those of the one before.
_QUEUES = 64
# Table and message entries worked on between two looks at the clock.
_ENTRIES_AT_ONCE = 2**21


@dataclass(frozen=True)
class LoopyResult:
    """What loopy belief propagation found.

    Attributes
    ----------
    marginals
        One array per variable, in the order of the model; evidence variables included.
    log_z
        Natural logarithm of the Bethe approximation of the partition function.
    converged
        Whether no message would change by more than the tolerance.
    sweeps
        Updates of factors, over the number of factors.
    messages
        Messages sent from factors to variables.
    """

    marginals: tuple[Values, ...]
    log_z: float
    converged: bool
    sweeps: int
    messages: int


def loopy_marginals(
    model: Model,
    evidence: Mapping[int, int] | None = None,
    *,
    damping: float = 0.5,
    schedule: str = "residual",
    tolerance: float = 1e-6,
    sweeps: int = 1000,
    deadline: float | None = None,
) -> LoopyResult:
    """Return the marginals and log Z of loopy belief propagation.

    Raises ZeroProbabilityError where factors one by one rule out all states of a variable.

    Parameters
    ----------
    model
        The model.
    evidence
        Variable → observed state.
    damping
        Weight of the old message, from 0 up to (not including) 1: new = old^damping · computed^(1 − damping).
    schedule
        ``"flooding"`` or ``"residual"``.
    tolerance
        Messages that would change by less (logarithm of the ratio of two entries) count as converged.
    sweeps
        At most this many updates of each factor, on average.
    deadline
        When to stop, as `time.monotonic` counts.
    """
    _check_arguments(damping, schedule, tolerance, sweeps)
    working = WorkingModel.of(model)
    slice_evidence(working, check_evidence(model, dict(evidence or {})))
    prune_support(working)
    graph, log_constant = _factor_graph(working)
    run = _Run(graph)
    limit = math.inf if deadline is None else deadline
    (run.flood if schedule == "flooding" else run.follow_residuals)(damping, tolerance, sweeps, limit)
    log_z = working.log_constant + log_constant + bethe(graph, run.messages, run.beliefs)
    count = max(graph.starts.size - 1, 1)
    return LoopyResult(
        _whole_marginals(model, working, run.beliefs),
        log_z,
        run.converged,
        -(-run.updates // count),
        run.sent,
    )


def _check_arguments(damping: float, schedule: str, tolerance: float, sweeps: int) -> None:
    if not 0.0 <= damping < 1.0:
        raise InputError(f"damping is {damping}; expected at least 0 and less than 1.")
    if schedule not in SCHEDULES:
        raise InputError(f"There is no schedule {schedule!r}; expected {' or '.join(SCHEDULES)}.")
    if not tolerance > 0.0:
        raise InputError(f"tolerance is {tolerance}; expected more than 0.")
    if sweeps < 1:
        raise InputError(f"sweeps is {sweeps}; expected at least 1.")


def _factor_graph(working: WorkingModel) -> tuple[FactorGraph, float]:
    """Return the factor graph, and the logarithm of the scales of its tables."""
    alone = working.factors.lengths == 1
    local = np.zeros(int(working.state_starts[-1]))
    single = working.factors.chosen(alone)
    for variable, table in zip(single.members.tolist(), single.tables, strict=True):
        begin = int(working.state_starts[variable])
        local[begin : begin + table.size] += np.log(table)
    factors = working.factors.chosen(~alone)
    largest = np.array([table.max() for table in factors.tables])
    owners = np.arange(factors.origins.size).repeat(factors.lengths)
    graph = FactorGraph(
        factors.starts,
        factors.members,
        factors.offsets,
        factors.values / largest.repeat(factors.sizes),
        owners,
        ends(working.sizes[factors.members]),
        working.state_starts[factors.members],
        working.state_starts,
        ends(np.bincount(factors.members, minlength=working.sizes.size)),
        owners[factors.members.argsort(kind="stable")],
        local,
    )
    return graph, math.fsum(np.log(largest))


class _Run:
    """Messages on the way to a fixed point.

    Attributes
    ----------
    messages, beliefs
        Logarithms, by edges and by variables, up to a constant for each.
    converged, updates, sent
        Whether the fixed point is reached; updates of factors so far; messages sent by them.
    """

    def __init__(self, graph: FactorGraph) -> None:
        self._graph = graph
        self.messages = np.zeros(int(graph.places[-1]))
        self.beliefs = graph.local.copy()
        self.converged = graph.starts.size == 1
        self.updates = 0
        self.sent = 0

    def flood(self, damping: float, tolerance: float, sweeps: int, deadline: float) -> None:
        """Let all factors send at once, again and again."""
        count = self._graph.starts.size - 1
        while not self.converged and self.updates < sweeps * count and time.monotonic() < deadline:
            largest = flood(self._graph, self.messages, self.beliefs, damping)
            self.converged = largest < tolerance
            self.updates += count
            self.sent += self._graph.members.size

    def follow_residuals(self, damping: float, tolerance: float, sweeps: int, deadline: float) -> None:
        """Let the factor send whose incoming messages changed most since it last did, again and again."""
        count = self._graph.starts.size - 1
        queue = _queue(count, tolerance)
        entries = self._graph.values.size + self.messages.size
        portion = max(1, _ENTRIES_AT_ONCE * count // max(entries, 1))
        while not self.converged and self.updates < sweeps * count and time.monotonic() < deadline:
            most = min(portion, sweeps * count - self.updates)
            done, sent = follow(self._graph, self.messages, self.beliefs, queue, damping, most)
            self.converged = done < most
            self.updates += done
            self.sent += sent


def _whole_marginals(model: Model, working: WorkingModel, beliefs: Values) -> tuple[Values, ...]:
    """Return the marginals over all states of the model out of the logarithms over the possible ones."""
    firsts = working.state_starts[:-1]
    starts = model.layout.state_starts
    flat = np.zeros(int(starts[-1]))
    if firsts.size:
        weights = np.exp(beliefs - np.maximum.reduceat(beliefs, firsts).repeat(working.sizes))
        weights /= np.add.reduceat(weights, firsts).repeat(working.sizes)
        flat[starts[:-1].repeat(working.sizes) + working.states] = weights
    return tuple(flat[begin:end] for begin, end in pairwise(starts.tolist()))


def _queue(count: int, tolerance: float) -> Queue:
    """Return a queue in which each factor waits, one after the other, with a residual above all."""
    numbers = np.arange(count)
    firsts, lasts = np.full(_QUEUES, -1), np.full(_QUEUES, -1)
    if count:
        firsts[-1], lasts[-1] = 0, count - 1
    return Queue(
        residuals=np.full(count, np.inf),
        homes=np.full(count, _QUEUES - 1),
        following=np.append(numbers[1:], -1)[:count],
        preceding=numbers - 1,
        firsts=firsts,
        lasts=lasts,
        limits=tolerance * np.exp2(np.arange(_QUEUES, dtype=np.float64)),
        counters=np.array([_QUEUES - 1, 0]),
    )
