"""The benchmark folder: which models it has, how wide they are, which answers are known.

A folder holds an `index.csv` and, for each family, a folder of model, evidence and answer files. Knows file names and
the package's readers, nothing of inference.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ibia.errors import InputError

if TYPE_CHECKING:
    from ibia.model import Model

__all__ = ["Instance", "find_instance", "find_instances", "load"]

_COLUMNS = {"family", "name", "reference", "source"}


@dataclass(frozen=True)
class Instance:
    """A model of the benchmark folder.

    Attributes
    ----------
    folder
        Where its files lie.
    reference
        How good the reference is, in the words of the index.
    source
        Where it is from.
    width
        Bits of the largest clique of a good triangulation, infinite where the index does not say.
    variables
        Number of variables, 0 where the index does not say.
    """

    folder: Path
    family: str
    name: str
    reference: str
    source: str
    width: float = math.inf
    variables: int = 0

    @property
    def from_uai2014(self) -> bool:
        """Whether it is one of the marginals problems of the UAI-2014 competition."""
        return self.source.startswith("uai2014 MAR")

    @property
    def has_marginals(self) -> bool:
        """Whether there are reference marginals."""
        return self.path(".MAR.xz").exists()

    def path(self, suffix: str) -> Path:
        """Return the path of one of its files."""
        return self.folder / f"{self.name}{suffix}"


def find_instances(
    data: Path, families: Collection[str] = (), names: Collection[str] = (), *, only_uai2014: bool = False
) -> list[Instance]:
    """Return the instances of a benchmark folder, in the order of its index.

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
    if not rows or not rows[0].keys() >= _COLUMNS:
        raise InputError(f"{index} is not an index of instances: columns are missing.")
    every = [_instance(data, row) for row in rows]
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
    ]


def _instance(data: Path, row: dict[str, str]) -> Instance:
    return Instance(
        folder=data / row["family"],
        family=row["family"],
        name=row["name"],
        reference=row["reference"],
        source=row["source"],
        width=float(row.get("minfill_width") or math.inf),
        variables=int(row.get("n_vars") or 0),
    )


def find_instance(data: str | Path, family: str, name: str) -> Instance:
    """Return one instance."""
    found = find_instances(Path(data), [family], [name])
    if not found:
        raise InputError(f"{data} has no instance {name} in family {family}.")
    return found[0]


def load(instance: Instance) -> tuple[Model, dict[int, int]]:
    """Read the model and the evidence of an instance."""
    import ibia

    path = instance.path(".evid")
    return ibia.read(instance.path(".uai.xz")), ibia.read_evidence(path) if path.exists() else {}
