"""Rows ordered for comparison: what is missing counts, what is averaged is said."""

from __future__ import annotations

import math

import pytest

from bench_rows import LIMITS, row
from ibia.bench.summary import comparable, memory_of, middle, order_rows, pareto_front, summarise, true_error


def test_every_method_has_a_run_on_every_model():
    results = order_rows([row("m1", "loopy"), row("m2", "loopy"), row("m1", "ibia:bound=9"), row("c", "loopy", "CSP")])
    assert results.methods == ("ibia:bound=9", "loopy")
    assert results.families == ["Grids", "CSP"]
    assert len(results.runs) == 6
    assert results.missing == 2
    assert [run.status for run in results.of(method="ibia:bound=9")] == ["answered", "not run", "not run"]
    assert len(results.of("Grids")) == 4


def test_methods_are_in_the_order_of_their_numbers():
    rows = [row(solver=f"ibia:bound={bound}") for bound in (15, 9, 12, 100)]
    assert [method[-3:] for method in order_rows(rows).methods] == ["d=9", "=12", "=15", "100"]


def test_of_several_rows_the_last_counts_and_versions_are_told():
    rows = [row(hd_max=0.5), row("m2"), {**row(hd_max=0.25), "version": "2"}]
    results = order_rows(rows)
    assert results.superseded == 1
    assert results.of()[0].error == 0.25
    assert results.versions("ibia:bound=12") == {"2": 1, "1": 1}


def test_versions_are_mixed_if_those_of_a_solver_differ_whatever_its_options():
    def later(**choices):
        return {**row(**choices), "version": "2"}

    assert order_rows([row(), later(solver="loopy"), later(solver="ibia-like:bound=12")]).mixed == []
    assert order_rows([row(), later(solver="ibia:bound=15")]).mixed == ["ibia"]
    assert order_rows([row(solver="loopy"), later(solver="loopy", limits={**LIMITS, "seconds": 9.0})]).mixed == [
        "loopy"
    ]
    # Two programs are not two versions of one.
    assert order_rows([row(solver="uai:program=/one"), later(solver="uai:program=/two,pr=True")]).mixed == []
    assert order_rows([row(solver="uai:program=/one"), later(solver="uai:program=/one,pr=True")]).mixed != []


def test_limits_tell_methods_apart_only_where_there_are_several():
    longer = {**LIMITS, "seconds": 1200.0}
    results = order_rows([row(), row(limits=longer), row(solver="loopy")])
    assert results.methods == ("ibia:bound=12 (120 s, 8 GB)", "ibia:bound=12 (1200 s, 8 GB)", "loopy")
    unlimited = {"seconds": None, "memory": None, "threads": 2}
    assert "ibia:bound=12 (2 threads)" in order_rows([row(), row(limits=unlimited)]).methods


def test_a_summary_counts_what_was_not_answered():
    rows = [
        row("m1", hd_avg=0.1, hd_max=0.2, delta_log10_z=-0.5, seconds=2.0, peak_memory_bytes=10),
        row("m2", hd_avg=0.3, hd_max=0.6, delta_log10_z=0.2, seconds=4.0, peak_memory_bytes=30),
        row("m3", status="crashed"),
        row("m4", status="out of time"),
        row("m5", "loopy"),
    ]
    results = order_rows(rows)
    found = summarise("Grids", "ibia:bound=12", results.of("Grids", "ibia:bound=12"))
    assert (found.models, found.answered, found.exact, found.compared) == (5, 2, 0, 2)
    assert found.ended == {"crashed": 1, "out of time": 1, "not run": 1}
    assert found.share == 0.4
    assert not found.complete
    assert (found.hd_avg, found.hd_max, found.worst) == pytest.approx((0.2, 0.4, 0.6))
    assert found.log10_z == 0.5
    assert (found.seconds, found.memory) == (3.0, 30)


def test_answers_that_say_they_are_exact_and_are_not_are_no_exact_ones():
    results = order_rows([row("m1", exact=True), row("m2", exact=True, hd_max=0.01), row("m3", exact=False)])
    found = summarise("Grids", "ibia:bound=12", results.runs)
    assert (found.answered, found.exact, found.refuted) == (3, 1, 1)


def test_answers_without_a_reference_are_answers_without_an_error():
    bare = row(hd_max=None, delta_log10_z=None, reference="none")
    (run,) = order_rows([bare]).runs
    found = summarise("Grids", run.method, [run])
    assert (found.answered, found.compared, found.hd_max, found.log10_z) == (1, 0, None, None)
    assert middle([run]) is None
    assert true_error(bare) is None


def test_a_summary_says_how_many_answers_each_figure_is_over():
    rows = [row("m1", kl_avg=0.1), row("m2"), row("m3", hd_avg=None, hd_max=None), row("m4", status="crashed")]
    found = summarise("Grids", "ibia:bound=12", order_rows(rows).runs)
    assert found.compared == found.over["hd_avg"] == found.over["worst"] == 2
    assert (found.over["log10_z"], found.over["kl_avg"], found.over["seconds"]) == (3, 1, 3)


def test_models_can_be_compared_where_something_is_known_or_nobody_answered():
    unknown = {"hd_avg": None, "hd_max": None, "reference": "none"}
    fault = {**unknown, "reference_error": "m2.MAR: 2 marginals, expected 9."}
    rows = [row("m1"), row("m2", **fault), row("m3", **unknown), row("m4", status="crashed")]
    rows.append(row("m5", status="crashed", marginals_known=False))
    assert {instance.name for instance in comparable(order_rows(rows))} == {"m1", "m2", "m4"}


def test_medians_count_what_was_not_answered_as_worst():
    rows = [row("m1", hd_max=0.1, seconds=1.0), row("m2", hd_max=0.3, seconds=9.0), row("m3", status="crashed")]
    assert middle(order_rows(rows[:2]).runs) == (5.0, 0.2)
    assert middle(order_rows(rows).runs) == (9.0, 0.3)
    assert middle(order_rows([rows[0], rows[2]]).runs) is None


def test_small_errors_say_nothing_against_references_of_six_digits():
    assert true_error(row(hd_max=5e-4, reference="official-6-digits")) is None
    assert true_error(row(hd_max=5e-3, reference="official-6-digits")) == 5e-3
    assert true_error(row(hd_max=5e-4)) == 5e-4
    assert true_error(row(status="crashed")) is None


def test_memory_of_a_program_is_that_alone():
    assert memory_of(row()) == 2**20
    assert memory_of(row(program_memory_bytes=7, reference_from="data")) == 7
    assert memory_of(row(program_memory_bytes=7, marginals_known=False)) == 7


def test_memory_of_programs_in_older_rows_is_not_known():
    old, new = row("m1", program_memory_bytes=9), row("m2", program_memory_bytes=7, reference_from="ibia")
    assert memory_of(old) is None
    # The most of some is not that of all.
    for rows, memory in (([old, new], None), ([new], 7)):
        runs = order_rows(rows).runs
        assert summarise("Grids", "ibia:bound=12", runs).memory == memory


def test_the_front_has_what_nothing_beats():
    points = [(1.0, 5.0), (2.0, 5.0), (2.0, 3.0), (3.0, 4.0), (4.0, 1.0), (1.0, 6.0)]
    assert pareto_front(points) == [(1.0, 5.0), (2.0, 3.0), (4.0, 1.0)]
    assert pareto_front([]) == []
    assert pareto_front([(math.pi, 1.0)] * 2) == [(math.pi, 1.0)]
