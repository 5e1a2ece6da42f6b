"""The compiled part of loopy propagation: the factor graph in flat arrays, messages by flooding and by residuals.

Messages are logarithms, up to a constant for each. Knows factors and variables by number, nothing of models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, part

__all__ = ["FactorGraph", "Queue", "bethe", "flood", "follow"]

_compile = entry()
_compile_part = part()

Indices = NDArray[np.int64]
Values = NDArray[np.float64]

# Messages reach no further down than this (the logarithm of 1E-300), so that exponentials of possible states are
# never zero.
_LOWEST = -690.0


class FactorGraph(NamedTuple):
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


class Queue(NamedTuple):
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


# Compiled functions that are called for each factor take arrays, not tuples of arrays: taking those apart costs more
# than a message.


@_compile_part
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


@_compile_part
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


@_compile_part
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


@_compile_part
def _room(starts: Indices, places: Indices, offsets: Indices) -> _Room:
    """Return room for the largest factor."""
    largest, longest = 1, 1
    for factor in range(starts.size - 1):
        largest = max(largest, offsets[factor + 1] - offsets[factor])
        longest = max(longest, places[starts[factor + 1]] - places[starts[factor]])
    return _Room(np.empty(longest), np.empty(longest), np.empty(largest), np.empty(largest))


@_compile_part
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


@_compile_part
def _sum_last(
    source: Values, first: int, rows: int, incoming: Values, own: int, size: int, sums: Values, target: int
) -> None:
    """Sum the last variable of a table out, weighed with its message."""
    for row in range(rows):
        total = 0.0
        for number in range(size):
            total += source[first + row * size + number] * incoming[own + number]
        sums[target + row] = total


@_compile_part
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


@_compile_part
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


@_compile_part
def _add_up(messages: Values, beliefs: Values, local: Values, places: Indices, states: Indices) -> None:
    """Add up the messages to each variable."""
    for state in range(local.size):
        beliefs[state] = local[state]
    for edge in range(states.size):
        shift = states[edge] - places[edge]
        for place in range(places[edge], places[edge + 1]):
            beliefs[shift + place] += messages[place]


@_compile_part
def _residual(begin: int, end: int, base: int, messages: Values, computed: Values) -> float:
    """Return how much a computed message differs from the one sent: the logarithm of the ratio of two ratios."""
    highest, lowest = -np.inf, np.inf
    for place in range(begin, end):
        change = computed[place - base] - messages[place]
        highest, lowest = max(highest, change), min(lowest, change)
    return highest - lowest


@_compile
def flood(graph: FactorGraph, messages: Values, beliefs: Values, damping: float) -> float:
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
def follow(
    graph: FactorGraph, messages: Values, beliefs: Values, queue: Queue, damping: float, most: int
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
def bethe(graph: FactorGraph, messages: Values, beliefs: Values) -> float:
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


@_compile_part
def _log_total(graph: FactorGraph, factor: int, messages: Values, beliefs: Values) -> float:
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
