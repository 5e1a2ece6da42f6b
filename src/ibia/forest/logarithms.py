"""Messages in logarithms: for trees whose numbers are so far apart that ordinary ones would vanish.

Slow, and seldom needed: only where ordinary messages have lost something that counts (``calibrate.py``). Beliefs are
ordinary numbers all the same; in them what is possible stays so, if only by a least number.
"""

from __future__ import annotations

import ctypes
import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.flat import ends
from ibia.forest.propagate import COLLECT, DISTRIBUTE, Plan, rows_of
from ibia.tables import memory
from ibia.tables.contract import sum_logarithms
from ibia.tables.kernels import address_of

__all__ = ["propagate_logarithms"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# The least logarithm of a belief: below it, divisions take numbers for zero (TINY of the kernels is e^−460).
_LEAST = -440.0


def propagate_logarithms(plan: Plan, sizes: Integers, control: Control) -> float:
    """Set the marginals and beliefs that a plan asks for, and return log Z (minus infinity: nothing is possible).

    Parameters
    ----------
    plan
        Where it has beliefs of cliques, those of sepsets come in the place of upward messages.
    sizes
        Entries of each edge's message, none for a root.
    """
    inputs, addresses = _logarithms(plan)
    upward, downward = _Messages(sizes), _Messages(sizes)
    ratios = _Messages(sizes) if plan.divisors.any() else upward
    sepsets = plan.upward
    plan = plan._replace(
        inputs=addresses, upward=upward.addresses, ratios=ratios.addresses, downward=downward.addresses
    )
    log_z = 0.0
    for clique in range(sizes.size - 1, -1, -1):
        if plan.parents[clique] >= 0:
            sum_logarithms(rows_of(plan, clique, COLLECT), 0, control)
            largest = float(upward[clique].max())
            if largest == -math.inf:
                return largest
            upward[clique] -= largest
            log_z += largest
            if ratios is not upward:
                ratios[clique] = _over(upward[clique], _divisor(plan, clique, sizes[clique]))
    for clique in range(sizes.size):
        belief = int(plan.beliefs[clique])
        log_total = sum_logarithms(rows_of(plan, clique, DISTRIBUTE), belief, control)
        if log_total == -math.inf:
            return log_total
        if plan.parents[clique] < 0:
            log_z += log_total
        if belief:
            scope = plan.scopes[plan.scope_starts[clique] : plan.scope_starts[clique + 1]]
            _write(_at(belief, int(np.prod(plan.cardinalities[scope]))), log_total)
        for child in plan.children[plan.child_starts[clique] : plan.child_starts[clique + 1]].tolist():
            agreed = downward[child] - log_total
            if belief:
                sepset = _at(sepsets[child], sizes[child])
                sepset[:] = agreed
                _write(sepset, 0.0)
            _read_sepset(plan, child, np.exp(agreed))
            downward[child] = _over(agreed, upward[child])
        for read in range(plan.read_starts[clique], plan.read_starts[clique + 1]):
            marginal = _at(plan.reads[read], plan.cardinalities[plan.read_variables[read]])
            marginal[:] = np.exp(marginal - log_total)
    # Logarithms are read by their addresses: they have to be there until now.
    del inputs
    return log_z


def _divisor(plan: Plan, clique: int, size: int) -> Array:
    """Return the logarithms of what a clique's message is to be divided by."""
    if not plan.divisors[clique]:
        return np.zeros(size)
    with np.errstate(divide="ignore"):
        return np.log(_at(plan.divisors[clique], size))


def _over(numerator: Array, denominator: Array) -> Array:
    """Divide in logarithms; over zero everything is zero."""
    return np.subtract(
        numerator, denominator, out=np.full_like(numerator, -math.inf), where=denominator > -math.inf
    )


def _write(table: Array, log_total: float) -> None:
    """Turn logarithms into a belief: what is possible does not vanish."""
    possible = table > -math.inf
    np.maximum(table - log_total, _LEAST, out=table, where=possible)
    np.exp(table, out=table)


class _Messages:
    """One message for each edge, end to end in one array."""

    def __init__(self, sizes: Integers) -> None:
        self._ends = ends(sizes)
        self._values = memory.allocate(int(self._ends[-1]), -math.inf)
        self.addresses = address_of(self._values) + 8 * self._ends[:-1]

    def __getitem__(self, clique: int) -> Array:
        return self._values[self._ends[clique] : self._ends[clique + 1]]

    def __setitem__(self, clique: int, values: Array) -> None:
        self._values[self._ends[clique] : self._ends[clique + 1]] = values


def _logarithms(plan: Plan) -> tuple[Array, Integers]:
    """Return the logarithms of all inputs, end to end, and where each of them is."""
    sizes = np.multiply.reduceat(plan.cardinalities[plan.input_scopes], plan.input_scope_starts[:-1])
    starts = ends(sizes)
    values = memory.allocate_unset(int(starts[-1]))
    for address, size, (begin, end) in zip(plan.inputs, sizes, pairwise(starts), strict=True):
        values[begin:end] = _at(address, size)
    with np.errstate(divide="ignore"):
        np.log(values, out=values)
    return values, address_of(values) + 8 * starts[:-1]


def _read_sepset(plan: Plan, clique: int, belief: Array) -> None:
    """Sum the belief of a sepset to the marginals that are read from it."""
    scope = plan.sepsets[plan.sepset_starts[clique] : plan.sepset_starts[clique + 1]]
    for read in range(plan.sepset_read_starts[clique], plan.sepset_read_starts[clique + 1]):
        variable = plan.sepset_read_variables[read]
        outer = int(np.prod(plan.cardinalities[scope[scope < variable]]))
        size = int(plan.cardinalities[variable])
        _at(plan.sepset_reads[read], size)[:] = belief.reshape(outer, size, -1).sum(axis=(0, 2))


def _at(address: int, size: int) -> Array:
    """Return the numbers that are at an address."""
    return np.ctypeslib.as_array((ctypes.c_double * int(size)).from_address(int(address)))
