"""Bayesian networks in XML."""

from __future__ import annotations

import gzip
from itertools import pairwise

import pytest

import ibia
from ibia.errors import InputError

XMLBIF = """<?xml version="1.0"?>
<BIF VERSION="0.3">
<NETWORK>
<NAME>weather</NAME>
<VARIABLE TYPE="nature"><NAME>rain</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>sprinkler</NAME><OUTCOME>on</OUTCOME><OUTCOME>off</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>grass</NAME><OUTCOME>dry</OUTCOME><OUTCOME>damp</OUTCOME><OUTCOME>wet</OUTCOME></VARIABLE>
<DEFINITION><FOR>rain</FOR><TABLE>0.2 <!-- yes --> 0.8</TABLE></DEFINITION>
<DEFINITION><FOR>sprinkler</FOR><GIVEN>rain</GIVEN><TABLE>0.01 0.99 0.4 0.6</TABLE></DEFINITION>
<DEFINITION><FOR>grass</FOR><GIVEN>sprinkler</GIVEN><GIVEN>rain</GIVEN>
<TABLE>0 0.1 0.9 0.5 0.25 0.25 0.1 0.2 0.7 1 0 0</TABLE></DEFINITION>
</NETWORK>
</BIF>
"""
XDSL = """<?xml version="1.0" encoding="UTF-8"?>
<smile version="1.0" id="weather">
<nodes>
<cpt id="rain"><state id="yes" /><state id="no" /><probabilities>0.2 0.8</probabilities></cpt>
<cpt id="sprinkler"><state id="on" /><state id="off" /><parents>rain</parents>
<probabilities>0.01 0.99 0.4 0.6</probabilities></cpt>
<cpt id="grass"><state id="dry" /><state id="damp" /><state id="wet" /><parents>sprinkler rain</parents>
<probabilities>0 0.1 0.9 0.5 0.25 0.25 0.1 0.2 0.7 1 0 0</probabilities></cpt>
</nodes>
<extensions><genie version="1.0" name="weather">
<node id="rain"><name>rain</name></node>
<node id="sprinkler"><name>sprinkler</name></node>
<node id="grass"><name>grass</name></node>
</genie></extensions>
</smile>
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rain.xmlbif", XMLBIF),
        ("rain.bifxml", XMLBIF),
        ("rain.xml.gz", XMLBIF),
        ("rain.xdsl", XDSL),
        ("rain", XMLBIF),
        ("rain.xml", XDSL),
    ],
)
def test_a_network_is_read(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    model = ibia.read(path)
    assert model.kind == "bayes"
    assert model.name == "weather"
    assert model.names == ("rain", "sprinkler", "grass")
    assert [variable.states for variable in model.variables] == [("yes", "no"), ("on", "off"), ("dry", "damp", "wet")]
    rain, sprinkler, grass = model.factors
    assert [rain.scope, sprinkler.scope, grass.scope] == [(0,), (0, 1), (1, 0, 2)]
    assert rain.values.tolist() == [0.2, 0.8]
    assert sprinkler.values.tolist() == [0.01, 0.99, 0.4, 0.6]
    assert grass.values.tolist() == [0.0, 0.1, 0.9, 0.5, 0.25, 0.25, 0.1, 0.2, 0.7, 1.0, 0.0, 0.0]


def test_files_that_pyagrum_wrote_have_the_first_parent_fastest(tmp_path):
    path = tmp_path / "weather.xdsl"
    signed = "<!-- This network was created by pyAgrum 3.3.1 for any purpose you want -->\n<smile"
    path.write_text(XDSL.replace("<smile", signed, 1))
    grass = ibia.read(path).factors[-1]
    assert grass.scope == (0, 1, 2)
    path.write_text(XDSL)
    assert ibia.read(path).factors[-1].scope == (1, 0, 2)


def test_xdsl_of_pyagrum_gives_its_answers(tmp_path):
    gum = pytest.importorskip("pyagrum")
    network = gum.fastBN("a{p|q|r}->c{x|y|z|w}<-b{s|t};d->c")
    path = tmp_path / "network.xdsl"
    gum.saveBN(network, str(path))
    theirs = gum.LazyPropagation(network)
    theirs.setEvidence({"c": "y"})
    assert ibia.infer(ibia.read(path), {"c": "y"})["a"] == pytest.approx(theirs.posterior("a").toarray(), abs=1e-6)


def test_deterministic_nodes(tmp_path):
    path = tmp_path / "rain.xdsl"
    node = XDSL.index('<cpt id="sprinkler">')
    end = XDSL.index("</cpt>", node)
    path.write_text(
        XDSL[:node]
        + '<deterministic id="sprinkler"><state id="on" /><state id="off" /><parents>rain</parents>'
        + "<resultingstates>off on</resultingstates></deterministic>"
        + XDSL[end + len("</cpt>") :]
    )
    assert ibia.read(path).factors[1].values.tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "before", "after", "words"),
    [
        (XMLBIF, "0.01 0.99", "0.01 x", "the table of sprinkler holds 'x'; expected a finite number"),
        (XMLBIF, "0.01 0.99", "0.01 nan", "holds 'nan'"),
        (XMLBIF, "0.01 0.99", "0.01 -1", "holds '-1'"),
        (XMLBIF, "0.01 0.99", "0.01 1_0", "holds '1_0'"),
        (XMLBIF, "0.01 0.99", "0.99", "the table of sprinkler holds 3 numbers; expected 4."),
        (XMLBIF, "<GIVEN>rain", "<GIVEN>snow", "the variable sprinkler has the parent snow, but there is no such"),
        (XMLBIF, "<FOR>rain", "<FOR>snow", "the variable rain has no DEFINITION"),
        (XMLBIF, "<FOR>rain", "<FOR>grass", "the variable grass has a second DEFINITION"),
        (XMLBIF, "<FOR>rain</FOR>", "", "an element DEFINITION has no FOR"),
        (XMLBIF, "<TABLE>0.01 0.99 0.4 0.6</TABLE>", "", "the variable sprinkler has no TABLE"),
        (XMLBIF, "<OUTCOME>no<", "<OUTCOME>yes<", "two states named 'yes'"),
        (XMLBIF, 'TYPE="nature"', 'TYPE="decision"', "the variable rain is of type decision"),
        (XMLBIF, "<FOR>rain</FOR>", "<FOR>rain</FOR><GIVEN>grass</GIVEN>", "the table of rain holds 2 numbers"),
        (XMLBIF, "</NETWORK>", "", ", line 13: this is not well-formed XML (mismatched tag)."),
        (XMLBIF, "NETWORK", "NET", "this is not well-formed XML"),
        (XDSL, "0.01 0.99", "0.01 x", "the table of sprinkler holds 'x'"),
        (XDSL, 'cpt id="rain"', 'noisymax id="rain"', "not well-formed"),
        (XDSL, "probabilities>0.2 0.8</probabilities", "x>1</x", "the node rain is a cpt; expected a cpt"),
        (XDSL, "<nodes>", "<nodes><!-- a comment -->", ""),
        (XDSL, XDSL, "<html/>", "the outermost element is html; expected BIF (XMLBIF) or smile (XDSL)"),
        (XDSL, XDSL, "<smile/>", "there are no variables"),
        (XDSL, XDSL, "", "line 1: this is not well-formed XML (no element found)"),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path, text, before, after, words):
    assert before in text
    path = tmp_path / "rain.xml"
    path.write_text(text.replace(before, after, 1))
    if not words:
        assert len(ibia.read(path).variables) == 3
        return
    with pytest.raises(InputError) as raised:
        ibia.read(path)
    assert words in str(raised.value)
    assert str(raised.value).startswith(str(path))


# Each is ten of the one before.
LAUGHS = "".join(f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in pairwise("abcdefghij"))


@pytest.mark.parametrize(
    "declared",
    [
        f'<!ENTITY a "ha">{LAUGHS}',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://localhost/a.dtd"> %a;',
        '<!ENTITY a PUBLIC "-//a//b" "a.txt">',
    ],
)
def test_entities_are_not_read(tmp_path, declared):
    path = tmp_path / "a.xmlbif"
    document = "<BIF><NETWORK><NAME>&a;</NAME></NETWORK></BIF>"
    path.write_text(f"<?xml version='1.0'?>\n<!DOCTYPE BIF [\n{declared}]>{document}")
    with pytest.raises(InputError, match=r"a\.xmlbif, line 3: XML that declares entities of its own is not read"):
        ibia.read(path)


def test_a_document_type_does_no_harm_and_is_not_fetched(tmp_path):
    secret = tmp_path / "secret.dtd"
    secret.write_text('<!ENTITY a "secret">')
    path = tmp_path / "a.xmlbif"
    document = XMLBIF.partition("\n")[2]
    for declared in (f'<!DOCTYPE BIF SYSTEM "{secret}">', "<!DOCTYPE BIF [<!ELEMENT BIF (NETWORK)*>]>"):
        path.write_text(declared + document)
        assert ibia.read(path).names
        path.write_text(declared + document.replace("</NAME>", "&a;</NAME>", 1))
        with pytest.raises(InputError, match="undefined entity"):
            ibia.read(path)
