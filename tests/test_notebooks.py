"""The notebooks of the documentation run, from top to bottom, each in a fresh process; no Jupyter is needed for that.

Cells that draw or make tables need matplotlib or pandas; without them these cells are left out, and the test says so.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
# What a cell that says this cannot do without.
NEEDED = {"matplotlib": ("matplotlib", ".plot(", ".plot_steps("), "pandas": ("pandas", "frame")}


def code_cells(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def missing(cell: str) -> str | None:
    """Return the package that a cell needs and that is not there."""
    for package, signs in NEEDED.items():
        if any(sign in cell for sign in signs) and importlib.util.find_spec(package) is None:
            return package
    return None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    left_out = {cell: package for cell in code_cells(path) if (package := missing(cell))}
    program = tmp_path / "cells.py"
    program.write_text("\n\n".join(cell for cell in code_cells(path) if cell not in left_out), encoding="utf-8")
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    if left_out:
        packages = " and ".join(sorted(set(left_out.values())))
        warnings.warn(f"{path.name}: {len(left_out)} cells were left out for want of {packages}", stacklevel=1)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_and_were_run_in_order(path):
    """They are shown with the outputs they were saved with, so there should be some, and of this very code."""
    assert path.stat().st_size < 300_000
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        ast.parse("".join(cell["source"]))
        assert all(output["output_type"] != "error" for output in cell["outputs"])


def test_there_are_two():
    assert len(NOTEBOOKS) >= 2
