"""Limits as users and the environment write them, and what the machine says about itself."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest

from ibia import limits
from ibia.errors import InputError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8e9),
        ("500MB", 5e8),
        ("2GiB", 2**31),
        ("2 gib", 2**31),
        ("1.5g", 1.5e9),
        ("100000000", 1e8),
        ("64MiB", 2**26),
        ("100000kB", 1e8),
        ("1TB", 1e12),
        ("1e9", 1e9),
        ("123456789 bytes", 123456789),
    ],
)
def test_sizes(text: str, size: float) -> None:
    assert limits.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "8 GBB", "eight", "-8GB", "0", "1000", "nan", "inf", "8GB8", "1e999"])
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(InputError, match="memory limit"):
        limits.parse_size(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "soon", "5s"])
def test_texts_that_are_no_time(text: str) -> None:
    with pytest.raises(InputError, match="time limit"):
        limits.parse_time(text)


def test_the_environment_of_the_competitions() -> None:
    def both(**environment: str) -> tuple[float | None, float | None]:
        return limits.environment_time(environment), limits.environment_memory(environment)

    assert both() == (None, None)
    assert both(INF_TIME="20", INF_MEMORY="4") == (20.0, 4e9)
    assert both(UAI_TIME="1200", UAI_MEMORY="0.5") == (1200.0, 5e8)
    assert both(UAI_TIME="1200", INF_TIME="20", UAI_MEMORY="8", INF_MEMORY=" ") == (20.0, 8e9)


@pytest.mark.parametrize(
    ("name", "text"), [("INF_TIME", "x"), ("UAI_TIME", "-1"), ("INF_MEMORY", "x"), ("UAI_MEMORY", "0")]
)
def test_a_bad_environment_names_the_variable(name: str, text: str) -> None:
    with pytest.raises(InputError, match=name):
        (limits.environment_time if name.endswith("TIME") else limits.environment_memory)({name: text})


def test_sizes_in_words() -> None:
    assert limits.size_in_words(12) == "12 bytes"
    assert limits.size_in_words(1010) == "1010 bytes"
    assert limits.size_in_words(2**31) == "2 GiB"
    assert limits.size_in_words(math.inf) == "more memory than any machine has"


def test_seconds_have_two_digits_and_no_powers_of_ten() -> None:
    assert [limits.seconds_in_words(seconds) for seconds in (0.0123, 9.87, 238.6)] == ["0.012 s", "9.9 s", "240 s"]


def test_the_machine_has_memory_and_cores() -> None:
    assert limits.available_memory() > 2**20
    assert limits.usable_cores() >= 1
    assert limits.resident_memory() >= 0.0


def test_compiled_code_held_to_one_thread_holds_for_us(monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert limits.usable_cores() == 1


def test_memory_of_a_group_of_processes_counts(monkeypatch) -> None:
    files = {
        "/proc/meminfo": ["MemTotal: 9 kB", "MemAvailable:    8000000 kB"],
        "/sys/fs/cgroup/memory.max": ["2000000000"],
        "/sys/fs/cgroup/memory.current": ["1500000000"],
        "/sys/fs/cgroup/memory.stat": ["anon 7", "inactive_file 100000000"],
    }
    monkeypatch.setattr(limits, "_lines", lambda path: files.get(path, []))
    assert limits.available_memory() == 6e8
    files["/sys/fs/cgroup/memory.max"] = ["max"]
    assert limits.available_memory() == 8000000 * 1024


def test_without_any_information_memory_is_not_the_limit(monkeypatch) -> None:
    monkeypatch.setattr(limits, "_lines", lambda path: [])
    assert limits.available_memory() == math.inf
    assert limits.resident_memory() == 0.0


def test_the_process_began_before_now() -> None:
    assert limits.process_start() <= time.monotonic()


def test_a_number_of_gigabytes_that_is_too_small_is_called_that() -> None:
    with pytest.raises(InputError, match="INF_MEMORY: the memory limit is 977 KiB; expected at least 16 MiB"):
        limits.environment_memory({"INF_MEMORY": "0.001"})
    with pytest.raises(InputError, match="'much'; expected a number of gigabytes"):
        limits.environment_memory({"UAI_MEMORY": "much"})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell")
def test_the_memory_of_helpers_is_known_while_they_last() -> None:
    before = limits.peak_memory_of_children()
    holding = "import sys; held = bytearray(b'x' * 10**8); print(flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", holding], **pipes) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert 1e8 < limits.peak_memory_of_children() - before < 4e8
        child.communicate()
    assert limits.peak_memory_of_children() <= before
