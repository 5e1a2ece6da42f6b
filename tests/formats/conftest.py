"""Fixtures of the format tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The benchmark data folder, which is not part of the project."""
    default = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("IBIA_DATA", default))
    if not (folder / "index.csv").is_file():
        pytest.skip("the benchmark data folder is absent; set IBIA_DATA to test against it")
    return folder
