"""Measures how good the predictions of cost are: ``python docs/measure_predictions.py DIR FILE``.

DIR is the benchmark folder; FILE gets a line of JSON for each run, and what is in it already is not run again. Prints
the table of docs/anytime.md. Seconds are processor time, so that other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import ibia
from ibia import examples
from ibia.answer import Choices, Prepared, prepare_model
from ibia.control import Control, Stopped
from ibia.errors import IbiaError
from ibia.predict import Prediction, Predictor, Speed, measure_speed
from ibia.prepare import Problem
from ibia.sequence import Settings, forward

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, metavar="DIR")
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--bounds", type=float, nargs="+", default=[8.0, 11.0, 14.0, 17.0, 20.0, 23.0])
    parser.add_argument("--seconds", type=float, default=5.0, help="no runs predicted to take longer (default: 5)")
    parser.add_argument("--variables", type=int, default=1500, help="no models larger than this (default: 1500)")
    options = parser.parse_args()
    ibia.infer(examples.grid(4, 4, seed=1), bound=3.0)
    known = [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    done = {row["name"] for row in known}
    with open(options.file, "a", encoding="utf-8") as stream:
        for family, name in _models(options.data, options.variables):
            if name not in done:
                for row in _runs(options.data / family, name, options.bounds, options.seconds):
                    known.append({"family": family, "name": name, **row})
                    stream.write(json.dumps(known[-1]) + "\n")
                    stream.flush()
    _report(known)


def _models(data: Path, most: int) -> list[tuple[str, str]]:
    """Return family and name of the models, first one of each family, then the second of each, and so on."""
    places: dict[str, int] = {}
    found = []
    with open(data / "index.csv", newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if int(row["n_vars"]) <= most:
                places[row["family"]] = places.get(row["family"], 0) + 1
                found.append((places[row["family"]], row["family"], row["name"]))
    return [(family, name) for _, family, name in sorted(found)]


def _speed() -> Speed:
    # Waiting, for others or for new memory, is no processor time.
    return replace(measure_speed(), byte=0.0, waiting=1.0)


def _runs(folder: Path, name: str, bounds: list[float], most_seconds: float) -> Iterator[Row]:
    control = Control()
    try:
        evidence = folder / f"{name}.evid"
        observed = ibia.read_evidence(evidence) if evidence.exists() else {}
        prepared = prepare_model(ibia.read(folder / f"{name}.uai.xz"), observed, control)
    except IbiaError:
        return
    plain, learning = (Predictor(prepared.problems, _speed()) for _ in range(2))
    exact = plain.exact_bound
    for bound in [*(bound for bound in bounds if plain.lowest_bound <= bound < exact), exact]:
        for quick in (True, False) if bound < exact else (False,):
            predicted, corrected = plain.predict(bound, quick), learning.predict(bound, quick)
            if min(predicted.seconds, corrected.seconds) > most_seconds:
                return
            control.deadline = time.monotonic() + 20.0 * most_seconds
            try:
                seconds, size, figures = _run(prepared, predicted)
            except Stopped:
                return
            learning.learn(predicted, seconds)
            yield {
                **asdict(predicted),
                "corrected_seconds": corrected.seconds,
                "actual_seconds": seconds,
                "actual_bytes": size,
                **figures,
            }


def _run(prepared: Prepared, predicted: Prediction) -> tuple[float, int, Row]:
    """Return the seconds, the most memory that the process held, and what can be counted."""
    # Memory that was freed goes back to the system, or it would hide what is used now.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    began = time.process_time()
    result = prepared.answer(predicted.bound, Choices(), quick=predicted.quick)
    seconds = time.process_time() - began
    figures: Row = {"answered_exactly": result.exact}
    largest = max(prepared.problems, key=lambda problem: (problem.width, len(problem.factors)), default=None)
    if predicted.quick and not predicted.exact and largest is not None:
        figures |= _counts(largest, predicted)
    return seconds, _peak_memory(), figures


def _counts(problem: Problem, predicted: Prediction) -> Row:
    """Return the table entries of the steps of one component, predicted and actual."""
    steps = forward(problem, problem.order("elimination"), Settings(bound=predicted.bound))
    alone = Predictor([problem], _speed()).predict(predicted.bound, quick=True)
    return {"component_entries": alone.entries, "actual_entries": math.fsum(step.entries for step in steps)}


def _peak_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _report(rows: list[Row]) -> None:
    kinds = {
        "exact": [row for row in rows if row["exact"]],
        "one order, one sweep": [row for row in rows if row["quick"] and not row["answered_exactly"]],
        "thorough": [row for row in rows if not row["exact"] and not row["quick"] and not row["answered_exactly"]],
    }
    print("| run | figure | runs | median of actual / predicted | nine in ten within | within twice |")
    print("|---|---|---|---|---|---|")
    for kind, chosen in kinds.items():
        # Shorter ones are noise, and nobody waits for them.
        long = [row for row in chosen if row["actual_seconds"] > 0.05]
        large = [row for row in chosen if row["actual_bytes"] > 2**28]
        _line(kind, "seconds", [row["actual_seconds"] / row["seconds"] for row in long])
        _line(kind, "seconds, corrected", [row["actual_seconds"] / row["corrected_seconds"] for row in long])
        _line(kind, "memory of the process", [row["actual_bytes"] / row["bytes"] for row in large])
        counted = [row for row in chosen if "actual_entries" in row]
        _line(kind, "table entries", [row["actual_entries"] / row["component_entries"] for row in counted])


def _line(kind: str, figure: str, ratios: list[float]) -> None:
    if ratios:
        low, middle, high = np.percentile(ratios, [5, 50, 95])
        within = np.mean([0.5 <= ratio <= 2.0 for ratio in ratios])
        print(f"| {kind} | {figure} | {len(ratios)} | {middle:.2f} | {low:.2f} to {high:.2f} | {within:.0%} |")


if __name__ == "__main__":
    main()
