"""Hypothesis strategies shared by the tests: small random models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ibia.model import Factor, Model, Variable

__all__ = ["models"]

ENTRIES = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@st.composite
def models(draw: st.DrawFn, entries: st.SearchStrategy[float] = ENTRIES, most_variables: int = 5) -> Model:
    """Draw a Markov or Bayesian network; variables may have one state, scopes may be empty or unsorted."""
    cardinalities = draw(st.lists(st.integers(1, 3), max_size=most_variables))
    kind: Any = draw(st.sampled_from(["markov", "bayes"]))
    order = draw(st.permutations(range(len(cardinalities))))
    if kind == "bayes":
        scopes = [
            (*draw(st.permutations(order[:place]))[: draw(st.integers(0, min(place, 2)))], child)
            for place, child in enumerate(order)
            if draw(st.integers(0, 5))
        ]
    else:
        lengths = draw(st.lists(st.integers(0, min(len(order), 3)), max_size=5))
        scopes = [tuple(draw(st.permutations(order))[:length]) for length in lengths]
    factors = []
    for scope in scopes:
        size = math.prod(cardinalities[variable] for variable in scope)
        values = draw(st.lists(entries, min_size=size, max_size=size))
        factors.append(Factor(scope, np.array(values, dtype=np.float64)))
    variables = [Variable(f"X{number}", cardinality) for number, cardinality in enumerate(cardinalities)]
    return Model(tuple(variables), tuple(factors), kind)
