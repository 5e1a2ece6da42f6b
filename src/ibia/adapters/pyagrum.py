"""pyAgrum's networks as models of ours, and inference with the life cycle of pyAgrum's engines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.model import Factor, Model, Variable
from ibia.observations import Observation, observe, resolve_observations
from ibia.optional import require
from ibia.result import Result

__all__ = ["IBIAInference", "from_pyagrum"]


def from_pyagrum(network: Any) -> Model:
    """Return the model of a pyAgrum Bayesian network or Markov random field, with all its names.

    Parameters
    ----------
    network
        A `BayesNet` or a `MarkovRandomField`; its variables come in the order of their nodes.
    """
    kinds = {kind.__name__ for kind in type(network).__mro__}
    if not kinds & {"BayesNet", "MarkovRandomField"}:
        raise InputError(f"A pyAgrum model is a BayesNet or a MarkovRandomField, not {type(network).__name__}.")
    nodes = sorted(network.nodes())
    numbers = {network.variable(node).name(): number for number, node in enumerate(nodes)}
    variables = tuple(_variable(network.variable(node)) for node in nodes)
    if "BayesNet" in kinds:
        factors = tuple(_factor(network.cpt(node), numbers) for node in nodes)
        return Model(variables, factors, "bayes", _title(network))
    # The factors' order is that of a set.
    scopes = sorted(sorted(scope) for scope in network.factors())
    factors = tuple(_factor(network.factor(set(scope)), numbers) for scope in scopes)
    return Model(variables, factors, "markov", _title(network))


def _variable(variable: Any) -> Variable:
    return Variable(variable.name(), variable.domainSize(), tuple(variable.labels()))


def _factor(tensor: Any, numbers: dict[str, int]) -> Factor:
    # The first variable of a tensor varies fastest; in a conditional distribution it is the child. Arrays are reversed.
    scope = tuple(numbers[name] for name in reversed(tensor.names))
    return Factor(scope, tensor.toarray().reshape(-1))


def _title(network: Any) -> str:
    return str(network.propertyWithDefault("name", ""))


class IBIAInference:
    """Inference with the life cycle of pyAgrum's engines: evidence, `makeInference`, posteriors as `gum.Tensor`.

    Variables are given by name or node, states by label or number, and a list of numbers is a likelihood, as there.

    Parameters
    ----------
    network
        A `BayesNet` or a `MarkovRandomField`. What it is when the engine is made counts.
    options
        Passed to `ibia.infer`: bound, time_limit, memory_limit, ...
    """

    def __init__(self, network: Any, **options: Any) -> None:
        self._gum = require("pyagrum", "pyAgrum", "pyagrum")
        self._network = network
        self._options = options
        self._model = from_pyagrum(network)
        self._numbers = {node: number for number, node in enumerate(sorted(network.nodes()))}
        self._evidence: dict[int, int | tuple[float, ...]] = {}
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """The answer behind the posteriors, with log Z and the estimate of the error."""
        if self._result is None:
            self._result = self._infer(self._evidence)
        return self._result

    def setEvidence(self, evidence: Mapping[str | int, Observation]) -> None:
        """Observe these variables, and no others."""
        self._set({}, evidence)

    def updateEvidence(self, evidence: Mapping[str | int, Observation]) -> None:
        """Observe these variables, too, or anew."""
        self._set(self._evidence, evidence)

    def addEvidence(self, variable: str | int, value: Observation) -> None:
        """Observe a variable that is not observed yet."""
        if self.hasEvidence(variable):
            raise InputError(f"The variable {variable!r} is observed already; chgEvidence changes that.")
        self._set(self._evidence, {variable: value})

    def chgEvidence(self, variable: str | int, value: Observation) -> None:
        """Observe something else of a variable."""
        if not self.hasEvidence(variable):
            raise InputError(f"The variable {variable!r} is not observed; addEvidence does that.")
        self._set(self._evidence, {variable: value})

    def eraseEvidence(self, variable: str | int) -> None:
        """Forget what is known about a variable."""
        self._set({number: value for number, value in self._evidence.items() if number != self._index(variable)}, {})

    def eraseAllEvidence(self) -> None:
        """Forget all evidence."""
        self._set({}, {})

    def hasEvidence(self, variable: str | int) -> bool:
        """Tell whether a variable is observed."""
        return self._index(variable) in self._evidence

    def nbrEvidence(self) -> int:
        """Return how many variables are observed."""
        return len(self._evidence)

    def makeInference(self) -> None:
        """Compute all posteriors now; those who ask for one before have it done for them."""
        self._result = self._infer(self._evidence)

    def posterior(self, variable: str | int) -> Any:
        """Return the posterior distribution of a variable."""
        number = self._index(variable)
        return self._tensor([number], self.result.marginals[number])

    def jointPosterior(self, variables: Iterable[str | int]) -> Any:
        """Return the posterior joint distribution of some variables (by several runs, see `ibia.joints`)."""
        from ibia.joints import joint_marginal

        numbers = sorted(map(self._index, variables))
        start = self.result
        values = joint_marginal(start.model, numbers, start.evidence, start=start, **self._options)
        return self._tensor(numbers, values)

    def evidenceProbability(self) -> float:
        """Return the probability of the evidence, likelihoods included (zero where only its logarithm is a number)."""
        if self._model.kind == "bayes":
            return math.exp(self.result.log_z)
        return math.exp(self.result.log_z - self._infer({}).log_z)

    def _index(self, variable: str | int) -> int:
        if isinstance(variable, str):
            return self._model.index(variable)
        if variable not in self._numbers:
            raise InputError(f"There is no node {variable!r} in the network.")
        return self._numbers[variable]

    def _set(
        self, before: Mapping[int, int | tuple[float, ...]], evidence: Mapping[str | int, Observation]
    ) -> None:
        given = {self._index(variable): value for variable, value in evidence.items()}
        self._evidence = {**before, **resolve_observations(self._model, given)}
        self._result = None

    def _infer(self, evidence: Mapping[int, int | tuple[float, ...]]) -> Result:
        from ibia.pipeline import infer

        model, states = observe(self._model, dict(evidence))
        return infer(model, states, **self._options)

    def _tensor(self, numbers: Sequence[int], values: NDArray[np.float64]) -> Any:
        tensor = self._gum.Tensor()
        for number in numbers:
            tensor.add(self._network.variable(self._model.names[number]))
        # The first variable of a tensor varies fastest.
        tensor.fillWith(values.reshape(-1, order="F").tolist())
        return tensor
