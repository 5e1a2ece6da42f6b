"""Accuracy on models with known answers: each instance in a process of its own, a line of JSON for each.

A separate process gives its memory back when it ends and has a peak of its own. This module knows the layout of the
benchmark folder and the public call of the package, nothing of how inference works.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ibia.bench.metrics import score
from ibia.errors import IbiaError, InputError

__all__ = ["Choices", "Instance", "Row", "find_instances", "instance_main", "run_instance", "run_instances"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Choices:
    """The options of `ibia.infer` that a run compares."""

    bound: float = 20.0
    reduce: float | str | None = None
    loss: str = "kl"
    update: str = "sweeps"
    order: str = "auto"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the call; what is None is left to the default of the package."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Instance:
    """A model of the benchmark folder that has reference marginals.

    Attributes
    ----------
    folder
        Where its files lie.
    reference
        How good the reference is, in the words of the index.
    source
        Where it is from.
    """

    folder: Path
    family: str
    name: str
    reference: str
    source: str

    @property
    def from_uai2014(self) -> bool:
        """Whether it is one of the marginals problems of the UAI-2014 competition."""
        return self.source.startswith("uai2014 MAR")

    def path(self, suffix: str) -> Path:
        """Return the path of one of its files."""
        return self.folder / f"{self.name}{suffix}"


def find_instances(
    data: Path, families: Collection[str] = (), names: Collection[str] = (), *, only_uai2014: bool = False
) -> list[Instance]:
    """Return the instances with reference marginals of a benchmark folder, in the order of its index.

    Parameters
    ----------
    data
        The folder; its `index.csv` lists the instances.
    families, names
        Take only these; all if empty.
    only_uai2014
        Take only the marginals problems of that competition.
    """
    index = data / "index.csv"
    try:
        with open(index, newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    except OSError as error:
        raise InputError(f"{index} cannot be read ({error.strerror}); expected a folder with an index.csv.") from None
    if not rows or not {"family", "name", "reference", "source"} <= rows[0].keys():
        raise InputError(f"{index} is not an index of instances: columns are missing.")
    every = [
        Instance(
            folder=data / row["family"],
            family=row["family"],
            name=row["name"],
            reference=row["reference"],
            source=row["source"],
        )
        for row in rows
    ]
    for wanted, known, what in (
        (families, {instance.family for instance in every}, "family"),
        (names, {instance.name for instance in every}, "instance"),
    ):
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise InputError(f"{index} has no {what} {', '.join(unknown)}.")
    return [
        instance
        for instance in every
        if (not families or instance.family in families)
        and (not names or instance.name in names)
        and (not only_uai2014 or instance.from_uai2014)
        and instance.path(".MAR.xz").exists()
    ]


def run_instance(instance: Instance, choices: Choices) -> Row:
    """Solve an instance in this process and compare with its reference."""
    import ibia
    from ibia.formats import read_marginals, read_partition

    began = time.perf_counter()
    model = ibia.read(instance.path(".uai.xz"))
    path = instance.path(".evid")
    evidence = ibia.read_evidence(path) if path.exists() else {}
    _warm_up(choices)
    result = ibia.infer(model, evidence, **choices.arguments())
    errors = score(result.marginals, read_marginals(instance.path(".MAR.xz")), evidence)
    log10_z = read_partition(instance.path(".PR")) if instance.path(".PR").exists() else None
    figures = result.to_dict()
    return {
        **_label(instance, choices),
        "hd_avg": errors.average,
        "hd_max": errors.largest,
        "largest_absolute_error": errors.largest_absolute,
        "worst_variable": errors.worst,
        "delta_log10_z": None if log10_z is None else result.log10_z - log10_z,
        "log10_z": result.log10_z,
        **{name: figures[name] for name in _KEPT},
        "wall_seconds": time.perf_counter() - began,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


_KEPT = (
    "exact",
    "steps",
    "loss_nats",
    "first_inconsistency",
    "inconsistency",
    "error_estimate",
    "error_upper",
    "max_clique_bits",
    "orders",
    "seconds",
)


def _label(instance: Instance, choices: Choices) -> Row:
    return {
        "family": instance.family,
        "name": instance.name,
        "reference": instance.reference,
        "uai2014": instance.from_uai2014,
        "settings": choices.arguments(),
    }


def _warm_up(choices: Choices) -> None:
    """Load the compiled code with a tiny model that does not fit, so that it is not counted as inference."""
    import ibia
    from ibia import examples

    ibia.infer(examples.grid(4, 4, seed=1), **{**choices.arguments(), "bound": 3.0, "reduce": 1.0})


def run_instances(
    data: Path,
    instances: Sequence[Instance],
    choices: Choices,
    *,
    jobs: int = 1,
    limit_seconds: float | None = None,
    report: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Solve instances, each in a process of its own, and return their rows in the given order.

    Parameters
    ----------
    data
        The benchmark folder.
    jobs
        How many run at the same time, each on one core.
    limit_seconds
        Stop an instance after this time; its row then holds an error.
    report
        Called with each row as it is finished.
    """
    rows: dict[int, Row] = {}
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = {
            pool.submit(_run_apart, data, instance, choices, limit_seconds): number
            for number, instance in enumerate(instances)
        }
        try:
            for future in as_completed(waiting):
                rows[waiting[future]] = row = future.result()
                report(row)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [rows[number] for number in range(len(instances))]


def _run_apart(data: Path, instance: Instance, choices: Choices, limit_seconds: float | None) -> Row:
    command = [sys.executable, "-m", "ibia.bench", "instance", instance.family, instance.name]
    command += ["--data", str(data), "--choices", json.dumps(asdict(choices))]
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_NUM_THREADS": "1"},
            timeout=limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"stopped after {limit_seconds:g} s"
    else:
        lines = done.stdout.splitlines()
        if done.returncode == 0 and lines:
            row: Row = json.loads(lines[-1])
            return row
        said = done.stderr.strip().splitlines()
        # A process ended by the kernel (out of memory, mostly) leaves no word behind.
        problem = said[-1] if said else f"ended with exit status {done.returncode}"
    return {**_label(instance, choices), "error": problem, "wall_seconds": time.perf_counter() - began}


def instance_main(data: Path, family: str, name: str, choices_as_json: str) -> int:
    """Solve one instance and print its row: what the processes of `run_instances` do."""
    try:
        instances = find_instances(data, [family], [name])
        if not instances:
            raise InputError(f"{family}/{name} has no reference marginals.")
        row = run_instance(instances[0], Choices(**json.loads(choices_as_json)))
    except (IbiaError, MemoryError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(row))
    return 0
