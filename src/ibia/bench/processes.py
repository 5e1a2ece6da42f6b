"""A process and all that it has started: how much memory they hold together, and how to end them.

What the system says about its processes is read from ``/proc``; where there is none, only the group of the process can
be ended and its memory is not known. Knows nothing of what the processes do.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
from dataclasses import dataclass

__all__ = ["end_tree", "measure_tree"]


@dataclass(frozen=True)
class _Process:
    number: int
    parent: int
    session: int


def measure_tree(root: int) -> int:
    """Return the bytes of resident memory that a process and all that it has started hold (0 if nobody tells).

    Memory that processes share (files, most of all) is counted once: as much as the one that shares most of it has.
    """
    own, shared = 0, 0
    for number in _tree(root):
        try:
            with open(f"/proc/{number}/statm", "rb", buffering=0) as stream:
                pages = [int(word) for word in stream.read().split()[1:3]]
        except (OSError, ValueError):
            # It has ended meanwhile.
            continue
        if len(pages) == 2:
            own += pages[0] - pages[1]
            shared = max(shared, pages[1])
    return (own + shared) * mmap.PAGESIZE


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session of its own, and all that it has started; return when it has ended."""
    others = [number for number in _tree(process.pid) if number != process.pid]
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # Those that have left its group, or have outlived it.
    for number in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def _tree(root: int) -> list[int]:
    """Return the numbers of a process, of its descendants and of all that belong to its session."""
    every = _processes()
    found = {process.number for process in every if process.number == root or process.session == root}
    while True:
        more = {process.number for process in every if process.parent in found} - found
        if not more:
            return sorted(found)
        found |= more


def _processes() -> list[_Process]:
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    found = []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as stream:
                # The name of the program, in brackets, may hold anything.
                fields = stream.read().rpartition(b")")[2].split()
            found.append(_Process(int(name), int(fields[1]), int(fields[3])))
        except (OSError, ValueError, IndexError):
            # It has ended meanwhile.
            continue
    return found
