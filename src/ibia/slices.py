"""Slices: an exact answer within the bound for a component that does not fit it.

Some variables are held fixed, so that the rest fits (``slicing.py``). The answers for all their states add up to the
answer of the whole: no table exceeds the bound and nothing is lost. Only time is spent, about as much as the tables of
the whole would have taken; where cliques exceed the bound by a few bits, that is less than approximation takes
(``costs.py`` compares the two).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.alternative import Progress, Solved
from ibia.backward.posterior import Posterior
from ibia.control import Control, TooSlow
from ibia.costs import Costs
from ibia.flat import ends, flat
from ibia.forest.calibrate import Inputs, Marginals, ZeroMassError
from ibia.forest.checks import check_forest
from ibia.forest.forest import forest_of
from ibia.limits import available_memory, resident_memory
from ibia.prepare import Problem
from ibia.result import StepFigures
from ibia.sequence import Settings
from ibia.slicing import Level
from ibia.tables import Space
from ibia.tables.kernels import address_of
from ibia.tables.memory import allocate
from ibia.threads import run_all

__all__ = ["solve_by_slices"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# Slices are summed up in so many parts, whoever does which, so that the bits do not depend on the threads.
_PARTS = 64
# Less work than this is done before other threads are awake, and for several slices at a time there must be so much of
# the free memory.
_WORTH_THREADS = 2.0**24
_MEMORY_PART = 0.5
# A run is given up when its slices so far took this many times as long as there is time for: the first ones, which also
# pay for new memory, and later ones.
_FIRST_PART, _FIRST_HOPE, _HOPE = 0.15, 1.6, 1.1


def solve_by_slices(
    problem: Problem, costs: Costs, settings: Settings, order: str, progress: Progress | None
) -> Solved:
    """Return the exact answer of a component, slice by slice.

    Raises
    ------
    TooSlow
        After the first slices it is clear that the time will not do.
    """
    started = time.perf_counter()
    level = costs.slices
    assert level is not None
    control = problem.space.control
    slices = _Slices(problem, level)
    if settings.check:
        check_forest(forest_of(level.trees), slices.space, settings.bound)
    total = int(level.count)
    parts = min(total, _PARTS)
    bounds = [total * part // parts for part in range(parts + 1)]
    done, hopeless = 0, False
    one_by_one = threading.Lock()

    def summed(first: int, last: int) -> Callable[[], _Sum]:
        def run() -> _Sum:
            nonlocal done, hopeless
            if hopeless:
                raise TooSlow
            result = slices.sum(first, last)
            with one_by_one:
                done += last - first
                hope = _FIRST_HOPE if done < _FIRST_PART * total else _HOPE
                hopeless |= hope * control.left() < (time.perf_counter() - started) * (total / done - 1.0)
                if hopeless:
                    raise TooSlow
                if progress is not None:
                    progress("slices", done, total)
            return result

        return run

    tasks = [summed(first, last) for first, last in pairwise(bounds)]
    # Small ones, and those for which there is memory, are done side by side; others are shared themselves.
    side_by_side = costs.work > _WORTH_THREADS and control.threads * costs.bytes < _MEMORY_PART * _free(control)
    sums = run_all(tasks, control) if side_by_side else [task() for task in tasks]
    whole = sums[0]
    for other in sums[1:]:
        whole = whole.plus(other)
    if whole.peak == -math.inf:
        raise ZeroMassError
    figures = StepFigures(
        step=0,
        cliques=level.trees.parents.size,
        largest_bits=level.width,
        factors=problem.merged.log_scales.size,
        bound=settings.bound,
        loss=0.0,
        seconds=time.perf_counter() - started,
        slices=total,
    )
    log_z, marginals = slices.answer(whole)
    return Solved(Posterior(marginals, log_z, inconsistencies=[0.0]), True, 0.0, order, (figures,))


def _free(control: Control) -> float:
    """Return the bytes that there are for tables."""
    return min(control.memory - resident_memory(), available_memory())


class _Sum(NamedTuple):
    """Slices added up.

    Attributes
    ----------
    peak
        Logarithm of the largest mass of a slice.
    masses
        Masses of the slices, over the largest one.
    marginals
        Of the variables that are left: the sum over the slices, each times its mass.
    """

    peak: float
    masses: Array
    marginals: Array

    def plus(self, other: _Sum) -> _Sum:
        """Return both together."""
        peak = max(self.peak, other.peak)
        one, two = self.over(peak), other.over(peak)
        return _Sum(peak, np.concatenate([one.masses, two.masses]), one.marginals + two.marginals)

    def over(self, peak: float) -> _Sum:
        """Return the same with another peak."""
        if peak == self.peak:
            return self
        factor = math.exp(self.peak - peak)
        return _Sum(peak, self.masses * factor, self.marginals * factor)


class _Slices:
    """The tables of a component with some variables held fixed, in any of their states.

    Attributes
    ----------
    space
        Of the variables that are left.
    """

    def __init__(self, problem: Problem, level: Level) -> None:
        self._level = level
        self._source = problem.merged.values
        self._held_sizes = tuple(problem.cardinalities[list(level.held)].tolist())
        self._cardinalities = problem.cardinalities[level.variables]
        self.space = Space(tuple(self._cardinalities.tolist()), problem.space.control)
        self._lay_out(problem)
        self._idle: SimpleQueue[_Reader] = SimpleQueue()

    def _lay_out(self, problem: Problem) -> None:
        """Find the entries of all tables in which the held variables have their first state, and what states add."""
        merged, level = problem.merged, self._level
        places = dict(zip(level.variables.tolist(), range(level.variables.size), strict=True))
        held = {variable: position for position, variable in enumerate(level.held)}
        cardinalities = problem.cardinalities.tolist()
        tables: list[tuple[int, int, list[int], Integers]] = []
        strides = np.zeros((merged.starts.size - 1, len(held)), np.int64)
        for table, (begin, end) in enumerate(pairwise(merged.starts.tolist())):
            stride = 1
            axes = []
            for variable in merged.scopes[begin:end].tolist()[::-1]:
                if variable in held:
                    strides[table, held[variable]] = stride
                else:
                    axes.append((places[variable], stride, cardinalities[variable]))
                stride *= cardinalities[variable]
            axes.sort()
            entries = merged.offsets[table : table + 1]
            for _, stride, size in axes:
                entries = (entries[:, None] + stride * np.arange(size)).ravel()
            home = int(level.homes[axes[0][0]]) if axes else -1
            tables.append((home, table, [place for place, _, _ in axes], entries))
        # Clique by clique; before them tables of held variables alone, which are numbers now.
        tables.sort(key=lambda row: row[:2])
        order = [table for _, table, _, _ in tables]
        self._strides = strides[order]
        self._offsets = ends([entries.size for _, _, _, entries in tables])
        self._entries = np.concatenate([entries for _, _, _, entries in tables])
        homes = np.array([home for home, _, _, _ in tables])
        self._first = int((homes < 0).sum())
        self._starts = ends(np.bincount(homes[self._first :], minlength=level.trees.parents.size))
        self._scope_starts, self._scopes = flat([scope for _, _, scope, _ in tables[self._first :]])
        self._spreads = merged.spreads[order][self._first :]

    def sum(self, first: int, last: int) -> _Sum:
        """Add up the slices from one to before another."""
        try:
            reader = self._idle.get_nowait()
        except Empty:
            reader = _Reader(self)
        logarithms = np.full(last - first, -math.inf)
        peak, marginals = -math.inf, np.zeros_like(reader.marginals.values)
        for number in range(first, last):
            self.space.control.check()
            log_mass = reader.run(number)
            logarithms[number - first] = log_mass
            if log_mass > peak:
                marginals *= math.exp(peak - log_mass)
                peak = log_mass
            if log_mass > -math.inf:
                marginals += math.exp(log_mass - peak) * reader.marginals.values
        self._idle.put(reader)
        return _Sum(peak, np.exp(logarithms - peak) if peak > -math.inf else np.zeros(last - first), marginals)

    def write(self, number: int, values: Array) -> float:
        """Write the tables of a slice, each scaled to a largest entry of one; return the logarithm of the scales."""
        states = np.array(np.unravel_index(number, self._held_sizes), np.int64)
        moved = (self._strides @ states).repeat(np.diff(self._offsets))
        self._source.take(self._entries + moved, out=values)
        largest = np.maximum.reduceat(values, self._offsets[:-1])
        if not largest.all():
            return -math.inf
        values /= largest.repeat(np.diff(self._offsets))
        return float(np.log(largest).sum())

    def reading(self, values: Array) -> Marginals:
        """Return how marginals are had of tables with these entries."""
        inputs = Inputs(
            self._starts,
            self._scope_starts,
            self._scopes,
            address_of(values) + 8 * self._offsets[self._first : -1],
            self._spreads,
        )
        return Marginals(self._level.trees, self._cardinalities, inputs, self.space)

    @property
    def entries(self) -> int:
        """Entries of all tables of a slice."""
        return int(self._offsets[-1])

    def answer(self, whole: _Sum) -> tuple[float, dict[int, Array]]:
        """Return log Z and the marginals of all variables of the component."""
        mass = whole.masses.sum()
        masses = (whole.masses / mass).reshape(self._held_sizes)
        marginals = dict(
            zip(
                self._level.variables.tolist(),
                np.split(whole.marginals / mass, self._cardinalities.cumsum()[:-1]),
                strict=True,
            )
        )
        axes = range(masses.ndim)
        for axis, variable in enumerate(self._level.held):
            marginals[variable] = masses.sum(axis=tuple(other for other in axes if other != axis))
        return whole.peak + math.log(mass), marginals


class _Reader:
    """The tables of one slice after the other, and their marginals: one for each thread."""

    def __init__(self, slices: _Slices) -> None:
        self._slices = slices
        self._values = allocate(slices.entries, 1.0)
        self.marginals = slices.reading(self._values)

    def run(self, number: int) -> float:
        """Set the marginals to those of a slice, and return the logarithm of its mass."""
        log_scale = self._slices.write(number, self._values)
        if log_scale == -math.inf:
            return log_scale
        try:
            return log_scale + self.marginals.run()
        except ZeroMassError:
            return -math.inf
