"""The demonstration: a question about a shipped example, answered with little memory and, beside it, exactly.

Chooses and words the example; inference is used through the public call only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ibia.model import Model

__all__ = ["demo_model", "show_demo"]

_DISEASES, _FINDINGS, _PRESENT, _ABSENT = 40, 80, 26, 26
_SMALL, _LARGE = 8, 24
_SHOWN = 8


def demo_model() -> tuple[Model, dict[str, str]]:
    """Return the example and its evidence: a network of diseases and findings, and a patient."""
    from ibia.examples import diagnosis

    seen = {f"finding_{number}": "yes" for number in range(_PRESENT)}
    unseen = {f"finding_{number}": "no" for number in range(_PRESENT, _PRESENT + _ABSENT)}
    return diagnosis(_DISEASES, _FINDINGS, parents=4, seed=2), {**seen, **unseen}


def show_demo(console: Console) -> None:
    """Solve the example within a small bound and exactly, and print both answers."""
    from rich import box
    from rich.table import Table

    import ibia
    from ibia.bench.metrics import score

    model, evidence = demo_model()
    before = ibia.infer(model, bound=_LARGE)
    answer = ibia.infer(model, evidence, bound=_SMALL)
    exact = ibia.infer(model, evidence, bound=_LARGE)
    console.print(
        f"A patient has {_PRESENT} symptoms; {_ABSENT} others were looked for in vain. "
        f"Which of {_DISEASES} diseases are the cause?\n"
        f"An exact answer needs tables of 2^{exact.max_clique_bits:.0f} numbers here; ibia may use 2^{_SMALL}."
    )
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("disease")
    for title in ("before", "ibia's answer", "exact answer", "difference"):
        table.add_column(title, justify="right")
    names = sorted(model.names[:_DISEASES], key=lambda name: -float(answer[name][1]))[:_SHOWN]
    for name in names:
        probability, truth = float(answer[name][1]), float(exact[name][1])
        table.add_row(
            name.replace("_", " "),
            f"{float(before[name][1]):.1%}",
            f"{probability:.2%}",
            f"{truth:.2%}",
            f"{abs(probability - truth):.3%}",
        )
    console.print(table)
    errors = score(answer.marginals, exact.marginals, answer.evidence)
    assert errors.worst is not None
    worst = model.names[errors.worst]
    console.print(
        f"These {_SHOWN} are the likeliest. The worst of all {len(model.variables) - len(evidence)} unknowns is "
        f"{worst.replace('_', ' ')}: {float(answer[worst][1]):.2%} instead of {float(exact[worst][1]):.2%}.\n\n"
        f"Without knowing the exact answer, ibia judged its own as\n"
        f"  {answer.error.words}.\n"
        f"In truth the worst is off by {errors.largest:.2g} in that measure.\n\n"
        f"It took {answer.seconds:.1f} s. Next: ibia infer MODEL.uai --time-limit 60, or ibia --help."
    )
