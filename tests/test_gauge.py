"""The error estimate: zero only for exact answers, larger for worse signs, never beyond what a distance can be."""

from __future__ import annotations

import pytest

from ibia.gauge import estimate_error


def test_exact_answers_have_no_error() -> None:
    estimate = estimate_error(True, 0.0, 0.0)
    assert (estimate.typical, estimate.upper) == (0.0, 0.0)
    assert estimate.words.startswith("exact")


def test_an_answer_that_is_not_exact_is_never_called_perfect() -> None:
    estimate = estimate_error(False, 0.0, 0.0)
    assert 1e-6 < estimate.typical < estimate.upper < 1e-4
    assert "exact" not in estimate.words


@pytest.mark.parametrize("sign", ["loss", "inconsistency", "remaining", "unchecked"])
def test_worse_signs_mean_a_larger_estimate(sign: str) -> None:
    signs = {"loss": 1e-4, "inconsistency": 1e-4, "remaining": 0.0, "unchecked": 0.0}
    before = estimate_error(False, **signs)
    after = estimate_error(False, **{**signs, sign: 0.9})
    assert after.typical > before.typical
    assert after.upper > before.upper


def test_a_distance_is_at_most_one() -> None:
    estimate = estimate_error(False, 1e6, 1.0, 1.0, 1e6)
    assert estimate.typical <= estimate.upper <= 1.0


def test_words_follow_the_upper_limit() -> None:
    words = [estimate_error(False, size, size).words for size in (1e-6, 1e-3, 2e-2, 1.0)]
    assert [text.split(":")[0] for text in words] == ["very accurate", "accurate", "usable with care", "rough"]


def test_steps_that_had_nothing_to_tell_each_other_do_not_vouch_for_what_was_lost() -> None:
    silent, agreeing = estimate_error(False, 3.0, 1e-12), estimate_error(False, 3.0, 1e-8)
    assert silent.typical == pytest.approx(agreeing.typical)
    assert silent.upper > 20 * agreeing.upper
    assert estimate_error(False, 0.0, 1e-12).upper < 1e-4
