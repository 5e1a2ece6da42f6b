"""Loopy belief propagation on the factor graph: the baseline everybody knows.

Messages are logarithms, damped, sent by all factors at once (flooding) or first by the factor whose incoming messages
changed most (residual belief propagation without lookahead: Sutton and McCallum, 2007). Evidence and states that some
factor rules out are taken away first, so that no message has zeros. Nothing of the engine's other simplifications is
used, and nothing of the package uses this: it is compiled when a bench asks for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.flat import ends
from ibia.model import Model, check_evidence
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.support import prune_support
from ibia.simplify.working import WorkingModel

__all__ = ["SCHEDULES", "LoopyResult", "loopy_marginals"]

# The package's own functions are made ahead, all at once (``compiled.py``); only who runs the bench needs these.
_compile = numba.njit(cache=True, error_model="numpy", nogil=True)

Indices = NDArray[np.int64]
Values = NDArray[np.float64]

SCHEDULES = ("flooding", "residual")

# Messages reach no further down than this (the logarithm of 1E-300), so that exponentials of possible states are
# never zero.
_LOWEST = -690.0
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
    log_z = working.log_constant + log_constant + _bethe(graph, run.messages, run.beliefs)
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


class _Graph(NamedTuple):
    """The factor graph; an edge is a variable in the scope of a factor.

    Attributes
    ----------
    starts, members
        Factor → where its edges begin, and the variable of each edge.
    offsets, values
        Factor → where its table begins, and the tables, with a largest entry of one each.
    owners
        Edge → its factor.
    places
        Edge → where its message begins; one number more says where the last one ends.
    states
        Edge → where the states of its variable begin among those of all variables.
    state_starts
        Variable → where its states begin; one number more says where the last ones end.
    holding, holders
        Variable → where its factors begin among the holders, and those factors.
    local
        Logarithms of the factors of one variable, by the states of all variables: they send the same message always.
    """

    starts: Indices
    members: Indices
    offsets: Indices
    values: Values
    owners: Indices
    places: Indices
    states: Indices
    state_starts: Indices
    holding: Indices
    holders: Indices
    local: Values


def _factor_graph(working: WorkingModel) -> tuple[_Graph, float]:
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
    graph = _Graph(
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

    def __init__(self, graph: _Graph) -> None:
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
            largest = _flood(self._graph, self.messages, self.beliefs, damping)
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
            done, sent = _follow(self._graph, self.messages, self.beliefs, queue, damping, most)
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


class _Queue(NamedTuple):
    """Factors by how much their incoming messages changed: a linked list for each power of two, first come first.

    Attributes
    ----------
    residuals
        Factor → how much its messages may change if it sends them again.
    homes
        Factor → its list, −1 if it is in none.
    following, preceding
        Factor → its neighbours in its list, −1 at the ends.
    firsts, lasts
        List → its ends, −1 if it is empty.
    limits
        List → the lowest residual that belongs there.
    counters
        The highest list that may hold something; updates since the beliefs were added up anew.
    """

    residuals: Values
    homes: Indices
    following: Indices
    preceding: Indices
    firsts: Indices
    lasts: Indices
    limits: Values
    counters: Indices


def _queue(count: int, tolerance: float) -> _Queue:
    """Return a queue in which each factor waits, one after the other, with a residual above all."""
    numbers = np.arange(count)
    firsts, lasts = np.full(_QUEUES, -1), np.full(_QUEUES, -1)
    if count:
        firsts[-1], lasts[-1] = 0, count - 1
    return _Queue(
        residuals=np.full(count, np.inf),
        homes=np.full(count, _QUEUES - 1),
        following=np.append(numbers[1:], -1)[:count],
        preceding=numbers - 1,
        firsts=firsts,
        lasts=lasts,
        limits=tolerance * np.exp2(np.arange(_QUEUES, dtype=np.float64)),
        counters=np.array([_QUEUES - 1, 0]),
    )


# Compiled functions that are called for each factor take arrays, not tuples of arrays: taking those apart costs more
# than a message.


@_compile
def _leave(
    factor: int, homes: Indices, following: Indices, preceding: Indices, firsts: Indices, lasts: Indices
) -> None:
    """Take a factor out of its list."""
    home, before, after = homes[factor], preceding[factor], following[factor]
    if before < 0:
        firsts[home] = after
    else:
        following[before] = after
    if after < 0:
        lasts[home] = before
    else:
        preceding[after] = before
    homes[factor] = -1


@_compile
def _enter(
    factor: int, home: int, homes: Indices, following: Indices, preceding: Indices, firsts: Indices, lasts: Indices
) -> None:
    """Put a factor at the end of a list."""
    last = lasts[home]
    homes[factor], preceding[factor], following[factor] = home, last, -1
    if last < 0:
        firsts[home] = factor
    else:
        following[last] = factor
    lasts[home] = factor


@_compile
def _list_of(residual: float, home: int, limits: Values) -> int:
    """Return the list that a residual belongs to, from a list that is not above it; −1 if none."""
    while home + 1 < limits.size and residual >= limits[home + 1]:
        home += 1
    return home


class _Room(NamedTuple):
    """Memory for the work on one factor.

    Attributes
    ----------
    incoming, computed
        Messages from and to its variables, in the order of the scope.
    sums, weights
        Its table with the last variables summed out, for one after the other; products of incoming messages.
    """

    incoming: Values
    computed: Values
    sums: Values
    weights: Values


@_compile
def _room(starts: Indices, places: Indices, offsets: Indices) -> _Room:
    """Return room for the largest factor."""
    largest, longest = 1, 1
    for factor in range(starts.size - 1):
        largest = max(largest, offsets[factor + 1] - offsets[factor])
        longest = max(longest, places[starts[factor + 1]] - places[starts[factor]])
    return _Room(np.empty(longest), np.empty(longest), np.empty(largest), np.empty(largest))


@_compile
def _receive(
    begin: int, end: int, places: Indices, states: Indices, messages: Values, beliefs: Values, incoming: Values
) -> None:
    """Compute the messages from variables along some edges, with a largest entry of one each."""
    base = places[begin]
    for edge in range(begin, end):
        shift = states[edge] - places[edge]
        highest = -np.inf
        for place in range(places[edge], places[edge + 1]):
            highest = max(highest, beliefs[shift + place] - messages[place])
        for place in range(places[edge], places[edge + 1]):
            incoming[place - base] = math.exp(max(beliefs[shift + place] - messages[place] - highest, _LOWEST))


@_compile
def _sum_last(
    source: Values, first: int, rows: int, incoming: Values, own: int, size: int, sums: Values, target: int
) -> None:
    """Sum the last variable of a table out, weighed with its message."""
    for row in range(rows):
        total = 0.0
        for number in range(size):
            total += source[first + row * size + number] * incoming[own + number]
        sums[target + row] = total


@_compile
def _sum_first(source: Values, first: int, rows: int, weights: Values, own: int, size: int, computed: Values) -> None:
    """Sum all but the last variable of a table out, weighed with their messages; take the logarithms of the result."""
    for number in range(own, own + size):
        computed[number] = 0.0
    for row in range(rows):
        for number in range(size):
            computed[own + number] += weights[row] * source[first + row * size + number]
    highest = 0.0
    for number in range(own, own + size):
        highest = max(highest, computed[number])
    for number in range(own, own + size):
        # Every state has an entry above zero, so zeros are numbers that were too small.
        ratio = computed[number] / highest if highest > 0.0 else 1.0
        computed[number] = max(math.log(ratio), _LOWEST) if ratio > 0.0 else _LOWEST


@_compile
def _compute(
    begin: int,
    end: int,
    places: Indices,
    values: Values,
    first: int,
    length: int,
    incoming: Values,
    computed: Values,
    sums: Values,
    weights: Values,
) -> None:
    """Compute the logarithms of the messages of a factor to all its variables.

    Variables are summed out from the last to the second. What is left before each sum, weighed with the messages from
    the variables before, is the message to the last one left. So all together take two passes over the table and a bit.
    """
    base, rows, top, below = places[begin], length, 0, 0
    for edge in range(end - 1, begin, -1):
        size = places[edge + 1] - places[edge]
        rows //= size
        if edge == end - 1:
            _sum_last(values, first, rows, incoming, places[edge] - base, size, sums, 0)
        else:
            _sum_last(sums, below, rows, incoming, places[edge] - base, size, sums, top)
        below = top
        top += rows
    rows = 1
    weights[0] = 1.0
    for edge in range(begin, end - 1):
        own, size = places[edge] - base, places[edge + 1] - places[edge]
        if edge > begin:
            # Each table of sums lies right before the smaller one that was made of it.
            below -= rows * size
        _sum_first(sums, below, rows, weights, own, size, computed)
        for row in range(rows - 1, -1, -1):
            weight = weights[row]
            for number in range(size):
                weights[row * size + number] = weight * incoming[own + number]
        rows *= size
    own, size = places[end - 1] - base, places[end] - places[end - 1]
    _sum_first(values, first, rows, weights, own, size, computed)


@_compile
def _add_up(messages: Values, beliefs: Values, local: Values, places: Indices, states: Indices) -> None:
    """Add up the messages to each variable."""
    for state in range(local.size):
        beliefs[state] = local[state]
    for edge in range(states.size):
        shift = states[edge] - places[edge]
        for place in range(places[edge], places[edge + 1]):
            beliefs[shift + place] += messages[place]


@_compile
def _residual(begin: int, end: int, base: int, messages: Values, computed: Values) -> float:
    """Return how much a computed message differs from the one sent: the logarithm of the ratio of two ratios."""
    highest, lowest = -np.inf, np.inf
    for place in range(begin, end):
        change = computed[place - base] - messages[place]
        highest, lowest = max(highest, change), min(lowest, change)
    return highest - lowest


@_compile
def _flood(graph: _Graph, messages: Values, beliefs: Values, damping: float) -> float:
    """Send all messages once and return the largest residual."""
    starts, offsets, values, places, states = graph.starts, graph.offsets, graph.values, graph.places, graph.states
    incoming, computed, sums, weights = _room(starts, places, offsets)
    largest = 0.0
    for factor in range(starts.size - 1):
        begin, end = starts[factor], starts[factor + 1]
        first, length = offsets[factor], offsets[factor + 1] - offsets[factor]
        _receive(begin, end, places, states, messages, beliefs, incoming)
        _compute(begin, end, places, values, first, length, incoming, computed, sums, weights)
        base = places[begin]
        for edge in range(begin, end):
            largest = max(largest, _residual(places[edge], places[edge + 1], base, messages, computed))
        for place in range(base, places[end]):
            # The beliefs stay as they were until all is sent, so nobody needs the old message any more.
            messages[place] += (1.0 - damping) * (computed[place - base] - messages[place])
    _add_up(messages, beliefs, graph.local, places, states)
    return largest


@_compile
def _follow(
    graph: _Graph, messages: Values, beliefs: Values, queue: _Queue, damping: float, most: int
) -> tuple[int, int]:
    """Update the factor of the largest residual, `most` times or until none waits; return updates and messages sent."""
    starts, offsets, values, places, states = graph.starts, graph.offsets, graph.values, graph.places, graph.states
    members, holding, holders = graph.members, graph.holding, graph.holders
    residuals, homes, following, preceding, firsts, lasts, limits, counters = queue
    incoming, computed, sums, weights = _room(starts, places, offsets)
    highest, sent, given = counters[0], 0, 1.0 - damping
    for update in range(most):
        while highest >= 0 and firsts[highest] < 0:
            highest -= 1
        if highest < 0:
            return update, sent
        factor = firsts[highest]
        _leave(factor, homes, following, preceding, firsts, lasts)
        begin, end = starts[factor], starts[factor + 1]
        first, length = offsets[factor], offsets[factor + 1] - offsets[factor]
        _receive(begin, end, places, states, messages, beliefs, incoming)
        _compute(begin, end, places, values, first, length, incoming, computed, sums, weights)
        base, left = places[begin], 0.0
        for edge in range(begin, end):
            residual = _residual(places[edge], places[edge + 1], base, messages, computed)
            left = max(left, damping * residual)
            for place in range(places[edge], places[edge + 1]):
                change = given * (computed[place - base] - messages[place])
                messages[place] += change
                beliefs[states[edge] - places[edge] + place] += change
            for holder in range(holding[members[edge]], holding[members[edge] + 1]):
                other = holders[holder]
                residuals[other] += given * residual
                # Residuals of factors that wait only grow.
                home = _list_of(residuals[other], homes[other], limits)
                if other != factor and home != homes[other]:
                    if homes[other] >= 0:
                        _leave(other, homes, following, preceding, firsts, lasts)
                    _enter(other, home, homes, following, preceding, firsts, lasts)
                    highest = max(highest, home)
        residuals[factor] = left
        home = _list_of(left, -1, limits)
        if home >= 0:
            _enter(factor, home, homes, following, preceding, firsts, lasts)
            highest = max(highest, home)
        sent += end - begin
        counters[1] += 1
        if counters[1] == starts.size - 1:
            # Rounding errors of the many small changes would pile up.
            _add_up(messages, beliefs, graph.local, places, states)
            counters[1] = 0
    counters[0] = highest
    return most, sent


@_compile
def _bethe(graph: _Graph, messages: Values, beliefs: Values) -> float:
    """Return log Z out of messages: that of each factor and, counted once over all factors, of each variable."""
    starts, holding, offsets = graph.state_starts, graph.holding, graph.offsets
    log_z = 0.0
    for variable in range(starts.size - 1):
        highest = -np.inf
        for state in range(starts[variable], starts[variable + 1]):
            highest = max(highest, beliefs[state])
        total = 0.0
        for state in range(starts[variable], starts[variable + 1]):
            total += math.exp(beliefs[state] - highest)
        log_z += (1 - holding[variable + 1] + holding[variable]) * (highest + math.log(total))
    for factor in range(offsets.size - 1):
        log_z += _log_total(graph, factor, messages, beliefs)
    return log_z


@_compile
def _log_total(graph: _Graph, factor: int, messages: Values, beliefs: Values) -> float:
    """Return the logarithm of the sum of a table weighed with the messages from its variables."""
    starts, offsets, values, places, states = graph.starts, graph.offsets, graph.values, graph.places, graph.states
    highest, total = -np.inf, 0.0
    for position in range(offsets[factor], offsets[factor + 1]):
        if values[position] == 0.0:
            continue
        logarithm = math.log(values[position])
        rest = position - offsets[factor]
        for edge in range(starts[factor + 1] - 1, starts[factor] - 1, -1):
            size = places[edge + 1] - places[edge]
            state = rest % size
            rest //= size
            logarithm += beliefs[states[edge] + state] - messages[places[edge] + state]
        if logarithm > highest:
            total = total * math.exp(highest - logarithm) + 1.0
            highest = logarithm
        else:
            total += math.exp(logarithm - highest)
    return highest + math.log(total)
