"""Text files: opening, splitting, line numbers, atomic writing."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibia.errors import InputError
from ibia.formats.text import Tokens, inner_suffix, read_tokens, write_text


def tokens_of(data: bytes) -> Tokens:
    return Tokens("file", data, data.split())


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".GZ"])
def test_write_and_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"words{suffix}"
    write_text(path, "one two\nthree\n")
    assert read_tokens(path).words == [b"one", b"two", b"three"]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compression_is_recognised_without_a_suffix(tmp_path: Path, pack) -> None:
    path = tmp_path / "model.uai"
    path.write_bytes(pack(b"a b"))
    assert read_tokens(path).words == [b"a", b"b"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_damaged_compressed_files(tmp_path: Path, suffix: str, pack) -> None:
    path = tmp_path / f"model.uai{suffix}"
    whole = pack(b"some text that is long enough to be worth compressing " * 9)
    broken = bytearray(whole)
    broken[len(broken) // 2] ^= 0xFF
    for data in (b"", whole[:4], whole[:-5], b"plain text", bytes(broken)):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"is not a complete (gzip|xz) file"):
            read_tokens(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*nowhere"):
        read_tokens(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is a folder"):
        read_tokens(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_tokens("nul\0byte")
    with pytest.raises(InputError, match="cannot be read"):
        read_tokens("a" * 5000)


def test_binary_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    with pytest.raises(InputError, match="is not a text file"):
        read_tokens(path)


def test_comments_byte_order_mark_and_old_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_bytes(b"\xef\xbb\xbfa/* x\n * y */b\n/**/ c /* /* */ d")
    tokens = read_tokens(path)
    assert tokens.words == [b"a", b"b", b"c", b"d"]
    assert [tokens.line(position) for position in range(5)] == [1, 2, 3, 3, 3]
    path.write_bytes(b"a\rb\rc")
    assert read_tokens(path).line(2) == 3
    path.write_bytes(b"a\r\nb\r\nc /* open")
    with pytest.raises(InputError, match=r"words, line 3: a comment begins"):
        read_tokens(path)


@given(
    st.binary(max_size=60).map(lambda data: bytes(byte for byte in data if byte >= 32 or byte in b"\t\n\r"))
)
def test_lines_point_at_their_words(data: bytes) -> None:
    tokens = tokens_of(data)
    lines = data.split(b"\n")
    for position, word in enumerate(tokens.words):
        assert word in lines[tokens.line(position) - 1]


def test_whole_numbers() -> None:
    tokens = tokens_of(b"1 +2 -0\n003")
    assert tokens.integers(0, 4, "x") == [1, 2, 0, 3]
    assert tokens.integers(0, 0, "x") == []
    for word in (b"2.0", b"-1", b"1_0", b"1e3", b"x", b"0x1", b"\xd9\xa1", b"nan"):
        with pytest.raises(InputError, match=r"file, line 2: a count is .*; expected a whole number"):
            tokens_of(b"1\n" + word).integer(1, "a count")
    with pytest.raises(InputError, match="too large a number"):
        tokens_of(b"9" * 5000).integer(0, "a count")
    with pytest.raises(InputError, match="ends too early: a count is missing"):
        tokens.integer(4, "a count")


@pytest.mark.parametrize("repeat", [1, 50])
def test_weights(repeat: int) -> None:
    tokens = tokens_of(b"1 2.5e-3 0 " * repeat + b"\n1e-320")
    values = tokens.weights(0, len(tokens), "x")
    np.testing.assert_array_equal(values, [1, 2.5e-3, 0] * repeat + [1e-320])
    assert not values.flags.writeable
    for word, message in {
        b"-1": "expected a finite number",
        b"nan": "expected a finite number",
        b"inf": "expected a finite number",
        b"-1e999": "expected a finite number",
        b"1e999": "too large for double precision",
        b"1_0": "expected a number",
        b"x": "expected a number",
        b"1,5": "expected a number",
    }.items():
        with pytest.raises(InputError, match=f"file, line 3: an entry is '{word.decode()}'.*{message}"):
            tokens_of(b"1 0 1\n" * 2 + word + b" 1" * repeat * 9).weights(0, 7 + 9 * repeat, "an entry")


def test_inner_suffix() -> None:
    assert inner_suffix("a/b.UAI.xz") == ".uai"
    assert inner_suffix("b.erg") == ".erg"
    assert inner_suffix("b.gz") == ""
    assert inner_suffix("b") == ""


def test_failed_writes_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answer"
    path.write_text("old")
    with pytest.raises(InputError, match="is a folder"):
        write_text(tmp_path, "x")
    with pytest.raises(InputError, match="cannot be written: no such file"):
        write_text(tmp_path / "nowhere" / "file", "x")

    def fail(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="answer cannot be written: no space left on device"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["answer"]


def test_writing_keeps_links_modes_and_devices(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    link = tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    write_text(os.devnull, "gone")
    assert not Path(os.devnull).is_file()
