"""Which version of the package this is: what tells its answers from those of any other."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import ibia

__all__ = ["own_version"]

# Modules that do not touch the answers.
_BESIDE = ("cli.py", "demo.py", "__main__.py")


@cache
def own_version() -> str:
    """Return the version of the package, and what tells its sources from those of any other state of them.

    The bench and the command line do not count: they do not touch the answers.
    """
    root = Path(ibia.__file__).parent
    sources = [path for path in root.rglob("*.py") if path.parent != root or path.name not in _BESIDE]
    digest = hashlib.sha256()
    for path in sorted(sources):
        name = path.relative_to(root).as_posix()
        if not name.startswith("bench/"):
            digest.update(name.encode())
            digest.update(path.read_bytes())
    return f"{ibia.__version__}+{digest.hexdigest()[:8]}"
