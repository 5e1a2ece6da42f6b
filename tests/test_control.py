"""How a run is told to end: at a check, or, where it may be given up at any point, at once."""

from __future__ import annotations

import gc
import math
import time

import pytest

from ibia import control as controls
from ibia.control import Control, Stopped, collecting_rarely


def test_nothing_ends_a_run_without_limits() -> None:
    Control().check()
    assert not Control().late


def test_a_run_ends_when_it_is_late_or_asked_to() -> None:
    with pytest.raises(Stopped):
        Control(deadline=time.monotonic() - 1.0).check()
    control = Control(deadline=math.inf)
    control.stop()
    with pytest.raises(Stopped):
        control.check()


def test_work_that_may_be_given_up_is_given_up_once() -> None:
    control = Control()
    reached = []
    with control.interruptible():
        reached.append("before")
        control.stop()
        reached.append("after")
    assert reached == ["before"]
    control.stop()


def test_a_check_ends_it_too_and_other_trouble_passes_through() -> None:
    control = Control(stopping=True)
    with control.interruptible():
        control.check()
        raise AssertionError
    with pytest.raises(MemoryError), control.interruptible():
        raise MemoryError
    # No work is under way any more, so this only takes note.
    control.stop()


def test_memory_is_weighed_now_and_then_whatever_holds_it(monkeypatch) -> None:
    held = iter([100e6, 300e6, 600e6, 600e6, 900e6, 700e6, 900e6, 900e6])
    monkeypatch.setattr(controls, "resident_memory", lambda: 100e6)
    monkeypatch.setattr("ibia.tables.memory.resident_memory", lambda: next(held))
    monkeypatch.setattr(controls, "_WEIGHED_EVERY", 0.0)
    control = Control(memory=800e6)
    # The fifth look finds too much, but what waited for further use was most of it.
    for _ in range(5):
        control.check()
    with pytest.raises(MemoryError):
        control.check()


def test_a_limit_below_what_is_there_leaves_some_room(monkeypatch) -> None:
    held = iter([500e6, 600e6, 900e6, 900e6])
    monkeypatch.setattr(controls, "resident_memory", lambda: 500e6)
    monkeypatch.setattr("ibia.tables.memory.resident_memory", lambda: next(held))
    monkeypatch.setattr(controls, "_WEIGHED_EVERY", 0.0)
    control = Control(memory=1.0)
    control.check()
    control.check()
    with pytest.raises(MemoryError):
        control.check()
    assert control.held == 500e6


def test_memory_is_not_weighed_at_every_check(monkeypatch) -> None:
    looks = []
    monkeypatch.setattr("ibia.tables.memory.resident_memory", lambda: looks.append(1) or 0.0)
    control = Control(memory=1e9)
    for _ in range(1000):
        control.check()
    assert len(looks) < 10


def test_garbage_is_looked_for_as_before_when_a_run_has_ended() -> None:
    usual = gc.get_threshold()
    with collecting_rarely():
        assert gc.get_threshold() != usual
    assert gc.get_threshold() == usual
