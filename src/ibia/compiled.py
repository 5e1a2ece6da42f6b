"""Whether the numeric kernels were compiled before: the first run on a machine takes longer, and should say so.

Looks for the compiler's own cache files, without loading the compiler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["kernels_compiled"]

_SOURCE = Path(__file__).parent / "tables" / "kernels.py"


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
