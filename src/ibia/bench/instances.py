"""The benchmark folder: which models it has, how wide they are, which answers are known.

A folder holds, for each family, a folder of model, evidence and answer files, and an `index.csv` that says more about
them; without an index, the models are those whose files are there. Knows file names and the package's readers, nothing
of inference.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ibia.errors import InputError

if TYPE_CHECKING:
    from ibia.model import Model

__all__ = ["Instance", "find_instance", "find_instances", "find_unlisted", "load", "scan_folder"]

Number = TypeVar("Number", int, float)

_COLUMNS = {"family", "name", "reference", "source"}

# Files of an instance, each plain or compressed, in the order of preference.
_COMPRESSIONS = (".xz", ".gz", "")
_MODELS, _EVIDENCE, _MARGINALS, _PARTITION = (".uai", ".bif", ".erg"), (".evid", ".uai.evid"), (".MAR",), (".PR",)


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
    observed
        Number of observed variables, None where the index does not say.
    model_suffixes
        Of its model file, the preferred one first.
    """

    folder: Path
    family: str
    name: str
    reference: str
    source: str
    width: float = math.inf
    variables: int = 0
    observed: int | None = None
    model_suffixes: tuple[str, ...] = _MODELS

    @property
    def from_uai2014(self) -> bool:
        """Whether it is one of the marginals problems of the UAI-2014 competition."""
        return self.source.startswith("uai2014 MAR")

    @property
    def has_model(self) -> bool:
        """Whether the file of the model is there."""
        return self._first(self.model_suffixes) is not None

    @property
    def has_marginals(self) -> bool:
        """Whether there are reference marginals."""
        return self.marginals_path is not None

    @property
    def model_path(self) -> Path:
        """The file of the model."""
        return self._first(self.model_suffixes) or self.path(".uai.xz")

    @property
    def evidence_path(self) -> Path | None:
        """The file of the evidence, if there is one."""
        return self._first(_EVIDENCE)

    @property
    def marginals_path(self) -> Path | None:
        """The file of the reference marginals, if there is one."""
        return self._first(_MARGINALS)

    @property
    def partition_path(self) -> Path | None:
        """The file of the reference log10 Z, if there is one."""
        return self._first(_PARTITION)

    def _first(self, suffixes: tuple[str, ...]) -> Path | None:
        candidates = (self.path(suffix + compression) for suffix in suffixes for compression in _COMPRESSIONS)
        return next((path for path in candidates if path.exists()), None)

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
        The folder; its `index.csv` lists the instances. Without one, all models in it and its folders are taken.
    families, names
        Take only these; all if empty.
    only_uai2014
        Take only the marginals problems of that competition.
    """
    index = data / "index.csv"
    if index.exists() or not data.is_dir():
        every = _read_index(data, index)
    else:
        every = scan_folder(data, _MODELS)
        if not every:
            raise InputError(f"{data} has no models: expected an index.csv, or folders with UAI or BIF files.")
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


def _read_index(data: Path, index: Path) -> list[Instance]:
    try:
        # Some programs put a mark before the text.
        with open(index, newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise InputError(f"{index} cannot be read ({error.strerror}); expected a folder with an index.csv.") from None
    except (UnicodeError, csv.Error) as error:
        raise InputError(f"{index} is not an index of instances: {error}.") from None
    if not rows or not rows[0][1].keys() >= _COLUMNS:
        raise InputError(f"{index} is not an index of instances: columns are missing.")
    return [_instance(data, row, f"{index}, line {line}") for line, row in rows]


def find_unlisted(data: Path, listed: Collection[Instance]) -> list[Instance]:
    """Return the instances that a benchmark folder has files of, and that are none of those listed."""
    known = {(instance.folder, instance.name) for instance in listed}
    return [instance for instance in scan_folder(data, _MODELS) if (instance.folder, instance.name) not in known]


def scan_folder(data: Path, suffixes: tuple[str, ...]) -> list[Instance]:
    """Return an instance for each model file with one of these suffixes in a folder and the folders in it."""
    found: dict[tuple[Path, str], Instance] = {}
    for folder in [data, *sorted(path for path in data.iterdir() if path.is_dir())]:
        # Of the folder where the user is, its own name.
        family = os.path.basename(os.path.abspath(folder))
        for path in sorted(folder.iterdir()):
            name = path.name.removesuffix(".xz").removesuffix(".gz")
            suffix = next((suffix for suffix in suffixes if name.endswith(suffix)), None)
            if suffix is not None and path.is_file():
                name = name.removesuffix(suffix)
                instance = Instance(folder, family, name, "none", str(folder))
                reference = "given" if instance.has_marginals else "none"
                found.setdefault((folder, name), replace(instance, reference=reference))
    return list(found.values())


def _instance(data: Path, row: Mapping[str | None, str | list[str] | None], place: str) -> Instance:
    """Return the instance of a line of an index, whose place an error names."""
    cells = {name: cell for name, cell in row.items() if name is not None and isinstance(cell, str)}
    columns = [name for name in row if name is not None]
    # Cells of no column stand together in a list.
    more = row.get(None) or []
    if more or len(cells) < len(columns):
        raise InputError(f"{place}: expected {len(columns)} cells, found {len(cells) + len(more)}.")
    width = _number(cells, "minfill_width", float, place)
    return Instance(
        folder=data / cells["family"],
        family=cells["family"],
        name=cells["name"],
        reference=cells["reference"],
        source=cells["source"],
        width=math.inf if width is None else width,
        variables=_number(cells, "n_vars", int, place) or 0,
        observed=_number(cells, "n_evidence", int, place),
    )


def _number(cells: Mapping[str, str], name: str, kind: Callable[[str], Number], place: str) -> Number | None:
    """Return the number in a cell, None if it is empty or the index has no such column."""
    text = cells.get(name)
    try:
        return kind(text) if text else None
    except ValueError:
        whole = "whole " if kind is int else ""
        raise InputError(f"{place}: {name} is {text!r}; expected a {whole}number.") from None


def find_instance(data: str | Path, family: str, name: str) -> Instance:
    """Return one instance."""
    found = find_instances(Path(data), [family], [name])
    if not found:
        raise InputError(f"{data} has no instance {name} in family {family}.")
    return found[0]


def load(instance: Instance) -> tuple[Model, dict[int, int]]:
    """Read the model and the evidence of an instance."""
    import ibia
    from ibia.model import check_evidence

    model, path = ibia.read(instance.model_path), instance.evidence_path
    if path is None:
        return model, {}
    evidence = ibia.read_evidence(path)
    try:
        return model, check_evidence(model, evidence)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
