"""The parameters of generated families: their names, what they may be, and what they are if nobody says.

Reads and writes them as users do, ``rows=8,columns=8,coupling=2``, and refuses models that are too large to be made.
Knows nothing of how models are made but how many numbers their tables have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ibia.errors import InputError

__all__ = ["PARAMETERS", "Number", "Parameter", "Value", "YesNo", "format_parameters", "read_parameters"]

Value = int | float | bool

# Numbers in the tables of a model, as many as can be made within some gigabytes and a minute; exponents beyond which a
# model is too large whatever its other parameters are.
_MOST_NUMBERS, _MOST_EXPONENT = 2**25, 30


@dataclass(frozen=True)
class Parameter:
    """A parameter of a family.

    Attributes
    ----------
    default
        None if it has to be given.
    """

    default: Value | None

    @property
    def expected(self) -> str:
        """What it may be, in words."""
        raise NotImplementedError

    def read(self, text: str) -> Value:
        """Return what a text stands for; raise ValueError if it is not as expected."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Parameter):
    """A finite number, whole if the least is."""

    least: int | float = 1
    most: float = math.inf

    @property
    def expected(self) -> str:
        """What it may be, in words."""
        kind = "a whole number" if isinstance(self.least, int) else "a number"
        return f"{kind} of at least {self.least:g}" + ("" if math.isinf(self.most) else f" and at most {self.most:g}")

    def read(self, text: str) -> Value:
        """Return the number."""
        value = type(self.least)(text)
        if not self.least <= value <= self.most or value == math.inf:
            raise ValueError
        return value


@dataclass(frozen=True)
class YesNo(Parameter):
    """Yes or no."""

    @property
    def expected(self) -> str:
        """What it may be, in words."""
        return "yes or no"

    def read(self, text: str) -> Value:
        """Return whether it is yes."""
        if text not in ("yes", "no"):
            raise ValueError
        return text == "yes"


_SEED = Number(0, least=0)
# From where to where: shares, and logarithms of entries of tables, which are to stay finite.
_SHARE, _EXPONENT = (0.0, 1.0), (0.0, 100.0)

# In the order in which they make up the name of a member of a set.
PARAMETERS: dict[str, dict[str, Parameter]] = {
    "grid": {
        "rows": Number(None),
        "columns": Number(None),
        "coupling": Number(1.0, *_EXPONENT),
        "field": Number(0.3, *_EXPONENT),
        "attractive": YesNo(False),
        "seed": _SEED,
    },
    "regular": {
        "size": Number(None),
        "degree": Number(None, least=0),
        "states": Number(2),
        "coupling": Number(1.0, *_EXPONENT),
        "field": Number(0.3, *_EXPONENT),
        "seed": _SEED,
    },
    "diagnosis": {
        "diseases": Number(None),
        "findings": Number(None),
        "parents": Number(3),
        "observed": Number(1.0, *_SHARE),
        "seed": _SEED,
    },
    "pedigree": {
        "people": Number(None),
        "founders": Number(None, least=2),
        "loci": Number(None),
        "alleles": Number(3),
        "typed": Number(0.5, *_SHARE),
        "recombination": Number(0.1, *_SHARE),
        "seed": _SEED,
    },
    "dynamic": {
        "slices": Number(None),
        "hidden": Number(None, least=2),
        "interface": Number(None, least=2),
        "sensors": Number(3, least=0),
        "states": Number(2),
        "seed": _SEED,
    },
    "cliques": {
        "size": Number(None),
        "width": Number(8),
        "together": Number(2),
        "coupling": Number(1.0, *_EXPONENT),
        "seed": _SEED,
    },
}


def _power(base: int, exponent: int) -> int:
    power: int = base ** min(exponent, _MOST_EXPONENT)
    return power


def _cliques_numbers(size: int, width: int, together: int, **_: Value) -> int:
    width = min(width, size)
    together = min(together, width)
    # Each clique has the factors of its own: those that are not all within the half that it shares.
    own = math.comb(width, min(together, width - together, _MOST_EXPONENT))
    return max(1, 2 * size // width - 1) * (own + 1) // 2 * _power(2, together)


# About how many numbers the tables of a model have, by its family.
_NUMBERS: dict[str, Callable[..., int]] = {
    "grid": lambda rows, columns, **_: 10 * rows * columns,
    "regular": lambda size, degree, states, **_: size * (states + degree * states**2 // 2),
    "diagnosis": lambda diseases, findings, parents, **_: 2 * diseases + findings * _power(2, parents + 1),
    "pedigree": lambda people, loci, alleles, **_: people * loci * (8 + 4 * alleles**3 + alleles**4 // 2),
    "dynamic": lambda slices, hidden, sensors, states, **_: slices * (hidden + sensors) * states**3,
    "cliques": _cliques_numbers,
}


def read_parameters(family: str, words: str) -> dict[str, Value]:
    """Return all parameters of a family out of a text like ``rows=8,columns=8``; those not given are as by default."""
    known = PARAMETERS[family]
    given: dict[str, Value] = {}
    for word in words.split(","):
        name, separator, text = word.partition("=")
        if not separator or name not in known:
            expected = ", ".join(known)
            raise InputError(
                f"Models of the family {family} have no parameter {word!r}; expected NAME=VALUE with: {expected}."
            )
        if name in given:
            raise InputError(f"The parameter {name} of a model of the family {family} is given twice.")
        try:
            given[name] = known[name].read(text)
        except ValueError:
            raise InputError(
                f"The parameter {name} of a model of the family {family} is {text!r}; expected {known[name].expected}."
            ) from None
    defaults = {name: parameter.default for name, parameter in known.items() if parameter.default is not None}
    missing = [f"{name}=…" for name in known if name not in {*defaults, *given}]
    if missing:
        raise InputError(f"A model of the family {family} needs {', '.join(missing)} as well.")
    parameters = defaults | given
    if _NUMBERS[family](**parameters) > _MOST_NUMBERS:
        raise InputError(
            f"The model {family}:{words} is too large: its tables have more than {_MOST_NUMBERS:,} numbers in all."
        )
    return parameters


def format_parameters(family: str, parameters: Mapping[str, Value]) -> str:
    """Return the one text among those that are read as these parameters that names of models have.

    Parameters stand in the order of the family, and those that are as by default are left out.
    """
    known = PARAMETERS[family]
    return ",".join(f"{name}={_shown(parameters[name])}" for name in known if parameters[name] != known[name].default)


def _shown(value: Value) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else repr(value).removesuffix(".0")
