"""What a solver is to the bench: something with options that answers a model, and says which version it is.

A solver is a frozen dataclass; its fields are the options, set by a text like ``ibia:bound=15,order=breadth``. It runs
in a process of its own and knows nothing of the other solvers, the sets or the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from numpy.typing import ArrayLike

from ibia.errors import InputError
from ibia.model import Model

__all__ = [
    "Allowance",
    "Answer",
    "CrashedError",
    "NoMemoryError",
    "NoTimeError",
    "NonsenseError",
    "Solver",
    "UnsuitedError",
    "at_least",
    "number",
    "one_of",
    "option",
]

Number = TypeVar("Number", int, float)


class UnsuitedError(InputError):
    """A solver cannot treat models of this kind."""


class NonsenseError(InputError):
    """What a solver has answered cannot be read."""


class CrashedError(InputError):
    """The program of a solver has ended by a signal, without a word of its own."""


class NoMemoryError(InputError):
    """The program of a solver has ended without an answer, and said that there was no memory left."""


class NoTimeError(InputError):
    """The program of a solver was ended at its limit of time, without an answer."""


@dataclass(frozen=True)
class Allowance:
    """What a run may use; it is stopped from outside when it uses more.

    Attributes
    ----------
    seconds, memory
        None: as much as it takes. Memory in bytes.
    """

    seconds: float | None = None
    memory: float | None = None
    threads: int = 1


@dataclass(frozen=True)
class Answer:
    """What a solver found.

    Attributes
    ----------
    marginals
        A distribution for each variable, the observed ones included.
    log10_z
        Decimal logarithm of the partition function; None if the solver does not say.
    seconds
        The time it took, if the solver knows better than the clock around the call.
    figures
        What else is worth keeping, as plain data: ``exact``, ``steps``, ``bound``, ``error_estimate``, ``note`` ...
    """

    marginals: Sequence[ArrayLike]
    log10_z: float | None = None
    seconds: float | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


def option(
    default: Any, parse: Callable[[str], Any], help: str = "", *, shown: Callable[[Any], str] | None = None
) -> Any:
    """Return the field of an option.

    Parameters
    ----------
    default
        Its value where it is not given.
    parse
        Makes its value of a text; raises InputError with what was expected if it cannot.
    help
        What it is.
    shown
        Makes of a value what labels show, where that is not the value itself.
    """
    return field(default=default, metadata={"parse": parse, "help": help, "shown": shown or _text})


def one_of(names: Collection[str]) -> Callable[[str], str]:
    """Return what reads an option that is one of some names."""

    def parse(text: str) -> str:
        if text not in names:
            raise InputError(f"expected one of {', '.join(names)}")
        return text

    return parse


def number(text: str, kind: type[Number], expected: str) -> Number:
    """Return the number that a text stands for.

    Parameters
    ----------
    expected
        What it may be, in words, for the error that says it is none.
    """
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"expected {expected}") from None


def at_least(least: Number) -> Callable[[str], Number]:
    """Return what reads an option that is a finite number, whole if the least is."""
    expected = f"a {'whole ' if isinstance(least, int) else ''}number of at least {least:g}"

    def parse(text: str) -> Number:
        value = number(text, type(least), expected)
        if not least <= value < math.inf:
            raise InputError(f"expected {expected}")
        return value

    return parse


@dataclass(frozen=True)
class Solver:
    """The base of solvers.

    Attributes
    ----------
    name
        How users call it.
    about
        What it is, in a line.
    bare_option
        The option that a word without ``=`` sets, if there is one.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    bare_option: ClassVar[str | None] = None

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Solver:
        """Return the solver with options as users write them: ``bound=15``."""
        known = {entry.name: entry for entry in fields(cls)}
        given: dict[str, Any] = {}
        for word in words:
            name, separator, text = word.partition("=")
            if not separator and cls.bare_option is not None:
                name, text = cls.bare_option, word
            elif not separator or name not in known:
                expected = ", ".join(known) or "none"
                raise InputError(f"The solver {cls.name} has no option {word!r}; expected NAME=VALUE with: {expected}.")
            if name in given:
                raise InputError(f"The option {name} of the solver {cls.name} is given twice.")
            try:
                given[name] = known[name].metadata["parse"](text)
            except InputError as error:
                raise InputError(f"The solver {cls.name} cannot have {name}={text}: {error}.") from None
        return cls(**given)

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not as by default."""
        return {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if getattr(self, entry.name) != entry.default
        }

    @property
    def text(self) -> str:
        """The text that gives this solver again."""
        return self._with_options({name: _text(value) for name, value in self.options.items()})

    @property
    def label(self) -> str:
        """What it is called in rows and tables: no other solver has that, on whatever machine it is."""
        shown = {entry.name: entry.metadata["shown"] for entry in fields(self)}
        return self._with_options({name: shown[name](value) for name, value in self.options.items()})

    def _with_options(self, options: Mapping[str, str]) -> str:
        words = [f"{name}={value}" for name, value in options.items()]
        return ":".join([self.name, ",".join(words)]) if words else self.name

    def version(self) -> str:
        """Return which version it is; raise UnavailableError if it is not there."""
        raise NotImplementedError

    def warm_up(self) -> None:
        """Load what is loaded once: that does not count as time of a run."""

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Bring a model into the solver's own form, and return what answers it; only that call counts as time of a run.

        Raises
        ------
        UnsuitedError
            It cannot treat such models.
        NonsenseError
            Its answer cannot be read.
        """
        raise NotImplementedError

    def solve(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Answer:
        """Answer a model."""
        return self.prepare(model, evidence, allowance)()


def _text(value: Any) -> str:
    """Return a value as its option reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        short = f"{value:.12g}"
        return short if float(short) == value else repr(value)
    return str(value)
