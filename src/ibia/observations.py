"""What is known about variables: states that were seen, and likelihoods where nobody is sure.

Names are resolved and checked against the model here. Files are read elsewhere (``formats``), and inference only ever
sees states: a likelihood becomes a factor of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ibia.errors import InputError
from ibia.model import Model

__all__ = ["Observation", "Observations", "observe", "parse_observation", "resolve_observations"]

# A state, by name or number, or a likelihood for each state.
Observation = str | int | Sequence[float]
Observations = Mapping[str, Observation] | Mapping[int, Observation] | Mapping[str | int, Observation]


def observe(model: Model, *observations: Observations) -> tuple[Model, dict[int, int]]:
    """Return what `infer` takes: the model with a factor for each likelihood, and the observed states.

    ``ibia.infer(*ibia.observe(model, {"test": "passed", "letter": [0.3, 0.9]}))`` is a whole call.

    Parameters
    ----------
    model
        The model.
    observations
        Variable → observed state, or a likelihood for each of its states; several sources are put together, and
        may not contradict each other.
    """
    known = resolve_observations(model, *observations)
    likelihoods = {number: value for number, value in known.items() if not isinstance(value, int)}
    states = {number: value for number, value in known.items() if isinstance(value, int)}
    return model.with_likelihoods(likelihoods), states


def resolve_observations(model: Model, *observations: Observations) -> dict[int, int | tuple[float, ...]]:
    """Return observations of all sources with the numbers of variables and states instead of names."""
    resolved: dict[int, int | tuple[float, ...]] = {}
    for key, value in chain.from_iterable(given.items() for given in observations):
        number = model.index(key)
        variable = model.variables[number]
        if isinstance(value, str) or hasattr(value, "__index__"):
            found: int | tuple[float, ...] = variable.state_index(value)
        else:
            found = variable.check_likelihood(value)
        if resolved.setdefault(number, found) != found:
            first, second = (_in_words(variable.states, which) for which in (resolved[number], found))
            raise InputError(f"Variable {variable.name} is observed in two ways, as {first} and as {second}.")
    return resolved


def parse_observation(model: Model, text: str) -> dict[str, Observation]:
    """Read an observation as it stands on a command line: ``smoke=yes``, or with a likelihood ``fever=0.2,0.8``.

    A value that is a state is one, whatever it looks like; a name may contain an equals sign.
    """
    places = [place for place, character in enumerate(text) if character == "="]
    if not places:
        raise InputError("expected VARIABLE=STATE, or VARIABLE=NUMBER,NUMBER,... for a likelihood.")
    names = set(model.names)
    place = next((place for place in places if text[:place] in names), places[0])
    name, value = text[:place], text[place + 1 :]
    variable = model.variables[model.index(name)]
    if "," in value and value not in variable.states:
        try:
            return {name: [float(word) for word in value.split(",")]}
        except ValueError:
            pass
    return {name: value}


def _in_words(states: Sequence[str], value: Any) -> str:
    return states[value] if isinstance(value, int) else f"the likelihood {', '.join(map(repr, value))}"
