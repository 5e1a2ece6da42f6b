"""The pipeline in one screen: model → simplify → forward steps → backward update → marginals.

``infer`` is the one call of the package (a module of that name would hide it). It prepares the model
(``answer.py``) and searches for the best answer that time and memory allow (``anytime.py``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

from ibia.alternative import Progress
from ibia.answer import Choices, Prepared, Run, answer_by_loopy_propagation, prepare_model
from ibia.anytime import Goal, Search
from ibia.control import Control, Stopped, collecting_rarely
from ibia.ladder import Ladder
from ibia.limits import check_memory_limit, check_threads, check_time_limit, usable_cores
from ibia.model import Model, Variable, check_evidence
from ibia.predict import Prediction, Predictor, measure_speed
from ibia.result import Result, bits_in_words
from ibia.tables.memory import end_of_run, limit_memory
from ibia.threads import wait_for
from ibia.workers import Workers

__all__ = ["infer"]

# Seconds of preparation from which one can tell whether other programs take turns with this one.
_TELLING = 0.02
# Where an exact answer takes at most this many seconds, nothing else will be tried.
_WORTH_WARMING_UP = 1.0
# From so many factors on preparation may take so long that somebody wants to stop it.
_LARGE = 1000
# Preparation is given up after this part of a time limit; loopy propagation, which needs none, gets this part of the
# rest.
_PREPARING, _PROPAGATING = 0.6, 0.5


def infer(
    model: Model,
    evidence: Mapping[str, str | int] | Mapping[int, str | int] | Mapping[str | int, str | int] | None = None,
    *,
    bound: float | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    threads: int | None = None,
    reduce: float | str = "auto",
    loss: str = "kl",
    update: str = "sweeps",
    order: str = "auto",
    sweeps: int = 6,
    threshold: float = 1e-3,
    slices: str = "auto",
    check: bool = False,
    progress: Progress | None = None,
    control: Control | None = None,
    improved: Callable[[Result], None] | None = None,
) -> Result:
    """Return the posterior marginals of all variables and log Z.

    With a model alone, the answer is exact if that takes ten seconds at most, else as good as that time allows. Say
    more with `bound` (the same answer everywhere, to the last bit), or with limits of time and memory. What is not sure
    is no evidence but a likelihood: see `observe`.

    Parameters
    ----------
    model
        The model.
    evidence
        Variable → observed state, both by name or number.
    bound
        Largest clique in bits: no table has more than 2^bound entries. If the model fits, the answer is exact. With a
        time limit it is the highest bound to try. None: chosen, so that an answer takes about ten seconds and half of
        the free memory, or as the limits allow; `Result.bound_reason` says why.
    time_limit
        Seconds after which the best answer so far is returned. Small bounds come first.
    memory_limit
        Bytes of memory the process may reach; a bound that is predicted to need more is lowered.
    threads
        Cores to use; None: all there are. Large tables are spread over them, and in long runs other processes work
        beside this one. Answers do not depend on it.
    reduce
        After each step cliques are reduced to bound − reduce bits; ``"demand"``: only where the next factor needs it;
        ``"auto"``: by one bit at a bound that was asked for, else as many as make the answer best in the time.
    loss
        ``"kl"``: exact Kullback–Leibler divergence; ``"mi"``: the paper's mutual information.
    update
        ``"sweeps"``: expectation propagation over the steps; ``"links"``: the paper's belief update.
    order
        Order in which factors are added: ``"elimination"``, ``"reverse"``, ``"breadth"``, ``"topological"`` (Bayesian
        networks), or ``"auto"``: the best of them by the agreement of their steps.
    sweeps
        At most this many backward sweeps.
    threshold
        With ``update="links"``: links are used for variables whose marginal changed by more than this.
    slices
        A component that does not fit the bound can be solved exactly all the same, for all states of some variables
        one after the other. ``"auto"``: where that takes less than approximation (where the bound is chosen: where
        time allows), and neither an order nor the paper's update was asked for; ``"never"``; ``"always"``: whatever
        it takes, if it is at all possible.
    check
        Check every forest as it is made (slow).
    progress
        Called with what is being done, and how many factors of how many are placed.
    control
        Its `stop` ends the run from outside (a signal handler, another thread): the best answer so far is returned.
    improved
        Called with each answer that is better than those before; the one that is returned was among them.

    Raises
    ------
    InputError
        The evidence, or a choice, is not one there is.
    ZeroProbabilityError
        The evidence has probability zero.
    RangeError
        Numbers in the tables are so far apart that nothing is left of their products.
    Stopped
        The time is up, or `control` was stopped, before there was any answer.
    MemoryError
        Not even the least that could be tried fits in the memory.
    """
    started = time.monotonic()
    searching = bound is None or time_limit is not None
    # Asking for it takes longer than small models do, and only a search needs to know.
    processor = time.process_time() if searching else 0.0
    choices = Choices(reduce, loss, update, order, sweeps, threshold, slices, check)
    choices.validate(bound)
    goal = Goal(
        bound,
        None if time_limit is None else check_time_limit(time_limit),
        None if memory_limit is None else check_memory_limit(memory_limit),
        started,
    )
    control = Control() if control is None else control
    control.threads = _all_cores() if threads is None else check_threads(threads)
    control.memory = goal.memory
    limit_memory(control.memory)
    # Links are the paper's way, and left as it is.
    by_sweeps = update == "sweeps"
    observed = check_evidence(model, evidence or {})
    end, hurry = math.inf, math.inf
    if goal.time_limit is not None:
        end, hurry = started + goal.time_limit, goal.time_limit
    control.deadline = started + _PREPARING * hurry if by_sweeps else end
    prepare = partial(prepare_model, model, observed, control, bound if time_limit is None else None, hurry)
    prepared: list[Prepared] = []
    with control.interruptible():
        prepared.append(wait_for(prepare, control) if len(model.factors) >= _LARGE else prepare())

    def propagated(deadline: float) -> Result:
        if progress is not None:
            progress("loopy propagation", 0, len(model.factors))
        return answer_by_loopy_propagation(model, observed, deadline)

    if not prepared:
        left = end - time.monotonic()
        if by_sweeps and left > 0.0 and not control.stopping:
            return _unprepared(propagated(time.monotonic() + _PROPAGATING * left), started, improved)
        reason = "no answer within the time limit" if control.late else "stopped before there was an answer"
        raise Stopped(f"{reason}; the model was still being prepared")
    control.deadline = end
    ready = prepared[0]

    workers = Workers(control)
    runs: dict[tuple[float, float, str], Run] = {}

    def answer(predicted: Prediction, best: str) -> Result:
        workers.engage(predicted.processes - 1)
        key = predicted.bound, predicted.reduce, predicted.slices
        if not predicted.alternatives:
            reduced = choices.reduce if choices.reduce == "demand" else predicted.reduce
            chosen = replace(choices, slices=predicted.slices, reduce=reduced)
            runs[key] = Run(ready, predicted.bound, chosen, quick=predicted.quick)
        return runs[key].answer(_labelled(progress, predicted, best), workers, predicted.alternatives)

    speed = measure_speed()
    if searching:
        waiting = _waiting(time.monotonic() - started, time.process_time() - processor)
        speed = replace(speed, waiting=waiting)
    processes = control.threads if by_sweeps else 1
    predictor = Predictor(ready.problems, speed, choices.alternatives, processes, control.memory, choices.slicing)
    if searching and predictor.predict(predictor.exact_bound).seconds > _WORTH_WARMING_UP:
        _warm_up()
    try:
        with collecting_rarely():
            ladder = Ladder(predictor, bound, choices.reductions)
            return Search(
                answer, predictor, ladder, goal, control, improved, propagated if by_sweeps else None
            ).run()
    finally:
        workers.leave()
        end_of_run()


def _unprepared(result: Result, started: float, improved: Callable[[Result], None] | None) -> Result:
    """Return an answer for which there was no need to prepare the model, with the reason for it."""
    seconds = time.monotonic() - started
    reason = "loopy propagation gave the only answer; preparing the model takes too long for the time limit"
    result = replace(result, seconds=seconds, bound_reason=reason)
    if improved is not None:
        improved(result)
    return result


@cache
def _all_cores() -> int:
    """Return how many cores there are; asking the system takes longer than small models do, so it is asked once."""
    return usable_cores()


@cache
def _warm_up() -> None:
    """Load the compiled code with a tiny model that does not fit, so that it does not count as time of a run."""
    tiny = Model.from_arrays(
        [Variable(f"X{number}", 2) for number in range(4)],
        [([first, second], [[2.0, 1.0], [1.0, 3.0]]) for first in range(4) for second in range(first)],
    )
    prepare_model(tiny, {}).answer(2.0, Choices(slices="never"), quick=True)


def _waiting(elapsed: float, processor: float) -> float:
    """Return how many times as long as its processor time the preparation took; short ones tell nothing."""
    return max(elapsed / processor, 1.0) if min(elapsed, processor) > _TELLING else 1.0


def _labelled(progress: Progress | None, predicted: Prediction, best: str) -> Progress | None:
    """Return a callback that adds the bound being tried, and the best answer so far, to what is being done."""
    if progress is None:
        return None
    bits = bits_in_words(predicted.bound, predicted.reduce)
    return lambda label, done, total: progress(f"{bits}, {label}{f' ({best})' if best else ''}", done, total)
