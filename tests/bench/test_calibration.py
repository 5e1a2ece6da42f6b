"""The gauge against the truth: shares, ranks and fits that can be checked by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench_rows import approximate, row
from ibia import cli
from ibia.bench.calibration import (
    Estimate,
    base_model,
    calibrate,
    calibration_lines,
    cross_validate,
    estimates_of,
    fit_constants,
    in_first_half,
    judge,
    report_gauge,
    spearman,
)
from ibia.gauge import ALONE, CONSTANTS, Constants, Signs, estimate_error


def test_ranks_correlate_as_by_hand():
    assert spearman([1, 2, 3], [10, 100, 1000]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    # 1 − 6 Σ d² / (n (n² − 1)) with d = 0, 1, 1, 0.
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(1 - 6 * 2 / (4 * 15))
    # Ranks 1.5, 1.5, 3 against 1, 2, 3: deviations −½, −½, 1 and −1, 0, 1, so 1.5 / √(1.5 · 2).
    assert spearman([5, 5, 7], [1, 2, 3]) == pytest.approx(1.5 / np.sqrt(3.0))


def test_ranks_of_too_few_or_equal_values_do_not_correlate():
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([], []) is None


def test_only_answers_that_are_not_exact_and_have_a_known_error_are_judged():
    rows = [
        approximate("judged"),
        row("exact", exact=True, error_estimate=0.0, error_upper=0.0),
        row("of another solver"),
        row("crashed", status="crashed"),
        approximate("unknown", true=None),
        approximate("not of the engine", loopy=True),
        approximate("six digits", true=1e-5, reference="official-6-digits"),
    ]
    assert [entry["name"] for entry, _ in estimates_of(rows)] == ["judged"]


def test_answers_that_wrongly_say_they_are_exact_stated_an_error_of_zero():
    wrong = approximate("wrong", typical=0.0, upper=0.0, true=0.1, delta_log10_z=0.0) | {"exact": True}
    off = row("only Z is off", exact=True, delta_log10_z=0.5, error_estimate=0.0, error_upper=0.0)
    rows = [*made(CONSTANTS, 20), wrong, off]
    assert [entry["name"] for entry, _ in estimates_of(rows)][20:] == ["wrong"]
    report = report_gauge(rows)
    found = report["solvers"]["ibia"]
    assert (found["answers"], found["all"]["within"]) == (21, calibrate([e for _, e in estimates_of(rows)]).within)
    # They have no signs of an error, so nothing is fitted to them.
    assert fit_constants(rows) == fit_constants(rows[:20])
    assert found["claimed_wrongly"] == "Grids/wrong: HD_max 0.1"
    lines = calibration_lines(report)
    assert "Said to be exact, and not so by the reference: Grids/wrong: HD_max 0.1" in lines
    assert not any("Said to be exact" in line for line in calibration_lines(report_gauge(rows[:20])))


def test_calibration_by_hand():
    found = calibrate([Estimate(0.1, 0.4, 0.05), Estimate(0.2, 0.8, 0.4), Estimate(0.3, 0.9, 0.95), Estimate(1, 1, 1)])
    assert (found.answers, found.within) == (4, 3)
    assert found.share == 0.75
    assert found.correlation == pytest.approx(1.0)
    # Ratios 0.5, 2, 3.17, 1.
    assert found.ratio == pytest.approx(1.5)
    nothing = calibrate([])
    assert (nothing.share, nothing.correlation, nothing.ratio) == (None, None, None)


def made(constants, count=40, noise=0.0):
    """Return rows whose true errors obey the formula, up to noise of both signs."""
    random = np.random.default_rng(1)
    rows = []
    for number in range(count):
        inconsistency, loss, spread = 10.0 ** random.uniform((-4, -3, -5), (-1, 0, -2))
        logarithm = constants.offset + constants.inconsistency * np.log10(inconsistency)
        logarithm += constants.loss * np.log10(loss) + constants.spread * np.log10(spread)
        true = 10.0 ** (logarithm + random.uniform(-noise, noise))
        signs = {"second_inconsistency": inconsistency, "worst_loss_nats": loss, "spread": spread}
        rows.append(approximate(f"m{number}", true=true, **signs))
    return rows


def test_a_fit_finds_the_constants_that_made_the_errors():
    fitted = fit_constants(made(Constants(-0.5, 0.6, 0.2, 0.3, 0.0)))
    assert fitted == pytest.approx((-0.5, 0.6, 0.2, 0.3, 0.0), abs=1e-3)
    noisy = fit_constants(made(Constants(0.0, 0.6, 0.2, 0.0, 0.0), 400, noise=1.0))
    # 94 % of numbers uniform in ±1 are below 0.88.
    assert noisy.margin == pytest.approx(0.88, abs=0.1)
    assert fit_constants(made(CONSTANTS, 5)) is None


def test_errors_that_the_spread_allows_for_need_no_margin():
    rows = made(Constants(0.0, 0.6, 0.2, 0.0, 0.0), 400, noise=1.0)
    assert fit_constants([{**entry, "spread": 4.0} for entry in rows]).margin == 0.0


def test_constants_are_fitted_to_answers_with_all_signs():
    rows = made(CONSTANTS, 20)
    single = [{**entry, "alternatives": 1} for entry in made(CONSTANTS, 20, noise=1.0)]
    older = [{**entry, "second_inconsistency": None} for entry in made(CONSTANTS, 20, noise=1.0)]
    assert fit_constants([*rows, *single, *older]) == fit_constants(rows)
    assert judge(CONSTANTS, [*rows, *single, *older]).answers == 20


def alone(constants, count=40, noise=0.0):
    """Return rows of answers with one alternative whose true errors obey the formula without the spread."""
    return [{**entry, "alternatives": 1, "spread": 0.0} for entry in made(constants, count, noise)]


def test_answers_with_one_alternative_are_fitted_without_the_spread():
    rows = alone(Constants(-0.5, 0.6, 0.2, 0.0, 0.0))
    fitted = fit_constants(rows, several=False)
    assert fitted == pytest.approx((-0.5, 0.6, 0.2, 0.0, 0.0), abs=1e-3)
    assert fit_constants(rows) is None
    assert fit_constants([*rows, *made(CONSTANTS, noise=1.0)], several=False) == fitted
    noisy = fit_constants(alone(Constants(0.0, 0.6, 0.2, 0.0, 0.0), 400, noise=1.0), several=False)
    assert noisy.margin == pytest.approx(0.88, abs=0.1)
    # A spread of 1 would allow for these errors; with one alternative there is none.
    wide = [approximate(f"m{number}", true=0.3, alternatives=1, spread=1.0) for number in range(20)]
    assert judge(CONSTANTS._replace(margin=-9.0), wide, several=False).within == 0
    halves = cross_validate(rows, several=False)
    assert [half["constants"]["spread"] for half in halves] == [0.0, 0.0]
    assert halves[0]["answers"] == halves[1]["in_force_on_the_other"]["answers"]


def test_constants_in_force_say_what_the_gauge_says():
    rows = made(CONSTANTS, 20, noise=1.0)
    for entry in rows:
        entry |= {"unchecked_loss_nats": 0.3}
        signs = Signs(
            loss=entry["worst_loss_nats"],
            first=entry["first_inconsistency"],
            second=entry["second_inconsistency"],
            spread=entry["spread"],
            remaining=entry["inconsistency"],
            unchecked=0.3,
            total=entry["loss_nats"],
        )
        said = estimate_error(False, signs)
        entry |= {"error_estimate": said.typical, "error_upper": said.upper}
    stated = calibrate([estimate for _, estimate in estimates_of(rows)])
    assert judge(CONSTANTS, rows) == stated


def test_what_remains_after_the_last_sweep_counts():
    rows = [approximate(true=0.5, inconsistency=0.2, second_inconsistency=1e-6, worst_loss_nats=1e-6)]
    assert judge(CONSTANTS, rows).within == 1
    assert judge(CONSTANTS, [{**rows[0], "inconsistency": 0.0}]).within == 0


def test_halves_are_by_name_and_about_equal():
    rows = [approximate(f"m{number}", solver) for number in range(200) for solver in ("ibia:bound=9", "paper")]
    first = [entry for entry in rows if in_first_half(entry)]
    assert 150 < len(first) < 250
    assert all(in_first_half(entry) == in_first_half({**entry, "solver": "other"}) for entry in rows)


def test_a_network_is_in_the_same_half_with_and_without_evidence():
    names = {"asia": "asia", "asia_e1": "asia", "BN_71_uai2014": "BN_71", "rus_20_40_0_1": "rus_20_40_0_1"}
    assert {name: base_model(row(name, family="F")) for name in names} == {n: f"F/{b}" for n, b in names.items()}
    assert base_model(row("a", family="F")) != base_model(row("a", family="G"))
    for number in range(40):
        one = in_first_half(row(f"net{number}"))
        assert one == in_first_half(row(f"net{number}_e1")) == in_first_half(row(f"net{number}_uai2014"))


def test_constants_in_force_are_judged_by_the_signs_and_not_by_what_older_engines_stated():
    rows = [{**entry, "error_estimate": 1e-9, "error_upper": 1e-9} for entry in made(CONSTANTS, 20)]
    now = estimate_error(False, Signs(0.1, 0.01, 0.01, 0.01, 0.0, 0.0, 0.1))
    current = approximate("current", typical=now.typical, upper=now.upper)
    (found,) = report_gauge([*rows, current, approximate("bare", worst_loss_nats=None)])["solvers"].values()
    assert found["all"]["within"] <= 2
    assert found["several_orders"]["in_force"]["answers"] == found["several_orders"]["in_force"]["within"] == 21
    assert (found["without_signs"], found["stated_otherwise"]) == (1, 20)
    text = "\n".join(calibration_lines(report_gauge([*rows, approximate("bare", worst_loss_nats=None)])))
    assert "1 answer without all signs left out; 20 answers stated another error than would be stated now." in text


def test_solvers_are_kept_apart():
    rows = [
        approximate(f"m{number}", solver, true=true)
        for number in range(12)
        for solver, true in (("ibia:bound=8", 0.01), ("ibia:bound=9", 0.01), ("paper:bound=8", 0.9))
    ]
    report = report_gauge([*rows, row("m1", "loopy")])
    assert list(report["solvers"]) == ["ibia", "paper"]
    assert {name: found["all"]["share"] for name, found in report["solvers"].items()} == {"ibia": 1.0, "paper": 0.0}
    assert list(report["solvers"]["ibia"]["options"]) == ["ibia:bound=8", "ibia:bound=9"]
    assert report["answers"] == 36


def test_everything_about_the_gauge_is_reported():
    rows = [*made(CONSTANTS, noise=0.3), approximate("c", family="CSP", true=0.9, upper=0.1)]
    whole = report_gauge(rows)
    assert whole["answers"] == 41
    report = whole["solvers"]["ibia"]
    assert report["families"]["CSP"]["share"] == 0.0
    assert report["all"]["answers"] == 41
    assert report["signs"]["second_inconsistency"] > 0.3
    assert report["signs"]["first_inconsistency"] is None
    tried = [{**entry, "spread": entry["hd_max"] ** 2, "alternatives": 20} for entry in rows]
    single = approximate(spread=0.0, alternatives=1)
    assert report_gauge([*tried, single])["solvers"]["ibia"]["signs"]["spread"] == pytest.approx(1.0)
    assert report["several_orders"]["in_force"]["constants"] == CONSTANTS._asdict()
    assert report["one_order"]["in_force"]["constants"] == ALONE._asdict()
    one, other = report["several_orders"]["halves"]
    assert one["answers"] + other["answers"] == 41
    assert one["judged_on_the_other"]["answers"] == other["answers"]
    json.dumps(whole, allow_nan=False)
    text = "\n".join(calibration_lines(whole))
    assert "CSP" in text
    assert "several orders" in text
    assert "one order" not in text
    assert "one order" in "\n".join(calibration_lines(report_gauge([*rows, single])))


def test_too_few_answers_are_not_fitted():
    text = "\n".join(calibration_lines(report_gauge([approximate()])))
    assert "too few answers to fit" in text


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "gauge", *map(str, arguments)])
    return ended.value.code, capsys.readouterr()


def test_the_command_prints_and_writes(tmp_path, capsys):
    path, out = tmp_path / "results.jsonl", tmp_path / "gauge.json"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in made(CONSTANTS)))
    code, printed = call(capsys, path, "--json", out)
    assert code == 0
    assert "Judged by 40 answers" in printed.out
    assert json.loads(out.read_text())["answers"] == 40
    assert call(capsys, path, "--solver", "ibia")[0] == 0
    code, printed = call(capsys, path, "--solver", "loopy")
    assert code == 1
    assert "There are no results of loopy" in printed.err
    path.write_text(json.dumps(row()) + "\n")
    code, printed = call(capsys, path)
    assert code == 1
    assert "nothing to judge" in printed.err
    path.write_text("")
    code, printed = call(capsys, path)
    assert code == 1
    assert "There are no results" in printed.err
