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
    from ibia.adapters.pgmpy import IBIA, from_pgmpy
    from ibia.adapters.pyagrum import IBIAInference, from_pyagrum
    from ibia.pipeline import infer
    from ibia.result import Result

__all__ = [
    "IBIA",
    "Factor",
    "IBIAInference",
    "IbiaError",
    "InputError",
    "Model",
    "RangeError",
    "Result",
    "UnavailableError",
    "Variable",
    "ZeroProbabilityError",
    "from_pgmpy",
    "from_pyagrum",
    "infer",
    "observe",
    "read",
    "read_evidence",
    "read_observations",
    "write",
]
__version__ = "0.1.0"


# The engine pulls in the compiler, and adapters the engine; reading a model should not wait for them.
_LATER = {
    "IBIA": "ibia.adapters.pgmpy",
    "IBIAInference": "ibia.adapters.pyagrum",
    "Result": "ibia.result",
    "from_pgmpy": "ibia.adapters.pgmpy",
    "from_pyagrum": "ibia.adapters.pyagrum",
    "infer": "ibia.pipeline",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        globals()[name] = getattr(import_module(_LATER[name]), name)
        return globals()[name]
    raise AttributeError(f"module 'ibia' has no attribute {name!r}")
