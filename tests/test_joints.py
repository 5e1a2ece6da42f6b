"""Joint distributions by the chain rule, against summing over everything."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ibia
from brute_force import expand
from ibia import examples
from ibia.errors import InputError, UnavailableError, ZeroProbabilityError
from ibia.joints import joint_marginal
from ibia.optional import require
from strategies import models


def joint_table(model):
    axes = range(len(model.variables))
    table = np.ones(model.cardinalities)
    for factor in model.factors:
        table = table * expand(factor.scope, factor.values, model.cardinalities, axes)
    return table


@settings(max_examples=40, deadline=None)
@given(model=models(st.sampled_from([0.0, 0.5, 1.0, 3.0]), most_variables=4), data=st.data())
def test_joint_distributions(model, data):
    if not model.variables:
        return
    chosen = data.draw(st.permutations(range(len(model.variables))))[: data.draw(st.integers(1, 3))]
    table = joint_table(model)
    if table.sum() == 0:
        with pytest.raises(ZeroProbabilityError):
            joint_marginal(model, chosen, bound=20)
        return
    found = joint_marginal(model, chosen, bound=20)
    expected = np.einsum(table, range(table.ndim), chosen) / table.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_evidence_and_a_known_start():
    model = examples.student()
    start = ibia.infer(model, {3: 1}, bound=20)
    found = joint_marginal(model, ["grade", "talent"], {3: 1}, start=start, bound=20)
    table = joint_table(model)[:, :, :, 1, :].sum(axis=(0, 3))
    np.testing.assert_allclose(found, table.T / table.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), start["grade"], rtol=1e-12)


def test_what_is_too_much():
    with pytest.raises(InputError, match="32767 runs; at most 10000 are made"):
        joint_marginal(examples.grid(4, 4), range(15))
    with pytest.raises(InputError, match="at least one variable"):
        joint_marginal(examples.grid(4, 4), [])


def test_a_missing_package_is_a_sentence(monkeypatch):
    # Also the module asked for: another test may have loaded it.
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    monkeypatch.setitem(sys.modules, "pgmpy.models", None)
    with pytest.raises(UnavailableError, match=r"pgmpy is not installed; pip install 'ibia\[pgmpy\]' brings it\."):
        require("pgmpy.models", "pgmpy", "pgmpy")
