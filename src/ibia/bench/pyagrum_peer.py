"""pyAgrum as a peer: the same model built through its interface, solved by its engines.

Its reader of UAI files is not used: it swaps parents and rounds tables to single precision. pyAgrum is optional (the
extra `pyagrum`) and imported only here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.model import Model
from ibia.optional import require
from ibia.simplify import simplify

__all__ = ["Peer", "find_children", "import_pyagrum"]


def import_pyagrum() -> Any:
    """Return the module; where it is missing, say what to do."""
    return require("pyagrum", "pyAgrum", "pyagrum")


def find_children(model: Model) -> tuple[int, ...] | None:
    """Return the variable that each factor is the conditional distribution of (−1: a constant); None if they are not.

    Some files say Markov and are Bayesian; the package finds out.
    """
    structure = simplify(model, {}).structure
    return None if structure is None else structure.children


class Peer:
    """A model as pyAgrum has it.

    Bayesian networks are solved by lazy propagation, also where a file does not say that it holds one; all others by
    Shafer–Shenoy propagation. So are networks whose rows do not sum to one (evidence is baked into some files), for
    which lazy propagation would be wrong.

    Attributes
    ----------
    engine
        Name of the engine.
    log10_constant
        Of a Bayesian network: what its log10 Z is above the logarithm of the probability of evidence.
    """

    def __init__(self, model: Model, engine: str = "LazyPropagation") -> None:
        self._pyagrum = import_pyagrum()
        self._pyagrum.setNumberOfThreads(1)
        self._count = len(model.variables)
        children = find_children(model)
        self.engine = "ShaferShenoyMRFInference" if children is None else engine
        self.log10_constant = 0.0
        self._model = self._markov(model) if children is None else self._bayesian(model, children)

    def solve(self, evidence: Mapping[int, int]) -> list[Any]:
        """Return the posteriors of all variables, as pyAgrum has them."""
        return self.posteriors(self.inference(evidence))

    def inference(self, evidence: Mapping[int, int], set_up: Callable[[Any], None] | None = None) -> Any:
        """Return the engine when it has done its work.

        Parameters
        ----------
        set_up
            Called with the engine before.
        """
        engine = getattr(self._pyagrum, self.engine)(self._model)
        # Those that approximate have one thread anyway.
        if hasattr(engine, "setNumberOfThreads"):
            engine.setNumberOfThreads(1)
        if evidence:
            engine.setEvidence(dict(evidence))
        if set_up is not None:
            set_up(engine)
        engine.makeInference()
        return engine

    def posteriors(self, engine: Any) -> list[Any]:
        """Return the posteriors of all variables, as pyAgrum has them."""
        return [engine.posterior(variable) for variable in range(self._count)]

    @staticmethod
    def arrays(posteriors: list[Any]) -> list[NDArray[np.float64]]:
        """Return posteriors as arrays."""
        return [np.asarray(posterior.toarray(), dtype=np.float64).reshape(-1) for posterior in posteriors]

    def _bayesian(self, model: Model, children: Sequence[int]) -> Any:
        """Return the network in which each factor is the conditional distribution of its child."""
        network = self._pyagrum.BayesNet()
        self._add_variables(network, model)
        for factor, child in zip(model.factors, children, strict=True):
            if child < 0:
                self.log10_constant += math.log10(float(factor.values.reshape(-1)[0]))
                continue
            # The first variable of its tables, the child, varies fastest, then the parents in the order of their arcs.
            for parent in reversed(factor.scope):
                if parent != child:
                    network.addArc(parent, child)
            values = factor.values.reshape([model.cardinalities[variable] for variable in factor.scope])
            network.cpt(child).fillWith(np.moveaxis(values, factor.scope.index(child), -1).reshape(-1).tolist())
        for variable in set(range(self._count)).difference(children):
            # Without a factor of its own all its states weigh the same.
            size = model.cardinalities[variable]
            network.cpt(variable).fillWith([1.0 / size] * size)
            self.log10_constant += math.log10(size)
        return network

    def _markov(self, model: Model) -> Any:
        network = self._pyagrum.MarkovRandomField()
        self._add_variables(network, model)
        for scope, values in _merged(model).items():
            tensor = self._pyagrum.Tensor()
            for variable in reversed(scope):
                tensor.add(network.variable(variable))
            tensor.fillWith(values.tolist())
            network.addFactor(tensor)
        return network

    def _add_variables(self, network: Any, model: Model) -> None:
        for number, cardinality in enumerate(model.cardinalities):
            network.add(self._pyagrum.RangeVariable(f"X{number}", "", 0, cardinality - 1))


def _merged(model: Model) -> dict[tuple[int, ...], NDArray[np.float64]]:
    """Return the tables by sorted scope, each scaled to a largest entry of one.

    pyAgrum takes one table for each set of variables, wants every variable in one, and overflows on large products.
    """
    tables: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for factor in model.factors:
        shape = [model.cardinalities[variable] for variable in factor.scope]
        axes = sorted(range(len(shape)), key=factor.scope.__getitem__)
        values = factor.values.reshape(shape).transpose(axes).reshape(-1)
        scope = tuple(factor.scope[axis] for axis in axes)
        if scope:
            values = tables[scope] * values if scope in tables else values
            tables[scope] = values / (values.max() or 1.0)
    for variable in set(range(len(model.variables))).difference(*tables):
        tables[(variable,)] = np.ones(model.cardinalities[variable])
    return tables
