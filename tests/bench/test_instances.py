"""The benchmark folder: indexes that are not as they should be, and folders without one."""

from __future__ import annotations

from pathlib import Path

import pytest

import ibia
from ibia import examples
from ibia.bench.instances import find_instances
from ibia.bench.sets import find_remarks, find_sets
from ibia.errors import InputError

HEADER = "family,name,reference,source,n_vars,minfill_width\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Toys,open,none,made,1.5,3", "line 3: n_vars is '1.5'; expected a whole number"),
        ("Toys,open,none,made,5,abc", "line 3: minfill_width is 'abc'; expected a number"),
        ("Toys,open", "line 3: expected 6 cells, found 2"),
        ("Toys,open,none,made in 2014, or so,5,3", "line 3: expected 6 cells, found 7"),
    ],
)
def test_a_cell_that_cannot_be_read_is_named_by_its_line(tmp_path, line, words):
    (tmp_path / "index.csv").write_text(f"{HEADER}Toys,right,exact,made,5,3\n{line}\n")
    with pytest.raises(InputError, match=rf"index\.csv, {words}"):
        find_instances(tmp_path)


def test_an_index_that_is_no_text_is_named(tmp_path):
    (tmp_path / "index.csv").write_bytes(HEADER.encode() + b"Toys,M\xfcnchen,none,made,5,3\n")
    with pytest.raises(InputError, match=r"index\.csv is not an index of instances: .*utf-8"):
        find_instances(tmp_path)


def test_empty_cells_and_a_mark_before_the_text_do_no_harm(tmp_path):
    (tmp_path / "index.csv").write_text(f"\ufeff{HEADER}Toys,right,exact,made,,\n", encoding="utf-8")
    (found,) = find_instances(tmp_path)
    assert (found.family, found.variables, found.width) == ("Toys", 0, float("inf"))


def test_models_of_the_index_that_are_not_there_are_left_out(data):
    for name in ("right", "open"):
        (data / "Toys" / f"{name}.uai.xz").unlink()
    sets = find_sets(data)
    assert [item.name for item in sets["all"].items] == ["wrong", "spins"]
    lines = find_remarks(sets, ["all", "Spins"])
    assert find_remarks(sets, ["data/Spins"]) == lines
    assert lines == [f"{data} lacks 2 models of its index, left out: Toys/right, Toys/open."]


def test_models_that_the_index_does_not_name_are_left_out_and_named(data):
    ibia.write(examples.chain(4), data / "Toys" / "new.uai")
    (data / "More").mkdir()
    for number in range(5):
        ibia.write(examples.chain(4), data / "More" / f"chain_{number}.uai.gz")
    sets = find_sets(data)
    assert [item.name for item in sets["all"].items] == ["right", "wrong", "open", "spins"]
    assert "More" not in sets
    names = ", ".join(f"More/chain_{number}" for number in range(5))
    (line,) = find_remarks(sets, sets)
    assert line == f"{data} has 6 models that its index does not name, left out: {names} and others."
    # Nobody has asked for anything of the folder.
    assert find_remarks(sets, ["quick"]) == []


def test_a_folder_as_its_index_says_is_nothing_to_talk_about(data):
    # Two formats of a model are one model.
    (data / "Toys" / "right.bif").write_text("")
    sets = find_sets(data)
    assert find_remarks(sets, sets) == []


def test_models_in_the_folder_where_the_user_is_have_a_family(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    ibia.write(examples.chain(4), folder / "alone.uai")
    monkeypatch.chdir(folder)
    assert [instance.family for instance in find_instances(Path())] == ["mine"]
