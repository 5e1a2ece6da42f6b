"""Sweeps after removals that cost nothing: the way back must be as exact as the way forward."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from brute_force import deterministic, largest_error, random_evidence, solve
from ibia import examples, pipeline
from ibia.alternative import Alternative, run_forward
from ibia.answer import prepare_model
from ibia.backward import posterior, sweeps
from ibia.backward.posterior import Posterior
from ibia.backward.sweeps import Sweeper
from ibia.control import Control
from ibia.forest import branches
from ibia.forest.calibrate import ZeroMassError, calibrate
from ibia.forest.forest import Forest
from ibia.forest.joint import Queried
from ibia.model import Model
from ibia.sequence import Settings
from ibia.steps import messages
from ibia.steps.exact import Core
from ibia.tables import Space, Table, threads
from ibia.tables.table import Scope

# How models are approximated is looked at here: in slices the small ones would come out exact (test_slices.py).
infer = partial(pipeline.infer, slices="never")
XOR = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]


def vanishing() -> Model:
    """Return a model of which a variable can leave two cliques at no loss."""
    return Model.from_arrays(
        [2] * 6,
        [
            ((1,), [0.1, 0.9]),
            ((5,), [0.3, 0.7]),
            ((5, 1, 2), [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]),
            ((0, 2, 4), XOR),
            ((0, 1, 3), XOR),
            ((2, 3), [[0.2, 1.0], [1.0, 0.1]]),
        ],
    )


def test_a_variable_that_vanishes_without_loss_still_learns_what_comes_later() -> None:
    """X0 (fair) leaves both cliques (0 1 2) and (0 1 3) at no cost; the later factor on (2, 3) ties them together.

    Given X1, X2 and X3 together X0 is certain, given the variables of one clique it is not: the posterior of the
    clique (0 1 2) needs the joint of all that was around X0, not of the clique alone.
    """
    model = vanishing()
    result = infer(model, bound=3, order="elimination")
    error = largest_error(result.marginals, solve(model))
    assert result.loss < 1e-9, "this model is here because nothing is lost on the way forward"
    assert result.log_z == pytest.approx(solve(model).log_z, abs=1e-9)
    assert error <= 1e-6


def test_where_steps_exclude_each_other_marginals_stay_distributions_and_the_gauge_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Among tables full of zeros a joint query may find nothing possible: then it tells of the contradiction only."""
    asked = []
    posterior_of = sweeps._posterior_of

    def nothing(scope: Scope, here: Queried, there: Queried) -> Table | None:
        found = posterior_of(scope, here, there)
        if found is None:
            return None
        asked.append(scope)
        found = found.copy()
        found.scale_in(0.0)
        return found

    monkeypatch.setattr(sweeps, "_posterior_of", nothing)
    result = infer(vanishing(), bound=3, order="elimination")
    assert asked
    assert all(marginal.sum() == pytest.approx(1.0) for marginal in result.marginals)
    assert result.inconsistency == 1.0


def test_a_marginal_without_a_possible_state_is_none() -> None:
    space = Space((2, 2), Control())
    empty = space.ones((0, 1))
    empty.scale_in(0.0)
    with pytest.raises(ZeroMassError):
        Posterior().read({0: empty}, space.control)


def test_no_loss_and_no_disagreement_mean_a_small_error() -> None:
    """Over a fixed set of deterministic networks, what the gauge calls nearly perfect must be so."""
    wrong = []
    for seed in range(130):
        generator = np.random.default_rng(seed)
        model = deterministic(generator, 14, 5)
        evidence = random_evidence(generator, model) if seed % 2 else {}
        for order in ("elimination", "topological"):
            result = infer(model, evidence, bound=3, order=order)
            error = largest_error(result.marginals, solve(model, evidence))
            if result.loss < 1e-9 and error > max(10.0 * result.error.upper, 1e-9):
                wrong.append((seed, order, result.exact, error))
    assert wrong == []


def nearly_equal(seed: int) -> Model:
    """Return a grid of variables, many of them almost certain to be equal, that strong fields pull apart."""
    random = np.random.default_rng(seed)
    rows, small = 5, 10.0 ** -random.uniform(10, 12)
    factors: list[tuple[tuple[int, ...], list]] = []
    for place in range(rows * rows):
        factors.append(((place,), [1.0, np.exp(random.uniform(-14, 14))]))
        below, beside = place + rows < rows * rows, (place + 1) % rows
        for other in [*([place + 1] if beside else []), *([place + rows] if below else [])]:
            differ = small if random.random() < 0.5 else np.exp(-random.uniform(0, 3))
            factors.append(((place, other), [[1.0, differ], [differ, 1.0]]))
    return Model.from_arrays([2] * rows**2, factors)


@pytest.mark.parametrize("seed", [275, 291, 317, 322])
def test_the_mass_of_steps_that_agree_counts_even_if_almost_nothing_was_lost(seed: int) -> None:
    """Removals lose less than 1E-9, but just what later factors prefer: without it log Z is off by 1E-4 to 2E-3."""
    model = nearly_equal(seed)
    result = infer(model, bound=3, order="elimination", sweeps=2)
    assert not result.exact
    assert 0.0 < min(step.loss for step in result.steps[:-1]) < 1e-9
    assert result.log_z == pytest.approx(infer(model, bound=16).log_z, abs=1e-6)


@pytest.mark.parametrize(("coupling", "seed"), [(8, 38), (12, 25), (12, 38)])
def test_steps_that_contradict_each_other_do_not_tell_log_z(coupling: float, seed: int) -> None:
    """By the masses of these steps log10 Z is off by 15 to 30; by the way forward by 2 to 4."""
    model = examples.grid(6, 6, coupling=coupling, field=1.0, seed=seed)
    result = infer(model, bound=3, order="elimination", sweeps=1)
    assert result.inconsistency > 0.99
    assert result.log10_z == pytest.approx(infer(model, bound=16).log10_z, abs=5.0)


def contradiction() -> tuple[Sweeper, Core, dict[int, Table]]:
    """Two cliques that make X0, X1 and X2 equal, and messages that say X0 = 0 and X2 = 1."""
    equal = np.array([0.5, 0.0, 0.0, 0.5])
    space = Space((2, 2, 2))
    forest = Forest()
    forest.add_clique(0, (0, 1))
    forest.add_clique(1, (1, 2))
    forest.connect(0, 1, (1,))
    calibrate(forest, space, {0: [Table(space, (0, 1), equal)], 1: [Table(space, (1, 2), equal)]})
    backward = {
        0: Table(space, (0, 1), np.array([1.0, 1.0, 0.0, 0.0])),
        1: Table(space, (1, 2), np.array([0.0, 1.0, 0.0, 1.0])),
    }
    problem = SimpleNamespace(space=space)
    step = SimpleNamespace(far_apart=False, whole=False, contents={}, log_z=0.0)
    return Sweeper(problem, [step], 3.0), Core(forest, space, {}), backward  # type: ignore[arg-type]


def test_messages_that_contradict_each_other_are_doubted_alike() -> None:
    sweeper, core, backward = contradiction()
    beliefs, log_mass, doubted = sweeper._tilt_or_doubt(core, backward)
    assert doubted
    assert np.isfinite(log_mass)
    for belief in beliefs.values():
        np.testing.assert_allclose(belief.values, [0.5, 0.0, 0.0, 0.5], atol=1e-12)


def test_once_there_is_an_answer_contradictions_end_the_sweeps() -> None:
    sweeper, core, backward = contradiction()
    sweeper.best = Posterior()
    with pytest.raises(ZeroMassError):
        sweeper._tilt_or_doubt(core, backward)


@pytest.mark.parametrize(
    ("moves", "made"),
    [((0.3, 0.2, 0.1, 0.1, 0.1), 6), ((0.3, 0.2, 0.001, 0.1, 0.1), 4), ((0.001, 0.1, 0.1, 0.1, 0.1), 2)],
)
def test_sweeps_end_where_marginals_stay(
    moves: tuple[float, ...], made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the steps disagree by falls so little that it would not end them."""
    places = iter(np.cumsum([0.1, *moves]))
    inconsistencies = iter(np.linspace(0.02, 0.018, 6))

    def backward(sweeper: Sweeper) -> Posterior:
        place = next(places)
        marginal = np.array([np.sin(place) ** 2, np.cos(place) ** 2])
        return Posterior({0: marginal}, inconsistency=next(inconsistencies))

    monkeypatch.setattr(Sweeper, "_sweep_backward", backward)
    monkeypatch.setattr(Sweeper, "_sweep_forward", lambda sweeper: None)
    sweeper, _, _ = contradiction()
    sweeper._informed = 1
    assert len(sweeper.run(6).inconsistencies) == made


def test_all_that_is_done_side_by_side_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if even the smallest tables were large.
    smallest = ((threads, ("WORTH_SHARING", "_WORTH_WAKING")), (branches, ("WORTH_SHARING", "_LARGE", "_LEAST")))
    for module, names in smallest:
        for name in names:
            monkeypatch.setattr(module, name, 1)
    shared: set[str] = set()

    def note(name: str, module: ModuleType, function: str) -> None:
        run = getattr(module, function)

        def noting(*arguments):
            # Functions to call come first, or one function and what to call it with.
            if max(len(part) for part in arguments if isinstance(part, list)) > 1:
                shared.add(name)
            return run(*arguments)

        monkeypatch.setattr(module, function, noting)

    note("joint queries", sweeps, "run_each")
    note("marginals", posterior, "run_each")
    note("branches", branches, "run_parts")
    run_batches = messages.run_batches

    def noting_batches(function, entries, control):
        if entries.size > 1 and threads.worth_sharing(int(entries.sum()), control):
            shared.add("messages")
        run_batches(function, entries, control)

    monkeypatch.setattr(messages, "run_batches", noting_batches)
    model = examples.grid(9, 9, seed=3)
    answers = [infer(model, bound=5, order="elimination", threads=count) for count in (1, 2, 3)]
    assert shared == {"joint queries", "marginals", "branches", "messages"}
    assert not answers[0].exact
    for answer in answers[1:]:
        assert np.concatenate(answer.marginals).tobytes() == np.concatenate(answers[0].marginals).tobytes()
        assert answer.log_z == answers[0].log_z


def test_what_is_not_kept_is_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = examples.grid(9, 9, seed=3)
    kept = infer(model, bound=5, order="elimination", threads=1)
    made: list[str] = []
    for module in ("flat", "sequence", "steps.exact"):
        monkeypatch.setattr(f"ibia.{module}.MANY", 0)
    for name, module in (("Structure", "forest.calibrate"), ("Rooted", "backward.sweeps")):
        original = getattr(import_module(f"ibia.{module}"), name)

        def noting(*arguments, name=name, original=original):
            made.append(name)
            return original(*arguments)

        monkeypatch.setattr(f"ibia.{module}.{name}", noting)
    again = infer(model, bound=5, order="elimination", threads=1)
    assert set(made) == {"Structure", "Rooted"}
    assert not again.exact
    assert np.concatenate(again.marginals).tobytes() == np.concatenate(kept.marginals).tobytes()
    assert again.log_z == kept.log_z


def test_steps_keep_messages_one_way_at_a_time() -> None:
    """Of all that a long sequence holds, messages are most; only where they are damped both ways are needed."""
    problem = prepare_model(examples.grid(10, 10, coupling=4.0, seed=5), {}).problems[0]
    steps = run_forward(problem, Alternative("breadth", 0, Settings(bound=5.0)))
    sweeper = Sweeper(problem, steps, 5.0)
    both_ways: dict[bool, set[int]] = {False: set(), True: set()}
    heard = set()

    def look() -> None:
        known = [step.messages for step in steps if step.messages is not None]
        both_ways[sweeper.weight < 1.0].add(sum(bool(found.tables and found.behind) for found in known))
        heard.add(sum(bool(found.behind) for found in known))

    sweeper.run(6, look)
    assert len(steps) > 5
    assert both_ways[False] == {0}
    # It comes to that: messages were damped, in the last of these sweeps.
    assert max(both_ways[True]) == max(heard) == len(steps) - 1
