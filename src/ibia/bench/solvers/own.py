"""This package as a solver: with any options, and in the setting of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import ibia
from ibia.bench.solvers.interface import Allowance, Answer, Solver, option
from ibia.bench.version import own_version
from ibia.errors import InputError
from ibia.limits import parse_size, parse_time
from ibia.model import Model

if TYPE_CHECKING:
    from ibia.result import Result

__all__ = ["Ibia", "Paper"]

# Bits of the largest clique in most of the paper's runs.
_PAPER_BOUND = 20.0
# Options that are choices of the engine.
_CHOICES = ("reduce", "loss", "update", "order", "sweeps", "threshold", "slices")

# What of a result is kept.
_KEPT = (
    "exact",
    "loopy",
    "steps",
    "slices",
    "bound",
    "reduce",
    "bound_reason",
    "max_clique_bits",
    "loss_nats",
    "worst_loss_nats",
    "unchecked_loss_nats",
    "first_inconsistency",
    "second_inconsistency",
    "inconsistency",
    "spread",
    "alternatives",
    "error_estimate",
    "error_upper",
    "orders",
    "attempts",
)


def _choice(name: str, kind: type[int] | type[float] | type[str] = str) -> Callable[[str], Any]:
    """Return what reads one of the choices of `ibia.infer`, and has the engine itself check it."""

    def parse(text: str) -> Any:
        from ibia.answer import Choices

        value = _read(text, kind)
        Choices(**{name: value}).validate(None)
        return value

    return parse


def _read(text: str, kind: type[int] | type[float] | type[str]) -> Any:
    """Return what a text stands for, or the text, of which the engine says what it expected instead."""
    try:
        return kind(text)
    except ValueError:
        return text


def _bound(text: str) -> float:
    from ibia.answer import Choices

    bound: float = _read(text, float)
    Choices(reduce="demand").validate(bound)
    return bound


@dataclass(frozen=True)
class Ibia(Solver):
    """`ibia.infer`. Without any limit of its own it keeps to those of the run."""

    name: ClassVar[str] = "ibia"
    about: ClassVar[str] = "this package; without bound, time and memory within the limits of the run"

    bound: float | None = option(None, _bound, "largest clique in bits")
    time: float | None = option(None, parse_time, "seconds")
    memory: float | None = option(None, parse_size, "size like 8GB")
    reduce: float | str | None = option(None, _choice("reduce", float), "bits, auto or demand")
    loss: str | None = option(None, _choice("loss"), "kl or mi")
    update: str | None = option(None, _choice("update"), "sweeps or links")
    order: str | None = option(None, _choice("order"), "of the factors")
    sweeps: int | None = option(None, _choice("sweeps", int), "at most so many")
    threshold: float | None = option(None, _choice("threshold", float), "smallest change that uses a link")
    slices: str | None = option(None, _choice("slices"), "auto, never or always")

    def __post_init__(self) -> None:
        """Have the engine check what its options are together, before anything runs."""
        from ibia.answer import Choices

        try:
            Choices(**self.choices).validate(self.bound)
        except InputError as error:
            raise InputError(f"The solver {self.label} cannot be run: {error}.") from None

    @property
    def choices(self) -> dict[str, Any]:
        """How to infer, whatever the bound: the options that are not left to the engine."""
        return {name: getattr(self, name) for name in _CHOICES if getattr(self, name) is not None}

    def version(self) -> str:
        """Return the version of the package."""
        return own_version()

    def warm_up(self) -> None:
        """Load the compiled code with tiny models."""
        from ibia.bench.accuracy import warm_up

        warm_up()

    def arguments(self, model: Model, allowance: Allowance) -> dict[str, Any]:
        """Return the arguments of `ibia.infer`."""
        unlimited = self.bound is None and self.time is None and self.memory is None
        given = {
            "bound": self.bound,
            "time_limit": allowance.seconds if unlimited else self.time,
            "memory_limit": allowance.memory if unlimited else self.memory,
            "threads": allowance.threads,
        }
        return {name: value for name, value in given.items() if value is not None} | self.choices

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        arguments = self.arguments(model, allowance)

        def answer() -> Answer:
            result = ibia.infer(model, evidence, **arguments)
            return Answer(result.marginals, result.log10_z, result.seconds, _figures(result))

        return answer


def _figures(result: Result) -> dict[str, Any]:
    everything = result.to_dict()
    figures = {name: everything[name] for name in _KEPT}
    # One short list for each forest: there can be thousands.
    figures["step_columns"] = ["component", "step", "cliques", "factors", "bits", "bound", "loss", "seconds"]
    figures["step_figures"] = [
        [
            step.component,
            step.step,
            step.cliques,
            step.factors,
            round(step.largest_bits, 2),
            round(step.bound, 2),
            float(f"{step.loss:.4g}"),
            round(step.seconds, 4),
        ]
        for step in result.steps
    ]
    return figures


@dataclass(frozen=True)
class Paper(Ibia):
    """`ibia.infer` as the paper has it: belief update along links, mutual information, reduction by five bits.

    Bayesian networks are built in topological order, others in the order of an elimination.
    """

    name: ClassVar[str] = "paper"
    about: ClassVar[str] = "this package in the paper's setting: links, mutual information, reduce 5"

    # The one of its fields whose default stands in the label, because everybody asks for it.
    bound: float | None = option(None, _bound, "largest clique in bits (20)")
    reduce: float | str | None = option(5.0, _choice("reduce", float), "bits, auto or demand")
    loss: str | None = option("mi", _choice("loss"), "kl or mi")
    update: str | None = option("links", _choice("update"), "sweeps or links")

    def __post_init__(self) -> None:
        if self.bound is None:
            object.__setattr__(self, "bound", _PAPER_BOUND)
        super().__post_init__()

    def arguments(self, model: Model, allowance: Allowance) -> dict[str, Any]:
        """Return the arguments of `ibia.infer`."""
        from ibia.simplify import simplify

        given = super().arguments(model, allowance)
        if self.order is None:
            # Some files say Markov and are Bayesian; the package finds out.
            bayesian = model.kind == "bayes" or simplify(model, {}).structure is not None
            given["order"] = "topological" if bayesian else "elimination"
        return given
