"""The commands as they are started, ``ibia`` and ``ibia-uai``: signals are looked after before anything is loaded.

Loading takes tenths of a second, and whoever interrupts a command then should not see where it was. So this module
loads nothing by itself.
"""

from __future__ import annotations

import signal

__all__ = ["ibia", "ibia_uai", "noted"]

# Signals that came before the command could do anything about them (``process.py``).
noted: list[int] = []


def ibia() -> None:
    """Run the command ``ibia``."""
    _listen()
    from ibia.cli import main

    main()


def ibia_uai() -> None:
    """Run the command ``ibia-uai``."""
    _listen()
    from ibia.competition import main

    main()


def _listen() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: noted.append(received))
