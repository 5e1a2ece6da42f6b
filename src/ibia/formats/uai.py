"""The UAI competition formats: models (.uai), evidence (.evid), marginals (MAR) and partition functions (PR).

Reading converts numbers in bulk and checks every count against the words present before using it. This module
must not know about inference or about other file formats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibia.errors import InputError
from ibia.formats.text import CutOffError, PathLike, Tokens, read_tokens, write_text
from ibia.model import MOST_STATES, Factor, FactorError, Model, Variable, table_size

__all__ = [
    "build_model",
    "format_marginals",
    "format_partition",
    "parse_cardinalities",
    "parse_evidence",
    "parse_model",
    "parse_tables",
    "read_evidence",
    "read_marginals",
    "read_model",
    "read_partition",
    "write_evidence",
    "write_marginals",
    "write_model",
    "write_partition",
    "write_solutions",
]

Solution = TypeVar("Solution")

# What stands between the solutions of a file.
_NEXT_SOLUTION = b"-BEGIN-"
_DIGITS = {b"%d" % digit: digit for digit in range(10)}
_KINDS: dict[bytes, Literal["markov", "bayes"]] = {b"MARKOV": "markov", b"BAYES": "bayes"}


def read_model(path: PathLike) -> Model:
    """Read a model from a UAI file; variable number 3 is named "X3"."""
    return parse_model(read_tokens(path))


def parse_model(tokens: Tokens) -> Model:
    """Read a model from the words of a UAI file."""
    if not len(tokens):
        raise InputError(f"{tokens.path} is empty; a UAI file begins with MARKOV or BAYES.")
    kind = _KINDS.get(tokens.words[0].upper())
    if kind is None:
        raise tokens.error(0, f"a UAI file begins with MARKOV or BAYES, not with {tokens.quote(0)}.")
    _refuse_line_comments(tokens)
    cardinalities = parse_cardinalities(tokens, 1)
    position = 2 + len(cardinalities)
    count = tokens.integer(position, "the number of factors")
    position += 1
    # A factor takes a word for the length of its scope, one for the size of its table, one for an entry.
    tokens.require(position, 3 * count, f"or more words for {count} factors")
    lines = _scope_positions(tokens, position, count)
    scopes = _parse_scopes(tokens, lines, len(cardinalities))
    position = lines.pop()
    names = [f"X{number}" for number in range(len(cardinalities))]
    factors, position = parse_tables(tokens, position, scopes, cardinalities, names)
    tokens.finish(position)
    return build_model(tokens, map(Variable, names, cardinalities), factors, kind, lines)


def _refuse_line_comments(tokens: Tokens) -> None:
    """Raise if there are comments behind `#`: pyAgrum writes them, and tables that do not belong to their scopes.

    Its Bayesian networks have the parents the other way round, its Markov networks any order, so skipping the comments
    would give wrong answers.
    """
    if b"#" not in tokens.data:
        return
    position = next(position for position, word in enumerate(tokens.words) if b"#" in word)
    raise tokens.error(
        position,
        "UAI files have no comments behind '#'. pyAgrum writes such files, with tables in another order than UAI's: "
        "have it write BIF or BIFXML instead, or use ibia.from_pyagrum.",
    )


def parse_cardinalities(tokens: Tokens, position: int) -> list[int]:
    """Read the number of variables and the cardinality of each."""
    count = tokens.integer(position, "the number of variables")
    tokens.require(position + 1, count, "cardinalities")
    cardinalities = tokens.integers(position + 1, position + 1 + count, "a cardinality")
    if min(cardinalities, default=1) < 1:
        number = cardinalities.index(0)
        raise tokens.error(
            position + 1 + number, f"variable {number} has cardinality 0; expected at least 1."
        )
    # State names are made for each variable, so the counts must be sane before variables are built.
    total = sum(cardinalities)
    if total > MOST_STATES:
        largest = position + 1 + cardinalities.index(max(cardinalities))
        raise tokens.error(
            largest, f"the variables have {_shown(total)} states in all; at most {MOST_STATES} are supported."
        )
    return cardinalities


def _shown(number: int) -> str:
    return str(number) if number < 2**64 else "more than 2**64"


def _scope_positions(tokens: Tokens, position: int, count: int) -> list[int]:
    """Return where each scope, the number of its variables first, begins, and where the last one ends."""
    words, total = tokens.words, len(tokens)
    positions = [position]
    for number in range(count):
        # Most lengths are single digits; everything else is left to those who can complain.
        length = _DIGITS.get(words[position], total) if position < total else total
        if position + length >= total:
            length = tokens.integer(position, f"the number of variables of factor {number}")
            tokens.require(position + 1, length, f"variables in the scope of factor {number}")
        position += 1 + length
        positions.append(position)
    return positions


def _parse_scopes(tokens: Tokens, positions: list[int], count: int) -> list[tuple[int, ...]]:
    numbers = tokens.integers(positions[0], positions[-1], "a variable in the scope of a factor")
    first = positions[0]
    scopes = [tuple(numbers[start + 1 - first : stop - first]) for start, stop in pairwise(positions)]
    for number, scope in enumerate(scopes):
        if scope and max(scope) >= count:
            wrong = next(place for place, variable in enumerate(scope) if variable >= count)
            raise tokens.error(
                positions[number] + 1 + wrong,
                f"factor {number} names variable {scope[wrong]}, "
                f"but there are {count} variables, numbered from 0.",
            )
    return scopes


def parse_tables(
    tokens: Tokens,
    position: int,
    scopes: list[tuple[int, ...]],
    cardinalities: list[int],
    names: list[str],
) -> tuple[list[Factor], int]:
    """Read a table, its size first, for each scope; return the factors and the position after them."""
    words, total = tokens.words, len(tokens)
    positions = [position]
    for number, scope in enumerate(scopes):
        expected = table_size([cardinalities[variable] for variable in scope])
        if position + expected >= total or words[position] != b"%d" % expected:
            size = tokens.integer(position, f"the size of the table of factor {number}")
            if size != expected:
                shown = ", ".join([names[variable] for variable in scope[:6]]) or "empty"
                raise tokens.error(
                    position,
                    f"the table of factor {number} (scope {shown}{', ...' if len(scope) > 6 else ''}) "
                    f"has {_shown(size)} entries, expected {_shown(expected)}.",
                )
            tokens.require(position + 1, size, f"entries in the table of factor {number}")
        position += 1 + expected
        positions.append(position)
    # One conversion for the whole part of the file: the sizes in between are numbers too.
    first = positions[0]
    values = tokens.weights(first, position, "an entry of a table")
    factors = [
        Factor(scope, values[start + 1 - first : stop - first])
        for scope, (start, stop) in zip(scopes, pairwise(positions), strict=True)
    ]
    return factors, position


def build_model(
    tokens: Tokens,
    variables: Iterable[Variable],
    factors: Iterable[Factor],
    kind: Literal["markov", "bayes"],
    positions: list[int],
) -> Model:
    """Build the model a file describes; an error names the file and, by `positions`, the factor's line."""
    name = Path(tokens.path).name.split(".uai")[0].split(".erg")[0]
    try:
        return Model(tuple(variables), tuple(factors), kind, name)
    except FactorError as error:
        raise tokens.error(positions[error.factor], str(error)) from None
    except InputError as error:
        raise InputError(f"{tokens.path}: {error}") from None


def write_model(model: Model, path: PathLike) -> None:
    """Write a model as a UAI file that reads back bit for bit; the format has no names, so these are lost."""
    parts = [
        model.kind.upper(),
        str(len(model.variables)),
        " ".join(map(str, model.cardinalities)),
        str(len(model.factors)),
    ]
    parts += [" ".join(map(str, (len(factor.scope), *factor.scope))) for factor in model.factors]
    for factor in model.factors:
        # The representation of a float is the shortest text that reads back to the same number.
        parts.append(f"\n{factor.values.size}\n{' '.join(map(repr, factor.values.tolist()))}")
    write_text(path, "\n".join(parts) + "\n")


def read_evidence(path: PathLike) -> dict[int, int]:
    """Read a UAI evidence file: the number of the observed state of each observed variable, both numbered from 0.

    The file is empty, or a count and that many pairs, or a 1 (the number of samples) and then those.

    Parameters
    ----------
    path
        The file; `.gz` and `.xz` are decompressed.
    """
    return parse_evidence(read_tokens(path))


def parse_evidence(tokens: Tokens) -> dict[int, int]:
    """Read evidence from the words of a UAI file."""
    if not len(tokens):
        return {}
    first = tokens.integer(0, "the number of observed variables")
    if len(tokens) == 1 + 2 * first:
        start = 1
    elif first == 1 and len(tokens) >= 2 and len(tokens) == 2 + 2 * tokens.integer(1, "the number of pairs"):
        start = 2
    elif _samples(tokens, first):
        raise tokens.error(0, f"the file holds {first} samples of evidence; only one is supported.")
    else:
        found = len(tokens) - 1
        raise tokens.error(
            0,
            f"the file is not evidence: after the count {first}, {2 * first} numbers "
            f"(a variable and its state, {first} times) are expected, but {found} follow.",
        )
    numbers = tokens.integers(start, len(tokens), "a variable or state")
    observed: dict[int, int] = {}
    for place in range(0, len(numbers), 2):
        variable, state = numbers[place : place + 2]
        if observed.setdefault(variable, state) != state:
            raise tokens.error(
                start + place,
                f"variable {variable} is given two different states, {observed[variable]} and {state}.",
            )
    return observed


def _samples(tokens: Tokens, count: int) -> bool:
    """Whether the file reads as `count` samples, each a number of pairs and the pairs."""
    if count < 2:
        return False
    position = 1
    for _ in range(count):
        if position >= len(tokens) or not tokens.words[position].isdigit():
            return False
        position += 1 + 2 * tokens.integer(position, "the number of pairs")
    return position == len(tokens)


def write_evidence(path: PathLike, evidence: Mapping[int, int]) -> None:
    """Write evidence on one line: the count, then each variable and its state."""
    pairs = [f"{variable} {state}" for variable, state in evidence.items()]
    write_text(path, " ".join([str(len(pairs)), *pairs]) + "\n")


def read_marginals(path: PathLike) -> list[NDArray[np.float64]]:
    """Read the marginals of a MAR file, the last complete solution where the file holds several."""
    return _read_solution(path, b"MAR", _parse_marginals_or_sample)


def _read_solution(path: PathLike, header: bytes, parse: Callable[[Tokens, int], Solution]) -> Solution:
    """Return the last solution of a file; one that the file ends in the middle of does not count if there is another.

    Programs that are ended at their limit of time may be writing.
    """
    tokens = read_tokens(path)
    marks = [position for position, word in enumerate(tokens.words) if word == _NEXT_SOLUTION]
    if tokens.words[-1:] and len(tokens) - 1 not in marks and _NEXT_SOLUTION.startswith(tokens.words[-1]):
        # The mark itself is cut off.
        marks.append(len(tokens) - 1)
    found: CutOffError | None = None
    for mark, stop in zip([*marks[::-1], -1], [len(tokens), *marks[::-1]], strict=True):
        # Words keep their places, and so their lines.
        solution = replace(tokens, words=tokens.words[:stop])
        begins_with_header = mark + 1 < stop and tokens.words[mark + 1].upper() == header
        try:
            return parse(solution, mark + 1 + begins_with_header)
        except CutOffError as error:
            found = found or error
    assert found is not None
    raise found


def _parse_marginals_or_sample(tokens: Tokens, position: int) -> list[NDArray[np.float64]]:
    try:
        return _parse_marginals(tokens, position)
    except InputError as error:
        # Some programs put the number of evidence samples, 1, first; only the count of words can tell.
        if tokens.words[position : position + 1] != [b"1"]:
            raise
        try:
            return _parse_marginals(tokens, position + 1)
        except CutOffError:
            # Whichever of the two it was to be.
            raise CutOffError(str(error)) from None
        except InputError:
            raise error from None


def _parse_marginals(tokens: Tokens, position: int) -> list[NDArray[np.float64]]:
    count = tokens.integer(position, "the number of variables")
    position += 1
    tokens.require(position, 2 * count, f"or more words for {count} marginals")
    first = position
    ranges: list[tuple[int, int]] = []
    for number in range(count):
        size = tokens.integer(position, f"the cardinality of variable {number}")
        if size < 1:
            raise tokens.error(position, f"variable {number} has cardinality 0; expected at least 1.")
        tokens.require(position + 1, size, f"probabilities of variable {number}")
        ranges.append((position + 1, position + 1 + size))
        position += 1 + size
    tokens.finish(position)
    values = tokens.weights(first, position, "a probability")
    return [values[start - first : stop - first] for start, stop in ranges]


def write_marginals(path: PathLike, marginals: Iterable[ArrayLike]) -> None:
    """Write a MAR file with 17 significant digits, enough to read back the same numbers."""
    write_solutions(path, "MAR", [format_marginals(marginals)])


def write_solutions(path: PathLike, task: str, solutions: Iterable[str]) -> None:
    """Write a file of the competitions with one or more solutions, the best one last."""
    separated = f"{_NEXT_SOLUTION.decode()}\n".join(f"{solution}\n" for solution in solutions)
    write_text(path, f"{task}\n{separated}")


def format_marginals(marginals: Iterable[ArrayLike]) -> str:
    """Return marginals as a solution of the competitions."""
    parts = []
    for number, marginal in enumerate(marginals):
        values: list[float] = np.asarray(marginal, dtype=np.float64).reshape(-1).tolist()
        if not values or not all(map(math.isfinite, values)):
            raise InputError(f"The marginal of variable {number} is not a distribution: {marginal}.")
        parts.append(" ".join([str(len(values)), *map("{:.17g}".format, values)]))
    return " ".join([str(len(parts)), *parts])


def read_partition(path: PathLike) -> float:
    """Read log10 of the partition function from a PR file: the last number, minus infinity for Z = 0."""
    return _read_solution(path, b"PR", _parse_partition)


def _parse_partition(tokens: Tokens, start: int) -> float:
    if start >= len(tokens):
        raise CutOffError(f"{tokens.path} holds no number; expected log10 of the partition function.")
    last = len(tokens) - 1
    value = float(tokens.numbers(start, len(tokens), "log10 of the partition function")[-1])
    if math.isnan(value) or value == math.inf:
        raise tokens.error(
            last,
            f"log10 of the partition function is {tokens.quote(last)}; expected a finite number or -inf.",
        )
    return value


def write_partition(path: PathLike, log10_z: float) -> None:
    """Write a PR file: log10 of the partition function with 17 significant digits."""
    if math.isnan(log10_z) or log10_z == math.inf:
        raise InputError(f"{log10_z} is not a logarithm of a partition function; {path} is not written.")
    write_solutions(path, "PR", [format_partition(log10_z)])


def format_partition(log10_z: float) -> str:
    """Return log10 of the partition function as a solution of the competitions."""
    return f"{log10_z:.17g}"
