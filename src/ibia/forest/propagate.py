"""The compiled part of calibration: message passing over whole trees, clique by clique.

Collect: from the leaves on, every clique multiplies its inputs with its children's messages and sums the product to the
sepset towards its parent. Distribute: from the root on, the product of everything, summed to the sepset towards each
child, is what the two agree on; divided by the child's message it is the message back. A clique's product is written
down only where a belief is wanted. The caller gets memory for messages of large cliques before their turn, and may
spread their products over several cores.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.compiled import entry, inside, part, with_compiler
from ibia.tables.contract import (
    LARGE,
    MERGING,
    Rows,
    contract_alone,
    contract_logarithms,
    merge_inputs,
    strides_of,
)

if with_compiler():
    from ibia.tables.intrinsics import array_at, contract_whole

__all__ = ["COLLECT", "DISTRIBUTE", "Plan", "finish", "propagate", "rows_of", "vanished"]

Integers = NDArray[np.int64]

COLLECT, DISTRIBUTE = 0, 1
# Below this a divisor counts as zero (see kernels.py).
_TINY = 1e-200
_SAFE = 1e-100
# Entries after which the caller gets a chance to look at the clock.
_WORK = 2**26

_FAST = {"reassoc", "contract", "nsz"}
_compile = entry(fastmath=_FAST)
_compile_part = part(fastmath=_FAST)
_inside = inside(fastmath=_FAST)


class Plan(NamedTuple):
    """A forest laid out in flat arrays, parents before children; tables are given by their addresses (0: none).

    Attributes
    ----------
    cardinalities
        Of all variables.
    scope_starts, scopes
        Variables of each clique.
    parents, child_starts, children
        The trees (parent −1: a root).
    sepset_starts, sepsets
        Variables shared with the parent.
    input_starts, input_scope_starts, input_scopes, inputs
        The tables whose product is the clique's potential.
    logarithmic
        Whether to make the product of a clique's inputs with logarithms, because ordinary numbers could underflow.
    divisors
        The sepset's belief that the inputs contain already.
    upward
        What the clique sent towards its parent; in the end the belief of the sepset.
    ratios
        `upward` over the divisor: what the parent is multiplied by.
    downward
        What the parent sent: what the clique is multiplied by.
    attenuations
        Minus the logarithm of the largest entry of what the clique sent before it was scaled (a root: of its total).
    ranges
        Logarithm of the largest over the smallest positive entry of what the clique sent.
    log_scales
        Logarithm of the scale that was taken out at the clique: of what it sent, of a root of its total.
    scales
        What the clique's product is to be divided by beyond that to sum to one.
    beliefs
        Where to write the beliefs.
    read_starts, read_variables, reads
        Variables whose marginals are taken from the clique, and where they go.
    sepset_read_starts, sepset_read_variables, sepset_reads
        The same for the sepset towards the parent.
    """

    cardinalities: Integers
    scope_starts: Integers
    scopes: Integers
    parents: Integers
    child_starts: Integers
    children: Integers
    sepset_starts: Integers
    sepsets: Integers
    input_starts: Integers
    input_scope_starts: Integers
    input_scopes: Integers
    inputs: Integers
    logarithmic: NDArray[np.bool_]
    divisors: Integers
    upward: Integers
    ratios: Integers
    downward: Integers
    scales: NDArray[np.float64]
    attenuations: NDArray[np.float64]
    ranges: NDArray[np.float64]
    log_scales: NDArray[np.float64]
    beliefs: Integers
    read_starts: Integers
    read_variables: Integers
    reads: Integers
    sepset_read_starts: Integers
    sepset_read_variables: Integers
    sepset_reads: Integers


@_inside
def _entries(plan: Plan, starts: Integers, variables: Integers, clique: int) -> int:
    """Return the number of entries of a table over a clique, or over its sepset towards the parent."""
    size = 1
    for k in range(starts[clique], starts[clique + 1]):
        size *= plan.cardinalities[variables[k]]
    return size


@_inside
def _table(plan: Plan, clique: int, phase: int, row: int) -> tuple[Integers, int]:
    """Return the variables and the address of a table of a clique's contraction.

    In turn: inputs, messages of the children, message of or to the parent, then messages to the children, marginals.
    """
    if row < plan.input_starts[clique + 1] - plan.input_starts[clique]:
        k = plan.input_starts[clique] + row
        return plan.input_scopes[plan.input_scope_starts[k] : plan.input_scope_starts[k + 1]], plan.inputs[k]
    row -= plan.input_starts[clique + 1] - plan.input_starts[clique]
    children = plan.child_starts[clique + 1] - plan.child_starts[clique]
    addresses, edge = plan.ratios, clique
    if row >= children:
        row -= children
        if plan.parents[clique] >= 0:
            row -= 1
        if row >= children:
            k = plan.read_starts[clique] + row - children
            return plan.read_variables[k : k + 1], plan.reads[k]
        addresses = plan.downward if row >= 0 or phase == DISTRIBUTE else plan.upward
    if row >= 0:
        edge = plan.children[plan.child_starts[clique] + row]
    return plan.sepsets[plan.sepset_starts[edge] : plan.sepset_starts[edge + 1]], addresses[edge]


@_compile
def rows_of(plan: Plan, clique: int, phase: int) -> Rows:
    """Return the contraction of a clique in one of the two phases."""
    scope = plan.scopes[plan.scope_starts[clique] : plan.scope_starts[clique + 1]]
    children = plan.child_starts[clique + 1] - plan.child_starts[clique]
    inputs = plan.input_starts[clique + 1] - plan.input_starts[clique] + children
    outputs = 1 if plan.parents[clique] >= 0 else 0
    if phase == DISTRIBUTE:
        inputs += outputs
        outputs = children + plan.read_starts[clique + 1] - plan.read_starts[clique]
    strides = np.empty((inputs + outputs, scope.size), np.int64)
    addresses = np.empty(inputs + outputs, np.int64)
    sizes = np.empty(inputs + outputs, np.int64)
    for row in range(inputs + outputs):
        table, addresses[row] = _table(plan, clique, phase, row)
        sizes[row] = strides_of(scope, table, plan.cardinalities, strides[row])
    cardinalities = np.empty(scope.size, np.int64)
    for axis in range(scope.size):
        cardinalities[axis] = plan.cardinalities[scope[axis]]
    return Rows(cardinalities, strides, addresses, sizes, inputs)


@_inside
def _clear(rows: Rows) -> None:
    """Set all outputs of a contraction to zero."""
    for t in range(rows.inputs, rows.addresses.size):
        table = array_at(rows.addresses[t], rows.sizes[t])
        for i in range(table.size):
            table[i] = 0.0


@_compile_part
def _scale(table: NDArray[np.float64], factor: float) -> None:
    """Multiply a table; a function of its own, or the division that gives the factor would move into the loop."""
    for i in range(table.size):
        table[i] *= factor


@_compile
def vanished(plan: Plan, clique: int, phase: int, total: float) -> bool:
    """Tell whether nothing is left of a clique's product, or nothing that ordinary numbers can hold."""
    if plan.parents[clique] < 0:
        return not total > 0.0
    if phase == DISTRIBUTE:
        return False
    message = array_at(plan.upward[clique], _entries(plan, plan.sepset_starts, plan.sepsets, clique))
    largest = 0.0
    for i in range(message.size):
        largest = max(largest, message[i])
    return not largest > 0.0


@_compile
def finish(plan: Plan, clique: int, phase: int, total: float, taken_out: float) -> bool:
    """Turn the sums of a clique's product into messages; return whether it was anything but zero everywhere.

    Parameters
    ----------
    taken_out
        Logarithm of a scale that was taken out of the product before.
    """
    if phase == COLLECT:
        if plan.parents[clique] < 0:
            return True
        message = array_at(plan.upward[clique], _entries(plan, plan.sepset_starts, plan.sepsets, clique))
        largest, smallest = 0.0, np.inf
        for i in range(message.size):
            largest = max(largest, message[i])
            smallest = min(smallest, message[i] if message[i] > 0.0 else np.inf)
        if not largest > 0.0:
            return False
        plan.ranges[clique] = math.log(largest) - math.log(smallest)
        _scale(message, 1.0 / largest)
        plan.scales[clique] = largest
        plan.attenuations[clique] = -math.log(largest) - taken_out
        if plan.divisors[clique]:
            divisor = array_at(plan.divisors[clique], message.size)
            ratio = array_at(plan.ratios[clique], message.size)
            for i in range(message.size):
                ratio[i] = message[i] / divisor[i] if divisor[i] > _TINY else 0.0
        plan.log_scales[clique] = taken_out + math.log(largest)
        return True
    scale = 1.0 / plan.scales[clique]
    if plan.parents[clique] < 0 or plan.logarithmic[clique]:
        if not total > 0.0:
            return False
        scale = 1.0 / total
        plan.attenuations[clique] = -math.log(total) - taken_out
    for k in range(plan.child_starts[clique], plan.child_starts[clique + 1]):
        child = plan.children[k]
        size = _entries(plan, plan.sepset_starts, plan.sepsets, child)
        agreed = array_at(plan.downward[child], size)
        sent = array_at(plan.upward[child], size)
        sent_scale = 1.0
        if plan.scales[child] > _SAFE:
            # The message takes the scale along, unless that might overflow.
            sent_scale = plan.scales[child]
            plan.scales[child] = 1.0
        for i in range(size):
            belief = agreed[i] * scale
            agreed[i] = belief / (sent[i] * sent_scale) if sent[i] > _TINY else 0.0
            sent[i] = belief
        _read_sepset(plan, child)
    for k in range(plan.read_starts[clique], plan.read_starts[clique + 1]):
        _scale(array_at(plan.reads[k], plan.cardinalities[plan.read_variables[k]]), scale)
    if plan.beliefs[clique] and scale != 1.0:
        _scale(array_at(plan.beliefs[clique], _entries(plan, plan.scope_starts, plan.scopes, clique)), scale)
    if plan.parents[clique] < 0:
        plan.log_scales[clique] = taken_out + math.log(total)
    return True


@_inside
def _read_sepset(plan: Plan, clique: int) -> None:
    """Sum the belief of a sepset to the marginals that are read from it."""
    reads = plan.sepset_read_starts[clique + 1] - plan.sepset_read_starts[clique]
    if reads:
        begin = plan.sepset_starts[clique]
        axes = plan.sepset_starts[clique + 1] - begin
        cardinalities = np.empty(axes, np.int64)
        strides = np.zeros((1 + reads, axes), np.int64)
        addresses = np.empty(1 + reads, np.int64)
        sizes = np.empty(1 + reads, np.int64)
        for row in range(1, 1 + reads):
            k = plan.sepset_read_starts[clique] + row - 1
            variable = plan.sepset_read_variables[k]
            addresses[row] = plan.sepset_reads[k]
            sizes[row] = plan.cardinalities[variable]
            for axis in range(axes):
                if plan.sepsets[begin + axis] == variable:
                    strides[row, axis] = 1
            _scale(array_at(addresses[row], sizes[row]), 0.0)
        size = 1
        for axis in range(axes - 1, -1, -1):
            cardinalities[axis] = plan.cardinalities[plan.sepsets[begin + axis]]
            strides[0, axis] = size
            size *= cardinalities[axis]
        addresses[0], sizes[0] = plan.upward[clique], size
        contract_whole(Rows(cardinalities, strides, addresses, sizes, sizes.size - reads), 0, 0)


@_compile
def propagate(plan: Plan, phase: int, cliques: Integers, place: int) -> int:
    """Work through cliques, from a place in a list on, until a large one comes that is not the first, or for long.

    Returns the place that comes next: the same one if a large clique has to be done with logarithms, −1 if one is zero
    everywhere.
    """
    work = 0
    first = place
    while place < cliques.size and work < _WORK:
        clique = cliques[place]
        size = _entries(plan, plan.scope_starts, plan.scopes, clique)
        if size >= LARGE and place > first:
            break
        work += size
        if phase == COLLECT and plan.parents[clique] < 0:
            # A root has nobody to send to.
            place += 1
            continue
        rows = rows_of(plan, clique, phase)
        _clear(rows)
        product = plan.beliefs[clique] if phase == DISTRIBUTE else 0
        # Away from the root the total is one already: the message from the parent sees to that.
        total_wanted = plan.parents[clique] < 0
        total, taken_out = 0.0, 0.0
        if not plan.logarithmic[clique]:
            if size >= LARGE:
                total = contract_alone(rows, product, total_wanted)
            elif size >= MERGING:
                fewer, arena = merge_inputs(rows)
                total = contract_whole(fewer, product, total_wanted)
                # Alive until here: the contraction knows it by its address only.
                total += 0.0 * arena.size
            else:
                total = contract_whole(rows, product, total_wanted)
        if plan.logarithmic[clique] or vanished(plan, clique, phase, total):
            if size >= LARGE:
                # Logarithms take so long that the caller makes them, and looks at the clock.
                break
            _clear(rows)
            total, logarithm = contract_logarithms(rows, product)
            if phase == COLLECT or plan.parents[clique] < 0:
                taken_out = logarithm
        if not finish(plan, clique, phase, total, taken_out):
            return -1
        place += 1
    return place
