"""Files nobody should write: valid ones after accidents, and others made by rules that go wrong now and then.

A seed gives the same files again. What must hold of each is in `check_file`.
"""

from __future__ import annotations

import gzip
import json
import lzma
import random
import time
from collections.abc import Callable
from pathlib import Path

from ibia import examples, formats
from ibia.errors import InputError
from ibia.model import Model
from ibia.observations import observe, parse_observation

__all__ = ["KINDS", "PATIENCE", "Kind", "check_file", "make_file"]

# The suffix that stands for what is no file.
_COMMAND_LINE = ".observation"
# Seconds that a small file may take, on a machine that does much else as well.
PATIENCE = 10.0

NUMBERS = [
    *("0", "1", "2", "3", "-1", "-0", "+3", "2.0", "0.5", "1e-3", "nan", "NaN", "inf", "-inf", "Infinity", "1e999"),
    *("1e-999", "-0.0", "1_0", "0x10", "1e5", "1048577", "16777217", "99999999999", "1000000000000", str(2**60)),
    *(str(2**63), str(2**64), "4" * 400, "9" * 5000, "1" + "0" * 20, "\u0661", "\u00bd", "1,5", ".", "-", "e", "1e"),
]
NAMES = [
    *("a", "b", "X0", "x y", "n", "y", "yes", "no", "0", "1", "../../etc/passwd", "/dev/zero", "file:///etc/passwd"),
    *("\x1b[31mred", "\u009b31m", "\u202eabc", "<script>alert(1)</script>", "&amp;", "&lt;b&gt;", '"', "'", "\\", "%s"),
    *("{}", "{0}", "a" * 3000, "\u00e9", "\U0001f600", "\ufeff", "$(reboot)", "`reboot`", "__import__('os')", "a,b"),
    *("a;b", "a|b", "//", "/*", "*/", "(", ")", "a\tb", "a\nb", "\x7f", "\x00", "=", "a=b", "nan", "None", "true"),
]
WORDS = [
    *("MARKOV", "BAYES", "markov", "network", "variable", "probability", "type", "discrete", "table", "default"),
    *("property", "{", "}", "(", ")", "[", "]", "|", ",", ";", "/*", "*/", "//", "-BEGIN-", "MAR", "PR", "<", ">"),
    *("</BIF>", "<BIF>", "<TABLE>", "<!DOCTYPE BIF [<!ENTITY a 'b'>]>", "&a;", "<!--", "-->", "<![CDATA[", "]]>"),
    *("\ufeff", "\r", "\r\n", "\f", "\v", "\x1a", "\x1b", "\x00", "\udcff", '"', ":", "null", "true", "[[[[[[", "{{{"),
]


class Kind:
    """A kind of file: its suffix, how it is read, valid ones to damage, and a rule that makes others."""

    def __init__(
        self,
        suffix: str,
        read: Callable[[Path], object],
        valid: list[bytes],
        rule: Callable[[random.Random], str],
    ) -> None:
        self.suffix, self.read, self.valid, self.rule = suffix, read, valid, rule


# Rules


def number(draw: random.Random) -> str:
    """A number that is usually fine."""
    return draw.choice(NUMBERS) if draw.random() < 0.03 else repr(round(draw.random(), 3))


def count(draw: random.Random, true: int) -> str:
    """A count that is usually the true one."""
    return draw.choice(NUMBERS) if draw.random() < 0.02 else str(true + (draw.random() < 0.01))


def name(draw: random.Random, usual: str) -> str:
    """A name that is usually the one meant."""
    return draw.choice(NAMES) if draw.random() < 0.05 else usual


def _sizes(draw: random.Random) -> list[int]:
    return [draw.choice((1, 2, 2, 2, 3, 4)) for _ in range(draw.randrange(1, 7))]


def _entries(draw: random.Random, sizes: list[int], scope: list[int]) -> int:
    size = 1
    for variable in scope:
        size *= sizes[variable]
    return size


def _scopes(draw: random.Random, sizes: list[int]) -> list[list[int]]:
    """The parents of each variable and itself; seldom in a cycle, or one of them twice."""
    scopes = []
    for child in range(len(sizes)):
        parents = draw.sample(range(child), min(child, draw.randrange(3)))
        if draw.random() < 0.02:
            parents.append(draw.randrange(len(sizes)))
        scopes.append([*parents, child])
    return scopes


def uai(draw: random.Random) -> str:
    sizes = _sizes(draw)
    scopes = _scopes(draw, sizes)
    words = [draw.choice(("MARKOV", "BAYES", "bayes")), count(draw, len(sizes))]
    words += [count(draw, size) for size in sizes]
    words.append(count(draw, len(scopes)))
    for scope in scopes:
        words += [count(draw, len(scope)), *(count(draw, variable) for variable in scope)]
    for scope in scopes:
        entries = _entries(draw, sizes, scope)
        words += [count(draw, entries), *(number(draw) for _ in range(entries))]
    return _spaced(draw, words)


def erg(draw: random.Random) -> str:
    sizes = _sizes(draw)
    scopes = _scopes(draw, sizes)
    words = [count(draw, len(sizes)), *(count(draw, size) for size in sizes)]
    for scope in scopes:
        words += [count(draw, len(scope) - 1), *(count(draw, variable) for variable in scope[:-1])]
    words.append("/* tables */")
    for scope in scopes:
        entries = _entries(draw, sizes, scope)
        words += [count(draw, entries), *(number(draw) for _ in range(entries))]
    if draw.random() < 0.5:
        words += [name(draw, f"v{variable}") for variable in range(len(sizes))]
        words += [name(draw, f"s{state}") for size in sizes for state in range(size)]
    return _spaced(draw, words)


def bif(draw: random.Random) -> str:
    sizes = _sizes(draw)
    names = [_quoted(draw, name(draw, f"v{variable}")) for variable in range(len(sizes))]
    states = [[_quoted(draw, name(draw, f"s{state}")) for state in range(size)] for size in sizes]
    parts = [f"network {_quoted(draw, name(draw, 'n'))} {{ }}"]
    for variable, size in enumerate(sizes):
        known = ", ".join(states[variable])
        parts.append(
            f"variable {names[variable]} {{ type discrete [ {count(draw, size)} ] {{ {known} }}; property x y ; }}"
        )
    for scope in _scopes(draw, sizes):
        parts.append(_bif_table(draw, scope, names, states))
    return "\n".join(parts)


def _bif_table(draw: random.Random, scope: list[int], names: list[str], states: list[list[str]]) -> str:
    *parents, child = scope
    given = f" | {', '.join(names[parent] for parent in parents)}" if parents else ""
    size = len(states[child])
    rows = []
    if not parents or draw.random() < 0.3:
        entries = _entries(draw, [len(known) for known in states], scope)
        rows.append(f"table {', '.join(number(draw) for _ in range(entries))};")
    else:
        if draw.random() < 0.6:
            rows.append(f"default {', '.join(number(draw) for _ in range(size))};")
        for _ in range(draw.randrange(5)):
            labels = ", ".join(draw.choice(states[parent]) for parent in parents)
            rows.append(f"({labels}) {', '.join(number(draw) for _ in range(size))};")
    return f"probability ( {names[child]}{given} ) {{ {' '.join(rows)} }}"


def xmlbif(draw: random.Random) -> str:
    sizes = _sizes(draw)
    names = [_escaped(draw, name(draw, f"v{variable}")) for variable in range(len(sizes))]
    head = draw.choice(("", "<?xml version='1.0'?>", "<?xml version='1.0' encoding='latin-1'?>"))
    if draw.random() < 0.1:
        head += draw.choice(("<!DOCTYPE BIF [<!ELEMENT BIF (NETWORK)*>]>", "<!DOCTYPE BIF [<!ENTITY a SYSTEM 'b'>]>"))
    parts = [head, "<BIF><NETWORK><NAME>n</NAME>"]
    for variable, size in enumerate(sizes):
        outcomes = "".join(f"<OUTCOME>{_escaped(draw, name(draw, f's{state}'))}</OUTCOME>" for state in range(size))
        parts.append(f"<VARIABLE TYPE='nature'><NAME>{names[variable]}</NAME>{outcomes}</VARIABLE>")
    for *parents, child in _scopes(draw, sizes):
        given = "".join(f"<GIVEN>{names[parent]}</GIVEN>" for parent in parents)
        table = " ".join(number(draw) for _ in range(_entries(draw, sizes, [*parents, child])))
        parts.append(f"<DEFINITION><FOR>{names[child]}</FOR>{given}<TABLE>{table}</TABLE></DEFINITION>")
    return "".join([*parts, "</NETWORK></BIF>"])


def xdsl(draw: random.Random) -> str:
    sizes = _sizes(draw)
    parts = [f"<smile id='{_escaped(draw, name(draw, 'n'))}'><nodes>"]
    for *parents, child in _scopes(draw, sizes):
        states = [name(draw, f"s{state}") for state in range(sizes[child])]
        known = "".join(f"<state id='{_escaped(draw, state)}'/>" for state in states)
        given = f"<parents>{' '.join(f'v{parent}' for parent in parents)}</parents>" if parents else ""
        if draw.random() < 0.5:
            words = [number(draw) for _ in range(_entries(draw, sizes, [*parents, child]))]
            kind, table = "cpt", f"<probabilities>{' '.join(words)}</probabilities>"
        else:
            words = [_escaped(draw, draw.choice(states)) for _ in range(_entries(draw, sizes, parents))]
            kind, table = "deterministic", f"<resultingstates>{' '.join(words)}</resultingstates>"
        parts.append(f"<{kind} id='v{child}'>{known}{given}{table}</{kind}>")
    return "".join([*parts, "</nodes></smile>"])


def evidence(draw: random.Random) -> str:
    pairs = [(draw.randrange(6), draw.randrange(2)) for _ in range(draw.randrange(4))]
    words = ["1"] * (draw.random() < 0.2) + [count(draw, len(pairs))]
    return _spaced(draw, words + [count(draw, word) for pair in pairs for word in pair])


def observations(draw: random.Random) -> str:
    def value(depth: int) -> object:
        choice = draw.randrange(9)
        if choice == 0 and depth < 4:
            return {draw.choice(NAMES): value(depth + 1) for _ in range(draw.randrange(3))}
        if choice <= 2 and depth < 4:
            return [value(depth + 1) for _ in range(draw.randrange(4))]
        plain = (draw.choice(NAMES), draw.randrange(-2, 5), draw.random(), None, True, float("nan"), 10**400)
        return draw.choice(plain)

    known = [*NAMES, "talent", "test", "grade", "letter"]
    given = {draw.choice(known): value(0) for _ in range(draw.randrange(4))}
    return json.dumps(given, ensure_ascii=draw.random() < 0.5)


def marginals(draw: random.Random) -> str:
    words = ["MAR"] * (draw.random() < 0.9) + ["1"] * (draw.random() < 0.1)
    for solution in range(draw.randrange(1, 3)):
        sizes = _sizes(draw)
        words += ["-BEGIN-"] * bool(solution) + [count(draw, len(sizes))]
        for size in sizes:
            words += [count(draw, size), *(number(draw) for _ in range(size))]
    return _spaced(draw, words)


def partition(draw: random.Random) -> str:
    return _spaced(draw, ["PR", number(draw), *(["-BEGIN-", number(draw)] * draw.randrange(2))])


def command_line(draw: random.Random) -> str:
    """An observation as it stands after -E."""
    variable = draw.choice(STUDENT.variables)
    likelihood = ",".join(number(draw) for _ in range(variable.cardinality + (draw.random() < 0.1)))
    value = draw.choice((draw.choice(variable.states), likelihood, draw.choice(NAMES), draw.choice(NUMBERS)))
    sign = "" if draw.random() < 0.1 else "="
    return f"{name(draw, variable.name)}{sign}{value}"


def _spaced(draw: random.Random, words: list[str]) -> str:
    return "".join(word + draw.choice((" ", " ", "\n", "\t", "\r\n", "  ")) for word in words)


def _quoted(draw: random.Random, text: str) -> str:
    return f'"{text}"' if draw.random() < 0.5 else text


def _escaped(draw: random.Random, text: str) -> str:
    if draw.random() < 0.1:
        return "".join(f"&#{ord(character)};" for character in text[:50])
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&apos;") if draw.random() < 0.95 else text


# Accidents


def damage(draw: random.Random, data: bytes) -> bytes:
    """Let something happen to a file."""
    accident = draw.randrange(9)
    at, other = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    if accident == 0:
        return data[:at]
    if accident == 1:
        return data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
    if accident == 2:
        return data[:at] + bytes(draw.randrange(256) for _ in range(draw.randrange(4))) + data[at:]
    if accident == 3:
        return data[:at] + data[other:] if other - at < 40 else data[:at] + data[at + 5 :]
    if accident == 4:
        lines = data.split(b"\n")
        lines.insert(draw.randrange(len(lines)), draw.choice(lines))
        return b"\n".join(lines)
    if accident == 5:
        return data[:at] + data[at : at + 30] * draw.randrange(2, 50) + data[at:]
    words = data.split(b" ")
    place = draw.randrange(len(words))
    if accident == 6:
        words[place] = draw.choice(NUMBERS).encode()
    elif accident == 7:
        words[place] = draw.choice((*WORDS, *NAMES)).encode(errors="surrogateescape")
    else:
        words[place], words[-1 - place] = words[-1 - place], words[place]
    return b" ".join(words)


def make_file(draw: random.Random, kind: Kind) -> tuple[str, bytes]:
    """Return the suffix and the bytes of a file of that kind, sometimes compressed and sometimes damaged after that."""
    if draw.random() < 0.5:
        data = kind.rule(draw).encode(errors="surrogateescape")
        if draw.random() < 0.3:
            data = damage(draw, data)
    else:
        data = draw.choice(kind.valid)
        for _ in range(draw.randrange(1, 4)):
            data = damage(draw, data)
    # Where the suffix tells nothing, the first word does.
    suffix = ".txt" if draw.random() < 0.02 else kind.suffix
    packing = draw.choice(("", "", "", "", "", "", "", ".gz", ".xz")) if kind.suffix != _COMMAND_LINE else ""
    if packing:
        data = gzip.compress(data, 1) if packing == ".gz" else lzma.compress(data, preset=0)
        if draw.random() < 0.7:
            data = damage(draw, data)
    return suffix + packing, data


# What must hold


def check_file(folder: Path, kind: Kind, suffix: str, data: bytes) -> bool:
    """Read a file: what comes out is valid, or a sentence that names it; return which."""
    path = folder / f"file{suffix}"
    path.write_bytes(data)
    began = time.monotonic()
    try:
        result = kind.read(path)
    except InputError as error:
        check_sentence(str(error), "" if kind.suffix == _COMMAND_LINE else str(path))
        result = None
    assert time.monotonic() - began < PATIENCE
    if isinstance(result, Model):
        check_model(folder, result)
    return result is not None


def check_sentence(message: str, path: str) -> None:
    assert message.rstrip().endswith((".", "?")), message
    assert path in message, message


def check_model(folder: Path, model: Model) -> None:
    """A model is valid if it can be made again, and written and read again."""
    assert Model(model.variables, model.factors, model.kind) == model
    formats.write(model, folder / "again.uai")
    again = formats.read(folder / "again.uai")
    assert (again.kind, again.cardinalities, again.factors) == (model.kind, model.cardinalities, model.factors)
    try:
        formats.write(model, folder / "again.bif")
    except InputError as error:
        check_sentence(str(error), "again.bif")
    else:
        again = formats.read(folder / "again.bif")
        ordered = sorted(model.factors, key=lambda factor: factor.scope[-1])
        assert (again.variables, list(again.factors)) == (model.variables, ordered)


def _read_observations(path: Path) -> object:
    """Read evidence of either kind; whether it fits a model is another question, with another sentence."""
    found = formats.read_observations(path)
    try:
        observe(STUDENT, found)
    except InputError as error:
        check_sentence(str(error), "")
    return found


def _read_command_line(path: Path) -> object:
    text = path.read_bytes().decode(errors="surrogateescape")
    return observe(STUDENT, parse_observation(STUDENT, text))


STUDENT = examples.student()
_UAI = [
    b"MARKOV\n3\n2 2 3\n3\n1 0\n2 2 1\n0\n\n2\n 0.25 0.75\n\n6\n 1 2 3\n 4 5 6e-1\n1 2\n",
    b"BAYES 3 2 1 2 3 1 0 2 0 1 3 1 0 2 2 .5 .5 2 1 1 4 .1 .9 .2 .8",
]
_ERG = [b"2\n2 3\n0\n1 0\n/* Tables */\n2 .5 .5\n6 1 0 0 0 .5 .5\n/* Names */ a b\nn y d w x\n"]
_BIF = [
    b'network n { } variable a { type discrete [ 2 ] { n, "y y" }; }\nvariable b { type discrete [ 2 ] { u, d }; }\n'
    b"probability ( a ) { table 0.5, 0.5; } probability ( b | a ) { (n) 0.1, 0.9; default 1, 0; }"
]
_XMLBIF = [
    b"<?xml version='1.0'?> <!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]> <BIF> <NETWORK> <NAME> n </NAME> <VARIABLE "
    b"TYPE='nature'> <NAME> a </NAME> <OUTCOME> n </OUTCOME> <OUTCOME> y </OUTCOME> </VARIABLE> <DEFINITION> <FOR> a "
    b"</FOR> <TABLE> 0.5 0.5 </TABLE> </DEFINITION> </NETWORK> </BIF>"
]
_XDSL = [
    b"<smile id='n'> <nodes> <cpt id='a'> <state id='n'/> <state id='y'/> <probabilities> 0.5 0.5 </probabilities> "
    b"</cpt> <deterministic id='b'> <state id='n'/> <state id='y'/> <parents> a </parents> <resultingstates> n y "
    b"</resultingstates> </deterministic> </nodes> </smile>"
]
_JSON = [b'{ "talent" : "low" , "grade" : [ 0.5 , 1 , 0 ] , "test" : 1 }']
_MAR = [b"MAR\n2 2 0.25 0.75 3 1 0 0\n-BEGIN-\n2 2 0.5 0.5 3 0 0 1\n"]
KINDS = {
    kind.suffix: kind
    for kind in (
        Kind(".uai", formats.read, _UAI, uai),
        Kind(".erg", formats.read, _ERG, erg),
        Kind(".bif", formats.read, _BIF, bif),
        Kind(".xmlbif", formats.read, _XMLBIF, xmlbif),
        Kind(".xdsl", formats.read, _XDSL, xdsl),
        Kind(".evid", formats.read_evidence, [b"/* Evidence */\n2\n 3 1\n 4 0\n", b"1\n2 0 1 1 0"], evidence),
        Kind(".json", _read_observations, _JSON, observations),
        Kind(".MAR", formats.read_marginals, _MAR, marginals),
        Kind(".PR", formats.read_partition, [b"PR\n-8.893083376471438\n"], partition),
        Kind(_COMMAND_LINE, _read_command_line, [b"talent=low", b"grade=0.2,0.3,0.5", b"3=1"], command_line),
    )
}
