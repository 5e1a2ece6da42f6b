"""Machine code from the cache, callable from Python without loading the compiler.

The compiler is a large program: to start it takes longer than most answers. What its machine code needs when it runs is
small: a few modules in C that come with it, found here by their files, and LLVM's loader. Knows nothing of what the
functions do, nor where the code is kept.
"""

from __future__ import annotations

import builtins
import ctypes
import pickle
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import llvmlite.binding as llvm  # type: ignore[import-untyped]

__all__ = ["Piece", "Unloadable", "compiler_folder", "load", "prepare"]

_MAKER, _HELPERS, _RUNTIME = "numba._dynfunc", "numba._helperlib", "numba.core.runtime._nrt_python"


class Piece(NamedTuple):
    """The compiled functions of a module.

    Attributes
    ----------
    code
        An object file.
    functions
        Function → the symbols of its wrapper for Python and of its environment.
    constants
        Symbol of an environment → the Python objects that the code refers to.
    exports
        Name by which other pieces call a function → its symbol here.
    needs
        Symbols to be found outside.
    """

    code: bytes
    functions: dict[str, tuple[str, str]]
    constants: dict[str, tuple[Any, ...]]
    exports: dict[str, str]
    needs: tuple[str, ...]


class Unloadable(Exception):
    """The compiler's modules are not as expected: another version, perhaps."""


@cache
def compiler_folder() -> Path:
    """Return where the compiler is installed."""
    spec = find_spec("numba")
    if spec is None or not spec.submodule_search_locations:
        raise Unloadable("numba is not installed")
    return Path(spec.submodule_search_locations[0])


def _extension(name: str) -> ModuleType:
    """Return a module of the compiler that is written in C, without the packages around it."""
    if name in sys.modules:
        return sys.modules[name]
    path = compiler_folder().joinpath(*name.split(".")[1:])
    for suffix in EXTENSION_SUFFIXES:
        file = path.with_name(path.name + suffix)
        if file.exists():
            spec = spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            # Should the compiler be loaded later on, it has to find the same one.
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
    raise Unloadable(f"{name} is missing")


def prepare(pieces: Iterable[Piece]) -> None:
    """Make known to the loader what the pieces need; raises Unloadable if something is missing."""
    _provide_symbols()
    pieces = list(pieces)
    exported = {symbol for piece in pieces for symbol in piece.exports}
    for symbol in {symbol for piece in pieces for symbol in piece.needs} - exported:
        if not llvm.address_of_symbol(symbol) and not hasattr(ctypes.pythonapi, symbol):
            raise Unloadable(f"{symbol} is missing")


@cache
def _provide_symbols() -> None:
    """Do what the compiler does when it starts, unless it has started already."""
    try:
        helpers = {f"numba_{name}": address for name, address in _extension(_HELPERS).c_helpers.items()}
        helpers |= {f"numba_{name}": address for name, address in _extension(_MAKER).c_helpers.items()}
        for name, address in _extension(_RUNTIME).c_helpers.items():
            helpers[name if name.startswith("_") else f"NRT_{name}"] = address
    except (AttributeError, ImportError) as error:
        raise Unloadable(str(error)) from error
    helpers["numba_unpickle"] = ctypes.cast(_unpickle, ctypes.c_void_p).value
    helpers["_Py_NoneStruct"] = id(None)
    for value in vars(builtins).values():
        if isinstance(value, type) and issubclass(value, BaseException):
            helpers[f"PyExc_{value.__name__}"] = id(value)
    for name, address in helpers.items():
        if not llvm.address_of_symbol(name):
            llvm.add_symbol(name, address)


_unpickled: dict[int, Any] = {}


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
def _unpickle(data: int, size: int, _digest: int) -> Any:
    """Return an object that machine code holds as bytes; the compiler's own function would load the compiler."""
    if data not in _unpickled:
        _unpickled[data] = pickle.loads(ctypes.string_at(data, size))
    return _unpickled[data]


@cache
def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def load(piece: Piece, module: str) -> dict[str, Callable[..., Any]]:
    """Return the functions of a piece, whose needs are met."""
    engine, maker = _engine(), _extension(_MAKER)
    engine.add_object_file(llvm.ObjectFileRef.from_data(piece.code))
    engine.finalize_object()
    for symbol, function in piece.exports.items():
        llvm.add_symbol(symbol, engine.get_function_address(function))
    environments = {}
    for symbol, constants in piece.constants.items():
        environment = environments[symbol] = maker.Environment({})
        environment.consts.extend(constants)
        # The code reads its environment's address from here; the functions keep it alive.
        ctypes.c_void_p.from_address(engine.get_global_value_address(symbol)).value = id(environment)
    kept = engine, environments
    return {
        name: maker.make_function(
            sys.modules[module], name, "", engine.get_function_address(wrapper), environments[symbol], kept
        )
        for name, (wrapper, symbol) in piece.functions.items()
    }
