"""Made-up rows of results, as small as the modules that read them allow."""

from __future__ import annotations

LIMITS = {"seconds": 120.0, "memory": 8e9, "threads": 1}


def row(name="m1", solver="ibia:bound=12", family="Grids", *, status="answered", limits=LIMITS, **figures):
    """Return a row; that of an answer has an error of 0.01 (exact: 0) in a second unless figures say otherwise."""
    found = {
        "key": f"{family}/{name}/{solver}/{limits}",
        "family": family,
        "name": name,
        "digest": f"{family}/{name}",
        "solver": solver,
        "version": "1",
        "limits": limits,
        "status": status,
        "wall_seconds": 3.0,
        "at": "2026-01-01T00:00:00+00:00",
    }
    if status != "answered":
        return {**found, "error": "Ended <b>early</b> & without a word.", **figures}
    return {
        **found,
        "variables": 9,
        "factors": 12,
        "observed": 1,
        "reference": "exact",
        "seconds": 1.0,
        "peak_memory_bytes": 2**20,
        "hd_avg": 0.001,
        "hd_max": 0.01,
        "worst_variable": 4,
        "delta_log10_z": -0.1,
        **(dict.fromkeys(("hd_avg", "hd_max", "delta_log10_z"), 0.0) if figures.get("exact") else {}),
        **figures,
    }


def approximate(name="m1", solver="ibia:bound=12", family="Grids", *, typical=0.01, upper=0.05, true=0.02, **figures):
    """Return the row of an answer of ibia that is not exact."""
    said = {"error_estimate": typical, "error_upper": upper, "hd_max": true}
    signs = {"first_inconsistency": 0.01, "second_inconsistency": 0.01, "inconsistency": 0.0, "loss_nats": 0.1}
    signs |= {"worst_loss_nats": 0.1, "unchecked_loss_nats": 0.0, "spread": 0.01, "alternatives": 4}
    return row(name, solver, family, exact=False, **{**said, **signs, **figures})
