"""Evidence files of either kind: those of the UAI competitions, and JSON objects that go by names."""

from __future__ import annotations

import json
from typing import Any

from ibia.errors import InputError
from ibia.formats.text import PathLike, read_data, split_tokens
from ibia.formats.uai import parse_evidence
from ibia.observations import Observation

__all__ = ["read_observations"]


def read_observations(path: PathLike) -> dict[str | int, Observation]:
    """Read evidence from a UAI file, or from a JSON object like ``{"smoke": "yes", "fever": [0.2, 0.8]}``.

    Returned is, for each variable, its state or a list with a likelihood for each of its states. Names are not checked:
    a file knows no model. `observe` does that.

    Parameters
    ----------
    path
        The file; `.gz` and `.xz` are decompressed.
    """
    data = read_data(path)
    if not data.lstrip().startswith(b"{"):
        return dict(parse_evidence(split_tokens(path, data)).items())
    try:
        return json.loads(data, object_pairs_hook=lambda pairs: _object(path, pairs))  # type: ignore[no-any-return]
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: this is not JSON; {_lowered(error.msg)}.") from None
    except InputError:
        raise
    except (ValueError, RecursionError):
        # Bytes that are no text, a number of thousands of digits, brackets within thousands of brackets.
        raise InputError(f"{path} is not a JSON file as expected.") from None


def _object(path: PathLike, pairs: list[tuple[str, Any]]) -> dict[str | int, Observation]:
    found: dict[str | int, Observation] = {}
    for name, given in pairs:
        value = _value(path, name, given)
        if found.setdefault(name, value) != value:
            raise InputError(f"{path}: the variable {name} is given two different values.")
    return found


def _value(path: PathLike, name: str, value: Any) -> Observation:
    if isinstance(value, bool):
        # States are texts; these are the usual ones.
        return str(value).lower()
    numbers = isinstance(value, list) and all(
        isinstance(entry, int | float) and not isinstance(entry, bool) for entry in value
    )
    if numbers or isinstance(value, str | int):
        return value  # type: ignore[no-any-return]
    raise InputError(
        f"{path}: the variable {name} is given {json.dumps(value)[:40]}; expected a state (its name or number) or a "
        f"list with a likelihood for each state."
    )


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
