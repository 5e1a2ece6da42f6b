"""Accuracy on models with known answers: each instance in a process of its own, a line of JSON for each.

Knows the public call of the package and the answers of the benchmark folder, nothing of how inference works.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from ibia.bench.apart import Job, Limits, Row, run_jobs
from ibia.bench.instances import Instance, find_instance, load
from ibia.bench.metrics import score
from ibia.errors import InputError

__all__ = ["Choices", "accuracy_job", "compare", "run_instances", "solve", "warm_up"]


@dataclass(frozen=True)
class Choices:
    """The options of `ibia.infer` that a run compares."""

    bound: float = 20.0
    reduce: float | str | None = None
    loss: str = "kl"
    update: str = "sweeps"
    order: str = "auto"
    slices: str = "auto"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the call; what is None is left to the default of the package."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def solve(data: str, family: str, name: str, choices: dict[str, Any]) -> Row:
    """Solve an instance in this process and compare with its reference."""
    import ibia

    instance = find_instance(data, family, name)
    model, evidence = load(instance)
    warm_up(choices)
    result = ibia.infer(model, evidence, **choices)
    figures = result.to_dict()
    return {
        **compare(instance, result.marginals, result.log10_z, evidence),
        **{key: figures[key] for key in _KEPT},
    }


def compare(instance: Instance, marginals: Sequence[ArrayLike], log10_z: float, observed: Container[int]) -> Row:
    """Return the errors of an answer against the reference of an instance."""
    from ibia.formats import read_marginals, read_partition

    reference, path = instance.marginals_path, instance.partition_path
    if reference is None:
        raise InputError(f"there is no reference for {instance.name}")
    errors = score(marginals, read_marginals(reference), observed)
    return {
        "hd_avg": errors.average,
        "hd_max": errors.largest,
        "largest_absolute_error": errors.largest_absolute,
        "worst_variable": errors.worst,
        "delta_log10_z": None if path is None else log10_z - read_partition(path),
        "log10_z": log10_z,
    }


_KEPT = (
    "exact",
    "steps",
    "loss_nats",
    "worst_loss_nats",
    "unchecked_loss_nats",
    "first_inconsistency",
    "second_inconsistency",
    "inconsistency",
    "spread",
    "alternatives",
    "error_estimate",
    "error_upper",
    "max_clique_bits",
    "orders",
    "seconds",
)


def warm_up(choices: dict[str, Any] | None = None) -> Row:
    """Load the compiled code with a tiny model, too large and then small enough: that is not counted as inference."""
    import ibia
    from ibia import examples

    began = time.perf_counter()
    model = examples.grid(4, 4, seed=1)
    # The order may be one that only Bayesian networks have.
    ibia.infer(model, **{**(choices or {}), "bound": 3.0, "reduce": 1.0, "order": "auto", "slices": "never"})
    ibia.infer(model, bound=20.0)
    return {"seconds": time.perf_counter() - began}


def accuracy_job(data: Path, instance: Instance, choices: Choices) -> Job:
    """Return the job that solves an instance and compares with its reference."""
    arguments = {"data": str(data), "family": instance.family, "name": instance.name, "choices": choices.arguments()}
    label = {
        "family": instance.family,
        "name": instance.name,
        "reference": instance.reference,
        "uai2014": instance.from_uai2014,
        "settings": choices.arguments(),
    }
    return Job("accuracy.solve", arguments, label)


def run_instances(
    data: Path,
    instances: Sequence[Instance],
    choices: Choices,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    report: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Solve instances, each in a process of its own, and return their rows in the given order.

    Parameters
    ----------
    data
        The benchmark folder.
    jobs
        How many run at the same time, each on one core.
    limits
        Of each process; the row of one that exceeds them holds an error.
    report
        Called with each row as it is finished.
    """
    todo = [accuracy_job(data, instance, choices) for instance in instances]
    return run_jobs(todo, limits or Limits(), at_once=jobs, report=report)
