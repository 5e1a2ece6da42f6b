"""Machine code is found only if it was made of the functions as they are, and does without the compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ibia
from ibia import compiled, examples, pieces
from ibia.compiled import GROUPS, MODULES, kernels_compiled
from ibia.machine import Piece, Unloadable, prepare
from ibia.pieces import find_piece, folders, keep_piece, source_digest

PIECE = Piece(b"code", {}, {}, {}, ())
SOURCES = Path(ibia.__file__).parent


def run(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCES.parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


def test_the_compiler_is_not_loaded_where_there_is_machine_code() -> None:
    code = (
        "import sys, ibia\nfrom ibia import examples\nibia.infer(examples.grid(4, 4), bound=3)\n"
        "print('numba' in sys.modules, 'pydantic' in sys.modules)"
    )
    assert run(code).split() == ["False", "False"]


def test_all_modules_with_compiled_functions_are_known() -> None:
    found = {
        ".".join(("ibia", *path.relative_to(SOURCES).with_suffix("").parts))
        for path in SOURCES.rglob("*.py")
        if "import numba" not in (source := path.read_text())
        and re.search(r"^@(_?compiled?|entry\(.*\))$", source, re.MULTILINE)
    }
    assert found == set(MODULES)
    assert len(MODULES) == sum(len(group) for group in GROUPS)


def test_there_is_machine_code_of_everything_after_the_first_use() -> None:
    ibia.infer(examples.grid(3, 3))
    assert kernels_compiled()


def test_results_are_what_functions_say() -> None:
    from ibia.forest.elimination import Elimination, eliminate, missing_edges
    from ibia.tables import kernels

    starts, neighbours = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1])
    ones = np.ones(3, np.int64)
    missing = missing_edges(starts, neighbours, ones)
    assert missing.tolist() == [0, 1, 0]
    found = eliminate(starts, neighbours, np.ones(3), ones, missing, np.arange(3.0), 9.0, False)
    assert isinstance(found, Elimination)
    assert found.width == 2.0
    assert kernels.total(np.arange(5.0)) == 10.0


def test_what_is_no_array_is_refused() -> None:
    from ibia.tables import kernels

    with pytest.raises(TypeError):
        kernels.total(3)  # type: ignore[arg-type]


def test_pieces_are_kept_in_the_first_folder_that_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(pieces, "folders", lambda: [blocked / "folder", tmp_path / "second"])
    assert find_piece("ibia.tables.kernels", MODULES) is None
    keep_piece("ibia.tables.kernels", MODULES, PIECE, tmp_path / "last")
    assert find_piece("ibia.tables.kernels", MODULES) == PIECE
    assert [path.parent.name for path in tmp_path.rglob("*.machine")] == ["second"]
    assert find_piece("ibia.forest.layout", MODULES) is None


def test_without_a_folder_there_is_a_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(pieces, "folders", lambda: [blocked / "folder"])
    keep_piece("ibia.tables.kernels", MODULES, PIECE, tmp_path / "last")
    assert find_piece("ibia.tables.kernels", MODULES) is None
    assert find_piece("ibia.tables.kernels", MODULES, tmp_path / "last") == PIECE


def test_damaged_pieces_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "folders", lambda: [tmp_path])
    keep_piece("ibia.tables.kernels", MODULES, PIECE, tmp_path)
    (path,) = tmp_path.glob("*.machine")
    path.write_bytes(path.read_bytes()[:-1])
    assert find_piece("ibia.tables.kernels", MODULES) is None


def changed(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let the source of a module look different."""
    source = pieces._source
    monkeypatch.setattr(pieces, "_source", lambda name: source(name) + b"#" * (name == module))
    source_digest.cache_clear()


@pytest.mark.parametrize(
    ("module", "stale"),
    [
        ("ibia.tables.contract", {"ibia.tables.contract", "ibia.forest.propagate", "ibia.tables.conditional"}),
        (
            "ibia.sorting",
            {"ibia.simplify.merge", "ibia.forest.layout", "ibia.forest.triangulate", "ibia.forest.refine"},
        ),
        ("ibia.tables.maps", {"ibia.tables.kernels", "ibia.tables.conditional"}),
        ("ibia.forest.calibrate", set()),
        ("ibia.compiling", set(MODULES)),
        ("ibia.shortcuts", set(MODULES)),
    ],
)
def test_a_change_makes_stale_what_was_made_of_it(
    module: str, stale: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "folders", lambda: [tmp_path])
    for name in MODULES:
        keep_piece(name, MODULES, PIECE, tmp_path)
    try:
        changed(monkeypatch, module)
        assert {name for name in MODULES if find_piece(name, MODULES) is None} == stale
        for name in stale:
            keep_piece(name, MODULES, PIECE, tmp_path)
        assert len(list(tmp_path.iterdir())) == len(MODULES), "the stale ones are gone"
    finally:
        source_digest.cache_clear()


def test_where_pieces_are_kept(tmp_path: Path) -> None:
    assert folders({"NUMBA_CACHE_DIR": str(tmp_path)}) == [tmp_path / "ibia"]
    assert folders({"HOME": str(tmp_path)})[1] == tmp_path / ".cache" / "ibia"
    assert folders({"HOME": "/home", "XDG_CACHE_HOME": str(tmp_path)})[1] == tmp_path / "ibia"


def test_code_that_needs_what_is_not_there_is_refused() -> None:
    with pytest.raises(Unloadable, match="nowhere_to_be_found"):
        prepare([PIECE._replace(needs=("nowhere_to_be_found",))])
    prepare([PIECE._replace(needs=("found_in_another",)), PIECE._replace(exports={"found_in_another": "it"})])


def test_without_further_processes_the_compiler_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(compiled, "_pieces", {})
    monkeypatch.setattr(compiled, "_compiling", None)
    monkeypatch.setattr(pieces, "folders", lambda: [tmp_path])
    assert compiled.with_compiler()


CHECKED = """
import typing
import numpy as np
from ibia import compiled

def check(name, hint, value):
    if hasattr(hint, "_fields"):
        for field, part in zip(typing.get_type_hints(hint).items(), value, strict=True):
            check(f"{name}.{field[0]}", field[1], part)
    elif hint in (int, float, bool):
        assert isinstance(value, (hint, np.integer, np.floating, np.bool_, int)), (name, value)
    else:
        shape, element = typing.get_args(hint)
        assert value.dtype == typing.get_args(element)[0], (name, value.dtype)
        assert value.ndim == (2 if shape == tuple[int, int] else 1), name
        assert value.flags.c_contiguous, name

def entry(symbol="", original=compiled.entry, **options):
    def decorate(function):
        loaded = original(symbol, **options)(function)
        def checked(*arguments):
            hints = typing.get_type_hints(function)
            hints.pop("return")
            for (name, hint), value in zip(hints.items(), arguments, strict=True):
                check(f"{function.__name__}: {name}", hint, value)
            called.add(function.__name__)
            return loaded(*arguments)
        return checked
    return decorate

called = set()
compiled.entry = entry
import ibia
from ibia import examples
for bound in (4.0, 18.0):
    ibia.infer(examples.grid(5, 5), bound=bound, slices="never")
    ibia.infer(examples.student(), {"grade": 0}, bound=bound)
    ibia.infer(examples.diagnosis(), bound=bound, slices="never")
    ibia.infer(examples.diagnosis(), bound=bound)
print(len(called))
"""


def test_arguments_are_of_the_annotated_types() -> None:
    # Machine code takes its arguments for what it was compiled for.
    assert int(run(CHECKED)) > 20


@pytest.mark.slow
def test_the_compiler_gives_the_same_answer_and_needs_no_other_types(tmp_path: Path) -> None:
    code = (
        "import importlib, ibia\nfrom ibia import compiled, examples\ncompiled.use_compiler(lasting=True)\n"
        "from ibia.compiling import _entries, signature\n"
        "for bound in (4.0, 12.0):\n    print(ibia.infer(examples.grid(5, 5), bound=bound, slices='never').log10_z)\n"
        "for entries in _entries.values():\n"
        "    for function, _ in entries:\n"
        "        assert set(function.signatures) <= {signature(function.py_func)}, function\n"
    )
    found = [float(word) for word in run(code).split()]
    expected = [ibia.infer(examples.grid(5, 5), bound=bound, slices="never").log10_z for bound in (4.0, 12.0)]
    assert found[1] == pytest.approx(expected[1], abs=1e-9)
    assert found[0] == pytest.approx(expected[0], abs=0.01)


def test_a_compiler_that_lacks_what_is_replaced_is_refused() -> None:
    code = (
        "from numba.core import codegen\nfrom ibia.shortcuts import take_shortcuts\n"
        "del codegen.CPUCodegen._check_llvm_bugs\n"
        "try:\n    take_shortcuts()\nexcept RuntimeError as error:\n    print(error)"
    )
    assert "no _check_llvm_bugs" in run(code)


def test_a_structure_is_put_into_memory_where_it_was_made() -> None:
    # The address is asked for in a branch only, and read behind it.
    code = (
        "from llvmlite import binding, ir\nfrom numba.core import cgutils, types\n"
        "from numba.core.registry import cpu_target\nfrom ibia.shortcuts import take_shortcuts\n"
        "take_shortcuts()\ncontext = cpu_target.target_context\n"
        "pair = types.Pair(types.int64, types.int64)\nvalue_type = context.get_value_type(pair)\n"
        "module = ir.Module()\n"
        "function = ir.Function(module, ir.FunctionType(ir.IntType(64), [value_type, ir.IntType(1)]), 'second')\n"
        "builder = ir.IRBuilder(function.append_basic_block())\n"
        "held = cgutils.create_struct_proxy(pair)(context, builder, value=function.args[0])\n"
        "first = held.first\n"
        "with builder.if_then(function.args[1]):\n    held.first = first\n"
        "builder.ret(held.second)\n"
        "binding.parse_assembly(str(module)).verify()\n"
        "entry = str(function.entry_basic_block)\n"
        "print(entry.index('extractvalue') > entry.rindex('store'))"
    )
    assert run(code).split() == ["True"]


def test_types_are_those_of_the_annotations() -> None:
    code = (
        "from ibia.compiling import signature\nfrom ibia.tables.contract import Rows\nimport numpy as np\n"
        "from numpy.typing import NDArray\n"
        "def function(rows: Rows, values: NDArray[np.float64], number: int, flag: bool) -> float: ...\n"
        "print(*map(type, signature(function)), sep='\\n')"
    )
    assert [line.split("'")[1].rpartition(".")[2] for line in run(code).splitlines()] == [
        "NamedTuple",
        "Array",
        "Integer",
        "Boolean",
    ]
