"""Sweeps: posteriors of all steps by expectation propagation over the sequence (the default backward pass).

Backward, the posterior of CTF_k+1 over each reduced clique, divided by what was sent forward, is multiplied into CTF_k
before local marginalisation; one calibration then gives its posterior. Forward again, the messages are the projections
of that posterior without the part that came from behind. Repeated until neighbouring steps agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from ibia.backward.posterior import Posterior, largest_distance, last_informed_step, most_lost
from ibia.forest.calibrate import ZeroMassError, calibrate
from ibia.forest.joint import Queried, Rooted
from ibia.prepare import Problem
from ibia.sequence import Step, keep_within
from ibia.steps.exact import Core
from ibia.steps.messages import Messages
from ibia.steps.reduced import message_number
from ibia.tables import Scope, Space, Table
from ibia.tables.threads import run_each

__all__ = ["Proceed", "Sweeper"]

Proceed = Callable[[], None]

# Steps that agree to this need no further sweep.
_AGREEMENT = 1e-7
# Steps that differ by more than this tell nothing of each other's mass.
_CONTRARY = 0.9
# Nor do those that agree so much better than after the first sweep: what is left of the error is the loss.
_ENOUGH = 0.03
# When the inconsistency fails to halve, the next messages move only this part of the way.
_DAMPING = 0.7
# Where what comes from behind rules out everything, this part of it is taken for saying nothing.
_DOUBT = 0.01
# A joint query may need this many bits beyond the bound.
_QUERY_BITS = 3.0
# A removed variable whose query cannot be answered is compared with so many of its clique's variables.
_PAIRS = 4
# In a step so many such pairs are compared at most: each may take messages along the whole of a tree.
_MOST_PAIRS = 32


@dataclass
class Sweeper:
    """The state of expectation propagation over a sequence of steps.

    Attributes
    ----------
    barren
        Factors that cannot inform earlier steps (see `last_informed_step`).
    weight
        How far messages from behind move from those of the sweep before.
    whole
        Whether nothing was lost, on the way there and on the ways back so far, and no number can have vanished.
    """

    problem: Problem
    steps: list[Step]
    bound: float
    barren: frozenset[int] = frozenset()
    weight: float = 1.0
    whole: bool = field(init=False)
    best: Posterior | None = None
    last: Posterior | None = None
    inconsistencies: list[float] = field(default_factory=list)
    _proceed: Proceed | None = None

    def __post_init__(self) -> None:
        self._informed = last_informed_step(self.steps, self.barren)
        self.whole = self.steps[-1].whole
        # What the steps say before anything has come from behind.
        self._forward_log_z = math.fsum(step.log_z for step in self.steps)

    def run(self, sweeps: int, proceed: Proceed | None = None) -> Posterior:
        """Sweep until steps agree, agree no better, marginals stay, or there were `sweeps` of them; return the best.

        Parameters
        ----------
        proceed
            Called before each step; it may raise an error to end all.
        """
        self._proceed = proceed
        if self.last is None:
            self._keep(self._sweep_backward())
        assert self.best is not None
        assert self.last is not None
        risen, settled = 0, False
        while (
            len(self.inconsistencies) < sweeps
            and self.last.inconsistency > max(_AGREEMENT, _ENOUGH * self.inconsistencies[0])
            and risen < 2
            and not settled
            and self._informed > 0
        ):
            try:
                self._sweep_forward()
                posterior = self._sweep_backward()
            except ZeroMassError:
                # A sweep that rules out everything is no improvement: the best one before it stands.
                break
            if posterior.inconsistency > 0.5 * self.last.inconsistency:
                self.weight *= _DAMPING
            risen = risen + 1 if posterior.inconsistency >= self.best.inconsistency else 0
            # Where marginals hardly move any more, what the steps still disagree by will not go away.
            settled = largest_distance(posterior.marginals, self.last.marginals) <= posterior.inconsistency
            self._keep(posterior)
        self.best.inconsistencies = list(self.inconsistencies)
        return self.best

    def _keep(self, posterior: Posterior) -> None:
        self.inconsistencies.append(posterior.inconsistency)
        self.last = posterior
        if self.best is None or posterior.inconsistency < self.best.inconsistency:
            self.best = posterior
        self.best.inconsistencies = list(self.inconsistencies)

    @cached_property
    def _unchecked_loss(self) -> float:
        return math.fsum(step.loss for step in self.steps[self._informed :])

    @cached_property
    def _worst_loss(self) -> float:
        return most_lost(self.steps[: self._informed])

    def _sweep_backward(self) -> Posterior:
        result = Posterior(unchecked_loss=self._unchecked_loss, worst_loss=self._worst_loss)
        last = len(self.steps) - 1
        log_z = [self.steps[last].log_z]
        posterior = self._tables_of(last).forest.beliefs
        result.read(posterior, self.problem.space.control)
        for number in range(last - 1, -1, -1):
            self._ask()
            step = self._tables_of(number)
            if number >= self._informed:
                # Theorem 1 of the paper: what was added later cannot change this step's posterior.
                posterior = step.forest.beliefs
                log_z.append(step.log_z)
                if step.messages is not None:
                    step.messages.forget_told({})
            else:
                posterior, log_mass = self._step_backward(number, posterior, result)
                log_z.append(step.log_z + log_mass)
            result.read(posterior, self.problem.space.control)
            # A forward sweep makes the tables of the step behind anew.
            self.steps[number + 1].release()
        self.steps[0].release()
        result.log_z = self._forward_log_z if result.inconsistency > _CONTRARY else math.fsum(log_z)
        if not self.whole:
            result.doubt_numbers(self.problem, self.steps)
        return result

    def _ask(self) -> None:
        if self._proceed is not None:
            self._proceed()

    def _tables_of(self, number: int) -> Step:
        self.steps[number].ensure(self.problem.factors, self.problem.space)
        return self.steps[number]

    def _step_backward(
        self, number: int, following: dict[int, Table], result: Posterior
    ) -> tuple[dict[int, Table], float]:
        """Return the posterior beliefs of a step from those of the following one, and the log of the mass it lost."""
        step, core = self.steps[number], self.steps[number].core
        messages, reduction = step.messages, step.reduction
        assert core is not None
        assert messages is not None
        assert reduction is not None
        location = self.steps[number + 1].location
        heard = {clique: following[location[message_number(clique)]] for clique in messages.scopes}
        posteriors, backward = messages.hear(heard)
        if self.weight < 1.0 and messages.behind:
            self._damp(backward, messages.behind)
        beliefs, log_mass, doubted = self._tilt_or_doubt(core, backward)
        messages.forget_told(backward)
        if doubted:
            result.note_difference((), 1.0)
        for clique, found in messages.compare(beliefs, posteriors).items():
            result.note_difference(messages.scopes[clique], found)
        if reduction.removals:
            self._query(number, following, beliefs, result)
        restored, excluded = core.restore(beliefs, set(step.forest.scopes))
        for clique in excluded:
            result.note_difference(core.full[clique].scope, 1.0)
        return restored, log_mass

    def _damp(self, backward: dict[int, Table], before: dict[int, Table]) -> None:
        """Let messages move only part of the way from those before."""

        def blend(clique: int) -> None:
            backward[clique].blend_in(before[clique], self.weight)

        sizes = [table.values.size for table in backward.values()]
        run_each(blend, list(backward), sizes, self.problem.space.control)

    def _tilt(
        self, core: Core, backward: dict[int, Table], far_apart: bool = False
    ) -> tuple[dict[int, Table], float]:
        """Return the beliefs of a core times the backward messages, calibrated, and the log of their mass."""
        forest = core.forest.twin()
        potentials = {
            clique: [belief, backward[clique]] if clique in backward else [belief]
            for clique, belief in core.forest.beliefs.items()
        }
        if self.whole:
            for tables in potentials.values():
                for table in tables:
                    table.spread = table.measured_spread()
        far_apart = far_apart or self.steps[0].far_apart
        log_mass, whole = calibrate(
            forest,
            self.problem.space,
            potentials,
            core.forest.sepsets,
            far_apart=far_apart,
            measure=self.whole,
            structure=core.structure,
        )
        self.whole = self.whole and whole
        return forest.beliefs, log_mass

    def _tilt_or_doubt(self, core: Core, backward: dict[int, Table]) -> tuple[dict[int, Table], float, bool]:
        """Multiply the backward messages into a core; before there is any answer, also those that contradict it.

        Each message comes from a possible state, but after losses not all of them from the same one. Also returns
        whether that was so.
        """
        try:
            return *self._tilt(core, backward), False
        except ZeroMassError:
            if self.best is not None:
                raise
        # If it is not for numbers that have vanished, nothing that was possible is impossible with a little doubt.
        with suppress(ZeroMassError):
            return *self._tilt(core, backward, far_apart=True), False
        for table in backward.values():
            table.soften_in(_DOUBT)
        return *self._tilt(core, backward, far_apart=True), True

    def _query(self, number: int, following: dict[int, Table], beliefs: dict[int, Table], result: Posterior) -> None:
        """Replace the posteriors of cliques whose variables went without loss by joint queries to the following step.

        Such a variable is (given the rest) independent of what was cut off, so the forward message was exact; the
        projection of the posterior on the reduced cliques would not be. Where a query needs too large a table the
        projection stands, and smaller queries tell how far it is off.
        """
        core, reduction = self.steps[number].core, self.steps[number].reduction
        assert core is not None
        assert reduction is not None
        space, control = self.problem.space, self.problem.space.control
        behind, limit = self.steps[number + 1], self.bound + _QUERY_BITS
        here = Queried(core.rooted or Rooted(core.forest), core.forest.beliefs, space, limit)
        there = Queried(behind.rooted or Rooted(behind.forest), following, space, limit)
        asked = {
            clique: scope
            for clique, scope in core.forest.scopes.items()
            if clique not in reduction.lossy and not (reduction.lossy and scope == reduction.scopes[clique])
        }

        def ask(scope: Scope) -> Table | None:
            control.check()
            return _posterior_of(scope, here, there)

        scopes = list(asked.values())
        sizes = [space.size(scope) for scope in scopes]
        answers = dict(zip(asked, run_each(ask, scopes, sizes, control), strict=True))
        pairs: list[tuple[int, Scope]] = []
        for clique, answer in answers.items():
            if answer is not None and answer.mass() <= 0.0:
                # What is possible here and what is possible there exclude each other: the projection stands.
                answers[clique] = None
                result.note_difference(asked[clique], 1.0)
            elif answer is None:
                removed = set(asked[clique]).difference(reduction.scopes[clique])
                pairs += [(clique, pair) for pair in _pairs(beliefs[clique].scope, removed, there)]

        def compare(place: int) -> float | None:
            clique, pair = pairs[place]
            joint = there.joint(pair)
            return None if joint is None else beliefs[clique].marginal(pair).distance(joint)

        del pairs[_MOST_PAIRS:]
        sizes = [beliefs[clique].values.size for clique, _ in pairs]
        for (_, pair), found in zip(pairs, run_each(compare, range(len(pairs)), sizes, control), strict=True):
            if found is not None:
                result.note_difference(pair, found)
        beliefs.update({clique: answer for clique, answer in answers.items() if answer is not None})

    def _sweep_forward(self) -> None:
        messages: Messages | None = None
        space: Space = self.problem.space
        for number, step in enumerate(self.steps):
            self._ask()
            step.before = messages
            step.release()
            self._tables_of(number)
            messages, reduction = step.messages, step.reduction
            if step.core is None or messages is None or reduction is None:
                break
            core = step.core
            beliefs = core.forest.beliefs
            # A step without loss sends its plain projection: it is exact, and projecting a posterior would not be.
            tilt = bool(reduction.lossy) and number < self._informed
            if tilt:
                beliefs, _ = self._tilt(core, messages.behind)
            messages.tell(beliefs, beyond=tilt)
            if self.weight == 1.0:
                # Nothing will be blended with it.
                messages.behind = {}
            keep_within(self.steps[: number + 1], space)


def _posterior_of(scope: Scope, here: Queried, there: Queried) -> Table | None:
    """Return the posterior over `scope`, a clique of this step's core, from the following step's.

    Variables that the following step does not hold are independent of it given all they share a clique with here:
    Q(around) = P(around) · Q(present) / P(present), where present is the part of it that the following step holds.
    """
    around = set(scope)
    waiting = [variable for variable in scope if variable not in there.rooted.holders]
    while waiting:
        for clique in here.rooted.holders[waiting.pop()]:
            new = set(here.rooted.forest.scopes[clique]).difference(around)
            around.update(new)
            waiting.extend(variable for variable in new if variable not in there.rooted.holders)
        if here.space.bits(around) > here.limit:
            return None
    present = tuple(sorted(variable for variable in around if variable in there.rooted.holders))
    posterior = there.joint(present) if present else None
    if posterior is None or len(present) == len(around):
        return posterior
    prior = here.joint(tuple(sorted(around)))
    if prior is None:
        return None
    prior.multiply_in(posterior.divide_in(prior.marginal(present)))
    prior.normalise_in()
    return prior.over(scope)


def _pairs(scope: Scope, removed: set[int], there: Queried) -> list[Scope]:
    """Return pairs of a removed and another variable of a clique that the following step holds, some for each."""
    present = [variable for variable in scope if variable in there.rooted.holders]
    return [
        (min(variable, other), max(variable, other))
        for variable in sorted(removed.intersection(present))
        for other in [other for other in present if other != variable][:_PAIRS]
    ]
