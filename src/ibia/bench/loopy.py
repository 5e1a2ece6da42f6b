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

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, part
from ibia.errors import InputError
from ibia.flat import ends
from ibia.model import Model, check_evidence
from ibia.simplify.evidence import slice_evidence
from ibia.simplify.support import prune_support
from ibia.simplify.working import WorkingModel

__all__ = ["SCHEDULES", "LoopyResult", "loopy_marginals"]

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
    log_z = working.log_constant + log_constant + _bethe(graph, run.beliefs, run.messages)
    count = max(graph.lengths.size, 1)
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
    lengths
        Factor → number of its edges.
    owners
        Edge → its factor.
    places
        Edge → where its message begins.
    sizes, state_starts
        Variable → number of its states, and where they begin among those of all variables.
    holding, holders
        Variable → where its edges begin among the holders, and those edges.
    local
        Logarithms of the factors of one variable, by the states of all variables: they send the same message always.
    """

    starts: Indices
    members: Indices
    offsets: Indices
    values: Values
    lengths: Indices
    owners: Indices
    places: Indices
    sizes: Indices
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
    edges = ends(working.sizes[factors.members])
    graph = _Graph(
        factors.starts,
        factors.members,
        factors.offsets,
        factors.values / largest.repeat(factors.sizes),
        factors.lengths,
        np.arange(factors.lengths.size).repeat(factors.lengths),
        edges,
        working.sizes,
        working.state_starts,
        ends(np.bincount(factors.members, minlength=working.sizes.size)),
        factors.members.argsort(kind="stable"),
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
        self.converged = not graph.lengths.size
        self.updates = 0
        self.sent = 0

    def flood(self, damping: float, tolerance: float, sweeps: int, deadline: float) -> None:
        """Let all factors send at once, again and again."""
        count = self._graph.lengths.size
        while not self.converged and self.updates < sweeps * count and time.monotonic() < deadline:
            largest = _flood(self._graph, self.messages, self.beliefs, damping)
            self.converged = largest < tolerance
            self.updates += count
            self.sent += self._graph.members.size

    def follow_residuals(self, damping: float, tolerance: float, sweeps: int, deadline: float) -> None:
        """Let the factor send whose incoming messages changed most since it last did, again and again."""
        count = self._graph.lengths.size
        queue = _queue(count)
        entries = self._graph.values.size + self.messages.size
        portion = max(1, _ENTRIES_AT_ONCE * count // max(entries, 1))
        while not self.converged and self.updates < sweeps * count and time.monotonic() < deadline:
            most = min(portion, sweeps * count - self.updates)
            done, sent = _follow(self._graph, self.messages, self.beliefs, queue, damping, tolerance, most)
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
    counters
        The highest list that may hold something; updates since the beliefs were added up anew.
    """

    residuals: Values
    homes: Indices
    following: Indices
    preceding: Indices
    firsts: Indices
    lasts: Indices
    counters: Indices


def _queue(count: int) -> _Queue:
    """Return a queue in which each factor waits, one after the other, with a residual above all."""
    numbers = np.arange(count)
    firsts, lasts = np.full(_QUEUES, -1), np.full(_QUEUES, -1)
    if count:
        firsts[-1], lasts[-1] = 0, count - 1
    following = np.append(numbers[1:], -1)[:count]
    homes = np.full(count, _QUEUES - 1)
    return _Queue(np.full(count, np.inf), homes, following, numbers - 1, firsts, lasts, np.array([_QUEUES - 1, 0]))


@part()
def _leave(queue: _Queue, factor: int) -> None:
    """Take a factor out of its list."""
    home, before, after = queue.homes[factor], queue.preceding[factor], queue.following[factor]
    if before < 0:
        queue.firsts[home] = after
    else:
        queue.following[before] = after
    if after < 0:
        queue.lasts[home] = before
    else:
        queue.preceding[after] = before
    queue.homes[factor] = -1


@part()
def _enter(queue: _Queue, factor: int, tolerance: float) -> None:
    """Put a factor at the end of the list of its residual, unless it is there; below the tolerance there is none."""
    ratio = queue.residuals[factor] / tolerance
    home = -1
    if ratio >= 1.0:
        home = _QUEUES - 1 if ratio == np.inf else min(math.frexp(ratio)[1] - 1, _QUEUES - 1)
    if home == queue.homes[factor]:
        return
    if queue.homes[factor] >= 0:
        _leave(queue, factor)
    if home < 0:
        return
    last = queue.lasts[home]
    queue.homes[factor], queue.preceding[factor], queue.following[factor] = home, last, -1
    if last < 0:
        queue.firsts[home] = factor
    else:
        queue.following[last] = factor
    queue.lasts[home] = factor
    queue.counters[0] = max(queue.counters[0], home)


@part()
def _first(queue: _Queue) -> int:
    """Take out the factor that has waited longest in the highest list; −1 if none waits."""
    home = queue.counters[0]
    while home >= 0 and queue.firsts[home] < 0:
        home -= 1
    queue.counters[0] = home
    if home < 0:
        return -1
    factor: int = queue.firsts[home]
    _leave(queue, factor)
    return factor


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


@part()
def _room(graph: _Graph) -> _Room:
    """Return room for the largest factor."""
    largest, longest = 1, 1
    for factor in range(graph.lengths.size):
        largest = max(largest, graph.offsets[factor + 1] - graph.offsets[factor])
        longest = max(longest, graph.places[graph.starts[factor + 1]] - graph.places[graph.starts[factor]])
    return _Room(np.empty(longest), np.empty(longest), np.empty(largest), np.empty(largest))


@part()
def _compute(graph: _Graph, factor: int, messages: Values, beliefs: Values, room: _Room) -> None:
    """Compute the logarithms of the messages of a factor to all its variables.

    All together they take little more than two passes over the table.
    """
    begin, end = graph.starts[factor], graph.starts[factor + 1]
    base = graph.places[begin]
    for edge in range(begin, end):
        place, state = graph.places[edge], graph.state_starts[graph.members[edge]]
        size = graph.places[edge + 1] - place
        highest = -np.inf
        for number in range(size):
            highest = max(highest, beliefs[state + number] - messages[place + number])
        for number in range(size):
            logarithm = beliefs[state + number] - messages[place + number] - highest
            room.incoming[place - base + number] = math.exp(max(logarithm, _LOWEST))
    _weigh(graph, factor, _sum_out(graph, factor, room), room)
    for edge in range(begin, end):
        place, stop = graph.places[edge] - base, graph.places[edge + 1] - base
        highest = 0.0
        for number in range(place, stop):
            highest = max(highest, room.computed[number])
        for number in range(place, stop):
            # Every state has an entry above zero, so zeros are numbers that were too small.
            ratio = room.computed[number] / highest if highest > 0.0 else 1.0
            room.computed[number] = max(math.log(ratio), _LOWEST) if ratio > 0.0 else _LOWEST


@part()
def _sum_out(graph: _Graph, factor: int, room: _Room) -> int:
    """Sum the variables out of a table, from the last to the second; return where what is left begins in the sums."""
    begin, end = graph.starts[factor], graph.starts[factor + 1]
    base = graph.places[begin]
    place: int = graph.offsets[factor]
    source, rows, top = graph.values, graph.offsets[factor + 1] - place, 0
    for edge in range(end - 1, begin, -1):
        own = graph.places[edge] - base
        size = graph.places[edge + 1] - graph.places[edge]
        rows //= size
        for row in range(rows):
            total = 0.0
            for number in range(size):
                total += source[place + number] * room.incoming[own + number]
            room.sums[top + row] = total
            place += size
        source, place = room.sums, top
        top += rows
    return place


@part()
def _weigh(graph: _Graph, factor: int, place: int, room: _Room) -> None:
    """Compute the message to each variable: a sum weighed with the messages from the variables before it."""
    begin, end = graph.starts[factor], graph.starts[factor + 1]
    base = graph.places[begin]
    source, rows = room.sums, 1
    room.weights[0] = 1.0
    for edge in range(begin, end):
        own = graph.places[edge] - base
        size = graph.places[edge + 1] - graph.places[edge]
        if edge == end - 1:
            source, place = graph.values, graph.offsets[factor]
        elif edge > begin:
            # Each table of sums lies right before the smaller one that was made of it.
            place -= rows * size
        for number in range(size):
            room.computed[own + number] = 0.0
        for row in range(rows):
            weight = room.weights[row]
            for number in range(size):
                room.computed[own + number] += weight * source[place + row * size + number]
        if edge == end - 1:
            return
        for row in range(rows - 1, -1, -1):
            weight = room.weights[row]
            for number in range(size):
                room.weights[row * size + number] = weight * room.incoming[own + number]
        rows *= size


@part()
def _add_up(graph: _Graph, messages: Values, beliefs: Values) -> None:
    """Add up the messages to each variable."""
    beliefs[:] = graph.local
    for edge in range(graph.members.size):
        state = graph.state_starts[graph.members[edge]] - graph.places[edge]
        for place in range(graph.places[edge], graph.places[edge + 1]):
            beliefs[state + place] += messages[place]


@part()
def _residual(graph: _Graph, edge: int, messages: Values, room: _Room) -> float:
    """Return how much the computed message differs from the one sent: the logarithm of the ratio of two ratios."""
    base = graph.places[graph.starts[graph.owners[edge]]]
    highest, lowest = -np.inf, np.inf
    for place in range(graph.places[edge], graph.places[edge + 1]):
        change = room.computed[place - base] - messages[place]
        highest, lowest = max(highest, change), min(lowest, change)
    return highest - lowest


@entry()
def _flood(graph: _Graph, messages: Values, beliefs: Values, damping: float) -> float:
    """Send all messages once and return the largest residual."""
    room = _room(graph)
    largest = 0.0
    for factor in range(graph.lengths.size):
        _compute(graph, factor, messages, beliefs, room)
        begin, end = graph.starts[factor], graph.starts[factor + 1]
        for edge in range(begin, end):
            largest = max(largest, _residual(graph, edge, messages, room))
        for place in range(graph.places[begin], graph.places[end]):
            # The beliefs stay as they were until all is sent, so this message is not needed any more.
            messages[place] += (1.0 - damping) * (room.computed[place - graph.places[begin]] - messages[place])
    _add_up(graph, messages, beliefs)
    return largest


@entry()
def _follow(
    graph: _Graph, messages: Values, beliefs: Values, queue: _Queue, damping: float, tolerance: float, most: int
) -> tuple[int, int]:
    """Update the factor of the largest residual, `most` times or until none waits; return updates and messages sent."""
    room = _room(graph)
    sent = 0
    for update in range(most):
        factor = _first(queue)
        if factor < 0:
            return update, sent
        _compute(graph, factor, messages, beliefs, room)
        left = 0.0
        for edge in range(graph.starts[factor], graph.starts[factor + 1]):
            residual = _residual(graph, edge, messages, room)
            left = max(left, damping * residual)
            _send(graph, edge, messages, beliefs, room, damping)
            _tell(graph, edge, (1.0 - damping) * residual, queue, tolerance)
            sent += 1
        queue.residuals[factor] = left
        _enter(queue, factor, tolerance)
        queue.counters[1] += 1
        if queue.counters[1] == graph.lengths.size:
            # Rounding errors of the many small changes would pile up.
            _add_up(graph, messages, beliefs)
            queue.counters[1] = 0
    return most, sent


@part()
def _send(graph: _Graph, edge: int, messages: Values, beliefs: Values, room: _Room, damping: float) -> None:
    """Replace a message by the computed one, as far as it is not damped."""
    base = graph.places[graph.starts[graph.owners[edge]]]
    state = graph.state_starts[graph.members[edge]] - graph.places[edge]
    for place in range(graph.places[edge], graph.places[edge + 1]):
        change = (1.0 - damping) * (room.computed[place - base] - messages[place])
        messages[place] += change
        beliefs[state + place] += change


@part()
def _tell(graph: _Graph, edge: int, change: float, queue: _Queue, tolerance: float) -> None:
    """Let the other factors of a variable know how much a message to it has changed."""
    variable, sender = graph.members[edge], graph.owners[edge]
    for place in range(graph.holding[variable], graph.holding[variable + 1]):
        factor = graph.owners[graph.holders[place]]
        if factor != sender:
            queue.residuals[factor] += change
            _enter(queue, factor, tolerance)


@entry()
def _bethe(graph: _Graph, beliefs: Values, messages: Values) -> float:
    """Return log Z out of messages: that of each factor and, counted once over all factors, of each variable."""
    log_z = 0.0
    for variable in range(graph.sizes.size):
        first = graph.state_starts[variable]
        highest = -np.inf
        for place in range(first, first + graph.sizes[variable]):
            highest = max(highest, beliefs[place])
        total = 0.0
        for place in range(first, first + graph.sizes[variable]):
            total += math.exp(beliefs[place] - highest)
        times = 1 - (graph.holding[variable + 1] - graph.holding[variable])
        log_z += times * (highest + math.log(total))
    for factor in range(graph.lengths.size):
        log_z += _log_total(graph, factor, beliefs, messages)
    return log_z


@part()
def _log_total(graph: _Graph, factor: int, beliefs: Values, messages: Values) -> float:
    """Return the logarithm of the sum of a table weighed with the messages from its variables."""
    highest, total = -np.inf, 0.0
    for position in range(graph.offsets[factor], graph.offsets[factor + 1]):
        if graph.values[position] == 0.0:
            continue
        logarithm = math.log(graph.values[position])
        rest = position - graph.offsets[factor]
        for edge in range(graph.starts[factor + 1] - 1, graph.starts[factor] - 1, -1):
            size = graph.places[edge + 1] - graph.places[edge]
            state = rest % size
            rest //= size
            first = graph.state_starts[graph.members[edge]]
            logarithm += beliefs[first + state] - messages[graph.places[edge] + state]
        if logarithm > highest:
            total = total * math.exp(highest - logarithm) + 1.0
            highest = logarithm
        else:
            total += math.exp(logarithm - highest)
    return highest + math.log(total)
