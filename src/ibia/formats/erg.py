"""The Ergo layout of Bayesian networks (.erg), as in the UAI-2006 evaluation.

The number of variables, their cardinalities, the parents of each, a table for each, then optionally a name
for each and the names of its states; section titles are comments. This module must not know about inference.
"""

from __future__ import annotations

from ibia.errors import InputError
from ibia.formats.text import PathLike, Tokens, read_tokens
from ibia.formats.uai import build_model, parse_cardinalities, parse_tables
from ibia.model import Model, Variable

__all__ = ["parse_model", "read_model"]


def read_model(path: PathLike) -> Model:
    """Read a Bayesian network from an Ergo file."""
    return parse_model(read_tokens(path))


def parse_model(tokens: Tokens) -> Model:
    """Read a Bayesian network from the words of an Ergo file."""
    if not len(tokens):
        raise InputError(f"{tokens.path} is empty; an Ergo file begins with the number of variables.")
    cardinalities = parse_cardinalities(tokens, 0)
    count = len(cardinalities)
    position = 1 + count
    scopes: list[tuple[int, ...]] = []
    positions: list[int] = []
    for number in range(count):
        length = tokens.integer(position, f"the number of parents of variable {number}")
        tokens.require(position + 1, length, f"parents of variable {number}")
        parents = tokens.integers(position + 1, position + 1 + length, f"a parent of variable {number}")
        for place, parent in enumerate(parents):
            if parent >= count:
                raise tokens.error(
                    position + 1 + place,
                    f"variable {number} has the parent {parent}, "
                    f"but there are {count} variables, numbered from 0.",
                )
        positions.append(position)
        scopes.append((*parents, number))
        position += 1 + length
    names = [f"X{number}" for number in range(count)]
    factors, position = parse_tables(tokens, position, scopes, cardinalities, names)
    variables = _parse_names(tokens, position, cardinalities, names)
    return build_model(tokens, variables, factors, "bayes", positions)


def _parse_names(tokens: Tokens, position: int, cardinalities: list[int], names: list[str]) -> list[Variable]:
    """Read the optional names of variables and states; how many words are left tells which are there."""
    left = len(tokens) - position
    count, states = len(cardinalities), sum(cardinalities)
    if left not in (0, count, states, count + states):
        raise tokens.error(
            position,
            f"after the tables, {count} names of variables and {states} names of states may follow, "
            f"but there are {left} words.",
        )
    if left in (count, count + states):
        names = [tokens.word(position + number) for number in range(count)]
        position += count
    variables = []
    for number, cardinality in enumerate(cardinalities):
        labels: tuple[str, ...] = ()
        if position < len(tokens):
            labels = tuple(tokens.word(position + state) for state in range(cardinality))
            position += cardinality
        try:
            variables.append(Variable(names[number], cardinality, labels))
        except InputError as error:
            raise InputError(f"{tokens.path}: {error}") from None
    return variables
