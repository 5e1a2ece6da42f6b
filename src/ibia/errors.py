"""The exceptions this package raises on purpose; everything else that escapes is a defect.

Each message is a sentence a user can act on. This module knows nothing of models, files or algorithms.
"""

__all__ = ["IbiaError", "InputError", "RangeError", "UnavailableError", "ZeroProbabilityError"]


class IbiaError(Exception):
    """The base of every exception raised on purpose."""


class InputError(IbiaError, ValueError):
    """A model, a file or an argument is not usable; the message says which part and what was expected."""


class ZeroProbabilityError(InputError):
    """The evidence, or the model as written, has probability zero, so there is no posterior.

    Attributes
    ----------
    certain
        Whether nothing was approximated on the way to that, so that no other bound will do.
    """

    def __init__(self, message: str, certain: bool = False) -> None:
        super().__init__(message)
        self.certain = certain


class RangeError(IbiaError, ArithmeticError):
    """Numbers of a model are too many orders of magnitude apart for what was asked."""


class UnavailableError(IbiaError):
    """Something the request needs (an optional dependency, a device) is not there."""
