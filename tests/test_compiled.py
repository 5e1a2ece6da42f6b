"""Whether the kernels were compiled before is told from the compiler's cache files; a first run compiles them all."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest
from numba.core.compiler import Flags

import ibia
from ibia import compiled, examples
from ibia.compiled import ENTRIES, compile_kernels, kernels_compiled, signature

INDEX = f"kernels.total-1.py{sys.version_info.major}{sys.version_info.minor}.nbi"


def source_in(folder: Path) -> Path:
    path = folder / "tables" / "kernels.py"
    path.parent.mkdir()
    path.write_text("")
    os.utime(path, (1000, 1000))
    return path


def place(folder: Path, modified: float = 2000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).write_text("")
    os.utime(folder / INDEX, (modified, modified))


def test_next_to_the_source(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    environment = {"HOME": str(tmp_path)}
    assert not kernels_compiled(environment, source)
    place(source.parent / "__pycache__", modified=500)
    assert not kernels_compiled(environment, source), "compiled from an older source"
    place(source.parent / "__pycache__")
    assert kernels_compiled(environment, source)


def test_in_the_users_cache(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    place(tmp_path / ".cache" / "numba" / "tables_12ab")
    assert kernels_compiled({"HOME": str(tmp_path)}, source)
    assert not kernels_compiled({"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "other")}, source)


def test_in_a_chosen_folder(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}
    place(source.parent / "__pycache__")
    assert not kernels_compiled(environment, source), "the compiler looks only in the chosen folder"
    place(tmp_path / "chosen" / "tables_34cd")
    assert kernels_compiled(environment, source)


def test_the_source_is_where_it_should_be() -> None:
    from ibia.tables import kernels

    ibia.infer(ibia.Model.from_arrays([ibia.Variable("a", 2), ibia.Variable("b", 2)], [([0, 1], [[1, 2], [3, 4]])]))
    assert Path(kernels.__file__).name == "kernels.py"
    assert kernels_compiled()


def test_nothing_is_compiled_for_other_types_than_foreseen() -> None:
    for bound in (4.0, 12.0):
        ibia.infer(examples.grid(5, 5), bound=bound)
    for module, names in ENTRIES.items():
        for name in names:
            function = getattr(importlib.import_module(module), name)
            assert set(function.signatures) <= {signature(function.py_func)}, name


def test_everything_is_compiled_without_a_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(compiled, "ENTRIES", {"ibia.tables.kernels": ("total",)})
    usual = Flags.__eq__, Flags.__hash__
    compile_kernels()
    assert (Flags.__eq__, Flags.__hash__) == usual
    from ibia.tables import kernels

    assert kernels.total.signatures  # type: ignore[attr-defined]
