"""Small models that ship with the package: for the demonstration, the documentation and the tests.

Each is made by a function, the same for the same arguments. This module knows nothing of inference.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibia.errors import InputError
from ibia.model import Factor, Model, Variable

__all__ = ["chain", "clique_chain", "diagnosis", "grid", "student", "tree"]


def student() -> Model:
    """Return a Bayesian network of five variables: a student, an exam and a letter of recommendation.

    Difficulty and talent decide the grade; talent also decides the score of a test, the grade decides the letter.
    """
    variables = [
        Variable("difficulty", 2, ("easy", "hard")),
        Variable("talent", 2, ("low", "high")),
        Variable("grade", 3, ("good", "fair", "poor")),
        Variable("test", 2, ("failed", "passed")),
        Variable("letter", 2, ("weak", "strong")),
    ]
    factors: list[tuple[list[str], ArrayLike]] = [
        (["difficulty"], [0.55, 0.45]),
        (["talent"], [0.65, 0.35]),
        (
            ["difficulty", "talent", "grade"],
            [[[0.25, 0.45, 0.30], [0.85, 0.10, 0.05]], [[0.05, 0.30, 0.65], [0.50, 0.35, 0.15]]],
        ),
        (["talent", "test"], [[0.90, 0.10], [0.25, 0.75]]),
        (["grade", "letter"], [[0.15, 0.85], [0.45, 0.55], [0.95, 0.05]]),
    ]
    return Model.from_arrays(variables, factors, kind="bayes", name="student")


def chain(length: int, states: int = 3, seed: int = 0) -> Model:
    """Return a Bayesian network in which each variable depends on the one before it.

    Parameters
    ----------
    length
        Number of variables, named step_0, step_1, ...
    states
        Number of states of each.
    seed
        Of the random tables.
    """
    _check_sizes(length=length, states=states)
    random = np.random.default_rng(seed)
    factors = [([0], random.dirichlet(np.ones(states)))]
    factors += [([place - 1, place], random.dirichlet(np.ones(states), size=states)) for place in range(1, length)]
    return Model.from_arrays(
        [Variable(f"step_{place}", states) for place in range(length)], factors, kind="bayes", name=f"chain of {length}"
    )


def grid(
    rows: int, columns: int, coupling: float = 1.0, field: float = 0.3, seed: int = 0, *, attractive: bool = False
) -> Model:
    """Return an Ising model on a grid: spins that want to be like their neighbours, or unlike them.

    Parameters
    ----------
    rows, columns
        Size of the grid; the variable in row 2, column 5 is named spin_2_5, its states are down and up.
    coupling
        Neighbours s and t in {−1, 1} have a factor exp(c s t) with c uniform in ±coupling.
    field
        Each spin s has a factor exp(f s) with f uniform in ±field.
    seed
        Of the random couplings and fields.
    attractive
        Whether all neighbours want to be alike: then c is uniform from 0 to coupling.
    """
    _check_sizes(rows=rows, columns=columns)
    random = np.random.default_rng(seed)
    spins = np.array([-1.0, 1.0])
    numbers = np.arange(rows * columns).reshape(rows, columns)
    right = np.column_stack([numbers[:, :-1].ravel(), numbers[:, 1:].ravel()])
    below = np.column_stack([numbers[:-1].ravel(), numbers[1:].ravel()])
    pairs = np.concatenate([right, below])
    # Spin by spin, to the right before down: the seeds of published figures count on it.
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    fields = random.uniform(-field, field, size=numbers.size)
    strengths = random.uniform(0.0 if attractive else -coupling, coupling, size=len(pairs))
    factors = _factors(numbers.reshape(-1, 1), np.exp(fields[:, None] * spins))
    factors += _factors(pairs, np.exp(strengths[:, None] * np.outer(spins, spins).ravel()))
    variables = [
        Variable(f"spin_{row}_{column}", 2, ("down", "up")) for row in range(rows) for column in range(columns)
    ]
    return Model(tuple(variables), tuple(factors), kind="markov", name=f"{rows} by {columns} grid")


def tree(size: int, states: int = 3, seed: int = 0) -> Model:
    """Return a Bayesian network in which each variable depends on one of those before it, any of them.

    Parameters
    ----------
    size
        Number of variables, named node_0 (the root), node_1, ...
    states
        Number of states of each.
    seed
        Of the random parents and tables.
    """
    _check_sizes(size=size, states=states)
    random = np.random.default_rng(seed)
    children = np.arange(1, size)
    parents = (random.random(size - 1) * children).astype(np.int64)
    rows = random.dirichlet(np.ones(states), size=1 + (size - 1) * states)
    factors = _factors(np.zeros((1, 1), dtype=np.int64), rows[:1])
    factors += _factors(np.column_stack([parents, children]), rows[1:].reshape(size - 1, states * states))
    variables = [Variable(f"node_{number}", states) for number in range(size)]
    return Model(tuple(variables), tuple(factors), kind="bayes", name=f"tree of {size}")


def clique_chain(
    size: int, width: int = 8, seed: int = 0, *, together: int | None = None, coupling: float = 1.0
) -> Model:
    """Return a Markov network of binary variables in a row, cut into cliques that overlap by half.

    Parameters
    ----------
    size
        Number of variables, named place_0, place_1, ...
    width
        Number of variables in a clique.
    seed
        Of the random tables.
    together
        Number of variables in a factor: each choice of so many of a clique has one. None: one for the whole clique.
    coupling
        Entries of the tables are exp(c) with c uniform in ±coupling.
    """
    _check_sizes(size=size, width=width, together=1 if together is None else together)
    width = min(width, size)
    # The last clique is moved forward to end where the row ends.
    firsts = np.unique(np.append(np.arange(0, size - width + 1, max(1, width // 2)), size - width))
    chosen = np.array(list(combinations(range(width), min(together or width, width))))
    # What lies in the overlap of two cliques counts once.
    scopes = np.unique((firsts[:, None, None] + chosen).reshape(-1, chosen.shape[1]), axis=0)
    tables = np.exp(np.random.default_rng(seed).uniform(-coupling, coupling, size=(len(scopes), 2 ** scopes.shape[1])))
    variables = [Variable(f"place_{number}", 2) for number in range(size)]
    factors = _factors(scopes, tables)
    return Model(tuple(variables), tuple(factors), kind="markov", name=f"chain of {size} in cliques of {width}")


def diagnosis(diseases: int = 20, findings: int = 40, parents: int = 3, seed: int = 0) -> Model:
    """Return a Bayesian network of diseases that cause findings, each finding by a noisy or.

    Parameters
    ----------
    diseases
        Number of diseases, named disease_0, disease_1, ..., each rare and independent of the others.
    findings
        Number of findings, named finding_0, finding_1, ...
    parents
        How many diseases can cause a finding.
    seed
        Of the random causes and probabilities.
    """
    _check_sizes(diseases=diseases, findings=findings, parents=parents)
    if not parents <= min(diseases, 20):
        raise InputError(f"A finding cannot have {parents} causes: expected at most {min(diseases, 20)}.")
    random = np.random.default_rng(seed)
    variables = [Variable(f"disease_{number}", 2, ("no", "yes")) for number in range(diseases)]
    variables += [Variable(f"finding_{number}", 2, ("no", "yes")) for number in range(findings)]
    factors = []
    for number in range(diseases):
        prior = random.uniform(0.01, 0.2)
        factors.append(([number], np.array([1.0 - prior, prior])))
    for number in range(findings):
        causes = sorted(random.choice(diseases, size=parents, replace=False).tolist())
        # The finding is absent if nothing, not even chance, causes it.
        absent = np.full((2,) * parents, 1.0 - random.uniform(0.005, 0.05))
        for axis in range(parents):
            inhibited = np.array([1.0, 1.0 - random.uniform(0.3, 0.95)])
            absent = absent * inhibited.reshape([2 if other == axis else 1 for other in range(parents)])
        factors.append(([*causes, diseases + number], np.stack([absent, 1.0 - absent], axis=-1)))
    return Model.from_arrays(variables, factors, kind="bayes", name=f"{diseases} diseases, {findings} findings")


def _factors(scopes: NDArray[np.int64], tables: NDArray[np.float64]) -> list[Factor]:
    """Return a factor for each row of scopes and of tables; all share the memory of the latter."""
    tables.setflags(write=False)
    return [Factor(tuple(scope), table) for scope, table in zip(scopes.tolist(), tables, strict=True)]


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name} is {size}; expected at least 1.")
