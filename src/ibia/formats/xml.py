"""Bayesian networks in XML: the interchange format (XMLBIF) and GeNIe's (XDSL). The outermost element tells which.

In both the last parent varies faster than the first, and the states of the variable itself fastest; but not in XDSL
that pyAgrum wrote. This module must not know about inference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.formats.text import PathLike
from ibia.model import Factor, Model, Variable, table_size

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["parse_model"]

# Entries that a table given by states may have: it has many more than the file has words.
_MOST_CERTAIN = 2**24
# How pyAgrum signs its files, in a comment before the outermost element.
_BY_PYAGRUM = b"<!-- This network was created by pyAgrum"


class _Node(NamedTuple):
    """A variable as it stands in a file: its table may come before the states of its parents are known."""

    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...]
    table: Element


class _Network(NamedTuple):
    """A network as it stands in a file.

    Attributes
    ----------
    reversed_parents
        Whether the first parent varies fastest in the tables, not the last one.
    """

    name: str
    nodes: list[_Node]
    reversed_parents: bool = False


def parse_model(path: PathLike, data: bytes) -> Model:
    """Read a Bayesian network from the text of an XML file."""
    # Other formats should not wait for it.
    from xml.etree import ElementTree

    try:
        _refuse_entities(data)
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        line = f", line {error.position[0]}" if isinstance(error, ElementTree.ParseError) else ""
        raise InputError(f"{path}{line}: this is not well-formed XML ({str(error).partition(':')[0]}).") from None
    except _Entity as entity:
        raise InputError(f"{path}, line {entity.line}: XML that declares entities of its own is not read.") from None
    readers: dict[str, Callable[[Element], _Network]] = {"BIF": _read_xmlbif, "smile": _read_xdsl}
    if root.tag not in readers:
        raise InputError(f"{path}: the outermost element is {root.tag}; expected BIF (XMLBIF) or smile (XDSL).")
    try:
        network = readers[root.tag](root)
        # Read as GeNIe would read them, pyAgrum's files would give other answers than pyAgrum does.
        by_pyagrum = root.tag == "smile" and _BY_PYAGRUM in data.partition(b"<smile")[0]
        return _build(network._replace(reversed_parents=by_pyagrum))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


class _Entity(Exception):
    """A document declares an entity: a piece of text, or of another file, to be put in elsewhere."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line


def _refuse_entities(data: bytes) -> None:
    """Raise if a document declares entities: a few lines of these can stand for gigabytes, or for other files."""
    if b"<!DOCTYPE" not in data:
        return
    from xml.parsers import expat

    def refuse(*declaration: object) -> None:
        raise _Entity(parser.CurrentLineNumber)

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    # What is wrong otherwise, whoever reads the document will say.
    with suppress(expat.ExpatError, LookupError, ValueError):
        parser.Parse(data, True)


def _read_xmlbif(root: Element) -> _Network:
    network = root.find("NETWORK")
    if network is None:
        raise InputError("there is no element NETWORK.")
    definitions: dict[str, Element] = {}
    for definition in network.findall("DEFINITION"):
        name = _text(definition, "FOR")
        if definitions.setdefault(name, definition) is not definition:
            raise InputError(f"the variable {name} has a second DEFINITION.")
    nodes = []
    for variable in network.findall("VARIABLE"):
        name = _text(variable, "NAME")
        if variable.get("TYPE", "nature") != "nature":
            raise InputError(f"the variable {name} is of type {variable.get('TYPE')}; expected nature.")
        if name not in definitions:
            raise InputError(f"the variable {name} has no DEFINITION.")
        states = tuple((outcome.text or "").strip() for outcome in variable.findall("OUTCOME"))
        parents = tuple((given.text or "").strip() for given in definitions[name].findall("GIVEN"))
        table = definitions[name].find("TABLE")
        if table is None:
            raise InputError(f"the variable {name} has no TABLE.")
        nodes.append(_Node(name, states, parents, table))
    unknown = next((name for name in definitions if name not in {node.name for node in nodes}), None)
    if unknown is not None:
        raise InputError(f"there is a DEFINITION for {unknown}, but no such variable.")
    return _Network((network.findtext("NAME") or "").strip(), nodes)


def _read_xdsl(root: Element) -> _Network:
    nodes = []
    holder = root.find("nodes")
    for node in () if holder is None else holder:
        name = node.get("id", "")
        table = node.find({"cpt": "probabilities", "deterministic": "resultingstates"}.get(node.tag, ""))
        if table is None:
            raise InputError(f"the node {name} is a {node.tag}; expected a cpt with probabilities, or deterministic.")
        states = tuple(state.get("id", "") for state in node.findall("state"))
        parents = node.find("parents")
        nodes.append(_Node(name, states, () if parents is None else tuple((parents.text or "").split()), table))
    return _Network(root.get("id", ""), nodes)


def _text(element: Element, tag: str) -> str:
    found = element.find(tag)
    text = "" if found is None else (found.text or "").strip()
    if not text:
        raise InputError(f"an element {element.tag} has no {tag}.")
    return text


def _build(network: _Network) -> Model:
    nodes = network.nodes
    if not nodes:
        raise InputError("there are no variables.")
    variables = tuple(Variable(node.name, len(node.states), node.states) for node in nodes)
    numbers = {node.name: number for number, node in enumerate(nodes)}
    factors = []
    for number, node in enumerate(nodes):
        unknown = next((parent for parent in node.parents if parent not in numbers), None)
        if unknown is not None:
            raise InputError(f"the variable {node.name} has the parent {unknown}, but there is no such variable.")
        parents = node.parents[::-1] if network.reversed_parents else node.parents
        scope = (*(numbers[parent] for parent in parents), number)
        rows = table_size([variables[parent].cardinality for parent in scope[:-1]])
        read = _certain if node.table.tag == "resultingstates" else _weights
        factors.append(Factor(scope, read(node, variables[number], rows)))
    return Model(variables, tuple(factors), "bayes", network.name)


def _weights(node: _Node, variable: Variable, rows: int) -> NDArray[np.float64]:
    words = _words(node, rows * variable.cardinality, "numbers")
    for word in words:
        try:
            good = 0.0 <= float(word) < math.inf and "_" not in word
        except ValueError:
            good = False
        if not good:
            raise InputError(
                f"the table of {node.name} holds {word[:30]!r}; expected a finite number, not negative."
            )
    return np.array([float(word) for word in words])


def _certain(node: _Node, variable: Variable, rows: int) -> NDArray[np.float64]:
    """Return the table of a deterministic variable, of which a file gives the state in each row."""
    words = _words(node, rows, "states")
    if rows * variable.cardinality > len(words) + _MOST_CERTAIN:
        raise InputError(f"the table of {node.name} has {rows * variable.cardinality} entries, which is too many.")
    numbers = {word: variable.state_index(word) for word in set(words)}
    table = np.zeros((rows, variable.cardinality))
    table[np.arange(rows), [numbers[word] for word in words]] = 1.0
    return table.reshape(-1)


def _words(node: _Node, count: int, what: str) -> list[str]:
    words = (node.table.text or "").split()
    if len(words) != count:
        raise InputError(f"the table of {node.name} holds {len(words)} {what}; expected {count}.")
    return words
