"""The compiler at work: from the functions of a module to a piece of machine code in the cache.

That is done in processes started for it (``python -m ibia.compiling``), since the compiler is changed for the sake of
speed: code is optimised and turned into machine code once for all functions of a module, where the compiler would do
so again and again, for each function by itself and within each of its callers.
"""

from __future__ import annotations

import gc
import importlib
import sys
import typing
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba import types

from ibia.compiled import GROUPS, MODULES, use_compiler
from ibia.machine import Piece
from ibia.pieces import find_piece, keep_piece

__all__ = ["compile_module", "dispatcher", "signature"]

_entries: dict[str, list[tuple[Any, str]]] = {}


def dispatcher(function: Any, symbol: str, options: dict[str, Any]) -> Any:
    """Return a function that is compiled when it is called."""
    decorate: Any = numba.njit
    plain = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": not symbol}
    result = decorate(**plain, **options)(function)
    if "cache" in options:
        # Called from Python, that is.
        _entries.setdefault(function.__module__, []).append((result, symbol))
        if symbol and options["cache"]:
            # Machine code of others, from the compiler's cache, may call it before anything else does.
            made = _compile(result)
            llvm.add_symbol(symbol, made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name))
    return result


def signature(function: Any) -> tuple[Any, ...]:
    """Return the compiler's types of the arguments of a function, out of its annotations."""
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return tuple(_type(hint) for hint in hints.values())


def _type(hint: Any) -> Any:
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


def _compile(entry: Any) -> Any:
    """Compile a function for the types it is annotated with."""
    arguments = signature(entry.py_func)
    entry.compile(arguments)
    return entry.overloads[arguments]


def compile_module(module: str) -> Piece:
    """Compile the functions of a module that are called from outside, and optimise them together."""
    from ibia.shortcuts import take_shortcuts

    optimise = take_shortcuts()
    importlib.import_module(module)
    results = [(_compile(entry), symbol) for entry, symbol in _entries[module]]
    codegen = results[0][0].target_context.codegen()
    library = codegen.create_library(module)
    whole = library._final_module
    functions, exports = {}, {}
    for result, symbol in results:
        names = result.fndesc
        whole.link_in(result.library._final_module, preserve=True)
        functions[names.qualname] = names.llvm_cpython_wrapper_name, names.env_name
        if symbol:
            exports[symbol] = names.llvm_cfunc_wrapper_name
    outside = {wrapper for wrapper, _ in functions.values()} | set(exports.values())
    for function in whole.functions:
        if not function.is_declaration and function.name not in outside:
            function.linkage = "internal"
    optimise(library)
    defined = {variable.name for variable in whole.global_variables}
    environments = [
        environment
        for result, _ in results
        for environment in (result.environment, *result._find_referenced_environments())
    ]
    return Piece(
        codegen._tm.emit_object(whole),
        functions,
        {each.env_name: tuple(each.consts) for each in environments if each.env_name in defined},
        exports,
        tuple(f.name for f in whole.functions if f.is_declaration and not f.name.startswith("llvm.")),
    )


def _claim(folder: Path, group: tuple[str, ...]) -> bool:
    """Tell whether a group of modules is this process's to compile."""
    try:
        (folder / group[0]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _work(folder: Path) -> None:
    """Compile what is missing and no other process compiles."""
    use_compiler(lasting=False)
    # The compiler makes a great many objects, and needs most of them.
    gc.disable()
    for group in GROUPS:
        if _claim(folder, group):
            for module in group:
                if find_piece(module, MODULES) is None:
                    keep_piece(module, MODULES, compile_module(module), folder)


if __name__ == "__main__":
    # The functions register with the module of that name, which this one is not.
    importlib.import_module("ibia.compiling")._work(Path(sys.argv[1]))
