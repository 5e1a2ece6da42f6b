"""pyAgrum: its exact engines, loopy belief propagation and Gibbs sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ibia.bench.pyagrum_peer import Peer, find_children, import_pyagrum
from ibia.bench.solvers.interface import Allowance, Answer, Solver, UnsuitedError, at_least, option
from ibia.model import Model

__all__ = ["PyagrumExact", "PyagrumGibbs", "PyagrumLoopy"]

_SLOWEST = 1e-12
# Samples at most, where nobody says how many, without and with a limit of time: with one, only that counts.
_SAMPLES, _ANY_NUMBER = 10_000_000, 2**62


@dataclass(frozen=True)
class _Pyagrum(Solver):
    def version(self) -> str:
        """Return the version of pyAgrum."""
        return str(import_pyagrum().__version__)

    def warm_up(self) -> None:
        """Import it."""
        import_pyagrum()


@dataclass(frozen=True)
class PyagrumExact(_Pyagrum):
    """Lazy propagation, or Shafer–Shenoy propagation for what is no Bayesian network."""

    name: ClassVar[str] = "pyagrum-exact"
    about: ClassVar[str] = "pyAgrum's exact engines"

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        peer = Peer(model)

        def answer() -> Answer:
            engine = peer.inference(evidence)
            marginals = peer.arrays(peer.posteriors(engine))
            log10_z = None
            if peer.engine == "LazyPropagation":
                probability = float(engine.evidenceProbability())
                log10_z = math.log10(probability) + peer.log10_constant if probability > 0.0 else None
            return Answer(marginals, log10_z, figures={"exact": True, "engine": peer.engine})

        return answer


@dataclass(frozen=True)
class _Approximate(_Pyagrum):
    engine: ClassVar[str]

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a Bayesian network, be it said to be one or found to be."""
        # Before a Markov network is built: for some models pyAgrum takes minutes over that.
        if find_children(model) is None:
            raise UnsuitedError("It treats Bayesian networks only, and this model is none.")
        peer = Peer(model, engine=self.engine)

        def answer() -> Answer:
            engine = peer.inference(evidence, partial(self._set_up, allowance))
            return Answer(peer.arrays(peer.posteriors(engine)), figures={"sweeps": engine.nbrIterations()})

        return answer

    def _set_up(self, allowance: Allowance, engine: Any) -> None:
        # By default it stops when its changes become slower, long before they are small.
        engine.setMinEpsilonRate(_SLOWEST)
        if allowance.seconds is not None:
            engine.setMaxTime(0.9 * allowance.seconds)


@dataclass(frozen=True)
class PyagrumLoopy(_Approximate):
    """Loopy belief propagation."""

    name: ClassVar[str] = "pyagrum-loopy"
    about: ClassVar[str] = "pyAgrum's loopy belief propagation; models that are Bayesian networks"
    engine: ClassVar[str] = "LoopyBeliefPropagation"

    tolerance: float = option(1e-6, at_least(0.0), "change that ends it")
    sweeps: int = option(1000, at_least(1), "at most so many")

    def _set_up(self, allowance: Allowance, engine: Any) -> None:
        super()._set_up(allowance, engine)
        engine.setEpsilon(self.tolerance)
        engine.setMaxIter(self.sweeps)


@dataclass(frozen=True)
class PyagrumGibbs(_Approximate):
    """Gibbs sampling, for as long as it may."""

    name: ClassVar[str] = "pyagrum-gibbs"
    about: ClassVar[str] = "pyAgrum's Gibbs sampling; models that are Bayesian networks"
    engine: ClassVar[str] = "GibbsSampling"

    samples: int | None = option(None, at_least(1), "at most so many (default: as time allows)")
    tolerance: float = option(1e-6, at_least(0.0), "change that ends it")
    seed: int = option(1, at_least(0), "of the random numbers")

    def _set_up(self, allowance: Allowance, engine: Any) -> None:
        super()._set_up(allowance, engine)
        import_pyagrum().initRandom(self.seed)
        engine.setEpsilon(self.tolerance)
        engine.setMaxIter(self.samples or (_SAMPLES if allowance.seconds is None else _ANY_NUMBER))
