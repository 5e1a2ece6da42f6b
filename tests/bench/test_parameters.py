"""The parameters of generated families: read as users write them, and listed where users look."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from ibia import examples
from ibia.bench.generate import FAMILIES, PARAMETERS, SETS, format_parameters, read_parameters
from ibia.bench.generate import parameters as parameters_module
from ibia.bench.sets import choose, find_sets
from ibia.errors import InputError

DOCS = Path(__file__).parents[2] / "docs" / "bench-sets.md"

# The least that a model of each family needs.
SMALL = {
    "grid": "rows=2,columns=3",
    "regular": "size=6,degree=2",
    "diagnosis": "diseases=3,findings=4",
    "pedigree": "people=4,founders=2,loci=2",
    "dynamic": "slices=2,hidden=3,interface=2",
    "cliques": "size=10",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_needs_only_what_has_no_default(family):
    parameters = read_parameters(family, SMALL[family])
    assert set(parameters) == set(PARAMETERS[family])
    model, _ = FAMILIES[family](**parameters)
    assert model.variables
    for word in SMALL[family].split(","):
        rest = ",".join(other for other in SMALL[family].split(",") if other != word) or "seed=1"
        with pytest.raises(InputError, match=f"family {family} needs {word.partition('=')[0]}=… as well"):
            read_parameters(family, rest)


def test_defaults_are_those_of_the_examples():
    for family, function in (("grid", examples.grid), ("cliques", examples.clique_chain)):
        for name, parameter in inspect.signature(function).parameters.items():
            if name != "together" and parameter.default is not inspect.Parameter.empty:
                assert PARAMETERS[family][name].default == parameter.default


def test_members_of_sets_have_parameters_that_could_be_given():
    for members in SETS.values():
        for member in members:
            words = {True: "yes", False: "no"}
            texts = [f"{k}={words[v] if isinstance(v, bool) else v}" for k, v in member.parameters.items()]
            assert read_parameters(member.family, ",".join(texts)) == member.parameters
            words = format_parameters(member.family, member.parameters)
            assert read_parameters(member.family, words) == member.parameters


@pytest.mark.parametrize(
    ("family", "words", "expected"),
    [
        ("grid", "mixed=no", "family grid have no parameter 'mixed=no'; expected NAME=VALUE with: rows, columns"),
        ("grid", "rows", "no parameter 'rows'"),
        ("grid", "", "no parameter ''"),
        ("grid", "coupling=nan", "coupling of a model of the family grid is 'nan'; expected a number of at least 0"),
        ("grid", "coupling=inf", "at least 0 and at most 100"),
        ("grid", "coupling=1e308", "at least 0 and at most 100"),
        ("grid", "rows=two", "rows .* is 'two'; expected a whole number of at least 1"),
        ("grid", "rows=1.5", "whole number"),
        ("grid", "rows=0", "whole number of at least 1"),
        ("grid", "attractive=1", "attractive .* is '1'; expected yes or no"),
        ("grid", "seed=-1", "whole number of at least 0"),
        ("grid", "rows=2,rows=3", "rows .* is given twice"),
        ("diagnosis", "observed=2", "at least 0 and at most 1"),
        ("pedigree", "typed=yes", "typed .* is 'yes'; expected a number"),
    ],
)
def test_what_cannot_be_is_a_sentence_with_the_family_and_the_parameter(family, words, expected):
    with pytest.raises(InputError, match=expected):
        read_parameters(family, words)
    with pytest.raises(InputError, match=expected):
        choose(find_sets(), [f"{family}:{words}"])


def test_what_does_not_go_together_is_a_sentence_with_the_model():
    with pytest.raises(InputError, match="regular:size=5,degree=3: There is no graph"):
        choose(find_sets(), ["regular:size=5,degree=3"])


def test_the_docs_list_every_parameter_with_its_default():
    listed = {}
    family = ""
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[1] in {name for known in PARAMETERS.values() for name in known}:
            family = cells[0] or family
            listed.setdefault(family, {})[cells[1]] = cells[2]
    assert listed == {
        family: {name: _shown(entry.default) for name, entry in known.items()} for family, known in PARAMETERS.items()
    }


def _shown(default):
    if default is None:
        return ""
    return ("yes" if default else "no") if isinstance(default, bool) else f"{default:g}"


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("grid", "rows=100000,columns=100000"),
        ("regular", "size=100000,degree=1000"),
        ("regular", "size=4,degree=2,states=10000"),
        ("diagnosis", "diseases=10,findings=1000000000"),
        ("diagnosis", "diseases=10,findings=2,parents=1000000000000"),
        ("pedigree", "people=10,founders=2,loci=3,alleles=1000"),
        ("dynamic", "slices=1000000,hidden=100,interface=2"),
        ("cliques", "size=1000000000"),
        ("cliques", "size=2000,width=1000,together=500"),
        ("cliques", "size=1000,width=1000,together=999"),
        ("cliques", f"size={10**400},width={10**400},together={10**400}"),
    ],
)
def test_a_model_that_is_too_large_is_refused(family, words):
    with pytest.raises(InputError, match=r"is too large: its tables have more than 33,554,432 numbers in all\.$"):
        read_parameters(family, words)


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_of_tables_are_about_as_many_as_predicted(family):
    words = {"cliques": "size=200,width=12,together=3", "grid": "rows=30,columns=40"}
    made = [member.parameters for members in SETS.values() for member in members if member.family == family]
    for parameters in [*made, read_parameters(family, words.get(family, SMALL[family]))]:
        model, _ = FAMILIES[family](**parameters)
        numbers = sum(factor.values.size for factor in model.factors)
        assert numbers / 3 < parameters_module._NUMBERS[family](**parameters) < 3 * numbers


def test_memory_that_is_not_there_is_a_sentence(monkeypatch):
    def fail(**parameters):
        raise MemoryError

    monkeypatch.setitem(FAMILIES, "grid", fail)
    with pytest.raises(InputError, match="grid:rows=2,columns=2: There is not enough memory for a model of this size"):
        choose(find_sets(), ["grid:rows=2,columns=2"])
