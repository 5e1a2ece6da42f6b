"""Claims of exactness against the reference: what rounding explains stands, what it does not is refuted."""

from __future__ import annotations

import pytest

from bench_rows import row
from ibia.bench.claims import claimed_wrongly, is_exact, refutation


def test_a_claim_that_the_reference_bears_out_or_that_nothing_is_known_of_stands():
    for found in (
        row(exact=True, hd_max=1e-13, delta_log10_z=1e-12),
        row(exact=True, hd_max=None, delta_log10_z=None, reference="none"),
        {key: value for key, value in row(exact=True).items() if key not in ("hd_avg", "hd_max")},
    ):
        assert is_exact(found)
        assert refutation(found) is None
    # Who claims nothing is not refuted.
    assert not is_exact(row(exact=False, hd_max=0.5))
    assert refutation(row(exact=False, hd_max=0.5)) is None
    assert refutation(row(hd_max=0.5)) is None


def test_a_claim_that_the_reference_does_not_bear_out_is_refuted():
    assert refutation(row(exact=True, hd_max=0.012)) == "HD_max 0.012"
    assert refutation(row(exact=True, delta_log10_z=-0.5)) == "log10 Z off by 0.5"
    both = row(exact=True, hd_max=0.25, delta_log10_z=0.5)
    assert refutation(both) == "HD_max 0.25, log10 Z off by 0.5"
    assert not is_exact(both)


@pytest.mark.parametrize(
    ("figures", "exact"),
    [
        # Four digits of an answer, to a reference of all digits.
        ({"hd_max": 1.8e-4}, True),
        ({"hd_max": 2.1e-4}, False),
        # Six digits of a reference.
        ({"hd_max": 9e-4, "reference": "official-6-digits"}, True),
        ({"hd_max": 1.1e-3, "reference": "official-6-digits"}, False),
        ({"hd_max": 9e-4, "reference": "given"}, True),
        ({"delta_log10_z": 5e-5, "log10_z": -31.17765}, True),
        ({"delta_log10_z": 5e-3, "log10_z": 1962.977}, True),
        ({"delta_log10_z": 1e-3, "log10_z": -31.17765}, False),
        ({"delta_log10_z": 1e-6, "log10_z": 0.0}, True),
        ({"delta_log10_z": 1e-4, "log10_z": 0.0}, False),
    ],
)
def test_rounding_refutes_nothing(figures, exact):
    assert is_exact(row(exact=True, **figures)) == exact


def test_wrong_claims_are_named():
    rows = [row("m1", exact=True), row("m2", exact=True, hd_max=0.1), row("c", family="CSP", exact=True, hd_max=0.2)]
    assert claimed_wrongly(rows) == "Grids/m2: HD_max 0.1; CSP/c: HD_max 0.2"
    assert claimed_wrongly(rows[:1]) == ""
