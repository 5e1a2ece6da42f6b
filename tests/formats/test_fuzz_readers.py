"""Damaged and random files: a reader returns something valid or raises InputError, never anything else."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibia import formats
from ibia.errors import InputError
from ibia.model import Model
from reader_fuzz import KINDS, PATIENCE, check_file, make_file
from strategies import models

VALID = {
    "model.uai": b"MARKOV\n3\n2 2 3\n3\n1 0\n2 2 1\n0\n\n2\n 0.25 0.75\n\n6\n 1 2 3\n 4 5 6e-1\n1 2\n",
    "bayes.uai": b"BAYES 3 2 1 2 3 1 0 2 0 1 3 1 0 2 2 .5 .5 2 1 1 4 .1 .9 .2 .8",
    "model.erg": b"2\n2 3\n0\n1 0\n/* Tables */\n2 .5 .5\n6 1 0 0 0 .5 .5\n/* Names */ a b\nn y d w x\n",
    "model.bif": b'network n { } variable a { type discrete [ 2 ] { n, "y y" }; }\nvariable b { type discrete [ 2 ] '
    b"{ u, d }; }\nprobability ( a ) { table 0.5, 0.5; } probability ( b | a ) { (n) 0.1, 0.9; default 1, 0; }",
    "model.xmlbif": b"<?xml version='1.0'?> <BIF> <NETWORK> <NAME> n </NAME> <VARIABLE TYPE='nature'> <NAME> a </NAME> "
    b"<OUTCOME> n </OUTCOME> <OUTCOME> y </OUTCOME> </VARIABLE> <DEFINITION> <FOR> a </FOR> <TABLE> 0.5 0.5 </TABLE> "
    b"</DEFINITION> </NETWORK> </BIF>",
    "model.xdsl": b"<smile id='n'> <nodes> <cpt id='a'> <state id='n'/> <state id='y'/> <probabilities> 0.5 0.5 "
    b"</probabilities> </cpt> <deterministic id='b'> <state id='n'/> <state id='y'/> <parents> a </parents> "
    b"<resultingstates> n y </resultingstates> </deterministic> </nodes> </smile>",
    "model.json": b'{ "a" : "yes" , "b" : [ 0.5 , 1 ] , "c" : 3 }',
    "model.evid": b"/* Evidence */\n2\n 3 1\n 5 0\n",
    "model.MAR": b"MAR\n2 2 0.25 0.75 3 1 0 0\n-BEGIN-\n2 2 0.5 0.5 3 0 0 1\n",
    "model.PR": b"PR\n-8.893083376471438\n",
}
READERS: dict[str, Callable[[Path], object]] = {
    ".uai": formats.read,
    ".erg": formats.read,
    ".bif": formats.read,
    ".xmlbif": formats.read,
    ".xdsl": formats.read,
    ".json": formats.read_observations,
    ".txt": formats.read,
    ".evid": formats.read_evidence,
    ".MAR": formats.read_marginals,
    ".PR": formats.read_partition,
}
AWKWARD = [b"0", b"1", b"-1", b"2.0", b"nan", b"inf", b"-inf", b"1e999", b"1e-999", b"-0.0", b"1_0", b"+3"]
AWKWARD += [
    b"99999999999",
    b"1048576",
    b"4" * 400,
    b"9" * 5000,
    b"x",
    b"/*",
    b"*/",
    b"\xff",
    b"-BEGIN-",
    b"MARKOV",
]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a file name and a valid file after a few accidents."""
    name = draw(st.sampled_from(sorted(VALID)))
    data = VALID[name]
    for _ in range(draw(st.integers(1, 3))):
        accident = draw(st.sampled_from(["cut", "delete", "repeat", "replace", "swap", "byte"]))
        words = data.split(b" ")
        place = draw(st.integers(0, max(len(words) - 1, 0)))
        at = draw(st.integers(0, len(data)))
        if accident == "cut":
            data = data[:at]
        elif accident == "byte":
            data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 2)) :]
        else:
            other = draw(st.integers(0, max(len(words) - 1, 0)))
            if accident == "delete":
                del words[place]
            elif accident == "repeat":
                words.insert(place, words[place])
            elif accident == "replace":
                words[place] = draw(st.sampled_from(AWKWARD))
            else:
                words[place], words[other] = words[other], words[place]
            data = b" ".join(words)
    return name, data


def check_reader(folder: Path, name: str, data: bytes, packing: str = "") -> None:
    path = folder / (name + packing)
    path.write_bytes(data)
    try:
        result = READERS[Path(name).suffix](path)
    except InputError as error:
        message = str(error)
    else:
        message = "A sentence."
        if isinstance(result, Model):
            # A valid model is one that can be written and read again.
            formats.write(result, folder / "again.uai")
            assert formats.read(folder / "again.uai").factors == result.factors
    assert message.endswith((".", "?"))
    assert "\n" not in message


def check_packed(folder: Path, data: bytes, packing: str, cut: int, flip: int) -> None:
    packed = bytearray((gzip.compress if packing == ".gz" else lzma.compress)(data))
    packed[flip % len(packed)] ^= 1 + flip % 255
    check_reader(folder, "model.uai", bytes(packed[: max(len(packed) - cut, 0)]), packing)


few = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
fewer = settings(few, max_examples=100)
many = settings(few, max_examples=20000, suppress_health_check=list(HealthCheck))
names = st.sampled_from([f"file{suffix}" for suffix in READERS])
packings = st.sampled_from([".gz", ".xz"])
vocabulary = st.lists(st.sampled_from([*AWKWARD, b"\n", b"2", b"BAYES", b"0.5", b"MAR", b"PR"]), max_size=25)


@few
@given(file=damaged())
def test_damaged_files(tmp_path: Path, file: tuple[str, bytes]) -> None:
    check_reader(tmp_path, *file)


@fewer
@given(name=names, data=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_random_bytes_and_text(tmp_path: Path, name: str, data: bytes) -> None:
    check_reader(tmp_path, name, data)


@few
@given(name=names, words=vocabulary)
def test_random_words(tmp_path: Path, name: str, words: list[bytes]) -> None:
    check_reader(tmp_path, name, b" ".join(words))


@fewer
@given(packing=packings, cut=st.integers(0, 30), flip=st.integers(0, 1000))
def test_damaged_compressed_files(tmp_path: Path, packing: str, cut: int, flip: int) -> None:
    check_packed(tmp_path, VALID["model.uai"], packing, cut, flip)


@fewer
@given(model=models(), data=st.data())
def test_damaged_random_models(tmp_path: Path, model: Model, data: st.DataObject) -> None:
    formats.write(model, tmp_path / "whole.uai")
    words = (tmp_path / "whole.uai").read_bytes().split()
    place = data.draw(st.integers(0, len(words) - 1))
    words[place : place + data.draw(st.integers(0, 2))] = data.draw(
        st.lists(st.sampled_from(AWKWARD), max_size=2)
    )
    check_reader(tmp_path, "model.uai", b"\n".join(words))


# Seeded files of all kinds (reader_fuzz.py): damaged ones, and ones made by rules


def check_many(folder: Path, kind: str, seeds: range) -> tuple[int, int]:
    """Read that many files of a kind; return how many were read and how many were refused."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read = 0
    for seed in seeds:
        draw = random.Random(f"{kind} {seed}")
        read += check_file(folder, KINDS[kind], *make_file(draw, KINDS[kind]))
    # Small files take little memory, whatever they claim (the unit is the kilobyte).
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18
    return read, len(seeds) - read


@pytest.mark.parametrize("kind", KINDS)
def test_files_nobody_should_write(tmp_path: Path, kind: str) -> None:
    read, refused = check_many(tmp_path, kind, range(150))
    # Neither only good ones nor only bad ones.
    assert read > 5
    assert refused > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_files_nobody_should_write_at_length(tmp_path: Path, kind: str) -> None:
    seeds = range(1000, 1000 + int(os.environ.get("IBIA_FUZZ_FILES", "20000")))
    read, refused = check_many(tmp_path, kind, seeds)
    print(f"{kind}: {len(seeds)} files, {read} read, {refused} refused")
    assert read + refused == len(seeds)


# Small files that claim a lot, or would take long: refused soon, and with little memory


def chain(count: int, last: str) -> str:
    """The beginning of a BIF file with so many variables of two states, and one that has all of them as parents."""
    names = [f"p{number}" for number in range(count)]
    text = "".join(f"variable {name} {{ type discrete [ 2 ] {{ n, y }}; }}\n" for name in ("v", *names))
    text += "".join(f"probability ( {name} ) {{ table 1, 0; }}\n" for name in names)
    return f"{text}probability ( v | {', '.join(names)} ) {{ {last} }}"


def cycle(count: int) -> str:
    scopes = " ".join(f"2 {(number + 1) % count} {number}" for number in range(count))
    return f"BAYES {count} {'1 ' * count} {count} {scopes} {'1 1 ' * count}"


STATES = "".join(f"<state id='{number}'/>" for number in range(50000))
GREEDY = {
    "variables.uai": "MARKOV 1000000000000 2 2",
    "states.uai": f"MARKOV 2 {2**40} 2 0",
    "table.uai": f"MARKOV 60 {'2 ' * 60} 1 60 {' '.join(map(str, range(60)))} {2**60} 1",
    "scope.uai": f"MARKOV 2 1000000 1000000 1 300000 {'1 ' * 300000} 3 1 1 1",
    "comments.uai": "/*" * 300000,
    "cycle.uai": cycle(30000),
    "twice.uai": f"MARKOV 30000 {'1 ' * 30000} 1 30001 {' '.join(map(str, range(30000)))} 29999 1 1",
    "evidence.erg": "999999999999999999 2",
    "parents.bif": chain(70, "default 1, 0;"),
    "many.bif": chain(40, "default 1, 0;"),
    "states.xdsl": f"<smile><nodes><deterministic id='a'>{STATES}<state id='49999'/><resultingstates> 3 "
    "</resultingstates></deterministic></nodes></smile>",
    "deep.xml": "<BIF>" * 300000,
}


@pytest.mark.parametrize("name", GREEDY)
def test_small_files_that_claim_a_lot(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(GREEDY[name])
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises(InputError, match=name):
        formats.read(path)
    assert time.monotonic() - began < PATIENCE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18


@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_a_small_file_that_becomes_a_large_one(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibia.formats.text._LARGE_TEXT", 2**20)
    text = b"MARKOV 1 2 1 1 0 2 1 1" + b" " * 2**23
    path = tmp_path / f"model.uai{packing}"
    path.write_bytes(gzip.compress(text) if packing == ".gz" else lzma.compress(text))
    with pytest.raises(InputError, match="over 100 times as large when decompressed"):
        formats.read(path)
    monkeypatch.setattr("ibia.formats.text._LARGE_TEXT", 2**24)
    assert len(formats.read(path).variables) == 1


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null", "/proc/self/mem"])
def test_devices_are_no_models(device: str) -> None:
    if not Path(device).exists():
        pytest.skip("there is no such device")
    with pytest.raises(InputError, match=device):
        formats.read(device)


@pytest.mark.slow
@many
@given(file=damaged())
def test_damaged_files_at_length(tmp_path: Path, file: tuple[str, bytes]) -> None:
    check_reader(tmp_path, *file)


@pytest.mark.slow
@many
@given(name=names, words=vocabulary)
def test_random_words_at_length(tmp_path: Path, name: str, words: list[bytes]) -> None:
    check_reader(tmp_path, name, b" ".join(words))


@pytest.mark.slow
@many
@given(packing=packings, cut=st.integers(0, 30), flip=st.integers(0, 100000))
def test_damaged_compressed_files_at_length(tmp_path: Path, packing: str, cut: int, flip: int) -> None:
    check_packed(tmp_path, VALID["model.uai"], packing, cut, flip)
