"""Markov networks on random regular graphs: no variable is special, loops are long, width grows with size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.model import Factor, Model, Variable

__all__ = ["regular"]

# Exchanges of ends tried for each edge: enough to forget the graph that one starts from.
_EXCHANGES = 20


def regular(size: int, degree: int, states: int, coupling: float, field: float, seed: int) -> Model:
    """Return a Markov network in which each variable has the same number of random neighbours.

    Parameters
    ----------
    size
        Number of variables.
    degree
        Neighbours of each.
    states
        Number of states of each.
    coupling
        Neighbours have a factor with entries exp(c), c uniform in ±coupling.
    field
        Each variable has a factor with entries exp(f), f uniform in ±field.
    seed
        Of the random graph and tables.
    """
    if not 0 <= degree < size or size * degree % 2 or states < 1:
        raise InputError(
            f"There is no graph of {size} variables of {states} states with {degree} neighbours each: "
            f"expected less neighbours than variables, an even product of both, and a state at least."
        )
    random = np.random.default_rng(seed)
    edges = _random_edges(size, degree, random)
    factors = [Factor((variable,), np.exp(random.uniform(-field, field, states))) for variable in range(size)]
    factors += [Factor(edge, np.exp(random.uniform(-coupling, coupling, states**2))) for edge in edges]
    variables = [Variable(f"node_{number}", states) for number in range(size)]
    return Model(tuple(variables), tuple(factors), name=f"{degree}-regular graph of {size}")


def _random_edges(size: int, degree: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return the edges of a random regular graph: those of a ring, with ends exchanged again and again."""
    edges = _ring_edges(size, degree)
    known = {frozenset(edge) for edge in edges.tolist()}
    if not len(edges):
        return []
    for first, second, side in random.integers([len(edges), len(edges), 2], size=(_EXCHANGES * len(edges), 3)):
        (a, b), (c, d) = edges[first].tolist(), edges[second].tolist()
        if side:
            c, d = d, c
        new = frozenset((a, d)), frozenset((c, b))
        if min(map(len, new)) == 2 and new[0] != new[1] and not known.intersection(new):
            known -= {frozenset((a, b)), frozenset((c, d))}
            known.update(new)
            edges[first], edges[second] = (a, d), (c, b)
    return sorted((min(edge), max(edge)) for edge in edges.tolist())


def _ring_edges(size: int, degree: int) -> NDArray[np.int64]:
    """Return the edges of a ring in which each variable is joined to those near it (and, if odd, the opposite one)."""
    near = [(place, (place + step) % size) for step in range(1, degree // 2 + 1) for place in range(size)]
    opposite = [(place, place + size // 2) for place in range(size // 2)] if degree % 2 else []
    return np.array(near + opposite, dtype=np.int64).reshape(-1, 2)
