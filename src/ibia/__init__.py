"""Inference in discrete graphical models that are too big for exact methods.

All posterior marginals and the partition function, within a clique-size bound, with an estimate of the error.
"""

from __future__ import annotations

from ibia.errors import IbiaError, InputError, RangeError, UnavailableError, ZeroProbabilityError

# What type checkers take for true. The module that has it takes longer to load than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ibia.adapters.pgmpy import IBIA, from_pgmpy
    from ibia.adapters.pyagrum import IBIAInference, from_pyagrum
    from ibia.formats import read, read_evidence, read_observations, write
    from ibia.model import Factor, Model, Variable
    from ibia.observations import observe
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


# Loaded when it is asked for. The engine pulls in the compiler, and adapters the engine; reading a model should not
# wait for them, nor should a command wait for anything before it minds signals.
_LATER = {
    "Factor": "ibia.model",
    "IBIA": "ibia.adapters.pgmpy",
    "IBIAInference": "ibia.adapters.pyagrum",
    "Model": "ibia.model",
    "Result": "ibia.result",
    "Variable": "ibia.model",
    "from_pgmpy": "ibia.adapters.pgmpy",
    "from_pyagrum": "ibia.adapters.pyagrum",
    "infer": "ibia.pipeline",
    "observe": "ibia.observations",
    "read": "ibia.formats",
    "read_evidence": "ibia.formats",
    "read_observations": "ibia.formats",
    "write": "ibia.formats",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        globals()[name] = getattr(import_module(_LATER[name]), name)
        return globals()[name]
    raise AttributeError(f"module 'ibia' has no attribute {name!r}")
