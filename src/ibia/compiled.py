"""Compilation: the first run on a machine takes longer, and should say so and use two cores.

Whether it is the first run is told from the compiler's own cache files, without loading the compiler. Run as a program,
this compiles everything (``python -m ibia.compiled``), for instance when an image is built.
"""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["ENTRIES", "compile_kernels", "entry", "inside", "kernels_compiled", "part", "signature"]

Function = TypeVar("Function", bound=Callable[..., Any])

_SOURCE = Path(__file__).parent / "tables" / "kernels.py"
_BACKWARDS = "--backwards"

# The compiled functions that are called from outside, by module; what they call is compiled with them.
ENTRIES = {
    "ibia.simplify.structure": ("_children", "_ranks"),
    "ibia.simplify.working": ("_restrict",),
    "ibia.simplify.support": ("_possible_states",),
    "ibia.simplify.shape": ("_split_all",),
    "ibia.simplify.components": ("_components",),
    "ibia.simplify.merge": ("_group", "_merge"),
    "ibia.forest.elimination": ("eliminate", "missing_edges", "surely_exceeds"),
    "ibia.forest.triangulate": ("_graph", "maximal_cliques"),
    "ibia.forest.layout": ("lay_out", "assign_readings"),
    "ibia.tables.kernels": (
        "marginalise",
        "multiply_in",
        "multiply_to",
        "gather",
        "divide_in",
        "divide_or_keep_in",
        "blend_in",
        "scale_in",
        "total",
        "entropy",
        "entropy_without",
        "largest_difference",
    ),
    "ibia.tables.contract": ("merge_inputs", "contract_logarithms", "_chunk_axes"),
    "ibia.forest.propagate": ("vanished", "rows_of", "finish", "propagate"),
}


def entry(**options: Any) -> Callable[[Function], Function]:
    """Return the decorator of a compiled function that is called from outside and kept in the cache."""
    return _decorator(cache=True, **options)


def part(**options: Any) -> Callable[[Function], Function]:
    """Return the decorator of a function that only compiled ones call: no wrapper, and no file of its own."""
    return _decorator(no_cpython_wrapper=True, **options)


def inside(**options: Any) -> Callable[[Function], Function]:
    """Return the decorator of a function that is put in the place of its calls, which compiles faster than a call."""
    return _decorator(inline="always", **options)


def _decorator(**options: Any) -> Callable[[Function], Function]:
    import numba

    decorate: Any = numba.njit
    return decorate(error_model="numpy", nogil=True, no_cfunc_wrapper=True, **options)  # type: ignore[no-any-return]


def compile_kernels() -> None:
    """Compile everything that is not in the compiler's cache yet, in two processes.

    The other one starts from the end; each finds in the cache what the other one has done. If it fails, or the cache
    cannot be written to, that costs time and nothing else.
    """
    command = [sys.executable, "-m", "ibia.compiled", _BACKWARDS]
    nothing = subprocess.DEVNULL
    try:
        other = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
    except OSError:
        _compile(ENTRIES)
        return
    try:
        _compile(ENTRIES)
    finally:
        other.kill()
        other.wait()


def _compile(modules: Iterable[str], step: int = 1) -> None:
    with _without_collection():
        for module in modules:
            for name in ENTRIES[module][::step]:
                function = getattr(importlib.import_module(module), name)
                function.compile(signature(function.py_func))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Spare the compiler the collection of garbage: it makes a great many objects, and needs most of them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def signature(function: Any) -> tuple[Any, ...]:
    """Return the compiler's types of the arguments of a function, out of its annotations."""
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return tuple(_type(hint) for hint in hints.values())


def _type(hint: Any) -> Any:
    from numba import types

    if hasattr(hint, "_fields"):
        hints = typing.get_type_hints(hint)
        return types.BaseTuple.from_types([_type(hints[field]) for field in hint._fields], hint)  # type: ignore[no-untyped-call]
    plain = {int: types.int64, float: types.float64, bool: types.boolean}
    if hint in plain:
        return plain[hint]
    shape, element = typing.get_args(hint)
    (kind,) = typing.get_args(element)
    matrix = shape == tuple[int, int]
    return types.Array(getattr(types, kind.__name__.strip("_")), 2 if matrix else 1, "C")


def kernels_compiled(environment: Mapping[str, str] = os.environ, source: Path = _SOURCE) -> bool:
    """Tell whether compiled kernels of this version of the program lie where the compiler looks for them."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    try:
        written = source.stat().st_mtime
        return any(
            index.stat().st_mtime >= written
            for folder in _folders(environment, source)
            for index in folder.glob(f"{source.stem}.*.{version}.nbi")
        )
    except OSError:
        # What cannot be looked at is not worth a word.
        return True


def _folders(environment: Mapping[str, str], source: Path) -> list[Path]:
    """Return the folders that may hold the cache: next to the source, or one of its own below a common one."""
    chosen = environment.get("NUMBA_CACHE_DIR")
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    common = Path(chosen) if chosen else Path(home) / "numba"
    folders = [] if chosen else [source.parent / "__pycache__"]
    return folders + sorted(common.glob(f"{source.parent.name}_*"))


if __name__ == "__main__":
    if _BACKWARDS in sys.argv:
        _compile(reversed(ENTRIES), -1)
    else:
        compile_kernels()
