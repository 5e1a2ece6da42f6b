"""Evidence in either kind of file."""

from __future__ import annotations

import pytest

import ibia
from ibia.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("2 3 1 5 0", {3: 1, 5: 0}),
        ("{}", {}),
        ('\n {"smoke": "yes",\n "age": 2, "fever": [0.2, 1]}\n', {"smoke": "yes", "age": 2, "fever": [0.2, 1]}),
        ('{"rain": true, "snow": false}', {"rain": "true", "snow": "false"}),
        ('{"a": "x", "a": "x"}', {"a": "x"}),
    ],
)
def test_files_of_both_kinds(tmp_path, text, expected):
    path = tmp_path / "evidence"
    path.write_text(text)
    assert ibia.read_observations(path) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": "x",\n "b" 3}', ", line 2: this is not JSON; expecting ':' delimiter."),
        ('{"a": "x"} more', "this is not JSON"),
        ('{"a": null}', "the variable a is given null; expected a state"),
        ('{"a": 0.5}', "the variable a is given 0.5; expected a state"),
        ('{"a": [0.5, "x"]}', 'the variable a is given [0.5, "x"]; expected a state'),
        ('{"a": {"x": 1}}', "the variable a is given"),
        ('{"a": "x", "a": "y"}', "the variable a is given two different values"),
        ('{"a": ' + "[" * 100000, "not a JSON file as expected"),
        ('{"a": ' + "9" * 5000 + "}", "not a JSON file as expected"),
        ('["a"]', "expected a whole number"),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path, text, words):
    path = tmp_path / "evidence.json"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        ibia.read_observations(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "evidence.json"
    path.write_bytes(b'{"\xff": "x"}')
    with pytest.raises(InputError, match="JSON"):
        ibia.read_observations(path)
