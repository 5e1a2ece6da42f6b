"""Where machine code is kept: a file for every module, under a name that tells what it was made from.

The name holds digests of the versions of the programs, the processor and the settings, and of the sources of all
functions that went into it. So nothing stale is ever found, and looking takes milliseconds.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ibia.machine import Piece, compiler_folder

__all__ = ["find_piece", "folders", "keep_piece", "source_digest"]

# Whose work the machine code is, and what compiled functions take from elsewhere.
_MAKERS = ("ibia.compiling", "ibia.machine", "ibia.shortcuts")
_SHARED = ("ibia.sorting", "ibia.tables.intrinsics", "ibia.tables.maps")
_IMPORT = re.compile(rb"^\s*from (ibia[\w.]*) import", re.MULTILINE)
# The compiler's settings that do not change its code.
_WITHOUT_EFFECT = ("NUMBA_CACHE", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
_DIGEST = 16
_PACKAGE = Path(__file__).parent


def folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders that may hold machine code, the one to write to (if it can be written to) first."""
    chosen = environment.get("NUMBA_CACHE_DIR")
    if chosen:
        return [Path(chosen) / "ibia"]
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    return [_PACKAGE / "__pycache__", Path(home) / "ibia"]


def find_piece(module: str, modules: tuple[str, ...], *others: Path) -> Piece | None:
    """Return the machine code of a module, if it is kept in one of the usual folders or of others."""
    name = _name(module, modules)
    for folder in (*folders(), *others):
        try:
            content = (folder / name).read_bytes()
        except OSError:
            continue
        digest, data = content[:_DIGEST], content[_DIGEST:]
        if digest == _digest(data):
            piece: Piece = pickle.loads(data)
            return piece
    return None


def keep_piece(module: str, modules: tuple[str, ...], piece: Piece, last_resort: Path) -> None:
    """Keep the machine code of a module, and drop what was made of its former sources."""
    name = _name(module, modules)
    data = pickle.dumps(piece)
    for folder in (*folders(), last_resort):
        draft = folder / f"{name}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(_digest(data) + data)
            draft.replace(folder / name)
        except OSError:
            continue
        for former in folder.glob(f"{name.rpartition('-')[0]}-*"):
            if former.name != name and former.suffix == ".machine":
                former.unlink(missing_ok=True)
        return


def _name(module: str, modules: tuple[str, ...]) -> str:
    return f"{module}-{_setting_digest().hex()}-{source_digest(module, modules).hex()}.machine"


def _digest(*parts: bytes) -> bytes:
    result = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        result.update(len(part).to_bytes(8, "little") + part)
    return result.digest()


@cache
def _setting_digest() -> bytes:
    """Return a digest of all that the machine code depends on beside the functions."""
    import llvmlite  # type: ignore[import-untyped]
    import llvmlite.binding as llvm  # type: ignore[import-untyped]
    import numpy as np

    settings = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and not name.startswith(_WITHOUT_EFFECT)
    )
    words = [
        sys.version,
        np.__version__,
        llvmlite.__version__,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        # Checkouts that share a folder do not drop each other's.
        str(_PACKAGE),
        *settings,
    ]
    version = (compiler_folder() / "_version.py").read_bytes()
    return _digest(version, *(word.encode() for word in words))


@cache
def _source(module: str) -> bytes:
    return _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_bytes()


@cache
def source_digest(module: str, modules: tuple[str, ...]) -> bytes:
    """Return a digest of the sources of a module, of those that its functions take from, and of what compiles them."""
    found, waiting = {module}, [module]
    while waiting:
        for match in _IMPORT.findall(_source(waiting.pop())):
            name = match.decode()
            if name not in found and (name in modules or name in _SHARED):
                found.add(name)
                waiting.append(name)
    return _digest(*(_source(name) for name in (*_MAKERS, *sorted(found))))
