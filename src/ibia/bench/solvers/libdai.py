"""libDAI (junction tree, belief propagation) by its program ``testdai``, if that is on the PATH.

The program prints four digits of each marginal, so Hellinger distances below about 1E-3 say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ibia.bench.solvers.interface import Allowance, Answer, NonsenseError, Solver, one_of, option
from ibia.bench.solvers.program import find_program, name_of, new_folder, run_program, version_of
from ibia.model import Model

__all__ = ["LibDai", "factor_graph"]

_METHODS = {
    "jtree": "JTREE[inference=SUMPROD,updates=HUGIN,heuristic=MINFILL]",
    "bp": "BP[updates=SEQMAX,tol=1e-9,maxiter=10000,logdomain=0,inference=SUMPROD]",
}
_MARGINAL = re.compile(r"\{x(\d+)\}, \(([^)]*)\)")


@dataclass(frozen=True)
class LibDai(Solver):
    """libDAI with one of its methods."""

    name: ClassVar[str] = "libdai"
    about: ClassVar[str] = "libDAI, if its program testdai is on the PATH: method=bp or jtree"

    method: str = option("bp", one_of(_METHODS), "bp or jtree")
    program: str = option("testdai", str, "path of the program", shown=name_of)

    def version(self) -> str:
        """Return what tells one build from another."""
        return version_of(self.program)

    def prepare(self, model: Model, evidence: dict[int, int], allowance: Allowance) -> Callable[[], Answer]:
        """Return what answers a model."""
        folder = new_folder()
        (folder / "model.fg").write_text(factor_graph(model, evidence))
        command = [find_program(self.program), "--filename", "model.fg", "--methods", _METHODS[self.method]]
        command += ["--marginals", "VAR"]

        def answer() -> Answer:
            finished = run_program(command, folder)
            found = _read(finished.output)
            for variable, state in evidence.items():
                found[variable] = np.eye(model.cardinalities[variable])[state]
            return Answer(
                [found[variable] for variable in sorted(found)],
                None,
                finished.seconds,
                {"program_memory_bytes": finished.memory, "exact": self.method == "jtree"},
            )

        return answer


def _read(output: str) -> dict[int, NDArray[np.float64]]:
    """Return the marginals by variable."""
    try:
        return {
            int(number): np.array([float(value) for value in values.split(",")])
            for number, values in _MARGINAL.findall(output)
        }
    except ValueError as error:
        raise NonsenseError(f"libDAI's answer cannot be read: {error}.") from None


def factor_graph(model: Model, evidence: Mapping[int, int]) -> str:
    """Return a model with its evidence sliced in, as libDAI's factor graph files have it.

    The first variable of a table varies fastest there, and only the entries that are not zero are listed.
    """
    blocks = []
    covered: set[int] = set()
    for factor in model.factors:
        scope = [variable for variable in factor.scope if variable not in evidence]
        if scope:
            shape = [model.cardinalities[variable] for variable in factor.scope]
            place = tuple(evidence.get(variable, slice(None)) for variable in factor.scope)
            blocks.append(_block(model, scope, factor.values.reshape(shape)[place]))
            covered.update(scope)
    for variable in sorted(set(range(len(model.variables))) - covered - set(evidence)):
        blocks.append(_block(model, [variable], np.ones(model.cardinalities[variable])))
    return f"{len(blocks)}\n" + "".join(blocks)


def _block(model: Model, scope: list[int], values: NDArray[np.float64]) -> str:
    # libDAI wants the variables of a factor in the order of their numbers.
    order = sorted(range(len(scope)), key=scope.__getitem__)
    scope, values = [scope[axis] for axis in order], values.transpose(order)
    flat = values.reshape(-1, order="F")
    entries = np.flatnonzero(flat)
    lines = [
        "",
        str(len(scope)),
        " ".join(map(str, scope)),
        " ".join(str(model.cardinalities[variable]) for variable in scope),
        str(entries.size),
        *(f"{entry} {float(flat[entry])!r}" for entry in entries.tolist()),
    ]
    return "\n".join(lines) + "\n"
