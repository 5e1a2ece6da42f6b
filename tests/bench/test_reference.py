"""References that are computed: right, kept, and computed again when what is kept cannot be read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from brute_force import solve
from ibia import examples
from ibia.bench import reference
from ibia.bench.generate import FAMILIES, SETS
from ibia.bench.pyagrum_peer import Peer
from ibia.bench.reference import (
    cache_folder,
    compute_reference,
    fingerprint,
    is_kept,
    kept_reference,
    known_reference,
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_computed_reference_is_the_truth():
    model = examples.grid(3, 4, coupling=1.5, seed=4)
    evidence = {2: 1, 7: 0}
    truth = solve(model, evidence)
    found = compute_reference(model, evidence)
    assert found.kind == "exact"
    assert found.log10_z == pytest.approx(truth.log_z / math.log(10))
    for one, other in zip(found.marginals, truth.marginals, strict=True):
        assert np.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_computed_references_of_generated_models_are_what_pyagrum_says(family):
    pytest.importorskip("pyagrum", reason="pyAgrum (the extra 'pyagrum') is not installed")
    model, evidence = SETS[family][0].make()
    if family == "pedigree":
        # The smallest of the set takes pyAgrum more than a minute.
        kept = {"alleles": 3, "typed": 0.5, "recombination": 0.1, "seed": 1}
        model, evidence = FAMILIES[family](people=8, founders=4, loci=2, **kept)
    found = compute_reference(model, evidence)
    assert found.kind == "exact"
    peer = Peer(model)
    for one, other in zip(found.marginals, peer.arrays(peer.solve(evidence)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_it_is_kept_and_read_again(monkeypatch):
    model = examples.student()
    first = known_reference(model, {3: 1})
    monkeypatch.setattr(reference, "compute_reference", None)
    again = known_reference(model, {3: 1})
    assert again.log10_z == first.log10_z
    assert all(np.array_equal(one, other) for one, other in zip(first.marginals, again.marginals, strict=True))


def test_what_cannot_be_read_is_computed_again():
    model = examples.student()
    known_reference(model, {})
    (path,) = cache_folder().iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert kept_reference(fingerprint(model, {})) is None
    assert known_reference(model, {}).kind == "exact"
    assert kept_reference(fingerprint(model, {})).kind == "exact"


def test_another_version_of_the_engine_computes_it_anew(monkeypatch):
    model = examples.student()
    true = known_reference(model, {})
    computed = replace(true, log10_z=true.log10_z + 1.0)
    monkeypatch.setattr(reference, "compute_reference", lambda *_: computed)
    assert known_reference(model, {}).log10_z == true.log10_z
    monkeypatch.setattr(reference, "own_version", lambda: "0.1.0+another")
    assert not is_kept(fingerprint(model, {}))
    assert known_reference(model, {}).log10_z == computed.log10_z
    assert is_kept(fingerprint(model, {}))
    # Two checkouts that share a cache do not take from each other.
    assert len(list(cache_folder().iterdir())) == 2


def test_what_older_benches_have_kept_does_no_harm():
    model = examples.student()
    known_reference(model, {})
    (path,) = cache_folder().iterdir()
    path.rename(path.with_name(f"reference-2-{fingerprint(model, {})}.npz"))
    assert kept_reference(fingerprint(model, {})) is None
    assert known_reference(model, {}).kind == "exact"


def test_too_wide_a_model_has_none_and_that_is_kept_too(monkeypatch):
    monkeypatch.setattr(reference, "WIDEST", 2.0)
    model = examples.grid(3, 3)
    assert known_reference(model, {}).marginals is None
    assert kept_reference(fingerprint(model, {})).kind == "none"


def test_fingerprints_differ_with_evidence_and_tables():
    model = examples.student()
    marks = {fingerprint(model, {}), fingerprint(model, {0: 1}), fingerprint(model, {0: 0})}
    marks |= {fingerprint(examples.grid(2, 2, seed=seed), {}) for seed in (1, 2)}
    assert len(marks) == 5
    assert fingerprint(examples.student(), {0: 1}) in marks
