"""The paper's error measures on cases worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ibia.bench import hellinger, score
from ibia.bench.metrics import divergence, find_nonsense
from ibia.errors import InputError


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0.3, 0.7], [0.3, 0.7], 0.0),
        ([1.0, 0.0], [0.0, 1.0], 1.0),
        # (1 − √½)² + ½ = 2 − √2, halved and rooted.
        ([1.0, 0.0], [0.5, 0.5], math.sqrt(1.0 - math.sqrt(0.5))),
        # √0.64 = 0.8, √0.36 = 0.6; three states, one of them empty in both.
        ([0.36, 0.64, 0.0], [0.64, 0.36, 0.0], math.sqrt((0.2**2 + 0.2**2) / 2.0)),
        ([1.0], [1.0], 0.0),
    ],
)
def test_hellinger_by_hand(first, second, expected):
    assert hellinger(first, second) == pytest.approx(expected, abs=1e-15)
    assert hellinger(second, first) == pytest.approx(expected, abs=1e-15)


def test_hellinger_takes_a_negative_rounding_residue_as_zero():
    assert hellinger([-1e-18, 1.0], [0.0, 1.0]) == 0.0


def test_hellinger_of_different_cardinalities_is_refused():
    with pytest.raises(InputError, match="cannot be compared"):
        hellinger([1.0], [0.5, 0.5])


def test_score_averages_over_unobserved_variables():
    answer = [[1.0, 0.0], [0.36, 0.64], [0.5, 0.5]]
    reference = [[0.0, 1.0], [0.64, 0.36], [0.5, 0.5]]
    result = score(answer, reference, observed={0})
    assert result.largest == pytest.approx(0.2)
    assert result.average == pytest.approx(0.1)
    assert result.largest_absolute == pytest.approx(0.28)
    assert result.worst == 1
    assert score(answer, reference).largest == pytest.approx(1.0)


def test_score_without_unobserved_variables_is_zero():
    result = score([[1.0, 0.0]], [[0.0, 1.0]], observed={0})
    assert (result.average, result.largest, result.worst) == (0.0, 0.0, None)


@pytest.mark.parametrize("wrong", [[math.nan, 1.0], [0.5, 0.6], [-0.1, 1.1], [math.inf, 0.0]])
def test_an_answer_that_is_no_distribution_is_refused(wrong):
    with pytest.raises(InputError, match="not a distribution"):
        score([wrong], [[0.5, 0.5]])


def test_a_wrong_number_of_marginals_is_refused():
    with pytest.raises(InputError, match="2 marginals, the reference 1"):
        score([np.array([1.0]), np.array([1.0])], [np.array([1.0])])


@pytest.mark.parametrize(
    ("truth", "answer", "expected"),
    [
        ([0.3, 0.7], [0.3, 0.7], 0.0),
        # log 2, whatever the other state gets.
        ([1.0, 0.0], [0.5, 0.5], math.log(2.0)),
        ([0.5, 0.5], [0.25, 0.75], 0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0)),
        ([0.5, 0.5, 0.0], [1.0, 0.0, 0.0], math.inf),
        # Nothing in common counts as infinite, nothing possible lost does not.
        ([0.0, 1.0], [1e-18, 1.0], 0.0),
    ],
)
def test_divergence_by_hand(truth, answer, expected):
    assert divergence(truth, answer) == pytest.approx(expected, abs=1e-15)


def test_divergence_is_not_negative_for_rounded_numbers():
    assert divergence([0.333333, 0.666667], [0.33334, 0.66667]) == 0.0


def test_score_counts_what_is_ruled_out():
    result = score([[1.0, 0.0], [0.5, 0.5]], [[0.9, 0.1], [0.25, 0.75]])
    assert result.ruled_out == 1
    assert result.largest_divergence == result.average_divergence == math.inf
    result = score([[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]])
    assert result.ruled_out == 0
    assert result.largest_divergence == pytest.approx(math.log(2.0))
    assert result.average_divergence == pytest.approx(math.log(2.0) / 2.0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([[0.5, 0.5]], "1 marginals for 2 variables"),
        ([[0.5, 0.5], [0.5, 0.5]], "variable 1 has 2 states instead of 3"),
        ([[math.nan, 0.5], [0.2, 0.3, 0.5]], "variable 0 is not a distribution"),
        ([[-0.1, 1.1], [0.2, 0.3, 0.5]], "variable 0 is not a distribution"),
        ([[0.5, 0.5], [0.2, 0.3, 0.4]], "variable 1 is not a distribution"),
    ],
)
def test_nonsense_is_described(answer, words):
    assert words in find_nonsense(answer, [2, 3])


def test_sense_is_not_nonsense():
    assert find_nonsense([[0.5, 0.5], [0.200001, 0.3, 0.5]], [2, 3]) is None
