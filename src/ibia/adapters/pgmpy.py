"""pgmpy's models as models of ours, and inference in pgmpy's vocabulary.

Names of variables and states may be anything in pgmpy; ours are texts, so both are kept, in the same order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibia.errors import InputError
from ibia.joints import joint_marginal
from ibia.model import Factor, Model, Variable
from ibia.optional import require
from ibia.pipeline import infer
from ibia.result import Result

__all__ = ["IBIA", "from_pgmpy"]

_BAYESIAN = frozenset({"DiscreteBayesianNetwork", "BayesianNetwork"})
_FACTORED = frozenset({"DiscreteMarkovNetwork", "MarkovNetwork", "FactorGraph", "ClusterGraph"})


def from_pgmpy(model: Any) -> Model:
    """Return the model of a pgmpy Bayesian network, Markov network, factor graph, cluster graph or junction tree.

    The variables come in the order of pgmpy's nodes, their states in the order of its state names; names that are
    not texts become texts.
    """
    return _Translation(model).model


class _Translation:
    """A pgmpy model and ours side by side.

    Attributes
    ----------
    names
        The variables by pgmpy's names.
    states
        The names of each variable's states in pgmpy.
    """

    def __init__(self, source: Any) -> None:
        kinds = {kind.__name__ for kind in type(source).__mro__}
        bayesian = bool(kinds & _BAYESIAN)
        if not (bayesian or kinds & _FACTORED):
            raise InputError(
                f"A pgmpy model is a DiscreteBayesianNetwork, a DiscreteMarkovNetwork, a FactorGraph or a "
                f"JunctionTree, not {type(source).__name__}."
            )
        tables = list(source.get_cpds() if bayesian else source.get_factors())
        wrong = next((table for table in tables if not hasattr(table, "state_names")), None)
        if wrong is not None:
            raise InputError(f"pgmpy's {type(wrong).__name__} is not a table; expected discrete ones only.")
        self.names: list[Hashable] = _variables(source, tables, bayesian)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        known: dict[Hashable, list[Any]] = {}
        for table in tables:
            known.update({name: list(table.state_names[name]) for name in table.variables})
        missing = [name for name in self.names if name not in known]
        if missing:
            raise InputError(f"pgmpy's variable {missing[0]!r} is in no table, so its states are not known.")
        self.states: list[list[Any]] = [known[name] for name in self.names]
        variables = tuple(_variable(name, states) for name, states in zip(self.names, self.states, strict=True))
        factors = tuple(self._factor(table, bayesian) for table in tables)
        title = str(getattr(source, "name", "") or "")
        self.model = Model(variables, factors, "bayes" if bayesian else "markov", title)

    def index(self, name: Hashable) -> int:
        """Return the number of a variable."""
        number = self._numbers.get(name)
        # Our own look-up has a better complaint.
        return self.model.index(str(name)) if number is None else number

    def state(self, number: int, state: Any) -> int:
        """Return the number of a state of a variable, given as pgmpy names it."""
        states = self.states[number]
        return states.index(state) if state in states else self.model.variables[number].state_index(state)

    def values(self, table: Any) -> NDArray[np.float64]:
        """Return the entries of a table, the states in the order of the model.

        pgmpy lets tables name the states of a variable in different orders, or not at all.
        """
        values = np.asarray(table.values, dtype=np.float64)
        for axis, name in enumerate(table.variables):
            own, ours = list(table.state_names[name]), self.states[self.index(name)]
            if len(own) != len(ours):
                raise InputError(f"pgmpy's variable {name!r} has {len(own)} states in a table, {len(ours)} elsewhere.")
            if own != ours and all(state in own for state in ours):
                values = values.take([own.index(state) for state in ours], axis=axis)
        return values

    def _factor(self, table: Any, bayesian: bool) -> Factor:
        scope, values = [self.index(name) for name in table.variables], self.values(table)
        if bayesian:
            # The child is the first variable there, the last one here.
            scope, values = [*scope[1:], scope[0]], np.moveaxis(values, 0, -1)
        return Factor(tuple(scope), values.reshape(-1))


def _variables(source: Any, tables: list[Any], bayesian: bool) -> list[Hashable]:
    if bayesian or hasattr(source, "markov_blanket"):
        return list(source.nodes())
    # The other graphs' nodes are factors or cliques, too.
    return list(dict.fromkeys(name for table in tables for name in table.variables))


def _variable(name: Hashable, states: list[Any]) -> Variable:
    texts = tuple(map(str, states))
    # Names like 1 and "1" are two in pgmpy; numbers tell them apart here.
    return Variable(str(name), len(states), texts if len(set(texts)) == len(texts) else ())


class IBIA:
    """Inference with the vocabulary of pgmpy's `VariableElimination`, which it can take the place of.

    Parameters
    ----------
    model
        A pgmpy model.
    options
        Passed to `ibia.infer`: bound, time_limit, memory_limit, ...

    Attributes
    ----------
    model
        The model, as given.
    result
        The answer behind the last query, with log Z and the estimate of the error.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        model.check_model()
        self.model = model
        self.result: Result | None = None
        self._factor = require("pgmpy.factors.discrete", "pgmpy", "pgmpy").DiscreteFactor
        self._translation = _Translation(model)
        self._options = options

    def query(
        self,
        variables: Sequence[Hashable],
        evidence: Mapping[Any, Any] | None = None,
        virtual_evidence: Iterable[Any] | None = None,
        elimination_order: object = None,
        joint: bool = True,
        show_progress: bool = True,
    ) -> Any:
        """Return posterior distributions as pgmpy's `DiscreteFactor`, always normalised.

        Parameters
        ----------
        variables
            What to ask for.
        evidence
            Variable → observed state, by pgmpy's names.
        virtual_evidence
            Tables of one variable each, `TabularCPD` or `DiscreteFactor`: a likelihood for each of its states.
        elimination_order, show_progress
            Accepted, since others take them, and of no effect.
        joint
            The joint distribution of the variables (by runs with some of them observed, see `ibia.joints`); else a
            dictionary with one for each.
        """
        if isinstance(variables, str):
            raise InputError(f"The variables of a query are a list, as in [{variables!r}], not the text {variables!r}.")
        numbers = [self._translation.index(name) for name in variables]
        observed = self._observed(evidence or {})
        both = [name for name, number in zip(variables, numbers, strict=True) if number in observed]
        if both or not numbers:
            what = f"{both[0]!r} is both asked for and observed" if both else "no variable is asked for"
            raise InputError(f"In this query {what}.")
        model = self._translation.model.with_likelihoods(self._likelihoods(virtual_evidence or ()))
        self.result = infer(model, observed, **self._options)
        if not joint:
            found = zip(variables, numbers, strict=True)
            return {name: self._as_factor([name], self.result.marginals[number]) for name, number in found}
        values = joint_marginal(model, numbers, observed, start=self.result, **self._options)
        return self._as_factor(list(variables), values)

    def _observed(self, evidence: Mapping[Any, Any]) -> dict[int, int]:
        observed = {}
        for name, state in evidence.items():
            number = self._translation.index(name)
            observed[number] = self._translation.state(number, state)
        return observed

    def _likelihoods(self, tables: Iterable[Any]) -> dict[int, NDArray[np.float64]]:
        likelihoods: dict[int, NDArray[np.float64]] = {}
        for table in tables:
            if len(table.variables) != 1:
                raise InputError(f"Virtual evidence is a table of one variable, not of {len(table.variables)}.")
            number, values = self._translation.index(table.variables[0]), self._translation.values(table).reshape(-1)
            likelihoods[number] = likelihoods[number] * values if number in likelihoods else values
        return likelihoods

    def _as_factor(self, names: list[Hashable], values: NDArray[np.float64]) -> Any:
        states = {name: self._translation.states[self._translation.index(name)] for name in names}
        return self._factor(names, values.shape, values, state_names=states)
