"""The forward loop: build, calibrate, approximate, until no factor is left (the paper's SLCTF).

Each step holds a calibrated forest CTF_k, what exact and local marginalisation made of it (CTF_k,a), and the messages
that start the next step. Structure and first beliefs are decided here; ``backward/`` turns them into posteriors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ibia.flat import MANY
from ibia.forest.calibrate import Structure, ZeroMassError, calibrate
from ibia.forest.checks import check_forest, check_reduction
from ibia.forest.forest import Forest
from ibia.forest.joint import Rooted
from ibia.prepare import Problem
from ibia.steps.build import Growth, Refusals, grow
from ibia.steps.exact import Core, marginalise_exactly
from ibia.steps.local import LocalReducer, Reduction
from ibia.steps.loss import loss_rule
from ibia.steps.messages import Messages
from ibia.steps.reduced import ReducedTrees
from ibia.tables import Scope, Space, Table
from ibia.tables.memory import KEPT_BYTES

__all__ = ["Settings", "Step", "forward"]

_EPSILON = 1e-9
_KEPT_SHARE = 0.25
# A step makes room for the next factor, and for one more for every so many cliques, so that the number of steps does
# not grow with the size of the model.
_CLIQUES_PER_FACTOR = 128
# The others' regions are looked for so many times as often, at most: in dense models they all overlap.
_LOOKS = 32
# Where a sequence would become longer than this at the pace of the last few steps, more is reduced after each: a step
# takes the fewer factors, the fuller the cliques are that it starts with.
_MOST_STEPS, _LAST_STEPS = 64, 8
# With more cliques than this a step takes long: who is in a hurry then has fewer of them, down to this part.
_MOST_CLIQUES, _LEAST_PART = 4000, 0.25
# What holds a variable that is in no clique yet.
_NOWHERE = {-1}


@dataclass(frozen=True)
class Settings:
    """How to build and approximate.

    Attributes
    ----------
    bound
        Bits of the largest clique.
    reduce
        Local marginalisation leaves cliques of at most bound − reduce bits, and smaller ones only where the next factor
        needs the room. None: only there (demand-driven).
    loss
        Name of the loss rule.
    restarts
        Further triangulations with random ties when a batch of factors does not fit at first.
    effort
        A step is complete when looking for factors that fit has cost so many times what its tables cost (in large
        forests when what is found is not worth more).
    hurry
        Whether to have fewer steps where there are very many cliques.
    far_apart
        Whether numbers are so far apart that ordinary products have vanished: then logarithms are used (slow).
    check
        Check every forest as it is made (slow; for tests and for hunting defects).
    """

    bound: float = 20.0
    reduce: float | None = 1.0
    loss: str = "kl"
    restarts: int = 3
    effort: float = 6.0
    hurry: bool = False
    far_apart: bool = False
    check: bool = False


@dataclass
class Step:
    """One CTF_k of the sequence and its reduction to CTF_k,a (none for the last).

    Attributes
    ----------
    structure
        Of the forest, for calibrating it again, unless it would take too much memory to keep.
    contents
        Clique → potentials multiplied into it.
    location
        Potential → the clique it is multiplied into.
    entries
        Entries of all clique tables: what the step costs.
    before
        Messages of the former step, which this one started with.
    far_apart
        Whether its tables are made of logarithms.
    whole
        Whether it lacks nothing: no lossy operation was made before, and no number can have vanished. That the
        loss is zero would not do: rounding hides small losses.
    bytes
        Memory of the tables that can be computed again, when last measured.
    """

    forest: Forest
    structure: Structure | None
    contents: dict[int, set[int]]
    log_z: float
    added: int
    bound: float
    core: Core | None = None
    reduction: Reduction | None = None
    messages: Messages | None = None
    seconds: float = 0.0
    largest_bits: float = 0.0
    location: dict[int, int] = field(default_factory=dict)
    entries: float = 0.0
    before: Messages | None = None
    far_apart: bool = False
    whole: bool = False
    bytes: int = 0

    def measure(self) -> None:
        """Count the bytes of the tables that `release` would drop."""
        tables = {id(table): table for table in self._tables()}
        self.bytes = sum(table.values.nbytes for table in tables.values())

    def _tables(self) -> Iterator[Table]:
        yield from self.forest.beliefs.values()
        yield from self.forest.sepsets.values()
        if self.core is not None:
            yield from self.core.full.values()
            yield from self.core.forest.beliefs.values()
            yield from self.core.forest.sepsets.values()

    def release(self) -> None:
        """Drop the tables of the forest and its core; `ensure` computes them again."""
        self.bytes = 0
        self.forest.clear_tables()
        if self.core is not None:
            self.core.clear_tables()

    def ensure(self, factors: list[Table], space: Space) -> None:
        """Have the tables of the forest and its core, from the messages that the step started with."""
        if self.forest.beliefs:
            return
        potentials = potentials_of(self.contents, factors, self.before)
        calibrated = calibrate(
            self.forest, space, potentials, far_apart=self.far_apart, structure=self.structure
        )
        self.log_z = calibrated.log_z
        if self.core is not None:
            self.core.fill(self.forest)

    @cached_property
    def rooted(self) -> Rooted | None:
        """The forest as it hangs from any roots, for joint queries, unless that would take too much."""
        return Rooted(self.forest) if len(self.forest.scopes) <= MANY else None

    @property
    def loss(self) -> float:
        """Nats lost by the local marginalisations after this step."""
        return self.reduction.loss if self.reduction else 0.0

    @property
    def losses(self) -> dict[int, float]:
        """Variable → what of that was lost by removals of it."""
        return self.reduction.losses if self.reduction else {}


def potentials_of(
    contents: dict[int, set[int]], factors: list[Table], messages: Messages | None
) -> dict[int, list[Table]]:
    """Return the tables to be multiplied into each clique: factors and messages of the former step."""
    known = messages.tables if messages is not None else {}
    return {
        clique: [factors[number] if number >= 0 else known[-1 - number] for number in sorted(inside)]
        for clique, inside in contents.items()
    }


def keep_within(steps: list[Step], space: Space) -> None:
    """Release the tables of early steps while those of all steps take more than their share of the memory.

    The way back starts at the last step, so the first ones are needed last.
    """
    allowed = min(KEPT_BYTES, _KEPT_SHARE * space.control.memory)
    steps[-1].measure()
    held = sum(step.bytes for step in steps)
    for step in steps[:-1]:
        if held <= allowed:
            break
        held -= step.bytes
        step.release()


def forward(
    problem: Problem,
    order: list[int],
    settings: Settings,
    progress: Callable[[int, int], None] | None = None,
    topological: bool = False,
) -> list[Step]:
    """Run the build–infer–approximate loop and return its steps.

    Parameters
    ----------
    order
        Numbers of the factors.
    progress
        Called after each step with the number of factors placed and their total.
    topological
        Whether no factor may be added before those of its parents (the order itself sees to that; deferred factors
        must then hold back their descendants).

    Raises
    ------
    ZeroMassError
        Nothing is possible, or numbers have vanished; with logarithms (`Settings.far_apart`) it is the former.
    """
    children = problem.children if topological else None
    space = problem.space
    remaining = [(number, problem.factors[number].scope) for number in order]
    total = len(remaining)
    steps: list[Step] = []
    messages: Messages | None = None
    refusals = Refusals()
    growth = Growth(space, refusals)
    extra = 0.0
    all_possible = problem.far_apart and problem.positive and not settings.far_apart
    whole = True
    while remaining:
        started = time.perf_counter()
        bound = settings.bound
        before = len(remaining)
        if messages is None and problem.narrow and problem.width <= bound + _EPSILON:
            growth.plant(problem.tree, remaining)
            remaining = []
        else:
            remaining = grow(
                growth, remaining, bound, restarts=settings.restarts, effort=settings.effort, children=children
            )
        while len(remaining) == before:
            # Nothing fits although factors remain: raise the bound for this step until one does.
            bound += 1.0
            if growth.try_add(remaining[:1], bound, settings.restarts):
                remaining = remaining[1:]
        forest, contents = growth.forest, growth.contents
        potentials = potentials_of(contents, problem.factors, messages)
        structure = Structure(forest, space)
        log_z, numbers_kept = calibrate(
            forest, space, potentials, far_apart=settings.far_apart, measure=whole, structure=structure
        )
        if remaining and all_possible and any(belief.values.min() == 0.0 for belief in forest.beliefs.values()):
            # What seems impossible has vanished, and later factors might prefer just that.
            raise ZeroMassError
        largest = max(growth.bits.values(), default=0.0)
        # A clique that could not be reduced may exceed the bound too: the step says so.
        kept = structure if len(forest.scopes) <= MANY else None
        step = Step(forest, kept, contents, log_z, before - len(remaining), max(bound, largest))
        step.largest_bits = largest
        step.before, step.far_apart = messages, settings.far_apart
        whole = step.whole = whole and numbers_kept
        step.entries = float(sum(belief.values.size for belief in forest.beliefs.values()))
        if settings.check:
            check_forest(forest, space, step.bound)
        step.location = {potential: clique for clique, inside in contents.items() for potential in inside}
        steps.append(step)
        if remaining:
            refusals.next_step()
            extra = _extra_reduction(steps, len(remaining), extra, settings)
            interface = {variable for _, scope in remaining for variable in scope}
            step.core, step.reduction, trees = _approximate(
                forest, remaining, interface, settings, extra, refusals, space
            )
            growth = trees.growth
            if settings.check:
                check_forest(step.core.forest, space)
                check_reduction(step.core.forest, step.reduction, interface)
                check_forest(growth.forest, space)
            messages = Messages(*trees.messages(), space)
            messages.tell(step.core.forest.beliefs)
            step.messages = messages
            whole = whole and step.reduction.removals == 0
            if whole:
                # How far apart their entries are matters to exactness alone.
                for table in messages.tables.values():
                    table.spread = table.measured_spread()
        step.seconds = time.perf_counter() - started
        keep_within(steps, space)
        if progress is not None:
            progress(total - len(remaining), total)
    return steps


def _extra_reduction(steps: list[Step], remaining: int, extra: float, settings: Settings) -> float:
    """Return by how many bits more than usual to reduce, so that the sequence does not become too long.

    Parameters
    ----------
    remaining
        Factors to be added yet.
    extra
        What was returned after the step before.
    """
    most, few = _MOST_STEPS, _LAST_STEPS
    if settings.hurry:
        part = max(_MOST_CLIQUES / max(len(steps[-1].forest.scopes), _MOST_CLIQUES), _LEAST_PART)
        most, few = round(part * most), round(part * few)
    last = steps[-few:]
    if len(last) < few:
        # The pace of a few steps tells little.
        return extra
    further = remaining * len(last) / sum(step.added for step in last)
    if len(steps) + further > most:
        # At least half of the bound is left.
        return max(min(extra + 1.0, 0.5 * settings.bound - (settings.reduce or 0.0)), 0.0)
    # With a bit less of room, steps take about half as many factors.
    return max(extra - 1.0, 0.0) if len(steps) + 2.0 * further < most else extra


def _approximate(
    forest: Forest,
    remaining: list[tuple[int, Scope]],
    interface: set[int],
    settings: Settings,
    extra: float,
    refusals: Refusals,
    space: Space,
) -> tuple[Core, Reduction, ReducedTrees]:
    """Reduce a calibrated forest to CTF_k,a: exactly where possible, then locally until the next factors have room.

    Parameters
    ----------
    extra
        Bits to reduce cliques by beyond what the settings say.
    """
    limit = settings.bound - (settings.reduce or 0.0) - extra
    core = marginalise_exactly(forest, interface, limit, space)
    reducer = LocalReducer(
        core.forest, interface, loss_rule(settings.loss, core.forest, interface, space), space
    )
    # Cliques of a step whose bound had to be raised come back within it, also when reduction is demand-driven.
    reducer.reduce(dict.fromkeys(core.forest.scopes, limit))
    trees = ReducedTrees(reducer, refusals)
    _make_room(trees, remaining, settings)
    return core, reducer.reduction(), trees


def _make_room(trees: ReducedTrees, remaining: list[tuple[int, Scope]], settings: Settings) -> None:
    """Reduce the trees further until the next factor fits, and, in large forests, others far from it and each other."""
    growth = trees.growth
    claimed: set[int] = set()
    wanted = 1 + len(growth.bits) // _CLIQUES_PER_FACTOR
    looks = _LOOKS * wanted
    for _, scope in remaining:
        if wanted == 0 or looks == 0 or growth.spent > settings.effort * growth.allowance():
            break
        # Where all cliques of a variable are claimed, so is one of the region: no need to look for it.
        if claimed and any(growth.holders.get(variable, _NOWHERE) <= claimed for variable in scope):
            continue
        # A factor that is too large by itself needs a higher bound; no reduction makes room for it.
        if growth.space.bits(scope) <= settings.bound + _EPSILON:
            looks -= 1
            region = growth.region([scope])
            if claimed.isdisjoint(region):
                wanted -= _make_room_for(trees, scope, region, settings)
                claimed.update(growth.region([scope]))
        elif not claimed:
            break


def _make_room_for(trees: ReducedTrees, scope: Scope, region: set[int], settings: Settings) -> bool:
    """Reduce the cliques around one factor until it fits or nothing can shrink; return whether that was needed."""
    growth = trees.growth
    needed = False
    while not growth.fits(scope, settings.bound, settings.restarts):
        needed = True
        # The cliques in the way shrink by one variable, the largest first, until there is room.
        sizes = {trees.cliques[number]: growth.bits[number] for number in region}
        largest = max(sizes.values(), default=0.0)
        limits = {clique: largest - 1e-6 for clique, size in sizes.items() if size > largest - 1e-3}
        removals = trees.reducer.reduce(limits)
        if not removals:
            break
        trees.update(removals)
        region = growth.region([scope])
    return needed
