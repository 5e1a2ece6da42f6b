"""A process and all that it has started: how much memory they hold together, and how to end them.

What the system says about its processes is read from ``/proc``; where there is none, only the group of the process can
be ended and its memory is not known. A process whose parent has ended is found if the first of them adopts such
orphans. Knows nothing of what the processes do.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

__all__ = ["adopt_orphans", "end_others", "end_tree", "measure_tree"]

# Of the system call `prctl`: whoever loses its parent below this process becomes its child.
_ADOPT_ORPHANS = 36
# Seconds between two looks at what is to end, and how often to look: some take a while to give their memory back.
_ENDED_EVERY, _LOOKS = 0.01, 200
# States of processes that are only waiting for somebody to ask how they ended.
_ENDED = (b"Z", b"X")
# A process that has ended meanwhile, or that has become another user's, cannot be ended.
_OUT_OF_REACH = (ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class _Process:
    number: int
    parent: int
    session: int
    has_ended: bool


def adopt_orphans() -> None:
    """Have processes below this one that lose their parent become its children, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)


def measure_tree(root: int) -> int:
    """Return the bytes of resident memory that a process and all that it has started hold (0 if nobody tells).

    Memory that processes share (files, most of all) is counted once: as much as the one that shares most of it has.
    """
    own, shared = 0, 0
    for process in _tree(root):
        try:
            with open(f"/proc/{process.number}/statm", "rb", buffering=0) as stream:
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
    if process.poll() is None:
        # It is to start nothing more, but to adopt what those that are ended leave behind.
        with contextlib.suppress(*_OUT_OF_REACH):
            process.send_signal(signal.SIGSTOP)
    end_others(process.pid)
    if process.poll() is None:
        with contextlib.suppress(*_OUT_OF_REACH):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def end_others(root: int) -> None:
    """End all that a process has started, those that have left its group included, but not the process itself."""
    for _ in range(_LOOKS):
        others = [process for process in _tree(root) if process.number != root]
        for process in others:
            with contextlib.suppress(*_OUT_OF_REACH):
                os.kill(process.number, signal.SIGKILL)
        if all(process.has_ended for process in others):
            return
        time.sleep(_ENDED_EVERY)


def _tree(root: int) -> list[_Process]:
    """Return a process, its descendants and all that belong to its session."""
    every = _processes()
    found = {process.number for process in every if process.number == root or process.session == root}
    while True:
        more = {process.number for process in every if process.parent in found} - found
        if not more:
            return [process for process in every if process.number in found]
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
            found.append(_Process(int(name), int(fields[1]), int(fields[3]), fields[0] in _ENDED))
        except (OSError, ValueError, IndexError):
            # It has ended meanwhile.
            continue
    return found
