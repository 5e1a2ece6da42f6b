"""How a run is told to end: at a check, or, where it may be given up at any point, at once."""

from __future__ import annotations

import math
import time

import pytest

from ibia.control import Control, Stopped


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
