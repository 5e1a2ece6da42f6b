"""The generated sets: which models of which family, by name.

One set for each family, from small to far too wide for exact answers, and ``quick``: models of all families whose
exact answers are computed within a second and that small bounds do not reach, so that they show how errors fall with
the bound (docs/bench-sets.md has the figures).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ibia import examples
from ibia.bench.generate.dynamic import dynamic
from ibia.bench.generate.parameters import PARAMETERS, Value
from ibia.bench.generate.pedigree import pedigree
from ibia.bench.generate.regular import regular
from ibia.bench.generate.sampling import sampled_evidence
from ibia.errors import InputError
from ibia.model import Model

__all__ = ["FAMILIES", "SETS", "Generated", "find_generated"]


@dataclass(frozen=True)
class Generated:
    """A model that is made when asked for.

    Attributes
    ----------
    family
        One of `FAMILIES`.
    name
        Its name; no other one has it.
    parameters
        The arguments of the family's function.
    """

    family: str
    name: str
    parameters: Mapping[str, Value] = field(hash=False)

    def make(self) -> tuple[Model, dict[int, int]]:
        """Return the model and its evidence, the same each time."""
        return FAMILIES[self.family](**self.parameters)


def _grid(**parameters: Value) -> tuple[Model, dict[int, int]]:
    return examples.grid(**parameters), {}  # type: ignore[arg-type]


def _regular(**parameters: Value) -> tuple[Model, dict[int, int]]:
    return regular(**parameters), {}  # type: ignore[arg-type]


def _diagnosis(diseases: int, findings: int, parents: int, observed: float, seed: int) -> tuple[Model, dict[int, int]]:
    model = examples.diagnosis(diseases, findings, parents, seed)
    random = _evidence_random(seed)
    seen = random.choice(findings, size=round(observed * findings), replace=False) + diseases
    return model, sampled_evidence(model, sorted(seen.tolist()), random)


def _pedigree(seed: int, **parameters: Value) -> tuple[Model, dict[int, int]]:
    model, observed = pedigree(seed=seed, **parameters)  # type: ignore[arg-type]
    return model, sampled_evidence(model, observed, _evidence_random(seed))


def _dynamic(
    slices: int, hidden: int, interface: int, sensors: int, states: int, seed: int
) -> tuple[Model, dict[int, int]]:
    model = dynamic(slices, hidden, interface, sensors, states, seed)
    width = hidden + sensors
    observed = [first + place for first in range(0, slices * width, width) for place in range(hidden, width)]
    return model, sampled_evidence(model, observed, _evidence_random(seed))


def _cliques(**parameters: Value) -> tuple[Model, dict[int, int]]:
    return examples.clique_chain(**parameters), {}  # type: ignore[arg-type]


def _evidence_random(seed: int) -> np.random.Generator:
    """Return random numbers that have nothing to do with those of the model."""
    return np.random.default_rng([seed, 1])


FAMILIES: dict[str, Callable[..., tuple[Model, dict[int, int]]]] = {
    "grid": _grid,
    "regular": _regular,
    "diagnosis": _diagnosis,
    "pedigree": _pedigree,
    "dynamic": _dynamic,
    "cliques": _cliques,
}


def _generated(family: str, *values: Value) -> Generated:
    """Return a member of a set out of its parameters in order."""
    words = [("attractive" if value else "mixed") if isinstance(value, bool) else f"{value:g}" for value in values]
    return Generated(family, "-".join([family, *words]), dict(zip(PARAMETERS[family], values, strict=True)))


_MEMBERS: dict[str, tuple[tuple[str, *tuple[Value, ...]], ...]] = {
    "quick": (
        ("grid", 16, 16, 3.0, 0.1, False, 2),
        ("grid", 19, 19, 2.0, 0.1, False, 1),
        ("grid", 14, 30, 1.5, 0.1, False, 3),
        ("grid", 16, 25, 0.8, 0.1, True, 4),
        ("regular", 75, 4, 2, 2.0, 0.1, 3),
        ("regular", 80, 4, 2, 1.5, 0.1, 1),
        ("regular", 150, 3, 2, 3.0, 0.1, 2),
        ("regular", 34, 4, 4, 2.0, 0.1, 1),
        ("diagnosis", 80, 200, 4, 1.0, 4),
        ("diagnosis", 80, 300, 4, 1.0, 3),
        ("diagnosis", 40, 120, 5, 1.0, 4),
        ("diagnosis", 35, 110, 5, 1.0, 5),
        ("pedigree", 20, 6, 4, 3, 0.3, 0.1, 1),
        ("pedigree", 24, 8, 3, 4, 0.4, 0.1, 2),
        ("pedigree", 30, 10, 3, 4, 0.5, 0.1, 4),
        ("pedigree", 20, 8, 6, 3, 0.5, 0.1, 1),
        ("dynamic", 15, 16, 14, 3, 2, 2),
        ("dynamic", 15, 9, 8, 2, 3, 1),
        ("dynamic", 12, 7, 6, 2, 4, 1),
        ("dynamic", 12, 18, 16, 3, 2, 1),
        ("cliques", 40, 20, 2, 0.4, 1),
        ("cliques", 48, 16, 2, 0.5, 2),
        ("cliques", 54, 18, 2, 0.4, 3),
        ("cliques", 42, 14, 3, 0.3, 5),
    ),
    "long": (
        *(("grid", 10, length, 1.0, 0.3, False, 1) for length in (30, 100, 300, 1000)),
        *(("grid", 10, length, 2.0, 0.1, False, 2) for length in (30, 100, 300, 1000)),
        *(("grid", 10, length, 0.8, 0.1, True, 3) for length in (30, 100, 300, 1000)),
        *(("dynamic", length, 10, 9, 3, 2, 1) for length in (10, 30, 100, 300)),
        *(("dynamic", length, 6, 5, 2, 4, 2) for length in (10, 30, 100, 300)),
        *(("cliques", length, 13, 2, 1.0, 1) for length in (100, 300, 1000, 3000)),
        *(("cliques", length, 14, 3, 0.3, 2) for length in (100, 300, 1000, 3000)),
    ),
    "grid": (
        ("grid", 10, 10, 1.0, 0.3, False, 1),
        ("grid", 10, 10, 0.8, 0.1, True, 1),
        ("grid", 15, 15, 1.0, 0.3, False, 1),
        ("grid", 15, 15, 2.0, 0.3, False, 1),
        ("grid", 20, 20, 1.0, 0.3, False, 1),
        ("grid", 20, 20, 0.8, 0.1, True, 1),
        ("grid", 30, 30, 1.0, 0.3, False, 1),
        ("grid", 30, 30, 2.0, 0.1, False, 1),
        ("grid", 50, 50, 1.0, 0.3, False, 1),
        ("grid", 100, 100, 0.8, 0.1, True, 1),
    ),
    "regular": (
        ("regular", 60, 3, 2, 1.0, 0.3, 1),
        ("regular", 100, 3, 2, 1.0, 0.3, 1),
        ("regular", 200, 3, 2, 1.0, 0.3, 1),
        ("regular", 500, 3, 2, 1.0, 0.3, 1),
        ("regular", 60, 4, 2, 1.0, 0.3, 1),
        ("regular", 100, 4, 2, 1.0, 0.3, 1),
        ("regular", 40, 5, 2, 1.0, 0.3, 1),
        ("regular", 50, 3, 3, 1.0, 0.3, 1),
        ("regular", 100, 3, 4, 1.0, 0.3, 1),
        ("regular", 50, 4, 8, 1.0, 0.3, 1),
    ),
    "diagnosis": (
        ("diagnosis", 30, 60, 4, 1.0, 1),
        ("diagnosis", 40, 150, 4, 1.0, 2),
        ("diagnosis", 60, 200, 4, 1.0, 1),
        ("diagnosis", 30, 100, 5, 1.0, 3),
        ("diagnosis", 100, 300, 4, 1.0, 1),
        ("diagnosis", 100, 400, 3, 0.5, 1),
        ("diagnosis", 200, 600, 4, 1.0, 1),
        ("diagnosis", 500, 2000, 4, 0.5, 1),
    ),
    "pedigree": (
        ("pedigree", 15, 6, 4, 3, 0.5, 0.1, 1),
        ("pedigree", 20, 6, 4, 3, 0.3, 0.1, 1),
        ("pedigree", 20, 8, 6, 3, 0.5, 0.1, 1),
        ("pedigree", 40, 12, 3, 3, 0.5, 0.1, 1),
        ("pedigree", 50, 14, 3, 4, 0.3, 0.1, 1),
        ("pedigree", 30, 10, 10, 4, 0.5, 0.1, 1),
        ("pedigree", 100, 30, 4, 4, 0.3, 0.1, 1),
        ("pedigree", 200, 60, 6, 5, 0.5, 0.1, 1),
    ),
    "dynamic": (
        ("dynamic", 10, 10, 8, 3, 2, 1),
        ("dynamic", 10, 8, 6, 3, 3, 1),
        ("dynamic", 10, 12, 10, 3, 2, 1),
        ("dynamic", 30, 12, 10, 3, 2, 1),
        ("dynamic", 10, 16, 14, 4, 2, 1),
        ("dynamic", 30, 20, 16, 5, 2, 1),
        ("dynamic", 50, 10, 8, 3, 4, 1),
        ("dynamic", 50, 36, 32, 6, 2, 1),
    ),
    "cliques": (
        ("cliques", 60, 10, 2, 0.5, 1),
        ("cliques", 60, 14, 2, 0.5, 1),
        ("cliques", 60, 16, 3, 0.2, 1),
        ("cliques", 100, 18, 2, 0.4, 1),
        ("cliques", 100, 24, 2, 0.3, 1),
        ("cliques", 200, 24, 2, 0.6, 1),
        ("cliques", 200, 40, 2, 0.2, 1),
        ("cliques", 400, 40, 2, 0.4, 1),
    ),
}

SETS: dict[str, tuple[Generated, ...]] = {
    name: tuple(_generated(*member) for member in members) for name, members in _MEMBERS.items()
}


def find_generated(name: str) -> Generated:
    """Return the generated model of that name."""
    for members in SETS.values():
        for member in members:
            if member.name == name:
                return member
    raise InputError(f"There is no generated model named {name!r}.")
