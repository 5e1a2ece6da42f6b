"""The results file: what is written stays, what was half-written goes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench_rows import row
from ibia.bench import commands
from ibia.bench.solvers import parse_solver
from ibia.bench.store import Store, read_results
from ibia.bench.summary import order_rows
from ibia.errors import InputError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.jsonl"


def test_rows_are_kept_and_the_last_of_a_key_counts(path):
    with Store(path) as store:
        store.append({"key": "a", "value": 1})
        store.append({"key": "b", "value": math.inf})
        store.append({"key": "a", "value": 2})
    with Store(path) as store:
        assert store.rows == {"a": {"key": "a", "value": 2}, "b": {"key": "b", "value": None}}
    assert len(path.read_text().splitlines()) == 3
    assert [row["value"] for row in read_results([path])] == [2, None]


def test_half_a_line_is_ignored_and_taken_off(path):
    path.write_text('{"key": "a"}\n{"key": "b", "val')
    assert [row["key"] for row in read_results([path])] == ["a"]
    with Store(path) as store:
        assert list(store.rows) == ["a"]
        store.append({"key": "b"})
    assert path.read_text() == '{"key": "a"}\n{"key": "b"}\n'


@pytest.mark.parametrize("half", ["{", '{"key"', '{"key": "b', '{"key": "b", "val'])
def test_a_file_is_as_it_was_until_a_row_is_added(path, half):
    path.write_text('{"key": "a"}\n' + half)
    with Store(path) as store:
        assert list(store.rows) == ["a"]
    assert path.read_text() == '{"key": "a"}\n' + half
    with Store(path) as store:
        store.append({"key": "c"})
        store.append({"key": "d"})
    assert path.read_text() == '{"key": "a"}\n{"key": "c"}\n{"key": "d"}\n'


@pytest.mark.parametrize("text", ['{"results": [1]}', "family,name", '{"key": 5}', "[" * 100_000 + "\n"])
def test_what_others_have_written_is_a_sentence_and_not_taken_off(path, text):
    path.write_text(text)
    with pytest.raises(InputError, match="line 1: not a row of results"):
        Store(path)
    with pytest.raises(InputError, match="line 1: not a row of results"):
        read_results([path])
    assert path.read_text() == text


def test_a_whole_last_line_is_ended(path):
    path.write_text('{"key": "a"}\n{"key": "b"}')
    with Store(path) as store:
        assert list(store.rows) == ["a", "b"]
        store.append({"key": "c"})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b", "c"]


def test_a_damaged_line_is_a_sentence_and_nothing_is_changed(path):
    path.write_text('{"family": "A"}\n{"key": "b"}\n{"ke')
    with pytest.raises(InputError, match="line 1"):
        Store(path)
    with pytest.raises(InputError, match="line 1"):
        read_results([path])
    assert path.read_text().endswith('{"ke')


def test_two_benches_do_not_write_to_one_file(path):
    with Store(path), pytest.raises(InputError, match="another bench"):
        Store(path)
    Store(path).__exit__(None, None, None)


def test_files_that_cannot_be_used_are_sentences(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        Store(tmp_path / "missing" / "results.jsonl")
    with pytest.raises(InputError, match="There is no file"):
        read_results([tmp_path / "missing.jsonl"])


def test_devices_and_files_without_rows(tmp_path):
    with pytest.raises(InputError, match="/dev/null is not a file that results can be added to"):
        Store(Path("/dev/null"))
    with Store(tmp_path / "new.jsonl"):
        pass
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.jsonl").touch()
    with Store(tmp_path / "old.jsonl"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["old.jsonl"]


def test_rows_of_programs_with_paths_are_those_of_the_solvers_as_they_are_called_now(path):
    then, now = "uai:program=/some/where/solver", parse_solver("uai:/some/where/solver").label
    old = row(solver=then, status="crashed")
    path.write_text("".join(json.dumps(entry) + "\n" for entry in (old, row(solver=now), row("m2", then))))
    found = read_results([path])
    assert [(entry["name"], entry["solver"], entry["status"]) for entry in found] == [
        ("m1", now, "answered"),
        ("m2", now, "answered"),
    ]
    # They are asked for in any way, and shown without the path.
    for asked in ("uai:/some/where/solver", then, now, "uai"):
        assert commands._read([path], [asked]) == found
    assert order_rows(found).methods == (now,)


def test_rows_keep_labels_that_nobody_knows_better(path):
    labels = ["ibia:bound=20,order=breadth", "uai:program=solver", "merlin:program=/a,nothing=5", "unheard:program=/a"]
    path.write_text("".join(json.dumps(row(solver=label)) + "\n" for label in labels))
    assert [entry["solver"] for entry in read_results([path])] == labels
    # Options as they were written once.
    path.write_text(json.dumps(row(solver="uai:program=/some/solver,pr=True")) + "\n")
    assert [entry["solver"] for entry in read_results([path])] == [parse_solver("uai:/some/solver,pr=yes").label]


def test_of_rows_whose_keys_were_made_otherwise_the_last_counts(path):
    path.write_text("".join(json.dumps(row(key=key, seconds=seconds)) + "\n" for key, seconds in (("a", 1), ("b", 2))))
    assert [entry["seconds"] for entry in read_results([path])] == [2]
    versions = ({**row(key="a"), "version": version} for version in ("1", "2"))
    path.write_text("".join(json.dumps(entry) + "\n" for entry in versions))
    assert [entry["version"] for entry in read_results([path])] == ["1", "2"]
