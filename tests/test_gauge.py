"""The error estimate: zero only for exact answers, larger for worse signs, never beyond what a distance can be."""

from __future__ import annotations

import pytest

from ibia.gauge import Signs, estimate_error


def test_exact_answers_have_no_error() -> None:
    estimate = estimate_error(True, Signs(0.0, 0.0, 0.0))
    assert (estimate.typical, estimate.upper) == (0.0, 0.0)
    assert estimate.words.startswith("exact")


@pytest.mark.parametrize("spread", [None, 0.0])
def test_an_answer_that_is_not_exact_is_never_called_perfect(spread: float | None) -> None:
    estimate = estimate_error(False, Signs(0.0, 0.0, 0.0, spread))
    assert 5e-7 < estimate.typical < estimate.upper < 1e-4
    assert "exact" not in estimate.words


@pytest.mark.parametrize("spread", [None, 1e-4])
@pytest.mark.parametrize("sign", ["loss", "second", "remaining", "unchecked"])
def test_worse_signs_mean_a_larger_estimate(sign: str, spread: float | None) -> None:
    signs = Signs(1e-4, 1e-4, 1e-4, spread)
    before = estimate_error(False, signs)
    after = estimate_error(False, signs._replace(**{sign: 0.9}))
    assert after.typical > before.typical
    assert after.upper > before.upper


def test_alternatives_that_are_far_apart_mean_a_larger_estimate() -> None:
    near, far = (estimate_error(False, Signs(1e-8, 1e-8, 1e-8, spread)) for spread in (1e-4, 0.5))
    assert far.typical > near.typical
    # Whatever the other signs say.
    assert near.upper < 1e-3
    assert far.upper == pytest.approx(0.15)


def test_a_distance_is_at_most_one() -> None:
    estimate = estimate_error(False, Signs(1e6, 1.0, 1.0, 1.0, 1.0, 1e6))
    assert estimate.typical <= estimate.upper <= 1.0


def test_words_follow_the_upper_limit() -> None:
    words = [estimate_error(False, Signs(size, size, size, size)).words for size in (1e-6, 1e-3, 5e-3, 1.0)]
    assert [text.split(":")[0] for text in words] == ["very accurate", "accurate", "usable with care", "rough"]


def test_steps_that_had_nothing_to_tell_each_other_do_not_vouch_for_what_was_lost() -> None:
    silent, agreeing = (estimate_error(False, Signs(3.0, first, 1e-12, 0.0)) for first in (1e-12, 1e-8))
    assert silent.typical == pytest.approx(agreeing.typical)
    assert silent.upper > 20 * agreeing.upper
    assert estimate_error(False, Signs(0.0, 1e-12, 1e-12, 0.0)).upper < 1e-4
    # Then all that was lost counts, wherever it was.
    everywhere = Signs(3.0, 1e-12, 1e-12, 0.0, total=300.0)
    assert estimate_error(False, everywhere).upper > 5 * silent.upper
    assert estimate_error(False, everywhere._replace(first=1e-8)) == agreeing
