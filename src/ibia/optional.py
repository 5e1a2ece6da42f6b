"""Packages that only some requests need: imported when asked for, with a sentence where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from ibia.errors import UnavailableError

__all__ = ["require"]


def require(module: str, name: str, extra: str) -> Any:
    """Return a module of an optional package.

    Parameters
    ----------
    module
        What to import.
    name
        What the package calls itself.
    extra
        Which extra of this package brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnavailableError(f"{name} is not installed; pip install 'ibia[{extra}]' brings it.") from None
