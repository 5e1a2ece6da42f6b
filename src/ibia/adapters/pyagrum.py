"""pyAgrum's networks as models of ours."""

from __future__ import annotations

from typing import Any

from ibia.errors import InputError
from ibia.model import Factor, Model, Variable

__all__ = ["from_pyagrum"]


def from_pyagrum(network: Any) -> Model:
    """Return the model of a pyAgrum Bayesian network or Markov random field, with all its names.

    Parameters
    ----------
    network
        A `BayesNet` or a `MarkovRandomField`; its variables come in the order of their nodes.
    """
    nodes = sorted(network.nodes())
    numbers = {network.variable(node).name(): number for number, node in enumerate(nodes)}
    variables = tuple(_variable(network.variable(node)) for node in nodes)
    if hasattr(network, "cpt"):
        factors = tuple(_factor(network.cpt(node), numbers) for node in nodes)
        return Model(variables, factors, "bayes", _title(network))
    if hasattr(network, "factors"):
        # Their order is that of a set.
        scopes = sorted(sorted(scope) for scope in network.factors())
        factors = tuple(_factor(network.factor(set(scope)), numbers) for scope in scopes)
        return Model(variables, factors, "markov", _title(network))
    raise InputError(
        f"A pyAgrum model is a BayesNet or a MarkovRandomField, not {type(network).__name__}."
    )


def _variable(variable: Any) -> Variable:
    return Variable(variable.name(), variable.domainSize(), tuple(variable.labels()))


def _factor(tensor: Any, numbers: dict[str, int]) -> Factor:
    # The first variable of a tensor varies fastest; in a conditional distribution it is the child. Arrays are reversed.
    scope = tuple(numbers[name] for name in reversed(tensor.names))
    return Factor(scope, tensor.toarray().reshape(-1))


def _title(network: Any) -> str:
    return str(network.propertyWithDefault("name", ""))
