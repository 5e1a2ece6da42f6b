"""Exact answers by enumerating the joint distribution, and random small models to ask about.

Models of up to about 2^16 joint states. Every builder takes a NumPy generator, so a seed names a model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibia.forest.calibrate import calibrate
from ibia.forest.forest import Forest, edge
from ibia.model import Factor, Model, Variable
from ibia.prepare import Problem
from ibia.steps.messages import Messages
from ibia.tables import Scope, Space, Table

__all__ = [
    "BUILDERS",
    "Answer",
    "as_markov",
    "bayesian",
    "build_model",
    "chain",
    "dense",
    "deterministic",
    "disconnected",
    "expand",
    "forest_joint",
    "grid",
    "hellinger",
    "joint_of_tables",
    "largest_error",
    "marginal_of",
    "messages_joint",
    "mixed",
    "oddities",
    "problem_joint",
    "random_evidence",
    "recalibrate",
    "solve",
    "tree",
    "with_zeros",
]

Generator = np.random.Generator
Array = NDArray[np.float64]
LARGEST_JOINT = 2**20


@dataclass(frozen=True)
class Answer:
    """Exact marginals and log Z (minus infinity, and no marginals, when the model has no mass)."""

    marginals: tuple[Array, ...]
    log_z: float


def expand(scope: Sequence[int], values: Array, cardinalities: Sequence[int], axes: Sequence[int]) -> Array:
    """Return a factor's table with one axis for each variable of `axes` (of length one if it is not in the scope)."""
    shaped = values.reshape([cardinalities[variable] for variable in scope])
    present = [variable for variable in axes if variable in scope]
    shaped = shaped.transpose([list(scope).index(variable) for variable in present])
    return shaped.reshape([cardinalities[variable] if variable in present else 1 for variable in axes])


def solve(model: Model, evidence: Mapping[int, int] | None = None) -> Answer:
    """Return the posterior marginals and log Z by adding up all joint states."""
    cardinalities = model.cardinalities
    if math.prod(cardinalities) > LARGEST_JOINT:
        raise ValueError("the joint distribution of the model is too large to enumerate")
    # Axes of one state would exceed NumPy's number of dimensions; they carry no information.
    wide = [variable for variable, cardinality in enumerate(cardinalities) if cardinality > 1]
    joint = np.ones([cardinalities[variable] for variable in wide])
    log_scale = 0.0
    for factor in model.factors:
        scope = [variable for variable in factor.scope if cardinalities[variable] > 1]
        joint = joint * expand(scope, factor.values, cardinalities, wide)
        largest = float(joint.max())
        if largest <= 0.0:
            return Answer((), -math.inf)
        joint = joint / largest
        log_scale += math.log(largest)
    for variable, state in (evidence or {}).items():
        if variable in wide:
            keep = np.zeros(cardinalities[variable])
            keep[state] = 1.0
            joint = joint * expand([variable], keep, cardinalities, wide)
    total = float(joint.sum())
    if total <= 0.0:
        return Answer((), -math.inf)
    marginals = []
    for variable, cardinality in enumerate(cardinalities):
        if cardinality == 1:
            marginals.append(np.ones(1))
        else:
            others = tuple(axis for axis, other in enumerate(wide) if other != variable)
            marginals.append(joint.sum(axis=others) / total)
    return Answer(tuple(marginals), log_scale + math.log(total))


def hellinger(first: Array, second: Array) -> float:
    """Return the Hellinger distance between two distributions."""
    return float(np.sqrt(((np.sqrt(first) - np.sqrt(second)) ** 2).sum() / 2.0))


def largest_error(marginals: Iterable[Array], answer: Answer) -> float:
    """Return the largest absolute error of any entry of any marginal."""
    return max(
        (float(np.abs(found - exact).max()) for found, exact in zip(marginals, answer.marginals, strict=True)),
        default=0.0,
    )


# Joint distributions of tables and forests over a space, for tests of the parts of the engine.


def joint_of_tables(space: Space, tables: Iterable[Table], axes: Sequence[int]) -> Array:
    """Return the product of tables as an array with one axis for each variable of `axes`."""
    joint = np.ones([space.cardinalities[variable] for variable in axes])
    for table in tables:
        joint = joint * expand(table.scope, table.values, space.cardinalities, axes)
    return joint


def forest_joint(forest: Forest, space: Space, axes: Sequence[int]) -> Array:
    """Return the distribution of a calibrated forest: clique beliefs over sepset beliefs, 0/0 = 0."""
    joint = joint_of_tables(space, forest.beliefs.values(), axes)
    for first, second, _ in forest.edges():
        sepset = forest.sepsets[edge(first, second)]
        divisor = expand(sepset.scope, sepset.values, space.cardinalities, axes)
        joint = joint * np.divide(1.0, divisor, out=np.zeros_like(divisor), where=divisor > 0.0)
    return joint


def messages_joint(messages: Messages, space: Space, axes: Sequence[int]) -> Array:
    """Return the distribution a step hands to the next."""
    return joint_of_tables(space, messages.tables.values(), axes)


def marginal_of(joint: Array, axes: Sequence[int], scope: Scope) -> Array:
    """Return the flat marginal of a joint array over a (sorted) scope of its axes."""
    others = tuple(position for position, variable in enumerate(axes) if variable not in scope)
    return np.ascontiguousarray(joint.sum(axis=others)).reshape(-1)


def problem_joint(problem: Problem) -> Array:
    """Return the normalised distribution of a problem over all its variables."""
    joint = joint_of_tables(problem.space, problem.factors, range(len(problem.space.cardinalities)))
    return joint / joint.sum()


# Random models.


def build_model(
    generator: Generator,
    cardinalities: Sequence[int],
    scopes: Iterable[Sequence[int]],
    spread: float = 1.5,
    zeros: float = 0.0,
) -> Model:
    """Return a Markov network with log-normal tables over the given scopes; a share of the entries is zero."""
    factors = []
    for scope in scopes:
        shuffled = tuple(int(variable) for variable in generator.permutation(np.array(scope, dtype=int)))
        size = math.prod(cardinalities[variable] for variable in shuffled)
        values = np.exp(spread * generator.standard_normal(size))
        if zeros and size > 1:
            values[generator.random(size) < zeros] = 0.0
        factors.append(Factor(shuffled, values))
    variables = tuple(Variable(f"X{number}", int(cardinality)) for number, cardinality in enumerate(cardinalities))
    return Model(variables, tuple(factors[place] for place in generator.permutation(len(factors))))


def chain(generator: Generator) -> Model:
    """A chain of up to twelve variables."""
    count = int(generator.integers(2, 13))
    cardinalities = generator.integers(2, 4, count) if count <= 9 else [2] * count
    return build_model(generator, cardinalities, [(place, place + 1) for place in range(count - 1)])


def tree(generator: Generator) -> Model:
    """A random tree with single-variable factors."""
    count = int(generator.integers(3, 13))
    scopes = [(place, int(generator.integers(place))) for place in range(1, count)]
    return build_model(generator, [2] * count, [*scopes, *((place,) for place in range(0, count, 2))])


def grid(generator: Generator, height: int = 3, width: int = 4) -> Model:
    """A grid of binary variables."""
    across = [(row * width + c, row * width + c + 1) for row in range(height) for c in range(width - 1)]
    down = [(row * width + c, (row + 1) * width + c) for row in range(height - 1) for c in range(width)]
    return build_model(generator, [2] * (height * width), across + down)


def dense(generator: Generator) -> Model:
    """Many factors of two to four variables."""
    count = int(generator.integers(6, 11))
    scopes = [
        generator.choice(count, int(generator.integers(2, 5)), replace=False)
        for _ in range(int(generator.integers(count, 3 * count)))
    ]
    return build_model(generator, [2] * count, scopes, spread=0.8)


def mixed(generator: Generator) -> Model:
    """Cardinalities from one to four."""
    count = int(generator.integers(5, 10))
    cardinalities = generator.choice([1, 2, 3, 4], count, p=[0.15, 0.45, 0.25, 0.15])
    scopes = [
        generator.choice(count, int(generator.integers(1, 4)), replace=False)
        for _ in range(int(generator.integers(count, 2 * count)))
    ]
    return build_model(generator, cardinalities, scopes)


def with_zeros(generator: Generator) -> Model:
    """Binary and ternary variables, a fifth of the entries zero (the mass may be zero, then a state is planted)."""
    count = int(generator.integers(6, 10))
    cardinalities = generator.integers(2, 4, count)
    scopes = [
        generator.choice(count, int(generator.integers(1, 4)), replace=False)
        for _ in range(int(generator.integers(count, 2 * count)))
    ]
    model = build_model(generator, cardinalities, scopes, zeros=float(generator.uniform(0.1, 0.5)))
    planted = [int(generator.integers(cardinality)) for cardinality in cardinalities]
    factors = []
    for factor in model.factors:
        shape = [model.cardinalities[variable] for variable in factor.scope]
        values = factor.values.reshape(shape).copy()
        values[tuple(planted[variable] for variable in factor.scope)] += 0.5
        factors.append(Factor(factor.scope, values.reshape(-1)))
    return Model(model.variables, tuple(factors))


def disconnected(generator: Generator) -> Model:
    """Separate parts, isolated variables with a factor of their own, variables in no factor."""
    parts = [(0, 1), (1, 2), (0, 2), (3, 4), (5,), (5,), (7, 8), (8, 9), (9, 10), (10, 7)]
    cardinalities = [2, 3, 2, 2, 2, 3, 2, 2, 2, 2, 2, 3]
    return build_model(generator, cardinalities, parts)


def oddities(generator: Generator) -> Model:
    """Constant, empty-scope and single-variable factors, cardinality one, products, repeated scopes."""
    cardinalities = [2, 1, 3, 2, 2, 1, 2, 2]
    base = build_model(generator, cardinalities, [(0, 2), (2, 0), (2, 3, 4), (3,), (1,), (1, 5), (5, 6), (4, 6, 0)])
    first, second = generator.random(2) + 0.1, generator.random(6) + 0.1
    extra = [
        Factor((), np.array([float(generator.uniform(0.1, 10.0))])),
        Factor((3, 4), np.full(4, 2.5)),
        Factor((4, 0, 2), np.multiply.outer(first, second).reshape(-1)),
        Factor((0, 3), np.repeat(first, 2)),
    ]
    return Model(base.variables, (*base.factors, *extra))


def _conditional(generator: Generator, parents: int, states: int, certain: float) -> Array:
    rows = generator.dirichlet(np.full(states, 0.7), parents)
    fixed = generator.random(parents) < certain
    rows[fixed] = np.eye(states)[generator.integers(states, size=int(fixed.sum()))]
    return rows.reshape(-1)


def bayesian(
    generator: Generator,
    count: int | None = None,
    most_parents: int = 3,
    certain: float = 0.0,
    largest: int = 3,
    roots: int = 1,
) -> Model:
    """A Bayesian network with normalised tables; a share `certain` of the rows of non-roots is deterministic."""
    count = int(generator.integers(6, 11)) if count is None else count
    cardinalities = generator.integers(2, largest + 1, count)
    names = generator.permutation(count)
    factors = []
    for place, child in enumerate(names):
        number = 0 if place < roots else int(generator.integers(1, min(place, most_parents) + 1))
        parents = generator.choice(names[:place], number, replace=False) if number else np.array([], dtype=int)
        size = math.prod(int(cardinalities[parent]) for parent in parents)
        values = _conditional(generator, size, int(cardinalities[child]), certain if number else 0.0)
        factors.append(Factor((*(int(parent) for parent in parents), int(child)), values))
    variables = tuple(Variable(f"X{number}", int(cardinality)) for number, cardinality in enumerate(cardinalities))
    return Model(variables, tuple(factors[place] for place in generator.permutation(count)), "bayes")


def deterministic(generator: Generator, count: int = 13, roots: int = 5) -> Model:
    """A Bayesian network of binary variables in which most non-roots are functions of their parents."""
    return bayesian(generator, count, 3, certain=float(generator.choice([0.8, 1.0])), largest=2, roots=roots)


def as_markov(model: Model, generator: Generator) -> Model:
    """Return the same distribution as a Markov network with shuffled factors and scopes."""
    factors = []
    for place in generator.permutation(len(model.factors)):
        factor = model.factors[place]
        axes = generator.permutation(len(factor.scope))
        shaped = factor.values.reshape([model.cardinalities[variable] for variable in factor.scope])
        factors.append(Factor(tuple(factor.scope[axis] for axis in axes), shaped.transpose(axes).reshape(-1)))
    return Model(model.variables, tuple(factors))


def random_evidence(generator: Generator, model: Model, most: int = 3) -> dict[int, int]:
    """Return possible evidence: states of a joint state with positive mass, for a few variables."""
    observed: dict[int, int] = {}
    for variable in generator.permutation(len(model.variables))[: int(generator.integers(0, most + 1))]:
        marginal = solve(model, observed).marginals[variable]
        observed[int(variable)] = int(generator.choice(marginal.size, p=marginal / marginal.sum()))
    return observed


BUILDERS: dict[str, Callable[[Generator], Model]] = {
    "chain": chain,
    "tree": tree,
    "grid": grid,
    "dense": dense,
    "mixed": mixed,
    "with_zeros": with_zeros,
    "disconnected": disconnected,
    "oddities": oddities,
    "bayesian": bayesian,
    "deterministic": deterministic,
}


def recalibrate(forest: Forest, space: Space, far_apart: bool = False) -> float:
    """Calibrate a forest from its own beliefs (over its sepsets, where it has them) and return log Z."""
    potentials = {clique: [table] for clique, table in forest.beliefs.items()}
    return calibrate(forest, space, potentials, forest.sepsets, far_apart=far_apart).log_z
