"""Generated models: the same each time, of the shape they promise, with evidence that is possible."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.answer import prepare_model
from ibia.bench.generate import FAMILIES, SETS, find_generated
from ibia.bench.generate.dynamic import dynamic
from ibia.bench.generate.pedigree import pedigree
from ibia.bench.generate.regular import regular
from ibia.bench.generate.sampling import sample
from ibia.bench.reference import WIDEST
from ibia.model import Model

BAYESIAN = ("diagnosis", "pedigree", "dynamic")
EVERY = {member.name: member for members in SETS.values() for member in members}


def width(model: Model, evidence: dict[int, int]) -> float:
    # A bound that everything fits: the search for a narrower tree is not worth while here.
    prepared = prepare_model(model, evidence, bound=1e6)
    return max((problem.width for problem in prepared.problems), default=0.0)


def test_each_family_has_a_set_and_quick_has_them_all():
    assert set(SETS) == {"quick", "long", *FAMILIES}
    for family in FAMILIES:
        assert {member.family for member in SETS[family]} == {family}
    counts = Counter(member.family for member in SETS["quick"])
    assert set(counts) == set(FAMILIES)
    # As many of each, so that none counts more.
    assert set(counts.values()) == {4}


def test_a_name_means_one_model():
    for members in SETS.values():
        assert len({member.name for member in members}) == len(members)
        for member in members:
            assert find_generated(member.name) == member
            assert hash(find_generated(member.name)) == hash(member)
    with pytest.raises(ibia.InputError, match="named 'nothing'"):
        find_generated("nothing")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_each_time(family):
    members = [member for member in SETS["quick"] if member.family == family]
    made = [member.make() for member in members]
    assert made == [member.make() for member in members]
    assert all(first[0] != second[0] for first, second in pairwise(made))


@pytest.mark.parametrize("family", FAMILIES)
def test_quick_is_neither_too_wide_nor_too_easy(family):
    for member in SETS["quick"]:
        if member.family == family:
            assert 13.0 < width(*member.make()) <= WIDEST, member.name


def test_long_models_grow_and_do_not_become_wider():
    members = SETS["long"]
    for same in zip(*(members[place::4] for place in range(4)), strict=True):
        made = [member.make() for member in same]
        sizes = [len(model.variables) for model, _ in made]
        assert all(2 * fewer <= more for fewer, more in pairwise(sizes))
        # All have exact answers, and bounds of 8 bits do not reach them.
        widths = [width(*pair) for pair in made]
        assert all(10.0 < bits <= 16.0 for bits in widths), same[0].name
        # Trees are searched for, so that widths differ a little by chance, but not with the length.
        assert max(widths) - min(widths) <= 3.0, (same[0].name, widths)
        assert widths[-1] <= widths[0], (same[0].name, widths)


@pytest.mark.parametrize("family", FAMILIES)
def test_sets_grow_from_small_to_far_beyond_exact(family):
    smallest, *_, largest = SETS[family]
    assert width(*smallest.make()) <= 16.0
    assert width(*largest.make()) >= 35.0


@pytest.mark.parametrize("name", [name for name, member in EVERY.items() if member.family in BAYESIAN])
def test_bayesian_tables_are_distributions_and_the_evidence_is_known(name):
    model, evidence = EVERY[name].make()
    assert model.kind == "bayes"
    assert len(model.factors) == len(model.variables)
    for factor in model.factors:
        rows = factor.values.reshape(-1, model.cardinalities[factor.scope[-1]])
        assert abs(rows.sum(axis=1) - 1.0).max() < 1e-12
    assert evidence
    assert any(evidence.values())


@pytest.mark.parametrize("member", [member for member in SETS["quick"] if member.family in BAYESIAN], ids=str)
def test_the_evidence_is_possible(member):
    result = ibia.infer(*member.make(), bound=WIDEST + 1)
    assert result.exact
    assert -math.inf < result.log_z < 0.0


def test_samples_follow_the_model():
    model = examples.student()
    random = np.random.default_rng(1)
    drawn = np.array([sample(model, random) for _ in range(4000)])
    exact = ibia.infer(model, bound=20)
    for variable, marginal in enumerate(exact.marginals):
        np.testing.assert_allclose(np.bincount(drawn[:, variable], minlength=marginal.size) / 4000, marginal, atol=0.04)


def test_samples_do_not_need_an_order_and_avoid_what_is_impossible():
    sure = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    model = Model.from_arrays([3, 2], [([1, 0], sure), ([1], [0.5, 0.5])], kind="bayes")
    random = np.random.default_rng(0)
    assert {tuple(sample(model, random)) for _ in range(50)} == {(1, 0), (2, 1)}


@pytest.mark.parametrize(("size", "degree"), [(2, 1), (10, 3), (11, 4), (6, 5), (7, 0), (200, 3)])
def test_regular_graphs(size, degree):
    model = regular(size, degree, 3, 1.0, 0.2, seed=4)
    edges = [factor.scope for factor in model.factors if len(factor.scope) == 2]
    assert len(set(edges)) == len(edges) == size * degree // 2
    assert all(first < second for first, second in edges)
    counts = Counter(variable for edge in edges for variable in edge)
    assert all(counts[variable] == degree for variable in range(size))


def test_regular_graphs_forget_the_ring():
    model = regular(200, 4, 2, 1.0, 0.2, seed=1)
    near = [abs(first - second) in (1, 2) for first, second in (f.scope for f in model.factors if len(f.scope) == 2)]
    assert sum(near) < 0.1 * len(near)


def test_pedigree_children_inherit_from_their_parents():
    model, observed = pedigree(12, 4, 3, 3, 0.5, 0.1, seed=2)
    assert len(observed) == 6 * 3
    states = sample(model, np.random.default_rng(3))
    inherited = 0
    for factor in model.factors:
        name = model.names[factor.scope[-1]]
        values = [states[variable] for variable in factor.scope]
        if len(factor.scope) == 4:
            selector, first, second, own = values
            assert own == (second if selector else first)
            assert set(factor.values.tolist()) == {0.0, 1.0}
            inherited += 1
        elif name.startswith("genotype"):
            table = factor.values.reshape(3, 3, 6)
            np.testing.assert_array_equal(table, table.transpose(1, 0, 2))
            assert table.sum(axis=(0, 1)).tolist() == [1.0, 2.0, 2.0, 1.0, 2.0, 1.0]
    assert inherited == 8 * 2 * 3


def test_pedigree_selectors_are_linked_from_locus_to_locus():
    model, _ = pedigree(3, 2, 2, 2, 0.0, 0.2, seed=1)
    factor = next(factor for factor in model.factors if model.names[factor.scope[-1]] == "paternal_selector_2_1")
    assert model.names[factor.scope[0]] == "paternal_selector_2_0"
    assert factor.values.tolist() == [0.8, 0.2, 0.2, 0.8]


def test_dynamic_slices_are_alike():
    model = dynamic(4, 5, 3, 2, 2, seed=1)
    assert len(model.variables) == 4 * 7
    for place in range(7):
        second, third = model.factors[7 + place], model.factors[14 + place]
        assert third.scope == tuple(variable + 7 for variable in second.scope)
        assert np.array_equal(second.values, third.values)
    joining = [factor.scope for factor in model.factors[7:14] if min(factor.scope) < 7]
    assert [scope[-1] for scope in joining] == [7, 8, 9]
    assert {variable for scope in joining for variable in scope if variable < 7} <= {0, 1, 2}


@pytest.mark.parametrize(
    "make",
    [
        lambda: regular(5, 3, 2, 1.0, 0.1, 0),
        lambda: regular(4, 4, 2, 1.0, 0.1, 0),
        lambda: regular(4, 2, 0, 1.0, 0.1, 0),
        lambda: pedigree(3, 1, 1, 2, 0.5, 0.1, 0),
        lambda: pedigree(3, 2, 0, 2, 0.5, 0.1, 0),
        lambda: pedigree(3, 2, 1, 2, 1.5, 0.1, 0),
        lambda: dynamic(0, 3, 2, 1, 2, 0),
        lambda: dynamic(2, 3, 4, 1, 2, 0),
    ],
)
def test_nonsense_sizes_are_sentences(make):
    with pytest.raises(ibia.InputError, match="expected"):
        make()
