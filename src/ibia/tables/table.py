"""Tables: flat float64 arrays over ordered scopes of variables, and the few operations inference needs.

A scope is a sorted tuple of variable numbers; the first variable varies slowest. Tables know nothing of forests.
Methods whose name ends in ``_in`` change the table they are called on; all others return new tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.control import Control
from ibia.tables import kernels, memory
from ibia.tables.contract import LARGE, Rows, contract_in_chunks
from ibia.tables.kernels import ROUNDING, SMALLEST_MASS
from ibia.tables.maps import IndexMap, index_map
from ibia.tables.threads import run_parts, worth_sharing

__all__ = ["Scope", "Space", "Table"]

Scope = tuple[int, ...]
Integers = NDArray[np.int64]

# Maps are small (a few thousand entries); this many are kept before the cache starts afresh.
_CACHED_MAPS = 20_000
# Large tables are worked on in so many parts, which may go to several threads.
_PARTS = 4
# Tables that are made together share arrays of so many entries.
_SHARED = 2**20


class Space:
    """The variables of one inference problem: their cardinalities, and the index maps between scopes over them.

    Parameters
    ----------
    cardinalities
        Number of states of each variable; the variable is its position.
    control
        What the run may use; every operation on tables of this space asks it.
    """

    def __init__(self, cardinalities: tuple[int, ...], control: Control | None = None) -> None:
        self.cardinalities = cardinalities
        self.control = control or Control()
        self._maps: dict[tuple[Scope, Scope], tuple[IndexMap, int]] = {}
        self._patterns: dict[tuple[Scope, int], tuple[IndexMap, int]] = {}

    @cached_property
    def log2(self) -> tuple[float, ...]:
        """Bits of each variable."""
        return tuple(math.log2(cardinality) for cardinality in self.cardinalities)

    @cached_property
    def states(self) -> Integers:
        """The cardinalities as compiled code wants them."""
        return np.array(self.cardinalities, np.int64)

    def size(self, scope: Scope) -> int:
        """Return the number of entries of a table over `scope`."""
        return math.prod(map(self.cardinalities.__getitem__, scope))

    def bits(self, scope: frozenset[int] | set[int] | Scope) -> float:
        """Return log2 of the number of entries of a table over `scope` (the paper's clique size)."""
        return math.fsum(map(self.log2.__getitem__, scope))

    def partner(self, scope: Scope, subscope: Scope) -> tuple[IndexMap, int]:
        """Return the index map from `scope` into `subscope`, and the size of the latter."""
        found = self._maps.get((scope, subscope))
        if found is None:
            kept = frozenset(subscope)
            cardinalities = tuple(self.cardinalities[variable] for variable in scope)
            mask = 0
            for variable in scope:
                mask = 2 * mask + (variable in kept)
            found = self._patterns.get((cardinalities, mask))
            if found is None:
                strides, size = [0] * len(scope), 1
                for axis in range(len(scope) - 1, -1, -1):
                    if scope[axis] in kept:
                        strides[axis] = size
                        size *= cardinalities[axis]
                found = index_map(cardinalities, tuple(strides)), size
                if len(self._patterns) >= _CACHED_MAPS:
                    self._patterns.clear()
                self._patterns[cardinalities, mask] = found
            if len(self._maps) >= _CACHED_MAPS:
                self._maps.clear()
            self._maps[scope, subscope] = found
        return found

    def unset(self, scope: Scope) -> Table:
        """Return a table over `scope` that is about to be written."""
        return Table(self, scope, memory.allocate_unset(self.size(scope)))

    def unset_each(self, scopes: Collection[Scope], sizes: Integers) -> list[Table]:
        """Return tables of these sizes that are about to be written, and will be needed about as long as each other.

        Several that are not large share an array: to get one takes as long as work on some thousand entries.
        """
        totals = sizes.cumsum()
        tables: list[Table] = []
        shared, place = memory.allocate_unset(0), 0
        for scope, size in zip(scopes, sizes.tolist(), strict=True):
            if place + size > shared.size:
                number = len(tables)
                begun = int(totals[number]) - size
                end = max(int(np.searchsorted(totals, begun + _SHARED, "right")), number + 1)
                shared, place = memory.allocate_unset(int(totals[end - 1]) - begun), 0
            tables.append(Table(self, scope, shared[place : place + size]))
            place += size
        return tables

    def rows(self, scope: Scope, inputs: Sequence[Table], outputs: Sequence[Table]) -> Rows:
        """Return the contraction of `inputs` over `scope` to `outputs`."""
        own = np.array([self.cardinalities[variable] for variable in scope], np.int64)
        tables = [*inputs, *outputs]
        strides = np.zeros((len(tables), len(scope)), np.int64)
        place = {variable: axis for axis, variable in enumerate(scope)}
        for row, table in enumerate(tables):
            stride = 1
            for variable in reversed(table.scope):
                strides[row, place[variable]] = stride
                stride *= self.cardinalities[variable]
        addresses = np.array([kernels.address_of(table.values) for table in tables], np.int64)
        sizes = np.array([table.values.size for table in tables], np.int64)
        return Rows(own, strides, addresses, sizes, len(inputs))

    def contraction(self, scope: Scope, tables: Sequence[Table], subscope: Scope) -> Table:
        """Return the product of tables over `scope`, summed to `subscope`."""
        self.control.check()
        result = Table(self, subscope, memory.allocate(self.size(subscope), 0.0))
        contract_in_chunks(self.rows(scope, tables, [result]), 0, False, self.control)
        return result

    def ones(self, scope: Scope) -> Table:
        """Return a table of ones over `scope`."""
        return Table(self, scope, memory.allocate(self.size(scope), 1.0))


class Table:
    """A non-negative function of the variables in `scope`, stored flat in row-major order.

    Attributes
    ----------
    spread
        Logarithm of the largest over the smallest positive entry, of factors and wherever it was measured (else 0).
    """

    __slots__ = ("scope", "space", "spread", "values")

    def __init__(self, space: Space, scope: Scope, values: NDArray[np.float64], spread: float = 0.0) -> None:
        self.space = space
        self.scope = scope
        self.values = values
        self.spread = spread

    def __repr__(self) -> str:
        return f"Table({self.scope}, {self.values.size} entries)"

    def copy(self) -> Table:
        """Return a copy that shares no memory."""
        values = memory.allocate_unset(self.values.size)
        values[:] = self.values
        return Table(self.space, self.scope, values)

    def marginal(self, subscope: Scope) -> Table:
        """Sum out every variable that is not in `subscope`."""
        if subscope == self.scope:
            return self.copy()
        if self.values.size >= LARGE:
            return self.marginals([subscope])[0]
        partner, size = self.space.partner(self.scope, subscope)
        out = memory.allocate(size, 0.0)
        kernels.marginalise(self.values, *partner, out)
        return Table(self.space, subscope, out)

    def over(self, subscope: Scope) -> Table:
        """Return the marginal over `subscope` to be read only: if that is the whole scope, this very table."""
        return self if subscope == self.scope else self.marginal(subscope)

    def marginals(self, subscopes: Sequence[Scope]) -> list[Table]:
        """Return the marginals over several subscopes in one pass."""
        space = self.space
        space.control.check()
        outputs = [Table(space, scope, memory.allocate(space.size(scope), 0.0)) for scope in subscopes]
        contract_in_chunks(space.rows(self.scope, [self], outputs), 0, False, space.control)
        return outputs

    def multiply_in(self, other: Table) -> Table:
        """Multiply by `other`, whose scope lies within this one."""
        return self._multiply(other, self)

    def times(self, other: Table) -> Table:
        """Return the product with `other`, whose scope lies within this one."""
        return self._multiply(other, self.space.unset(self.scope))

    def _multiply(self, other: Table, result: Table) -> Table:
        """Write to `result` (perhaps this table) the product with `other`."""
        partner, _ = self.space.partner(self.scope, other.scope)
        if result is self:
            self._in_parts(kernels.multiply_in, (0, 1), self.values, *partner, other.values)
        else:
            self._in_parts(kernels.multiply_to, (0, 1, 6), self.values, *partner, other.values, result.values)
        return result

    def _in_parts(
        self, kernel: Callable[..., Any], cut: Sequence[int], *arguments: Any, adding: bool = False
    ) -> list[Any]:
        """Call a kernel; where this table is large, for parts of some arguments, on several threads.

        Parameters
        ----------
        cut
            Which arguments are cut: arrays whose sizes are whole multiples of the smallest one's.
        adding
            Whether what it returns is added up. How it is cut then depends on sizes alone, so that the sums do not
            depend on the number of threads.
        """
        size, control = self.values.size, self.space.control
        if size >= LARGE:
            control.check()
        if size < LARGE or not (adding or worth_sharing(size, control)):
            return [kernel(*arguments)]
        sizes = {place: arguments[place].size for place in cut}
        count = min(sizes.values())
        ends = [count * part // _PARTS for part in range(_PARTS + 1)]
        parts = []
        for first, last in pairwise(ends):
            if first < last:
                own = list(arguments)
                for place, length in sizes.items():
                    own[place] = arguments[place][first * (length // count) : last * (length // count)]
                parts.append(partial(kernel, *own))
        return run_parts(parts, size, control)

    def divide_in(self, divisor: Table, zero_value: float = 0.0) -> Table:
        """Divide by a table of the same scope; where the divisor is zero the result is `zero_value`."""
        self._in_parts(kernels.divide_in, (0, 1), self.values, divisor.values, zero_value)
        return self

    def blend_in(self, old: Table, weight: float) -> Table:
        """Move only part of the way (geometrically) from `old` to this table."""
        self._in_parts(kernels.blend_in, (0, 1), self.values, old.values, weight)
        return self

    def measured_spread(self) -> float:
        """Return the logarithm of the largest over the smallest positive entry (0 if there is none)."""
        largest = float(self.values.max())
        smallest = float(self.values.min(where=self.values > 0.0, initial=largest))
        return math.log(largest) - math.log(smallest) if smallest > 0.0 else 0.0

    def soften_in(self, part: float) -> Table:
        """Mix in a table of ones with weight `part`."""
        self.scale_in(1.0 - part)
        self.values += part
        return self

    def reciprocal(self) -> Table:
        """Return one over this table, and zero where it is zero."""
        return self.space.ones(self.scope).divide_in(self)

    def scale_in(self, factor: float) -> Table:
        """Multiply every entry by `factor`."""
        self._in_parts(kernels.scale_in, (0,), self.values, factor)
        return self

    def mass(self) -> float:
        """Return the sum of all entries."""
        return math.fsum(self._in_parts(kernels.total, (0,), self.values, adding=True))

    def normalise_in(self) -> float:
        """Scale to sum one and return the logarithm of the former sum (minus infinity: the table is all zero)."""
        mass = self.mass()
        if mass <= 0.0:
            return -math.inf
        if mass < SMALLEST_MASS:
            self.scale_in(1.0 / SMALLEST_MASS)
            return math.log(SMALLEST_MASS) + self.normalise_in()
        if abs(mass - 1.0) > ROUNDING:
            self.scale_in(1.0 / mass)
        return math.log(mass)

    def entropy(self) -> float:
        """Return the entropy in nats (of a table that sums to one)."""
        return math.fsum(self._in_parts(kernels.entropy, (0,), self.values, adding=True))

    def entropy_without(self, variable: int) -> float:
        """Return the entropy in nats of the marginal over all other variables."""
        axis = self.scope.index(variable)
        inner = self.space.size(self.scope[axis + 1 :])
        return float(kernels.entropy_without(self.values, self.space.cardinalities[variable], inner))

    def distance(self, other: Table) -> float:
        """Return the largest absolute difference to a table of the same scope."""
        return float(max(self._in_parts(kernels.largest_difference, (0, 1), self.values, other.values)))

    def extended(self, scope: Scope) -> Table:
        """Return the same function over a larger scope."""
        if scope == self.scope:
            return self.copy()
        result = self.space.unset(scope)
        partner, _ = self.space.partner(scope, self.scope)
        result._in_parts(kernels.gather, (0, 6), *partner, self.values, 0, result.values)
        return result
