"""A benchmark folder of tiny models, one of them with a wrong answer, one too wide for small bounds."""

from __future__ import annotations

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.formats import write_evidence, write_marginals, write_partition

HEADER = "family,name,kind,n_vars,n_factors,max_card,n_evidence,minfill_width,size,reference,log10Z,source\n"


@pytest.fixture
def data(tmp_path):
    """Make a folder: an exact answer, an answer that is off by a known amount, a model without reference; a grid."""
    folder = tmp_path / "data"
    student, grid = examples.student(), examples.grid(5, 5, seed=2)
    for family, name, model, evidence in (
        ("Toys", "right", student, {3: 1}),
        ("Toys", "wrong", student, {}),
        ("Toys", "open", student, {}),
        ("Spins", "spins", grid, {0: 1}),
    ):
        (folder / family).mkdir(parents=True, exist_ok=True)
        ibia.write(model, folder / family / f"{name}.uai.xz")
        write_evidence(folder / family / f"{name}.evid", evidence)
        result = ibia.infer(model, evidence, bound=20)
        marginals = list(result.marginals)
        if name == "wrong":
            marginals[0] = np.array([1.0, 0.0])
        if name != "open":
            write_marginals(folder / family / f"{name}.MAR.xz", marginals)
            write_partition(folder / family / f"{name}.PR", result.log10_z + (0.5 if name == "wrong" else 0.0))
    (folder / "index.csv").write_text(
        HEADER
        + "Toys,right,BAYES,5,5,3,1,3,small,exact,0,uai2014 MAR+PR\n"
        + 'Toys,wrong,BAYES,5,5,3,0,3,small,exact,0,"somewhere, else"\n'
        + "Toys,open,BAYES,5,5,3,0,3,large,none,,uai2014 PR\n"
        + "Spins,spins,MARKOV,25,65,2,1,6,small,exact,0,made\n"
    )
    return folder
