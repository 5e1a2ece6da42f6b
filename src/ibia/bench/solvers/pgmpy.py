"""pgmpy: exact, by variable elimination."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ibia.bench.solvers.interface import Allowance, Answer, Solver
from ibia.errors import UnavailableError
from ibia.model import Model

__all__ = ["PgmpyExact"]


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnavailableError("pgmpy is not installed; pip install pgmpy brings it.") from None


@dataclass(frozen=True)
class PgmpyExact(Solver):
    """Variable elimination, once for each variable: what pgmpy has for all marginals."""

    name: ClassVar[str] = "pgmpy-exact"
    about: ClassVar[str] = "pgmpy's variable elimination"

    def version(self) -> str:
        """Return the version of pgmpy."""
        return str(_import("pgmpy").__version__)

    def warm_up(self) -> None:
        """Import it."""
        _import("pgmpy.inference")

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        networks = _import("pgmpy.models")
        network = getattr(networks, "DiscreteMarkovNetwork", None) or networks.MarkovNetwork
        factor_class = _import("pgmpy.factors.discrete").DiscreteFactor
        names = [f"X{number}" for number in range(len(model.variables))]
        graph = network()
        graph.add_nodes_from(names)
        covered: set[int] = set()
        for factor in model.factors:
            scope = [names[variable] for variable in factor.scope]
            if scope:
                graph.add_edges_from([(one, other) for place, one in enumerate(scope) for other in scope[:place]])
                sizes = [model.cardinalities[variable] for variable in factor.scope]
                graph.add_factors(factor_class(scope, sizes, factor.values))
                covered.update(factor.scope)
        for variable in set(range(len(names))) - covered:
            size = model.cardinalities[variable]
            graph.add_factors(factor_class([names[variable]], [size], np.ones(size)))
        engine = _import("pgmpy.inference").VariableElimination(graph)
        observed = {names[variable]: state for variable, state in evidence.items()}

        def answer() -> Answer:
            marginals = []
            for variable, name in enumerate(names):
                if variable in evidence:
                    marginals.append(np.eye(model.cardinalities[variable])[evidence[variable]])
                else:
                    found = engine.query([name], evidence=observed, show_progress=False)
                    values = np.asarray(found.values, dtype=np.float64).reshape(-1)
                    # Of Markov networks it returns weights, not probabilities.
                    marginals.append(values / values.sum())
            return Answer(marginals, figures={"exact": True})

        return answer
