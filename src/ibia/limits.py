"""Limits: how much time, memory and how many cores a run may use, as users write them and as the machine has them.

Reads texts, the environment and what the system says about itself. Knows nothing of inference.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ibia.errors import InputError

__all__ = [
    "FREE_PART",
    "WORKER_MEMORY",
    "available_memory",
    "check_memory_limit",
    "check_threads",
    "check_time_limit",
    "environment_memory",
    "environment_time",
    "parse_size",
    "parse_time",
    "peak_memory_of_children",
    "process_start",
    "resident_memory",
    "seconds_in_words",
    "size_in_words",
    "usable_cores",
]

_UNITS = {"": 1, **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}}
_UNITS.update({f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)})
_UNITS.update({"b": 1, "bytes": 1, **{letter: 1000**power for power, letter in enumerate("kmgt", start=1)}})
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)

# Bytes that a process of its own takes before it has made any table: the interpreter and the compiled code.
WORKER_MEMORY = 2e8
# Where the memory of a run is not limited, several processes may use this part of what is free.
FREE_PART = 0.8
# The interpreter and the compiled kernels alone take about this much.
_LEAST_MEMORY = 2**24


def parse_size(text: str) -> float:
    """Return the number of bytes that a text like 8GB, 500MB, 2GiB or 1000000 stands for."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2].lower() not in _UNITS:
        raise InputError(f"the memory limit is {text!r}; expected a size like 8GB, 500MB, 2GiB or a number of bytes")
    return check_memory_limit(float(found[1]) * _UNITS[found[2].lower()])


def parse_time(text: str) -> float:
    """Return the number of seconds that a text stands for."""
    try:
        return check_time_limit(float(text))
    except ValueError:
        raise InputError(f"the time limit is {text!r}; expected a positive number of seconds") from None


def check_time_limit(seconds: float) -> float:
    """Return the limit if it can be one."""
    if not (isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0):
        raise InputError(f"the time limit is {seconds!r}; expected a positive number of seconds")
    return float(seconds)


def check_memory_limit(size: float) -> float:
    """Return the limit if it can be one."""
    if not (isinstance(size, int | float) and math.isfinite(size) and size >= _LEAST_MEMORY):
        shown = size_in_words(size) if isinstance(size, int | float) and math.isfinite(size) else repr(size)
        raise InputError(f"the memory limit is {shown}; expected at least {size_in_words(_LEAST_MEMORY)}")
    return float(size)


def check_threads(threads: int) -> int:
    """Return the number of threads if it can be one."""
    if isinstance(threads, bool) or not (isinstance(threads, int) and 1 <= threads <= 1024):
        raise InputError(f"the number of threads is {threads!r}; expected a whole number from 1 to 1024")
    return threads


def environment_time(environment: Mapping[str, str]) -> float | None:
    """Return the seconds that solvers of the UAI competitions are given, if the environment says so."""
    return _from_environment(environment, ("INF_TIME", "UAI_TIME"), parse_time)


def environment_memory(environment: Mapping[str, str]) -> float | None:
    """Return the bytes that solvers of the UAI competitions are given, if the environment says so (in gigabytes)."""
    return _from_environment(environment, ("INF_MEMORY", "UAI_MEMORY"), _gigabytes)


def _from_environment(
    environment: Mapping[str, str], names: tuple[str, ...], parse: Callable[[str], float]
) -> float | None:
    """Return the first of the named limits that is set; the newer names come first."""
    for name in names:
        text = environment.get(name, "").strip()
        if text:
            try:
                return parse(text)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
    return None


def _gigabytes(text: str) -> float:
    try:
        size = float(text) * 1e9
    except ValueError:
        raise InputError(f"the memory limit is {text!r}; expected a number of gigabytes") from None
    return check_memory_limit(size)


def size_in_words(size: float) -> str:
    """Return a number of bytes with a unit that suits it."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return "more memory than any machine has"


def seconds_in_words(seconds: float) -> str:
    """Return a number of seconds, of which no more than two digits are known, without powers of ten."""
    return f"{float(f'{seconds:.2g}'):g} s"


def usable_cores() -> int:
    """Return how many cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    group = "/sys/fs/cgroup/cpu"
    quota = _first_numbers(f"{group}.max") or [
        *_first_numbers(f"{group}/cpu.cfs_quota_us"),
        *_first_numbers(f"{group}/cpu.cfs_period_us"),
    ]
    if len(quota) == 2 and quota[1] > 0:
        cores = min(cores, max(1, math.ceil(quota[0] / quota[1])))
    # Whoever limits the threads of compiled code means ours too.
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores


def resident_memory(process: int | str = "self") -> float:
    """Return the bytes of memory that this process, or another one, holds (0 if the system does not tell)."""
    pages = _first_numbers(f"/proc/{process}/statm")
    return pages[1] * mmap.PAGESIZE if len(pages) > 1 else 0.0


def peak_memory_of_children() -> int:
    """Return the most bytes that each process held which this one has started and not ended (0 if unknown)."""
    peak = 0
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in (_lines(str(listed)) or [""])[0].split():
            for line in _lines(f"/proc/{child}/status"):
                if line.startswith("VmHWM:"):
                    peak += int(line.split()[1]) * 1024
    return peak


def available_memory() -> float:
    """Return the bytes of memory that are free for this process (infinity if the system does not tell)."""
    free = [_machine_memory()]
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most = _first_numbers(f"/sys/fs/cgroup/{limit}")
        now = _first_numbers(f"/sys/fs/cgroup/{used}")
        if most and now:
            free.append(max(most[0] - now[0] + _reclaimable(Path("/sys/fs/cgroup") / Path(limit).parent), 0.0))
    return min(free)


def _machine_memory() -> float:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) * 1024
    return math.inf


def _reclaimable(group: Path) -> float:
    """Return the bytes of cached files, which count as used but make room when asked."""
    for line in _lines(str(group / "memory.stat")):
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return float(value)
    return 0.0


def _lines(path: str) -> list[str]:
    # Read without any layers: every run asks, and small models take less time than those would.
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read().decode("ascii", errors="replace").splitlines()
    except OSError:
        return []


def _first_numbers(path: str) -> list[float]:
    """Return the numbers at the beginning of a file; none if it is not there or begins with something else."""
    numbers = []
    for word in " ".join(_lines(path)[:1]).split():
        if not word.isdigit():
            break
        numbers.append(float(word))
    return numbers


def process_start() -> float:
    """Return when this process began, as `time.monotonic` counts; now, if the system does not tell."""
    now = time.monotonic()
    try:
        text = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        # The name of the program, in brackets, may hold anything; field 22 is counted from its end.
        ticks = float(text.rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    # A clock that makes no sense (some sandboxes have one) is no clock.
    return now - age if 0.0 <= age < 60.0 else now
