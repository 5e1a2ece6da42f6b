"""The sets a bench can run."""

from __future__ import annotations

import numpy as np
import pytest

import ibia
from ibia import examples
from ibia.bench.instances import find_instances
from ibia.bench.sets import choose, find_remarks, find_sets, item_from
from ibia.errors import InputError
from ibia.formats import write_evidence

ASIA = "variable a { type discrete [2] { yes, no }; }\nprobability ( a ) { table 0.25, 0.75; }\n"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("IBIA_DATA", raising=False)


def test_a_folder_has_sets_by_what_is_known_and_by_family(data, monkeypatch):
    sets = find_sets(data)
    assert [item.name for item in sets["small"].items] == ["right", "wrong", "spins"]
    assert [item.name for item in sets["large"].items] == ["open"]
    assert [item.name for item in sets["uai2014"].items] == ["right"]
    assert [item.name for item in sets["Spins"].items] == ["spins"]
    assert "Spins" not in find_sets()
    monkeypatch.setenv("IBIA_DATA", str(data))
    assert "Spins" in find_sets()


def test_a_variable_that_names_no_folder_spoils_no_other_set(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("IBIA_DATA", str(tmp_path / "gone"))
    assert "quick" in find_sets()
    assert capsys.readouterr().err.startswith(f"IBIA_DATA is left out: {tmp_path}/gone/index.csv cannot be read")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "index.csv").write_text("nonsense")
    assert "quick" in find_sets()
    # Who asks for a folder wants that one.
    with pytest.raises(InputError, match="is not an index"):
        find_sets(tmp_path / "gone")


def test_items_travel_as_plain_data_and_know_their_answers(data):
    for item in choose(find_sets(data), ["all"]):
        again = item_from(item.plain())
        assert again == item
        model, evidence = again.load()
        reference = again.reference(model, evidence)
        assert (reference.marginals is None) == (item.name == "open")
        assert reference.kind == ("none" if item.name == "open" else "exact")


def test_a_digest_changes_with_the_contents(data):
    (item,) = choose(find_sets(data), ["uai2014"])
    before = item.digest()
    assert item.digest() == before
    write_evidence(data / "Toys" / "right.evid", {3: 0})
    assert item.digest() != before
    (data / "Toys" / "right.uai.xz").unlink()
    with pytest.raises(InputError, match=r"right\.uai\.xz cannot be read"):
        item.digest()


def test_sets_are_joined_and_narrowed_down(data):
    sets = find_sets(data)
    assert [item.name for item in choose(sets, ["uai2014", "Toys"])] == ["right", "wrong", "open"]
    assert [item.name for item in choose(sets, ["Toys"], ["open"])] == ["open"]
    with pytest.raises(InputError, match="have no model spins"):
        choose(sets, ["Toys"], ["spins"])
    with pytest.raises(InputError, match="no set 'Grids'"):
        choose(sets, ["Grids"])


def test_only_where_no_folder_is_given_an_unknown_set_asks_for_one(data, monkeypatch):
    with pytest.raises(InputError, match=r"Sets of a folder need --data or IBIA_DATA\.$"):
        choose(find_sets(), ["data/Spins"])
    with pytest.raises(InputError, match=r"expected one of .*, Spins\.$"):
        choose(find_sets(data), ["data/Grids"], data=data)
    monkeypatch.setenv("IBIA_DATA", str(data))
    with pytest.raises(InputError, match=r"expected one of .*, Spins\.$"):
        choose(find_sets(), ["data/Grids"])


def test_a_folder_without_an_index_is_searched(tmp_path):
    folder = tmp_path / "mine"
    (folder / "chains").mkdir(parents=True)
    ibia.write(examples.chain(4), folder / "chains" / "short.uai")
    ibia.write(examples.grid(2, 2), folder / "alone.uai.gz")
    write_evidence(folder / "chains" / "short.uai.evid", {1: 2})
    (folder / "asia.bif").write_text(ASIA)
    names = [(instance.family, instance.name) for instance in find_instances(folder)]
    assert names == [("mine", "alone"), ("mine", "asia"), ("chains", "short")]
    sets = find_sets(folder)
    short = choose(sets, ["chains"])[0]
    model, evidence = short.load()
    assert evidence == {1: 2}
    # Nobody says how wide it is: the answer is computed.
    assert short.reference(model, evidence).kind == "exact"
    (asia,) = sets["bif"].items
    model, evidence = asia.load()
    assert np.allclose(asia.reference(model, evidence).marginals[0], [0.25, 0.75])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no models"):
        find_sets(tmp_path / "empty")


def test_a_family_that_is_called_like_another_set_is_told_from_it(tmp_path):
    families = ("grid", "quick", "all", "large", "Mine")
    for family in families:
        (tmp_path / family).mkdir()
        ibia.write(examples.chain(4), tmp_path / family / f"{family}_model.uai")
    sets = find_sets(tmp_path)
    for family in families[:-1]:
        assert [item.name for item in choose(sets, [f"data/{family}"])] == [f"{family}_model"]
    assert [item.name for item in choose(sets, ["Mine"])] == ["Mine_model"]
    # Whoever writes the long name always gets the family, and nothing else.
    assert choose(sets, ["data/Mine"]) == choose(sets, ["Mine"]) == choose(sets, ["Mine", "data/Mine"])
    for name in ("data/small", "data/long", "data/data/grid", "data/"):
        with pytest.raises(InputError, match=f"no set '{name}'"):
            choose(sets, [name])
    assert all(item.source == "generated" for item in choose(sets, ["grid"]))
    assert len(choose(sets, ["all"])) == len(families)
    assert find_remarks(sets, ["grid", "Mine", "data/all", "long"]) == [
        "The set grid is that of the bench (generated models: grid), not the family grid of the folder, which is the "
        "set data/grid."
    ]


def test_a_bif_file_is_preferred_where_it_is_asked_for(data):
    (data / "Toys" / "wrong.bif").write_text(ASIA)
    (network,) = find_sets(data)["bif"].items
    assert len(network.load()[0].variables) == 1
    assert len(choose(find_sets(data), ["Toys"], ["wrong"])[0].load()[0].variables) == 5


def test_generated_sets_need_no_folder():
    sets = find_sets()
    assert "grid" in sets
    assert "growing length" in sets["long"].about
    item = item_from(sets["grid"].items[0].plain())
    assert item == sets["grid"].items[0]
    assert item.digest() == item.digest()


def test_a_single_generated_model_has_one_name_however_it_is_written():
    sets = find_sets()
    ways = ["rows=4,columns=4", "columns=4,rows=4", "rows=4,columns=04,seed=0", "rows=4,columns=4,coupling=1.0"]
    (item,) = choose(sets, [f"grid:{words}" for words in ways])
    assert item.name == "grid:rows=4,columns=4"
    (item,) = choose(sets, ["grid:attractive=yes,columns=5,rows=4,field=0.1,coupling=2.0,seed=3"])
    assert item.name == "grid:rows=4,columns=5,coupling=2,field=0.1,attractive=yes,seed=3"
    assert choose(sets, [item.name]) == [item]


def test_a_single_generated_model_by_its_parameters():
    (item,) = choose(find_sets(), ["grid:rows=2,columns=3,coupling=0.5,seed=7"])
    model, evidence = item.load()
    assert len(model.variables) == 6
    assert evidence == {}
    assert item.reference(model, evidence).kind == "exact"
    for text, words in (
        ("maze:size=2", "no family 'maze'"),
        ("grid:rows=two", "rows of a model of the family grid is 'two'"),
        ("grid:floors=2", "floors"),
    ):
        with pytest.raises(InputError, match=words):
            choose(find_sets(), [text])
