"""The machine that runs are measured on."""

from __future__ import annotations

import json
import platform
import socket

import numpy as np

from ibia.bench.machine import describe_machine, machine_lines, machine_sentences


def test_a_machine_is_described_without_its_name():
    found = describe_machine()
    assert set(found) == {"processor", "cores", "memory", "python", "numpy", "numba"}
    assert found["processor"]
    assert found["cores"] >= 1
    assert found["memory"] > 2**28
    assert (found["python"], found["numpy"]) == (platform.python_version(), np.__version__)
    assert socket.gethostname() not in json.dumps(found)


def test_a_line_for_each_machine_and_none_for_rows_that_do_not_say():
    first = {"processor": "Fast", "cores": 1, "memory": 2**30, "python": "3.11", "numpy": "2.0", "numba": "0.60"}
    second = {**first, "processor": "Slow", "cores": 4}
    assert machine_lines([{"machine": first}, {"machine": second}, {"machine": {**second}}, {}]) == [
        "Measured on Slow, 4 cores, 1 GiB, Python 3.11, NumPy 2.0, numba 0.60: 2 runs",
        "Measured on Fast, 1 core, 1 GiB, Python 3.11, NumPy 2.0, numba 0.60: 1 run",
    ]


def test_where_rows_do_not_say_it_is_told_what_the_page_is_written_on():
    named = {"processor": "Fast", "cores": 1, "memory": 2**30, "python": "3.11", "numpy": "2.0", "numba": "0.60"}
    measured = "Measured on Fast, 1 core, 1 GiB, Python 3.11, NumPy 2.0, numba 0.60: 1 run."
    assert machine_sentences([{"machine": named}]) == [measured]
    first, second = machine_sentences([{"machine": named}, {}])
    assert first == measured
    assert second.startswith(f"Not said where measured: 1 run; this is written on {describe_machine()['processor']}, ")
