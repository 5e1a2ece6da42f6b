"""The discrete graphical model: variables, factors and the checks that make every model a valid one.

Everything here is immutable. This module must not know about files, inference or graph structure beyond
"a Bayesian network has no cycle".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibia.errors import InputError
from ibia.flat import ends, flat

__all__ = ["Factor", "FactorError", "Layout", "Model", "Variable", "check_evidence", "table_size"]

# Larger tables are a mistake in the input; refusing them early keeps every later size a sane number.
LARGEST_TABLE = 2**40
# Marginals need a number and a name for each state, so counts beyond these are mistakes as well.
LARGEST_CARDINALITY = 2**20
MOST_STATES = 2**24

_Item = TypeVar("_Item")

# Comparing with the type object itself takes several times as long.
_FLOAT64 = np.dtype(np.float64)


class FactorError(InputError):
    """A factor breaks a rule of the model.

    Attributes
    ----------
    factor
        The number of the factor, so that a reader can point at its line.
    """

    def __init__(self, message: str, factor: int) -> None:
        super().__init__(message)
        self.factor = factor


@dataclass(frozen=True)
class Variable:
    """A discrete variable.

    Parameters
    ----------
    name
        The name, unique within a model.
    cardinality
        The number of states, at least 1.
    states
        The names of the states; "0", "1", ... when left out.
    """

    name: str
    cardinality: int
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"A variable needs a name, a string that is not empty, not {self.name!r}.")
        try:
            cardinality = operator.index(self.cardinality)
        except TypeError:
            raise InputError(
                f"Variable {self.name} has the cardinality {self.cardinality!r}; expected a whole number."
            ) from None
        if cardinality < 1:
            raise InputError(f"Variable {self.name} has cardinality {cardinality}; expected at least 1.")
        if cardinality > LARGEST_CARDINALITY:
            raise InputError(
                f"Variable {self.name} has cardinality {cardinality}; "
                f"at most {LARGEST_CARDINALITY} is supported."
            )
        states = tuple(map(str, self.states)) if self.states else _numbered_states(cardinality)
        if len(states) != cardinality:
            raise InputError(
                f"Variable {self.name} has cardinality {cardinality} but {len(states)} state names."
            )
        if self.states and len(set(states)) != cardinality:
            raise InputError(f"Variable {self.name} has two states named {_first_repeated(states)!r}.")
        object.__setattr__(self, "cardinality", cardinality)
        object.__setattr__(self, "states", states)

    def state_index(self, state: str | SupportsIndex) -> int:
        """Return the number of a state given by name or number.

        A string is looked up among the state names; when none of these is a number, a string of digits is
        taken as the state's number.
        """
        if isinstance(state, str):
            if state in self.states:
                return self.states.index(state)
            if not state.isdecimal() or any(name.isdecimal() for name in self.states):
                raise InputError(f"Variable {self.name} has no state {state!r}{self._hint(state)}")
        number = _whole_number(state)
        if number is None:
            raise InputError(
                f"Variable {self.name} was given the state {state!r}; expected a state name or number."
            )
        if not 0 <= number < self.cardinality:
            raise InputError(
                f"Variable {self.name} has no state {number}: "
                f"its states are numbered 0 to {self.cardinality - 1}."
            )
        return number

    def check_likelihood(self, likelihood: ArrayLike) -> tuple[float, ...]:
        """Return a likelihood, one number for each state, if it can be one."""
        values = _real_array(likelihood, f"The likelihood of variable {self.name}")
        if values.shape != (self.cardinality,):
            raise InputError(
                f"The likelihood of variable {self.name} has {values.size} numbers; expected one for each of its "
                f"{self.cardinality} states ({', '.join(self.states[:8])}{', ...' if self.cardinality > 8 else ''})."
            )
        if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
            raise InputError(
                f"The likelihood of variable {self.name} is {', '.join(map(str, values[:8].tolist()))}; expected "
                f"finite numbers that are not negative, and not all zero."
            )
        return tuple(map(float, values))

    def _hint(self, state: str) -> str:
        close = _close_matches(state, self.states[:1000])
        if close:
            return f"; did you mean {', '.join(close)}?"
        return f"; its states are {', '.join(self.states[:8])}{', ...' if self.cardinality > 8 else ''}."


@lru_cache(maxsize=64)
def _small_numbered_states(cardinality: int) -> tuple[str, ...]:
    return tuple(map(str, range(cardinality)))


def _numbered_states(cardinality: int) -> tuple[str, ...]:
    # Only small tuples are worth keeping: they are shared by thousands of variables.
    if cardinality <= 256:
        return _small_numbered_states(cardinality)
    return tuple(map(str, range(cardinality)))


def _close_matches(name: str, names: Sequence[str]) -> list[str]:
    # Only messages need it.
    import difflib

    return difflib.get_close_matches(name, names, n=3)


def _whole_number(value: object) -> int | None:
    if isinstance(value, str):
        # Beyond a handful of digits no index is meant, and int() refuses very long strings.
        return int(value) if value.isdecimal() and len(value) < 20 else None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Factor:
    """A table over some variables of a model.

    Parameters
    ----------
    scope
        The numbers of the variables; may be empty.
    values
        The entries, flat, the last variable of the scope varying fastest. A writeable array is copied; a
        read-only one of the right layout is kept as it is.
    """

    scope: tuple[int, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "scope", tuple(map(operator.index, self.scope)))
        except TypeError:
            raise InputError(
                f"The scope of a factor is a sequence of variable numbers, not {self.scope!r}."
            ) from None
        values = self.values
        if (
            type(values) is not np.ndarray
            or values.dtype != _FLOAT64
            or values.ndim != 1
            or not values.flags.c_contiguous
            or values.flags.writeable
        ):
            values = np.array(_real_array(values), dtype=np.float64, order="C").reshape(-1)
            values.setflags(write=False)
            object.__setattr__(self, "values", values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factor):
            return NotImplemented
        return self.scope == other.scope and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.scope, self.values.size))

    def __repr__(self) -> str:
        return f"Factor(scope={self.scope}, {self.values.size} values)"


def _real_array(values: ArrayLike, what: str = "The table of a factor") -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be an array of real numbers.")
    return array


class Layout(NamedTuple):
    """Where things are when all scopes, and all tables, lie end to end.

    Attributes
    ----------
    cardinalities
        The number of states of each variable.
    state_starts, states
        Variable → where its states begin in `states`, which are their numbers; one number more says where the last end.
    starts
        Factor → where its scope begins in `members`; one number more says where the last one ends.
    members
        The variables of the scopes.
    offsets
        Factor → where its table begins; one number more says where the last one ends.
    """

    cardinalities: NDArray[np.int64]
    state_starts: NDArray[np.int64]
    states: NDArray[np.int64]
    starts: NDArray[np.int64]
    members: NDArray[np.int64]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Model:
    """A discrete graphical model: the product of its factors, unnormalised.

    Parameters
    ----------
    variables
        The variables, in the order in which factors number them. A variable may be in no factor.
    factors
        The factors. In a model of kind "bayes" the last variable of a factor's scope is its child, no two
        factors share a child and the parents form no cycle; rows need not sum to one.
    kind
        Whether the model is a Markov or a Bayesian network.
    name
        A name to show; two models that differ only in it are equal.
    """

    variables: tuple[Variable, ...]
    factors: tuple[Factor, ...]
    kind: Literal["markov", "bayes"] = "markov"
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", tuple(self.variables))
        object.__setattr__(self, "factors", tuple(self.factors))
        if self.kind not in ("markov", "bayes"):
            raise InputError(f'The kind of a model is "markov" or "bayes", not {self.kind!r}.')
        _check_variables(self.variables)
        _check_scopes(self.variables, self.factors)
        _check_values(self.variables, self.factors)
        if self.kind == "bayes":
            _check_parents(self.variables, self.factors)

    @classmethod
    def from_arrays(
        cls,
        variables: Iterable[SupportsIndex | Variable],
        factors: Iterable[tuple[Sequence[str | SupportsIndex], ArrayLike]],
        kind: Literal["markov", "bayes"] = "markov",
        name: str = "",
    ) -> Model:
        """Build a model from plain arrays.

        Parameters
        ----------
        variables
            A cardinality or a `Variable` for each variable; one given by its cardinality is named
            "X" and its number.
        factors
            A scope (names or numbers of variables) and a table for each factor. The table has one axis for
            each variable of the scope, or is flat with the last variable varying fastest.
        kind
            Whether the model is a Markov or a Bayesian network.
        name
            A name to show.
        """
        declared = tuple(
            entry if isinstance(entry, Variable) else _numbered_variable(number, entry)
            for number, entry in enumerate(variables)
        )
        _check_variables(declared)
        names = tuple(variable.name for variable in declared)
        numbers = {name: number for number, name in enumerate(names)}
        built = []
        for number, (scope, table) in enumerate(factors):
            built.append(_build_factor(declared, names, numbers, number, scope, table))
        return cls(declared, tuple(built), kind, name)

    @cached_property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of states of each variable."""
        return tuple(variable.cardinality for variable in self.variables)

    @cached_property
    def layout(self) -> Layout:
        """The scopes and the sizes of all factors in a few arrays, which are not to be written to."""
        scopes = [factor.scope for factor in self.factors]
        sizes = [factor.values.size for factor in self.factors]
        return Layout(
            np.array(self.cardinalities, np.int64),
            ends(self.cardinalities),
            np.fromiter(chain.from_iterable(map(range, self.cardinalities)), np.int64),
            *flat(scopes),
            ends(sizes),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each variable."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def children(self) -> tuple[int, ...]:
        """The child variable of each factor of a Bayesian network."""
        if self.kind != "bayes":
            raise InputError("A Markov network has no children; only the factors of a Bayesian network do.")
        return tuple(factor.scope[-1] for factor in self.factors)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def index(self, variable: str | SupportsIndex) -> int:
        """Return the number of a variable given by name or number.

        A string is looked up among the names; when none of these is a number, a string of digits is taken as
        the variable's number.
        """
        return _resolve(variable, self.names, self._numbers)

    def with_likelihoods(
        self, likelihoods: Mapping[str, ArrayLike] | Mapping[int, ArrayLike] | Mapping[str | int, ArrayLike]
    ) -> Model:
        """Return the model times a likelihood of each variable given (soft, or virtual, evidence).

        Each is one more factor, so Z is summed with it: of a Bayesian network it becomes the probability of what
        was seen only if the likelihood is that of what was seen; times a constant, it is times that constant. The
        outcome is a Markov network, because a variable of a Bayesian network has one table.

        Parameters
        ----------
        likelihoods
            Variable, by name or number → a number for each of its states, not negative; they need not sum to one.
        """
        added = []
        for key, likelihood in likelihoods.items():
            number = self.index(key)
            added.append(Factor((number,), np.array(self.variables[number].check_likelihood(likelihood))))
        return Model(self.variables, (*self.factors, *added), "markov", self.name) if added else self

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        largest = max(self.cardinalities, default=0)
        table = max((factor.values.size for factor in self.factors), default=0)
        return (
            f"Model({name}{self.kind}, {len(self.variables)} variables of at most {largest} states, "
            f"{len(self.factors)} factors of at most {table} entries)"
        )


def check_evidence(
    model: Model, evidence: Mapping[str, str | int] | Mapping[int, str | int] | Mapping[str | int, str | int]
) -> dict[int, int]:
    """Resolve the names in evidence and check it against a model.

    Parameters
    ----------
    model
        The model the evidence is about.
    evidence
        The observed state, by name or number, of each observed variable, by name or number.

    Returns
    -------
    The number of the observed state of each observed variable, by the number of the variable.
    """
    observed: dict[int, int] = {}
    for key, state in evidence.items():
        number = model.index(key)
        variable = model.variables[number]
        value = variable.state_index(state)
        if observed.setdefault(number, value) != value:
            raise InputError(
                f"The evidence gives variable {variable.name} two different states, "
                f"{variable.states[observed[number]]} and {variable.states[value]}."
            )
    return observed


def _numbered_variable(number: int, cardinality: SupportsIndex) -> Variable:
    return Variable(f"X{number}", cardinality)  # type: ignore[arg-type]


def _resolve(variable: str | SupportsIndex, names: Sequence[str], numbers: Mapping[str, int]) -> int:
    if isinstance(variable, str):
        known = numbers.get(variable)
        if known is not None:
            return known
        if not variable.isdecimal() or any(name.isdecimal() for name in names):
            close = _close_matches(variable, names[:20000])
            hint = f"; did you mean {', '.join(close)}?" if close else "."
            raise InputError(f"There is no variable named {variable!r}{hint}")
    number = _whole_number(variable)
    if number is None:
        raise InputError(f"A variable is given by its name or number, not by {variable!r}.")
    if not 0 <= number < len(names):
        raise InputError(
            f"There is no variable {number}: the model has {len(names)} variables, numbered from 0."
        )
    return number


def _build_factor(
    variables: Sequence[Variable],
    names: Sequence[str],
    numbers: Mapping[str, int],
    number: int,
    scope: Sequence[str | SupportsIndex],
    table: ArrayLike,
) -> Factor:
    """Resolve the scope of a factor and flatten its table, whose shape is lost afterwards."""
    if isinstance(scope, str):
        raise FactorError(f"Factor {number}: a scope is a sequence of variables, not a string.", number)
    try:
        resolved = tuple(_resolve(variable, names, numbers) for variable in scope)
        array = _real_array(table)
    except InputError as error:
        raise FactorError(f"Factor {number}: {error}", number) from None
    shape = tuple(variables[variable].cardinality for variable in resolved)
    if array.ndim > 1 and array.shape != shape:
        raise FactorError(
            f"{_describe(variables, resolved, number)} has a table of shape {array.shape}, expected {shape}.",
            number,
        )
    return Factor(resolved, array)


def _describe(variables: Sequence[Variable], scope: Sequence[int], number: int) -> str:
    """Name a factor at the start of a sentence."""
    names = ", ".join(variables[variable].name for variable in scope[:6])
    return f"Factor {number} (scope {names or 'empty'}{', ...' if len(scope) > 6 else ''})"


def _check_variables(variables: Sequence[Variable]) -> None:
    seen = set()
    total = 0
    for variable in variables:
        if not isinstance(variable, Variable):
            raise InputError(f"The variables of a model are Variable objects, not {variable!r}.")
        if variable.name in seen:
            raise InputError(f"Two variables are named {variable.name!r}.")
        seen.add(variable.name)
        total += variable.cardinality
    if total > MOST_STATES:
        raise InputError(f"The variables have {total} states in all; at most {MOST_STATES} are supported.")


def _check_scopes(variables: Sequence[Variable], factors: Sequence[Factor]) -> None:
    cardinalities = [variable.cardinality for variable in variables]
    count = len(variables)
    for number, factor in enumerate(factors):
        if not isinstance(factor, Factor):
            raise InputError(f"Factor {number} is not a Factor object but {type(factor).__name__}.")
        scope = factor.scope
        if scope and not (min(scope) >= 0 and max(scope) < count):
            unknown = next(variable for variable in scope if not 0 <= variable < count)
            raise FactorError(
                f"Factor {number} names variable {unknown}, "
                f"but the model has {count} variables, numbered from 0.",
                number,
            )
        if len(set(scope)) != len(scope):
            raise FactorError(
                f"{_describe(variables, scope, number)} names {variables[_first_repeated(scope)].name} more than once.",
                number,
            )
        expected = table_size([cardinalities[variable] for variable in scope])
        if expected > LARGEST_TABLE:
            raise FactorError(
                f"{_describe(variables, scope, number)} needs a table of at least {_roughly(expected)} entries, "
                f"over the limit of 2**40.",
                number,
            )
        if factor.values.size != expected:
            raise FactorError(
                f"{_describe(variables, scope, number)} has a table of {factor.values.size} entries, "
                f"expected {expected}.",
                number,
            )


def table_size(cardinalities: Sequence[int]) -> int:
    """Return the product of cardinalities; far beyond what is allowed, any number that is beyond it."""
    if len(cardinalities) <= 100:
        return math.prod(cardinalities)
    # The product of thousands of numbers takes long, and nobody wants to know it.
    size = 1
    for cardinality in cardinalities:
        size *= cardinality
        if size > LARGEST_TABLE**2:
            break
    return size


def _roughly(size: int) -> str:
    return f"2**{size.bit_length() - 1}"


def _first_repeated(items: Sequence[_Item]) -> _Item:
    """Return the first item that was there before."""
    seen = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    raise AssertionError("there is no such item")


def _check_values(variables: Sequence[Variable], factors: Sequence[Factor]) -> None:
    # Checking small tables together keeps the cost per factor far below that of a call into numpy.
    batch: list[int] = []
    entries = 0
    for number, factor in enumerate(factors):
        batch.append(number)
        entries += factor.values.size
        if entries >= 2**20:
            _check_batch(variables, factors, batch)
            batch, entries = [], 0
    if batch:
        _check_batch(variables, factors, batch)


def _check_batch(variables: Sequence[Variable], factors: Sequence[Factor], batch: Sequence[int]) -> None:
    if len(batch) == 1:
        values = factors[batch[0]].values
    else:
        values = np.concatenate([factors[number].values for number in batch])
    # A NaN makes the smallest entry NaN, so two reductions find every kind of bad entry.
    if values.min() >= 0 and values.max() < np.inf:
        return
    for number in batch:
        values = factors[number].values
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if wrong.size:
            entry = int(wrong[0])
            raise FactorError(
                f"{_describe(variables, factors[number].scope, number)} has the entry {values[entry]} "
                f"at position {entry} of its table; entries must be finite and not negative.",
                number,
            )


def _check_parents(variables: Sequence[Variable], factors: Sequence[Factor]) -> None:
    owner: dict[int, int] = {}
    for number, factor in enumerate(factors):
        if not factor.scope:
            raise FactorError(
                f"Factor {number} has an empty scope, but every factor of a Bayesian network needs a child; "
                f"use a Markov network instead.",
                number,
            )
        child = factor.scope[-1]
        first = owner.setdefault(child, number)
        if first != number:
            raise FactorError(
                f"{_describe(variables, factor.scope, number)} has the child {variables[child].name}, "
                f"already the child of factor {first}; in a Bayesian network each variable has one table.",
                number,
            )
    waiting = [0] * len(variables)
    followers: list[list[int]] = [[] for _ in variables]
    for factor in factors:
        child = factor.scope[-1]
        waiting[child] = len(factor.scope) - 1
        for parent in factor.scope[:-1]:
            followers[parent].append(child)
    ready = [variable for variable, count in enumerate(waiting) if count == 0]
    for variable in ready:
        for child in followers[variable]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    if len(ready) < len(variables):
        # Every variable left over has a parent left over, so walking to parents must come round.
        variable = next(variable for variable, count in enumerate(waiting) if count)
        walk: dict[int, int] = {}
        while variable not in walk:
            walk[variable] = len(walk)
            variable = next(parent for parent in factors[owner[variable]].scope[:-1] if waiting[parent])
        cycle = [*list(walk)[walk[variable] :], variable][::-1]
        shown = [variables[member].name for member in cycle]
        if len(shown) > 8:
            shown[4:-3] = ["..."]
        raise FactorError(
            f"The parents of the Bayesian network form a cycle: {' -> '.join(shown)}.",
            owner[variable],
        )
