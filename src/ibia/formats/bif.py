"""Bayesian networks in the interchange format (.bif), as in the bnlearn repository.

Variables with the names of their states, then for each a table given its parents: one row for each combination of their
states, by name, or all numbers at once. Properties are skipped. This module must not know about inference.
"""

from __future__ import annotations

import re
from itertools import product
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.formats.text import PathLike, Tokens, read_tokens, write_text
from ibia.model import Factor, Model, Variable, table_size

__all__ = ["parse_model", "read_model", "write_model"]

_LINE_COMMENT = re.compile(r"//[^\n]*")
_WORD = re.compile(r'"[^"]*"|[{}()\[\],;|]|[^\s{}()\[\],;|"]+')
_CLOSING = frozenset("{}()[],;|")
_PLAIN = re.compile(r"\w[\w.-]*")
# What no quotes protect: they would end here, a comment would begin, or the line would.
_UNWRITABLE = re.compile(r'"|//|/\*|[\x00-\x1f]')
# A default row may stand for this many numbers more than a file has words: a short file must not take much memory.
_MOST_BY_DEFAULT = 2**24


def read_model(path: PathLike) -> Model:
    """Read a Bayesian network from a BIF file."""
    return parse_model(read_tokens(path))


def parse_model(tokens: Tokens) -> Model:
    """Read a Bayesian network from the text of a BIF file."""
    return _Parser(tokens).parse()


class _Parser:
    """Goes through the words of a file once; names are quoted or not, and punctuation stands for itself."""

    def __init__(self, tokens: Tokens) -> None:
        self._path = tokens.path
        self._text = _LINE_COMMENT.sub("", tokens.data.decode("utf-8", errors="replace"))
        self._words: list[str] = _WORD.findall(self._text)
        self._position = 0
        self._variables: list[Variable] = []
        self._numbers: dict[str, int] = {}
        self._states: list[dict[str, int]] = []
        self._entries_left = len(self._words) + _MOST_BY_DEFAULT

    def parse(self) -> Model:
        name = ""
        factors: dict[int, Factor] = {}
        while self._position < len(self._words):
            keyword = self._take()
            if keyword == "network":
                name = self._name()
                self._skip_block()
            elif keyword == "variable":
                self._variable()
            elif keyword == "probability":
                child, factor = self._probability()
                if child in factors:
                    self._fail(f"the variable {self._variables[child].name} has a second table")
                factors[child] = factor
            else:
                self._fail(f"expected network, variable or probability, found {keyword!r}")
        missing = [variable.name for number, variable in enumerate(self._variables) if number not in factors]
        if missing or not self._variables:
            what = f"the variable {missing[0]} has no table" if missing else "it has no variable"
            raise InputError(f"{self._path} is not a complete BIF file: {what}.")
        try:
            ordered = tuple(factors[number] for number in range(len(self._variables)))
            return Model(tuple(self._variables), ordered, "bayes", "" if name == "unknown" else name)
        except InputError as error:
            raise InputError(f"{self._path}: {error}") from None

    def _variable(self) -> None:
        name = self._name()
        self._expect("{")
        states: list[str] = []
        while (keyword := self._take()) != "}":
            if keyword == "type":
                self._expect("discrete")
                self._expect("[")
                count = self._take()
                self._expect("]")
                self._expect("{")
                states = self._names("}")
                if str(len(states)) != count:
                    self._fail(f"the variable {name} has {count} states, but {len(states)} are named")
            while keyword != ";":
                keyword = self._take()
        if name in self._numbers:
            self._fail(f"there is a second variable {name}")
        self._numbers[name] = len(self._variables)
        self._states.append({state: number for number, state in enumerate(states)})
        try:
            self._variables.append(Variable(name, len(states), tuple(states)))
        except InputError as error:
            self._fail(str(error).rstrip("."))

    def _probability(self) -> tuple[int, Factor]:
        self._expect("(")
        child = self._known(self._name())
        parents: list[int] = []
        if (word := self._take()) == "|":
            parents = [self._known(name) for name in self._names(")")]
        elif word != ")":
            self._fail(f"expected | or ), found {word!r}")
        table = self._empty_table(child, parents)
        self._expect("{")
        while (word := self._take()) != "}":
            if word == "(":
                row = self._row(parents, self._names(")"))
                table[row] = self._numbers_until_semicolon(table.shape[1])
            elif word == "table":
                # All at once, the child's states slowest.
                table[:] = self._numbers_until_semicolon(table.size).reshape(table.shape[::-1]).T
            elif word == "default":
                values = self._numbers_until_semicolon(table.shape[1])
                table[np.isnan(table).all(axis=1)] = values
            else:
                while word != ";":
                    word = self._take()
        self._check_complete(child, parents, table)
        return child, Factor((*parents, child), table.reshape(-1))

    def _empty_table(self, child: int, parents: list[int]) -> NDArray[np.float64]:
        """Return a table with a row for each combination of the parents' states, all entries unknown."""
        if len({child, *parents}) <= len(parents):
            self._fail(f"the table of {self._variables[child].name} names a variable twice")
        rows = table_size([self._variables[parent].cardinality for parent in parents])
        states = self._variables[child].cardinality
        if rows * states > self._entries_left:
            self._fail(f"the table of {self._variables[child].name} has far more entries than the file has words")
        self._entries_left -= rows * states
        return np.full((rows, states), np.nan)

    def _check_complete(self, child: int, parents: list[int], table: NDArray[np.float64]) -> None:
        missing = np.isnan(table).any(axis=1)
        if not missing.any():
            return
        row = int(missing.argmax())
        states: list[str] = []
        for parent in reversed(parents):
            row, state = divmod(row, self._variables[parent].cardinality)
            states.insert(0, self._variables[parent].states[state])
        self._fail(f"the table of {self._variables[child].name} has no row for ({', '.join(states)})")

    def _row(self, parents: list[int], states: list[str]) -> int:
        """Return the number of the row for a combination of states; those of the last parent vary fastest."""
        if len(states) != len(parents):
            self._fail(f"expected the states of {len(parents)} parents, found {len(states)}")
        row = 0
        for parent, state in zip(parents, states, strict=True):
            if state not in self._states[parent]:
                self._fail(f"the variable {self._variables[parent].name} has no state {state}")
            row = row * self._variables[parent].cardinality + self._states[parent][state]
        return row

    def _numbers_until_semicolon(self, count: int) -> NDArray[np.float64]:
        words = self._names(";")
        if len(words) != count:
            self._fail(f"expected {count} numbers, found {len(words)}")
        try:
            values = np.array([float(word) for word in words])
        except ValueError:
            values = None
        # float() reads "1_000" as a number, which no file format means.
        if values is None or any("_" in word for word in words):
            self._fail(f"expected numbers, found {' '.join(words[:5])[:80]!r}")
        if not np.isfinite(values).all():
            self._fail("a probability is not a finite number")
        return values

    def _known(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            self._fail(f"there is no variable {name}")
        return number

    def _names(self, closing: str) -> list[str]:
        """Return the names, or numbers, up to a closing word; commas between them may be left out."""
        try:
            end = self._words.index(closing, self._position)
        except ValueError:
            self._end_too_early()
        words = [word for word in self._words[self._position : end] if word != ","]
        wrong = next((word for word in words if word in _CLOSING), None)
        if wrong is not None:
            self._fail(f"expected {closing!r}, found {wrong!r}")
        self._position = end + 1
        return [word.strip('"') for word in words]

    def _name(self) -> str:
        word = self._take()
        if word in _CLOSING:
            self._fail(f"expected a name, found {word!r}")
        return word.strip('"')

    def _skip_block(self) -> None:
        self._expect("{")
        while self._take() != "}":
            pass

    def _expect(self, word: str) -> None:
        found = self._take()
        if found != word:
            self._fail(f"expected {word!r}, found {found!r}")

    def _take(self) -> str:
        if self._position == len(self._words):
            self._end_too_early()
        self._position += 1
        return self._words[self._position - 1]

    def _end_too_early(self) -> NoReturn:
        raise InputError(f"{self._path} ends too early: it is not a complete BIF file.")

    def _fail(self, message: str) -> NoReturn:
        line = 1
        for number, match in enumerate(_WORD.finditer(self._text)):
            if number == self._position - 1:
                line = self._text.count("\n", 0, match.start()) + 1
                break
        raise InputError(f"{self._path}, line {line}: {message}.")


def write_model(model: Model, path: PathLike) -> None:
    """Write a Bayesian network as a BIF file: all names stay, and numbers read back bit for bit.

    Tables come in the order of the variables, so a model whose factors are in another order reads back with these
    sorted. Only a network with one table for each variable can be written.
    """
    if model.kind != "bayes":
        raise InputError(f"{path} is not written: BIF holds Bayesian networks, and this is a Markov network.")
    if not model.variables:
        raise InputError(f"{path} is not written: BIF wants a variable, and this model has none.")
    tables = dict(zip(model.children, model.factors, strict=True))
    parts = [f"network {_quoted_title(model.name)} {{\n}}\n"]
    for number, variable in enumerate(model.variables):
        if number not in tables:
            raise InputError(f"{path} is not written: the variable {variable.name} has no table, and BIF wants one.")
        states = ", ".join(_quoted(state, path) for state in variable.states)
        parts.append(
            f"variable {_quoted(variable.name, path)} {{\n"
            f"  type discrete [ {variable.cardinality} ] {{ {states} }};\n}}\n"
        )
    parts += [_table_text(model, tables[number], path) for number in range(len(model.variables))]
    write_text(path, "".join(parts))


def _table_text(model: Model, factor: Factor, path: PathLike) -> str:
    *parents, child = (model.variables[number] for number in factor.scope)
    # The representation of a float is the shortest text that reads back to the same number.
    rows = [", ".join(map(repr, row)) for row in factor.values.reshape(-1, child.cardinality).tolist()]
    name = _quoted(child.name, path)
    if not parents:
        return f"probability ( {name} ) {{\n  table {rows[0]};\n}}\n"
    given = ", ".join(_quoted(parent.name, path) for parent in parents)
    states = [[_quoted(state, path) for state in parent.states] for parent in parents]
    lines = [f"  ({', '.join(labels)}) {row};\n" for labels, row in zip(product(*states), rows, strict=True)]
    return f"probability ( {name} | {given} ) {{\n{''.join(lines)}}}\n"


def _quoted_title(name: str) -> str:
    """Return the name of a network, which is only for show: one that cannot be written is left out."""
    return "unknown" if not name or _UNWRITABLE.search(name) else _quoted(name, "")


def _quoted(name: str, path: PathLike) -> str:
    """Return a name as it stands in a file, in quotes where it needs them."""
    if _UNWRITABLE.search(name):
        raise InputError(
            f"{path} is not written: BIF cannot hold the name {name!r} (with quotes, a line break or a comment in it)."
        )
    return name if _PLAIN.fullmatch(name) else f'"{name}"'
