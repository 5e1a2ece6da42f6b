"""Compiled functions: their machine code is loaded from the cache, and made on the first run on a machine, all at once.

The compiler does not even have to be loaded where there is machine code: that would take longer than most answers.
Where machine code can be neither made nor loaded, the compiler itself serves, function by function. Run as a program,
this makes what is missing (``python -m ibia.compiled``), for instance when an image is built.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ibia.machine import Piece

__all__ = [
    "GROUPS",
    "MODULES",
    "compile_kernels",
    "entry",
    "inside",
    "kernels_compiled",
    "part",
    "use_compiler",
    "with_compiler",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# The modules with compiled functions, the longest to compile first; one that calls another's comes after it.
GROUPS = (
    ("ibia.forest.elimination", "ibia.forest.front", "ibia.forest.refine"),
    ("ibia.tables.contract", "ibia.forest.propagate", "ibia.tables.conditional"),
    ("ibia.tables.blocks",),
    ("ibia.tables.kernels",),
    ("ibia.loopy.messages",),
    ("ibia.simplify.structure",),
    ("ibia.simplify.shape",),
    ("ibia.simplify.merge",),
    ("ibia.forest.triangulate",),
    ("ibia.forest.graph",),
    ("ibia.forest.layout",),
    ("ibia.simplify.working",),
    ("ibia.simplify.support",),
    ("ibia.simplify.components",),
)
MODULES = tuple(chain.from_iterable(GROUPS))
# Each process takes a second to start, and does again what others do too.
_PROCESSES = 4

# Machine code that was found or made, and whether functions are compiled in this process instead (None: not known yet).
_pieces: dict[str, Piece] = {}
_compiling: bool | None = None
_lasting = True


def entry(symbol: str = "", **options: Any) -> Callable[[Function], Function]:
    """Return the decorator of a compiled function that is called from Python.

    Parameters
    ----------
    symbol
        By what name the compiled functions of other modules call it, if they do without compiling it themselves.
    """

    def decorate(function: Function) -> Function:
        if with_compiler():
            return _dispatcher(function, symbol, cache=_lasting, **options)
        return _loaded(function.__module__)[function.__name__]  # type: ignore[return-value]

    return decorate


def part(**options: Any) -> Callable[[Function], Function]:
    """Return the decorator of a function that only compiled ones call."""
    return _only_compiled(no_cpython_wrapper=True, **options)


def inside(**options: Any) -> Callable[[Function], Function]:
    """Return the decorator of a function that is put in the place of its calls, which compiles faster than a call."""
    return _only_compiled(inline="always", **options)


def _only_compiled(**options: Any) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        return _dispatcher(function, **options) if with_compiler() else function

    return decorate


def _dispatcher(function: Function, symbol: str = "", **options: Any) -> Function:
    from ibia.compiling import dispatcher

    return dispatcher(function, symbol, options)  # type: ignore[no-any-return]


def use_compiler(lasting: bool) -> None:
    """Let functions be compiled in this process, not loaded.

    Parameters
    ----------
    lasting
        Whether the compiler is to keep its results in its own cache.
    """
    global _compiling, _lasting
    _compiling, _lasting = True, lasting


def with_compiler() -> bool:
    """Tell whether functions are compiled in this process; if not, there is machine code of all of them."""
    if _compiling is None:
        _decide()
    return bool(_compiling)


def _decide() -> None:
    global _compiling
    from ibia.machine import Unloadable, prepare

    try:
        if not kernels_compiled():
            compile_kernels()
        prepare(_pieces[module] for module in MODULES)
        _compiling = False
    except (KeyError, OSError, Unloadable):
        use_compiler(lasting=True)


@cache
def _loaded(module: str) -> dict[str, Callable[..., Any]]:
    from ibia.machine import load

    return load(_pieces[module], module)


def kernels_compiled(*others: Path) -> bool:
    """Tell whether there is machine code of all functions as they are now, in the usual folders or in others."""
    from ibia.pieces import find_piece

    for module in MODULES:
        if module not in _pieces:
            piece = find_piece(module, MODULES, *others)
            if piece is not None:
                _pieces[module] = piece
    return len(_pieces) == len(MODULES)


def compile_kernels() -> None:
    """Make the machine code that is missing, in several processes; each takes what no other one has taken.

    If that fails, it costs time and nothing else.
    """
    from ibia.limits import usable_cores

    errors = None if os.environ.get("IBIA_TRACEBACK") else subprocess.DEVNULL
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    workers: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="ibia-") as folder:
        try:
            for _ in range(min(_PROCESSES, max(2, usable_cores()))):
                workers.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "ibia.compiling", folder],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        env={**os.environ, "PYTHONPATH": path},
                    )
                )
            for worker in workers:
                worker.wait()
        except OSError:
            # No further processes: those there are do all.
            for worker in workers:
                worker.wait()
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        kernels_compiled(Path(folder))


if __name__ == "__main__":
    compile_kernels()
