"""Files that take pyAgrum to read."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest

import ibia
from ibia.errors import InputError, UnavailableError

NET = """net { node_size = (80 40); }
node rain { states = ( "yes" "no" ); }
node sprinkler { states = ( "on" "off" ); }
node grass { states = ( "dry" "damp" "wet" ); }
potential ( rain ) { data = ( 0.2 0.8 ); }
potential ( sprinkler | rain ) { data = ((0.01 0.99)(0.4 0.6)); }
potential ( grass | sprinkler rain ) { data = (((0 0.1 0.9)(0.5 0.25 0.25))((0.1 0.2 0.7)(1 0 0))); }
"""
DSL = """net weather
{
    node rain
    {
        TYPE = CPT;
        HEADER = { ID = rain; NAME = "rain"; };
        PARENTS = ();
        DEFINITION = { NAMESTATES = (yes, no); PROBABILITIES = (0.2, 0.8); };
    };
    node sprinkler
    {
        TYPE = CPT;
        HEADER = { ID = sprinkler; NAME = "sprinkler"; };
        PARENTS = (rain);
        DEFINITION = { NAMESTATES = (on, off); PROBABILITIES = (0.01, 0.99, 0.4, 0.6); };
    };
    node grass
    {
        TYPE = CPT;
        HEADER = { ID = grass; NAME = "grass"; };
        PARENTS = (sprinkler, rain);
        DEFINITION =
        {
            NAMESTATES = (dry, damp, wet);
            PROBABILITIES = (0, 0.1, 0.9, 0.5, 0.25, 0.25, 0.1, 0.2, 0.7, 1, 0, 0);
        };
    };
};
"""


def test_without_pyagrum_a_sentence_says_so(tmp_path, monkeypatch):
    path = tmp_path / "rain.net"
    path.write_text(NET)
    monkeypatch.setitem(sys.modules, "pyagrum", None)
    with pytest.raises(UnavailableError, match=r"rain\.net takes pyAgrum to read: .* pip install 'ibia\[formats\]'"):
        ibia.read(path)


def test_a_missing_file_is_said_first(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        ibia.read(tmp_path / "rain.net")


class TestWithPyagrum:
    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("pyagrum", reason="pyAgrum is not installed")

    @pytest.mark.parametrize(
        ("name", "text"), [("rain.net", NET), ("rain.net.gz", NET), ("rain.dsl", DSL)],
    )
    def test_a_network_is_read(self, tmp_path, name, text):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        model = ibia.read(path)
        assert model.kind == "bayes"
        assert model.names == ("rain", "sprinkler", "grass")
        states = [variable.states for variable in model.variables]
        assert states == [("yes", "no"), ("on", "off"), ("dry", "damp", "wet")]
        rain, sprinkler, grass = model.factors
        assert [rain.scope, sprinkler.scope, grass.scope] == [(0,), (0, 1), (1, 0, 2)]
        np.testing.assert_allclose(sprinkler.values, [0.01, 0.99, 0.4, 0.6], rtol=1e-7)
        expected = [0.0, 0.1, 0.9, 0.5, 0.25, 0.25, 0.1, 0.2, 0.7, 1.0, 0.0, 0.0]
        np.testing.assert_allclose(grass.values, expected, rtol=1e-7)

    def test_a_long_comment_does_no_harm(self, tmp_path):
        path = tmp_path / "rain.net"
        path.write_text(f'% "{"x" * 20_000}\n{NET}')
        assert ibia.read(path).names == ("rain", "sprinkler", "grass")

    @pytest.mark.parametrize(
        ("name", "text", "before", "after", "words"),
        [
            ("a.net", NET, "0.2 0.8", "0.2 x", ", line 5 cannot be read by pyAgrum"),
            ("a.net", NET, NET, "", "cannot be read by pyAgrum"),
            ("a.dsl", DSL, "0.2, 0.8", "0.2, x", ", line 8 cannot be read by pyAgrum"),
            # At these its parser would end the process.
            ("a.net", NET, '"off" ', f'"off{" " * 20_000}', ", line 3: a word or a text in quotes has more than 16000"),
            ("a.dsl", DSL, "ID = rain", f"ID = {'x' * 20_000}", ", line 6: a word or a text in quotes has more"),
        ],
    )
    def test_what_is_wrong_is_a_sentence(self, tmp_path, name, text, before, after, words):
        assert before in text
        path = tmp_path / name
        path.write_text(text.replace(before, after, 1))
        with pytest.raises(InputError) as raised:
            ibia.read(path)
        assert words in str(raised.value)
        assert str(raised.value).startswith(str(path))
        assert "\n" not in str(raised.value)
