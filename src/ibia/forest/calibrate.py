"""Calibration: two passes of messages per tree, after which neighbouring beliefs agree on their sepsets.

Beliefs come out normalised; the constants taken out on the way are collected in log Z, so nothing over- or underflows.
The trees are laid out in flat arrays here and worked through by ``propagate.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.forest.forest import Edge, Forest, edge
from ibia.forest.propagate import (
    COLLECT,
    DISTRIBUTE,
    Plan,
    clear,
    finish,
    propagate,
    rows_of,
    smallest_holders,
    vanished,
)
from ibia.tables import Scope, Space, Table, memory
from ibia.tables.contract import LARGE, contract_in_chunks, contract_logarithms
from ibia.tables.memory import address_of

__all__ = ["ZeroMassError", "calibrate", "marginals"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Potentials = Mapping[int, Sequence[Table]]

# Products whose smallest entries may fall below e^−600 are looked at again, and made of logarithms if need be.
_LONGEST_RANGE = 600.0


class ZeroMassError(ArithmeticError):
    """The product of all tables of a tree is zero everywhere."""


def calibrate(
    forest: Forest, space: Space, potentials: Potentials, divisors: Mapping[Edge, Table] | None = None
) -> float:
    """Calibrate every tree and return log Z, the sum of the trees' logarithms of total mass.

    Afterwards the forest has new beliefs and sepsets; each sums to one.

    Parameters
    ----------
    potentials
        Tables whose product belongs to each clique.
    divisors
        Sepset beliefs to divide out, where the potentials contain beliefs of cliques that shared them.
    """
    layout = _Layout(forest, space, potentials, divisors or {})
    beliefs, sepsets = layout.keep_beliefs()
    log_z = layout.run()
    forest.beliefs, forest.sepsets = beliefs, sepsets
    return log_z


def marginals(forest: Forest, space: Space, potentials: Potentials) -> tuple[float, dict[int, Array]]:
    """Return log Z and the marginal of every variable, without ever holding a belief."""
    layout = _Layout(forest, space, potentials, {})
    values = layout.read_all()
    return layout.run(), values


def _starts(lengths: Sequence[int]) -> Integers:
    return np.fromiter(accumulate(lengths, initial=0), np.int64, len(lengths) + 1)


def _flat(parts: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Return where each part starts, and all parts one after the other."""
    starts = _starts([len(part) for part in parts])
    return starts, np.fromiter(chain.from_iterable(parts), np.int64, int(starts[-1]))


class _Layout:
    """A forest in flat arrays, and the memory of its messages.

    Messages of large edges get memory when they are made and lose it when they are used up; only large cliques have
    such edges, and those are handled here, one at a time.
    """

    def __init__(
        self, forest: Forest, space: Space, potentials: Potentials, divisors: Mapping[Edge, Table]
    ) -> None:
        self.space = space
        walks = list(chain.from_iterable(forest.trees()))
        self.order = [clique for clique, _ in walks]
        position = {clique: place for place, clique in enumerate(self.order)}
        position[-1] = -1
        self.keys = [edge(clique, parent) for clique, parent in walks]
        self.scopes = [forest.scopes[clique] for clique in self.order]
        self.sepsets: list[Scope] = [
            forest.neighbours[clique][parent] if parent >= 0 else () for clique, parent in walks
        ]
        # Entries of each edge's messages; a root has none.
        self.sizes = np.array([space.size(sepset) if sepset else 0 for sepset in self.sepsets], np.int64)
        parents = [position[parent] for _, parent in walks]
        children: list[list[int]] = [[] for _ in walks]
        for place, parent in enumerate(parents):
            if parent >= 0:
                children[parent].append(place)
        tables = [potentials[clique] for clique in self.order]
        inputs = list(chain.from_iterable(tables))
        shared = [divisors.get(key) for key in self.keys]
        scope_starts, scopes = _flat(self.scopes)
        child_starts, child_list = _flat(children)
        sepset_starts, sepsets = _flat(self.sepsets)
        input_scope_starts, input_scopes = _flat([table.scope for table in inputs])
        nothing = np.empty(0, np.int64)
        no_reads = np.zeros(len(walks) + 1, np.int64)
        self.plan = Plan(
            cardinalities=np.array(space.cardinalities, np.int64),
            scope_starts=scope_starts,
            scopes=scopes,
            parents=np.array(parents, np.int64),
            child_starts=child_starts,
            children=child_list,
            sepset_starts=sepset_starts,
            sepsets=sepsets,
            input_starts=_starts([len(part) for part in tables]),
            input_scope_starts=input_scope_starts,
            input_scopes=input_scopes,
            inputs=np.array([address_of(table.values) for table in inputs], np.int64),
            logarithmic=np.zeros(len(walks), np.bool_),
            divisors=np.array([0 if table is None else address_of(table.values) for table in shared], np.int64),
            upward=np.zeros(len(walks), np.int64),
            ratios=np.zeros(len(walks), np.int64),
            downward=np.zeros(len(walks), np.int64),
            scales=np.ones(len(walks)),
            attenuations=np.zeros(len(walks)),
            beliefs=np.zeros(len(walks), np.int64),
            read_starts=no_reads,
            read_variables=nothing,
            reads=nothing,
            sepset_read_starts=no_reads,
            sepset_read_variables=nothing,
            sepset_reads=nothing,
        )
        self._wide = [
            place for place, part in enumerate(tables) if math.fsum(table.spread for table in part) > _LONGEST_RANGE
        ]
        # What the addresses of the plan point to.
        self._alive = [inputs, shared]
        self._arenas: list[Array] = []
        self._messages: dict[tuple[str, int], Array] = {}
        self._keep = False

    def keep_beliefs(self) -> tuple[dict[int, Table], dict[Edge, Table]]:
        """Give beliefs and sepsets memory that lasts, to be filled by `run`."""
        self._keep = True
        beliefs = {clique: self.space.unset(scope) for clique, scope in zip(self.order, self.scopes, strict=True)}
        self.plan.beliefs[:] = [address_of(table.values) for table in beliefs.values()]
        sepsets = {}
        for place, sepset in enumerate(self.sepsets):
            if sepset:
                table = self.space.unset(sepset)
                self.plan.upward[place] = address_of(table.values)
                sepsets[self.keys[place]] = table
        return beliefs, sepsets

    def read_all(self) -> dict[int, Array]:
        """Give the marginals of all variables memory, to be filled by `run`."""
        places, in_sepset = smallest_holders(self.plan)
        held = np.flatnonzero(places >= 0)
        starts = _starts(self.plan.cardinalities[held].tolist())
        arena = memory.allocate(int(starts[-1]), 0.0)
        self._arenas.append(arena)
        addresses = address_of(arena) + 8 * starts[:-1]
        changes: dict[str, Any] = {}
        for prefix, chosen in (("", ~in_sepset[held]), ("sepset_", in_sepset[held])):
            order = np.argsort(places[held][chosen], kind="stable")
            counts = np.bincount(places[held][chosen], minlength=len(self.order))
            changes[f"{prefix}read_starts"] = _starts(counts.tolist())
            changes[f"{prefix}read_variables"] = held[chosen][order]
            changes[f"{prefix}reads"] = addresses[chosen][order]
        self.plan = self.plan._replace(**changes)
        return dict(zip(held.tolist(), np.split(arena, starts[1:-1]), strict=True))

    def run(self) -> float:
        """Pass all messages and return log Z."""
        if not self.order:
            return 0.0
        plan = self.plan
        small = (self.sizes > 0) & (self.sizes < LARGE)
        if not self._keep:
            self._allocate(plan.upward, small)
        self._allocate(plan.downward, small)
        plan.ratios[:] = plan.upward
        self._allocate(plan.ratios, small & (plan.divisors != 0))
        if not self._wide:
            return self._both_passes()
        try:
            log_z = self._both_passes()
            if self._nothing_lost():
                return log_z
        except ZeroMassError:
            pass
        plan.logarithmic[self._wide] = True
        return self._both_passes()

    def _both_passes(self) -> float:
        self.plan.scales.fill(1.0)
        return self._pass(COLLECT, len(self.order) - 1, -1) + self._pass(DISTRIBUTE, 0, len(self.order))

    def _nothing_lost(self) -> bool:
        """Tell whether what may have underflowed is too small to matter.

        Entries that vanish from a clique's product are below e^−708. No other table has entries over one, so of the
        total they are below that over the scales taken out between the clique and its root.
        """
        lost = self.plan.attenuations.copy()
        for place, parent in enumerate(self.plan.parents.tolist()):
            if parent >= 0:
                lost[place] += lost[parent]
        return bool(lost[self._wide].max() < _LONGEST_RANGE)

    def _allocate(self, addresses: Integers, chosen: NDArray[np.bool_]) -> None:
        """Give the messages of the chosen edges their places in one array."""
        starts = np.cumsum(self.sizes * chosen)
        arena = memory.allocate_unset(int(starts[-1]))
        self._arenas.append(arena)
        addresses[chosen] = address_of(arena) + 8 * (starts - self.sizes)[chosen]

    def _pass(self, phase: int, clique: int, stop: int) -> float:
        log_scale = 0.0
        step = 1 if stop > clique else -1
        while clique != stop:
            self.space.control.check()
            scale, clique = propagate(self.plan, phase, clique, stop)
            log_scale += scale
            if clique != stop and self.space.size(self.scopes[clique]) >= LARGE:
                log_scale += self._large(phase, clique)
                clique += step
            if math.isnan(log_scale):
                raise ZeroMassError
        return log_scale

    def _large(self, phase: int, clique: int) -> float:
        """Do what `propagate` does for one large clique; return the logarithm of the scale taken out."""
        plan = self.plan
        has_parent = bool(plan.parents[clique] >= 0)
        children = plan.children[plan.child_starts[clique] : plan.child_starts[clique + 1]].tolist()
        if phase == COLLECT:
            if not has_parent:
                return 0.0
            self._give("upward", clique)
            if plan.divisors[clique]:
                self._give("ratios", clique)
            else:
                plan.ratios[clique] = plan.upward[clique]
        else:
            for child in children:
                self._give("downward", child)
        rows = rows_of(plan, clique, phase)
        clear(rows)
        product = int(plan.beliefs[clique]) if phase == DISTRIBUTE else 0
        total, log_scale = 0.0, 0.0
        if not plan.logarithmic[clique]:
            total = contract_in_chunks(rows, product, not has_parent, self.space.control)
        if plan.logarithmic[clique] or vanished(plan, clique, phase, total):
            clear(rows)
            total, logarithm = contract_logarithms(rows, product)
            if phase == COLLECT or not has_parent:
                log_scale = logarithm
        log_scale += finish(plan, clique, phase, total)
        if phase == DISTRIBUTE:
            for child in children:
                self._messages.pop(("ratios", child), None)
            self._messages.pop(("upward", clique), None)
            self._messages.pop(("downward", clique), None)
        return log_scale

    def _give(self, kind: str, place: int) -> None:
        """Allocate a large edge's message, unless it has lasting memory."""
        addresses: Integers = getattr(self.plan, kind)
        if self.sizes[place] >= LARGE and not (self._keep and kind == "upward"):
            message = memory.allocate_unset(int(self.sizes[place]))
            self._messages[kind, place] = message
            addresses[place] = address_of(message)
