"""The sets of models that a bench can run: those of a benchmark folder, and generated ones that need no download.

An item of a set says where its model is from, as plain data, so that another process can load it. Knows nothing of
solvers or results.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ibia.bench.instances import Instance, find_instances, find_unlisted, load, scan_folder
from ibia.bench.metrics import find_nonsense
from ibia.bench.reference import Reference, fingerprint, is_kept, known_reference
from ibia.bench.report import counted
from ibia.errors import InputError
from ibia.model import Model

__all__ = [
    "DATA_VARIABLE",
    "FileItem",
    "GeneratedItem",
    "Item",
    "ItemSet",
    "choose",
    "find_remarks",
    "find_sets",
    "item_from",
]

DATA_VARIABLE = "IBIA_DATA"
# What the names of a folder's families may begin with, and those do that are called like other sets.
_OF_DATA = "data/"
# So many of the models that are missing are named.
_NAMED = 5

# Sets that are not named after a family.
_ABOUT = {
    "quick": "generated models of all families, in a few minutes",
    "long": "models of fixed width and growing length (grids, dynamic networks, chains of cliques)",
}


class Item(Protocol):
    """A model with evidence, and perhaps a true answer."""

    @property
    def family(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """Where it is from."""
        ...

    @property
    def has_reference(self) -> bool:
        """Whether its true marginals are known before anything is computed."""
        ...

    def lacks_reference(self, digest: str) -> bool:
        """Tell, given its digest, whether its true answer has to be computed, if it can be."""
        ...

    def load(self) -> tuple[Model, dict[int, int]]:
        """Return the model and the evidence."""
        ...

    def reference(self, model: Model, evidence: Mapping[int, int], folder: Path | None = None) -> Reference:
        """Return the true answer of the model that was loaded, as far as it is known or can be computed.

        Parameters
        ----------
        folder
            Where computed answers are kept, if that is not the cache.

        Raises
        ------
        InputError
            What is known of it cannot be used.
        """
        ...

    def digest(self) -> str:
        """Return what tells it from all others, and from itself with other contents."""
        ...

    def plain(self) -> dict[str, Any]:
        """Return plain data that `item_from` makes it of."""
        ...


@dataclass(frozen=True)
class FileItem:
    """A model of a benchmark folder."""

    instance: Instance

    @property
    def family(self) -> str:
        return self.instance.family

    @property
    def name(self) -> str:
        return self.instance.name

    @property
    def source(self) -> str:
        return self.instance.source

    @property
    def has_reference(self) -> bool:
        return self.instance.has_marginals

    def lacks_reference(self, digest: str) -> bool:
        return not self.has_reference and self._is_unknown and not is_kept(digest)

    @property
    def _is_unknown(self) -> bool:
        """Whether nobody has said how wide it is: a user's own model, or a network from a repository."""
        return self.instance.width == math.inf and self.instance.reference == "none"

    def load(self) -> tuple[Model, dict[int, int]]:
        return load(self.instance)

    def reference(self, model: Model, evidence: Mapping[int, int], folder: Path | None = None) -> Reference:
        from ibia.formats import read_marginals, read_partition

        path, partition = self.instance.marginals_path, self.instance.partition_path
        log10_z = None if partition is None else read_partition(partition)
        if path is not None:
            marginals = read_marginals(path)
            nonsense = find_nonsense(marginals, model.cardinalities)
            if nonsense is not None:
                raise InputError(f"{path}: {nonsense}")
            return Reference(self.instance.reference, tuple(marginals), log10_z)
        if self._is_unknown:
            return known_reference(model, evidence, folder)
        return Reference(self.instance.reference, None, log10_z)

    def digest(self) -> str:
        found = hashlib.sha256()
        instance = self.instance
        paths = (instance.model_path, instance.evidence_path, instance.marginals_path, instance.partition_path)
        for path in paths:
            try:
                found.update(b"-" if path is None else hashlib.sha256(path.read_bytes()).digest())
            except OSError as error:
                raise InputError(f"{path} cannot be read: {error.strerror}.") from None
        return found.hexdigest()[:32]

    def plain(self) -> dict[str, Any]:
        width = self.instance.width if math.isfinite(self.instance.width) else None
        return {"kind": "file", **vars(self.instance), "folder": str(self.instance.folder), "width": width}


@dataclass(frozen=True)
class GeneratedItem:
    """A model that is made when it is needed, the same each time."""

    family: str
    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    source: str = "generated"

    @property
    def has_reference(self) -> bool:
        return False

    def lacks_reference(self, digest: str) -> bool:
        return not is_kept(digest)

    def load(self) -> tuple[Model, dict[int, int]]:
        from ibia.bench.generate import Generated

        return Generated(self.family, self.name, self.parameters).make()

    def reference(self, model: Model, evidence: Mapping[int, int], folder: Path | None = None) -> Reference:
        return known_reference(model, evidence, folder)

    def digest(self) -> str:
        return fingerprint(*self.load())

    def plain(self) -> dict[str, Any]:
        return {"kind": "generated", "family": self.family, "name": self.name, "parameters": dict(self.parameters)}


def item_from(plain: Mapping[str, Any]) -> Item:
    """Return the item that plain data stand for."""
    given = dict(plain)
    if given.pop("kind") == "generated":
        return GeneratedItem(**given)
    width = math.inf if given["width"] is None else given["width"]
    return FileItem(Instance(**{**given, "folder": Path(given["folder"]), "width": width}))


@dataclass(frozen=True)
class ItemSet:
    """A named set.

    Attributes
    ----------
    about
        What it is, in a line.
    remarks
        What whoever asks for it should know: sentences.
    family
        Of the folder, where the set is one; whatever it is called, ``data/FAMILY`` will do for it.
    """

    name: str
    about: str
    items: tuple[Item, ...]
    remarks: tuple[str, ...] = ()
    family: str | None = None


def find_sets(data: Path | None = None) -> dict[str, ItemSet]:
    """Return all sets by name.

    A family of the folder that is called like another set has the name ``data/FAMILY``; `choose` takes that of any.

    Parameters
    ----------
    data
        The benchmark folder; without, the one the environment variable IBIA_DATA names, if any. Generated sets need
        neither, so that one which cannot be used is left out, with a line that says so.
    """
    from ibia.bench.generate import SETS

    found = [
        ItemSet(name, _ABOUT.get(name, f"generated models: {name}"), tuple(_generated(member) for member in members))
        for name, members in SETS.items()
    ]
    if data is not None:
        found += _folder_sets(data)
    elif os.environ.get(DATA_VARIABLE):
        try:
            found += _folder_sets(Path(os.environ[DATA_VARIABLE]))
        except (InputError, OSError) as error:
            print(f"{DATA_VARIABLE} is left out: {error}", file=sys.stderr)
    sets = {entry.name: entry for entry in found if entry.items}
    for name, entry in sets.items():
        if _OF_DATA + name in sets:
            remark = (
                f"The set {name} is that of the bench ({entry.about}), not the family {name} of the folder, which is "
                f"the set {_OF_DATA}{name}."
            )
            sets[name] = replace(entry, remarks=(*entry.remarks, remark))
    return sets


def _generated(member: Any) -> GeneratedItem:
    return GeneratedItem(member.family, member.name, member.parameters)


def _folder_sets(data: Path) -> list[ItemSet]:
    from ibia.bench.generate import SETS

    listed = find_instances(data)
    instances = [instance for instance in listed if instance.has_model]
    remarks = tuple(_differences(data, listed))

    def taken(name: str, about: str, wanted: Callable[[Instance], bool]) -> ItemSet:
        return ItemSet(name, about, tuple(FileItem(instance) for instance in instances if wanted(instance)), remarks)

    networks = tuple(FileItem(_as_network(instance)) for instance in scan_folder(data, (".bif",)))
    sets = [
        taken("all", f"everything in {data}", lambda instance: True),
        taken("small", "models with reference marginals", lambda instance: instance.has_marginals),
        taken("large", "models without reference marginals", lambda instance: not instance.has_marginals),
        taken("uai2014", "marginals problems of the UAI-2014 competition", lambda instance: instance.from_uai2014),
        ItemSet("bif", "networks of the bnlearn repository, and others, from BIF files", networks, remarks),
    ]
    others = {*SETS, *(entry.name for entry in sets)}
    for family in dict.fromkeys(instance.family for instance in instances):
        name = f"{_OF_DATA}{family}" if family in others else family
        members = taken(name, f"the family {family}", lambda instance, family=family: instance.family == family)  # type: ignore[misc]
        sets.append(replace(members, family=family))
    return sets


def _differences(data: Path, listed: Sequence[Instance]) -> Iterator[str]:
    """Yield which models the index names that are not there, and which are there that it does not name."""
    for verb, what, instances in (
        ("lacks", "of its index", [instance for instance in listed if not instance.has_model]),
        ("has", "that its index does not name", find_unlisted(data, listed)),
    ):
        if instances:
            names = ", ".join(f"{instance.family}/{instance.name}" for instance in instances[:_NAMED])
            others = " and others" if len(instances) > _NAMED else ""
            count = counted(len(instances), "model")
            yield f"{data} {verb} {count} {what}, left out: {names}{others}."


def _as_network(instance: Instance) -> Instance:
    """Return the instance whose model is the BIF file, though there may be the same model in another format."""
    return replace(instance, source="BIF", model_suffixes=(".bif",))


def find_remarks(sets: Mapping[str, ItemSet], names: Iterable[str]) -> list[str]:
    """Return what whoever asks for these sets should know, each sentence once."""
    found = (_find(sets, name) for name in names)
    return list(dict.fromkeys(remark for entry in found if entry is not None for remark in entry.remarks))


def _find(sets: Mapping[str, ItemSet], name: str) -> ItemSet | None:
    """Return the set of a name; ``data/FAMILY`` is a family of the folder, whatever else is called like it."""
    if name.startswith(_OF_DATA):
        return next((entry for entry in sets.values() if entry.family == name.removeprefix(_OF_DATA)), None)
    return sets.get(name)


def choose(
    sets: Mapping[str, ItemSet], names: Sequence[str], only: Sequence[str] = (), *, data: Path | None = None
) -> list[Item]:
    """Return the items of the named sets, each once.

    Parameters
    ----------
    names
        Sets, or single generated models like ``grid:rows=8,columns=8,coupling=1,field=0.3,seed=1``.
    only
        Names of items; all if empty.
    data
        The benchmark folder that was asked for, if one was.
    """
    items: dict[tuple[str, str, str], Item] = {}
    for name in names:
        members: Sequence[Item] = (_single(name),) if ":" in name else _named(sets, name, data).items
        items.update(((item.source, item.family, item.name), item) for item in members)
    unknown = set(only) - {item.name for item in items.values()}
    if unknown:
        raise InputError(f"The sets {', '.join(names)} have no model {', '.join(sorted(unknown))}.")
    return [item for item in items.values() if not only or item.name in only]


def _named(sets: Mapping[str, ItemSet], name: str, data: Path | None) -> ItemSet:
    found = _find(sets, name)
    if found is None:
        needed = f" Sets of a folder need --data or {DATA_VARIABLE}."
        is_given = data is not None or os.environ.get(DATA_VARIABLE)
        expected = f"expected one of {', '.join(sets)}."
        raise InputError(f"There is no set {name!r}; {expected}{'' if is_given else needed}")
    return found


def _single(text: str) -> GeneratedItem:
    from ibia.bench.generate import FAMILIES, format_parameters, read_parameters

    family, _, words = text.partition(":")
    if family not in FAMILIES:
        raise InputError(f"There is no family {family!r} of generated models; expected one of {', '.join(FAMILIES)}.")
    parameters = read_parameters(family, words)
    # However it is written, a model has one name, by which its runs are known.
    item = GeneratedItem(family, f"{family}:{format_parameters(family, parameters)}", parameters)
    try:
        item.load()
    except InputError as error:
        raise InputError(f"{text}: {error}") from None
    except MemoryError:
        raise InputError(f"{text}: There is not enough memory for a model of this size.") from None
    return item
