"""Inference in discrete graphical models that are too big for exact methods.

All posterior marginals and the partition function, within a clique-size bound, with an estimate of the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ibia.errors import IbiaError, InputError, RangeError, UnavailableError, ZeroProbabilityError
from ibia.formats import read, read_evidence, read_observations, write
from ibia.model import Factor, Model, Variable
from ibia.observations import observe

if TYPE_CHECKING:
    from ibia.pipeline import infer
    from ibia.result import Result

__all__ = [
    "Factor",
    "IbiaError",
    "InputError",
    "Model",
    "RangeError",
    "Result",
    "UnavailableError",
    "Variable",
    "ZeroProbabilityError",
    "infer",
    "observe",
    "read",
    "read_evidence",
    "read_observations",
    "write",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The engine pulls in the compiler; reading a model should not wait for it.
    if name == "infer":
        from ibia.pipeline import infer

        globals()["infer"] = infer
        return infer
    if name == "Result":
        from ibia.result import Result

        return Result
    raise AttributeError(f"module 'ibia' has no attribute {name!r}")
