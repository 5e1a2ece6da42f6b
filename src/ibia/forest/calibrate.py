"""Calibration: two passes of messages per tree, after which neighbouring beliefs agree on their sepsets.

Beliefs come out normalised; the constants taken out on the way are collected in log Z, so nothing over- or underflows.
The trees are laid out in flat arrays here and worked through by ``propagate.py``.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.control import TooSlow
from ibia.flat import Remembered, ends, flat
from ibia.forest.branches import Branches, walk_trees
from ibia.forest.forest import Edge, Forest, edge
from ibia.forest.layout import Trees, assign_readings
from ibia.forest.logarithms import propagate_logarithms
from ibia.forest.propagate import COLLECT, DISTRIBUTE, Plan, finish, propagate, rows_of, vanished
from ibia.tables import Space, Table, memory
from ibia.tables.contract import LARGE, Rows, contract_in_chunks, contract_logarithms_in_parts
from ibia.tables.kernels import address_of
from ibia.tables.threads import worth_sharing

__all__ = ["Calibrated", "Inputs", "Marginals", "Structure", "ZeroMassError", "calibrate"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Potentials = Mapping[int, Sequence[Table]]

# Products whose smallest entries may fall below e^−600 are looked at again, and made of logarithms if need be.
_LONGEST_RANGE = 600.0
# Of messages, entries below 1E-200 count as zero, which is e^−460: where they could count for more than e^−60 of the
# whole, all messages are made of logarithms.
_FAR_APART = 400.0
# Of tables that range no further than this, several can be multiplied, and divided by one another.
_NEAR = 100.0
# With logarithms every entry of a clique takes this long at least, there and back. Where there is not as much time, it
# is better spent on something else.
_LOGARITHM_SECONDS = 1e-7


class Inputs(NamedTuple):
    """The tables whose product belongs to each clique; whoever makes this keeps them alive.

    Attributes
    ----------
    starts
        Clique → where its tables begin; one number more says where the last ones end.
    scope_starts, scopes
        Variables of each table.
    addresses
        Where its entries are.
    spreads
        Logarithm of its largest over its smallest positive entry.
    """

    starts: Integers
    scope_starts: Integers
    scopes: Integers
    addresses: Integers
    spreads: Array


class Calibrated(NamedTuple):
    """What calibration tells.

    Attributes
    ----------
    log_z
        The sum of the trees' logarithms of total mass.
    whole
        Whether no entry can have vanished, here or where a few of these tables are multiplied or divided later. It
        takes some time to tell, and is False where that was not asked for.
    """

    log_z: float
    whole: bool


class ZeroMassError(ArithmeticError):
    """The product of all tables of a tree is zero everywhere."""


def calibrate(
    forest: Forest,
    space: Space,
    potentials: Potentials,
    divisors: Mapping[Edge, Table] | None = None,
    *,
    far_apart: bool = False,
    measure: bool = False,
    structure: Structure | None = None,
) -> Calibrated:
    """Calibrate every tree.

    Afterwards the forest has new beliefs and sepsets; each sums to one.

    Parameters
    ----------
    potentials
        Tables whose product belongs to each clique.
    divisors
        Sepset beliefs to divide out, where the potentials contain beliefs of cliques that shared them.
    far_apart
        Whether numbers are known to be so far apart that what is possible might vanish.
    measure
        Whether to tell if all is whole; the potentials' own spreads have to be known then.
    structure
        That of the forest, where it is calibrated more than once.
    """
    if structure is None:
        structure = Structure(forest, space)
    layout = _Layout(structure.shape, structure.inputs(potentials), space)
    if divisors is not None:
        shared = [divisors.get(key) for key in structure.edges]
        layout.plan.divisors[:] = [0 if table is None else address_of(table.values) for table in shared]
    beliefs, sepsets = structure.unset(space)
    log_z = layout.calibrate(beliefs.values(), sepsets.values(), far_apart)
    forest.beliefs, forest.sepsets = beliefs, sepsets
    return Calibrated(log_z, measure and not far_apart and layout.beliefs_whole(beliefs.values()))


class Marginals:
    """The marginals of all variables of some trees, without ever holding a belief.

    They can be had again and again, when the entries of the inputs have changed.

    Parameters
    ----------
    cardinalities
        Of the variables of the space, all of which are in some clique.

    Attributes
    ----------
    values
        The marginals, end to end.
    """

    def __init__(self, trees: Trees, cardinalities: Integers, inputs: Inputs, space: Space) -> None:
        self._layout = _Layout(_Shape(trees, cardinalities), inputs, space)
        self._far_apart = bool(inputs.spreads.sum() > _FAR_APART)
        self._ends = cardinalities.cumsum().tolist()
        self.values = self._layout.read_all()

    def run(self) -> float:
        """Set the marginals, and return log Z."""
        if not self._far_apart:
            return self._layout.run()
        try:
            log_z = self._layout.run()
            if self._layout.nothing_lost():
                return log_z
        except ZeroMassError:
            pass
        return self._layout.run_logarithms()

    def apart(self) -> list[Array]:
        """Return the marginal of each variable."""
        return [self.values[start:stop] for start, stop in pairwise([0, *self._ends])]


class _Shape:
    """Trees in flat arrays, and what follows from their sizes."""

    def __init__(self, trees: Trees, cardinalities: Integers) -> None:
        self.trees = trees
        self.cardinalities = cardinalities
        self.count = trees.parents.size
        # Entries of each clique's product, and of each edge's messages; a root has none.
        self.clique_sizes = np.multiply.reduceat(cardinalities[trees.scopes], trees.scope_starts[:-1], dtype=float)
        has_parent = trees.parents >= 0
        self.sepset_sizes = np.zeros(self.count, np.int64)
        self.sepset_sizes[has_parent] = np.multiply.reduceat(
            cardinalities[trees.sepsets], trees.sepset_starts[:-1][has_parent]
        )

    @cached_property
    def branches(self) -> Branches:
        """Cliques that can be worked on side by side, and the others."""
        return Branches.cut(self.trees.parents, self.clique_sizes)


class Structure:
    """What calibration has to know of a forest beside its tables.

    Attributes
    ----------
    cliques
        Parents before children.
    edges
        Of each clique with its parent (with −1, if it is a root).
    shape
        The same in flat arrays.
    """

    def __init__(self, forest: Forest, space: Space) -> None:
        walks = walk_trees(forest, space)
        self.cliques = [clique for clique, _ in walks]
        self.edges = [edge(clique, parent) for clique, parent in walks]
        self._scopes = [forest.scopes[clique] for clique in self.cliques]
        self._sepsets = [forest.neighbours[clique][parent] if parent >= 0 else () for clique, parent in walks]
        position = {-1: -1} | {clique: place for place, clique in enumerate(self.cliques)}
        parents = [position[parent] for _, parent in walks]
        children: list[list[int]] = [[] for _ in walks]
        for place, parent in enumerate(parents):
            if parent >= 0:
                children[parent].append(place)
        trees = Trees(*flat(self._scopes), np.array(parents, np.int64), *flat(children), *flat(self._sepsets))
        self.shape = _Shape(trees, space.states)
        self._input_scopes = Remembered()

    def inputs(self, potentials: Potentials) -> Inputs:
        """Lay out the tables whose product belongs to each clique."""
        tables = [potentials[clique] for clique in self.cliques]
        inputs = list(chain.from_iterable(tables))
        return Inputs(
            ends([len(part) for part in tables]),
            *self._input_scopes.flat([table.scope for table in inputs]),
            np.array([address_of(table.values) for table in inputs], np.int64),
            np.array([table.spread for table in inputs]),
        )

    def unset(self, space: Space) -> tuple[dict[int, Table], dict[Edge, Table]]:
        """Return tables of all cliques and sepsets that are about to be written."""
        beliefs = space.unset_each(self._scopes, self.shape.clique_sizes.astype(np.int64))
        sepsets = space.unset_each(self._sepsets, self.shape.sepset_sizes)
        edges = {key: table for key, table in zip(self.edges, sepsets, strict=True) if key[0] >= 0}
        return dict(zip(self.cliques, beliefs, strict=True)), edges


class _Layout:
    """A forest in flat arrays, and the memory of its messages.

    Messages of large edges get memory when they are made and lose it when they are used up; only large cliques have
    such edges, and those are handled here, one at a time.
    """

    def __init__(self, shape: _Shape, inputs: Inputs, space: Space) -> None:
        self.space = space
        self.shape = shape
        count = shape.count
        nothing, no_reads = np.empty(0, np.int64), np.zeros(count + 1, np.int64)
        self.plan = Plan(
            shape.cardinalities,
            *shape.trees,
            input_starts=inputs.starts,
            input_scope_starts=inputs.scope_starts,
            input_scopes=inputs.scopes,
            inputs=inputs.addresses,
            logarithmic=np.zeros(count, np.bool_),
            divisors=np.zeros(count, np.int64),
            upward=np.zeros(count, np.int64),
            ratios=np.zeros(count, np.int64),
            downward=np.zeros(count, np.int64),
            scales=np.ones(count),
            attenuations=np.zeros(count),
            ranges=np.zeros(count),
            log_scales=np.zeros(count),
            beliefs=np.zeros(count, np.int64),
            read_starts=no_reads,
            read_variables=nothing,
            reads=nothing,
            sepset_read_starts=no_reads,
            sepset_read_variables=nothing,
            sepset_reads=nothing,
        )
        self._inputs = inputs
        self._arena: Array | None = None
        self._messages: dict[tuple[str, int], Array] = {}
        self._keep = False

    def calibrate(self, beliefs: Iterable[Table], sepsets: Iterable[Table], far_apart: bool) -> float:
        """Pass all messages, write the beliefs of cliques and sepsets to these tables, and return log Z."""
        self._keep = True
        self.plan.beliefs[:] = [address_of(table.values) for table in beliefs]
        self.plan.upward[self.plan.parents >= 0] = [address_of(table.values) for table in sepsets]
        if far_apart:
            return self.run_logarithms()
        wide = self._spreads() > _LONGEST_RANGE
        if not wide.any():
            return self.run()
        try:
            log_z = self.run()
            if self._most_lost(wide) < _LONGEST_RANGE:
                return log_z
        except ZeroMassError:
            pass
        self.plan.logarithmic[wide] = True
        return self.run()

    def _spreads(self) -> Array:
        """Return for each clique how far apart the entries of its inputs' product are at most."""
        starts = self._inputs.starts
        owners = np.arange(self.shape.count).repeat(starts[1:] - starts[:-1])
        spreads = np.zeros(self.shape.count)
        np.add.at(spreads, owners, self._inputs.spreads)
        return spreads

    def read_all(self) -> Array:
        """Give the marginals of all variables memory, end to end, to be filled by `run`."""
        cardinalities = self.plan.cardinalities
        readings = assign_readings(self.shape.trees, cardinalities)
        ends = cardinalities.cumsum()
        values = memory.allocate(int(ends[-1]), 0.0)
        addresses = address_of(values) + 8 * (ends - cardinalities)
        self.plan = self.plan._replace(
            read_starts=readings.starts,
            read_variables=readings.variables,
            reads=addresses[readings.variables],
            sepset_read_starts=readings.sepset_starts,
            sepset_read_variables=readings.sepset_variables,
            sepset_reads=addresses[readings.sepset_variables],
        )
        return values

    def run(self) -> float:
        """Pass all messages and return log Z."""
        if not self.shape.count:
            return 0.0
        if self._arena is None:
            self._allocate()
        self.plan.scales.fill(1.0)
        control = self.space.control
        self.shape.branches.inwards(partial(self._pass, COLLECT), control)
        self.shape.branches.outwards(partial(self._pass, DISTRIBUTE), control)
        return math.fsum(self.plan.log_scales)

    def run_logarithms(self) -> float:
        """Do the same with logarithms: slowly, but no number vanishes."""
        if not self.shape.count:
            return 0.0
        control = self.space.control
        if control.left() < _LOGARITHM_SECONDS * self.shape.clique_sizes.sum():
            raise TooSlow
        log_z = propagate_logarithms(self.plan, self.shape.sepset_sizes, control)
        if log_z == -math.inf:
            raise ZeroMassError
        return log_z

    def beliefs_whole(self, beliefs: Iterable[Table]) -> bool:
        """Tell whether no entry of a belief or message can have vanished, nor can where some of them are multiplied.

        What a parent sends is its belief, summed, over what it received: it ranges no further than both together.
        """
        plan = self.plan
        ranges = np.array([table.measured_spread() for table in beliefs])
        from_parent = np.where(plan.parents >= 0, ranges[plan.parents] + plan.ranges, 0.0)
        within = self._ranges_met() + from_parent <= _LONGEST_RANGE
        return bool((within & (ranges <= _NEAR) & (plan.ranges <= _NEAR)).all())

    def _ranges_met(self) -> Array:
        """Return for each clique how far apart the entries of its inputs, times what its children sent, can be."""
        plan = self.plan
        has_parent = plan.parents >= 0
        return self._spreads() + np.bincount(plan.parents[has_parent], plan.ranges[has_parent], self.shape.count)

    def nothing_lost(self) -> bool:
        """Tell whether no entry of a message that counts was taken for zero.

        Where the inputs of a clique, and what its children sent, are not far apart, its product is sure to be whole.
        """
        doubtful = (self._ranges_met() > _LONGEST_RANGE) | (self.plan.ranges > _FAR_APART)
        return not doubtful.any() or self._most_lost(doubtful) < _FAR_APART

    def _most_lost(self, cliques: NDArray[np.bool_]) -> float:
        """Return the logarithm of how many times as much as e^−708 of the total some cliques can have lost.

        Entries that vanish from a clique's product are below e^−708. No other table has entries over one, so of the
        total they are below that over the scales taken out between the clique and its root.
        """
        lost = self.plan.attenuations.copy()
        for place, parent in enumerate(self.plan.parents.tolist()):
            if parent >= 0:
                lost[place] += lost[parent]
        return float(lost[cliques].max())

    def _allocate(self) -> None:
        """Give the messages of all edges that are not large their places in one array."""
        plan = self.plan
        small = self.shape.sepset_sizes < LARGE
        sizes = self.shape.sepset_sizes * small
        ends = sizes.cumsum()
        total = int(ends[-1])
        divided = bool(plan.divisors.any())
        self._arena = memory.allocate_unset((3 if divided else 2) * total)
        places = address_of(self._arena) + 8 * (ends - sizes)
        np.copyto(plan.downward, places, where=small)
        if not self._keep:
            np.copyto(plan.upward, places + 8 * total, where=small)
        plan.ratios[:] = plan.upward
        if divided:
            np.copyto(plan.ratios, places + 16 * total, where=small & (plan.divisors != 0))

    def _pass(self, phase: int, cliques: Integers) -> None:
        """Work through cliques one after the other."""
        cliques = np.ascontiguousarray(cliques)
        control = self.space.control
        place = 0
        while place < cliques.size:
            control.check()
            clique = int(cliques[place])
            entries = self.shape.clique_sizes[clique]
            large = entries >= LARGE
            if large:
                self._provide(phase, clique)
            following, logarithmic = place + 1, bool(self.plan.logarithmic[clique])
            if large and (worth_sharing(entries, control) or logarithmic):
                self._one_by_one(phase, clique, logarithmic)
            else:
                following = propagate(self.plan, phase, cliques, place)
                if following == place:
                    self._one_by_one(phase, clique, True)
                    following += 1
            if following < 0:
                raise ZeroMassError
            place = following
            if large and phase == DISTRIBUTE:
                self._let_go(clique)

    def _one_by_one(self, phase: int, clique: int, logarithmic: bool) -> None:
        """Do what `propagate` does for one large clique, on several threads, or with logarithms."""
        plan = self.plan
        has_parent = bool(plan.parents[clique] >= 0)
        if phase == COLLECT and not has_parent:
            return
        rows = rows_of(plan, clique, phase)
        _clear(rows)
        product = int(plan.beliefs[clique]) if phase == DISTRIBUTE else 0
        total, log_scale = 0.0, 0.0
        if not logarithmic:
            total = contract_in_chunks(rows, product, not has_parent, self.space.control)
        if logarithmic or vanished(plan, clique, phase, total):
            _clear(rows)
            total, logarithm = contract_logarithms_in_parts(rows, product, self.space.control)
            if phase == COLLECT or not has_parent:
                log_scale = logarithm
        if not finish(plan, clique, phase, total, log_scale):
            raise ZeroMassError

    def _children(self, clique: int) -> list[int]:
        plan = self.plan
        return list(map(int, plan.children[plan.child_starts[clique] : plan.child_starts[clique + 1]]))

    def _provide(self, phase: int, clique: int) -> None:
        """Get memory for the messages that a large clique is about to send."""
        plan = self.plan
        if phase == DISTRIBUTE:
            for child in self._children(clique):
                self._give("downward", child)
        elif plan.parents[clique] >= 0:
            self._give("upward", clique)
            if plan.divisors[clique]:
                self._give("ratios", clique)
            else:
                plan.ratios[clique] = plan.upward[clique]

    def _let_go(self, clique: int) -> None:
        """Give back the memory of messages that a large clique has used up."""
        for child in self._children(clique):
            self._messages.pop(("ratios", child), None)
        self._messages.pop(("upward", clique), None)
        self._messages.pop(("downward", clique), None)

    def _give(self, kind: str, place: int) -> None:
        """Allocate a large edge's message, unless it has lasting memory."""
        addresses: Integers = getattr(self.plan, kind)
        if self.shape.sepset_sizes[place] >= LARGE and not (self._keep and kind == "upward"):
            message = memory.allocate_unset(int(self.shape.sepset_sizes[place]))
            self._messages[kind, place] = message
            addresses[place] = address_of(message)


def _clear(rows: Rows) -> None:
    """Set all outputs of a contraction to zero."""
    for address, size in zip(rows.addresses[rows.inputs :].tolist(), rows.sizes[rows.inputs :].tolist(), strict=True):
        ctypes.memset(address, 0, 8 * size)
