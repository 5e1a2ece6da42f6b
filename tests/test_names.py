"""Names in model files may hold anything; what terminals or browsers obey reaches neither of them."""

from __future__ import annotations

import html
import json
import os

import numpy as np
import pytest

import ibia
from ibia import cli
from ibia.shown import plain

# The control sequence introducer in one character, an override of the direction of writing, markup of a page and of
# the library that prints tables, and what a shell would run.
NAMES = ["\x9b31mred", "\u202egnp.exe", "<script>alert(1)</script>", "[bold]x[/bold]", "$(reboot)", "../../a", "\x7f"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A network with such names, in a file of such a name."""
    monkeypatch.chdir(tmp_path)
    variables = [ibia.Variable(name, 2, (f"{name} 0", f"{name} 1")) for name in NAMES]
    model = ibia.Model.from_arrays(variables, [([name], [0.25, 0.75]) for name in NAMES], "bayes")
    ibia.write(model, "\x1b[31mred.bif")
    return model


@pytest.fixture
def run(capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        shown, complaints = capsys.readouterr()
        assert all(character.isprintable() or character == "\n" for character in shown + complaints)
        return ended.value.code or 0, shown, complaints

    return call


def test_commands_show_names_written_out(model, run):
    (path,) = os.listdir()
    assert ibia.read(path) == model
    code, shown, _ = run("infer", path)
    assert code == 0
    assert r"\x9b31mred" in shown
    assert r"\u202egnp.exe" in shown
    assert r"\x1b[31mred.bif" in shown
    assert "[bold]x[/bold]" in shown
    assert run("infer", path, "--show", NAMES[0])[0] == 0
    assert run("info", path)[0] == 0
    assert os.listdir() == [path]


def test_sentences_show_names_written_out(model, run):
    (path,) = os.listdir()
    for arguments in (["-E", f"{NAMES[0]}=none"], ["-E", "\x1b[2Jnone=1"], ["--show", "\x1b[2J"], ["--out", "\x1b/a"]):
        code, _, sentence = run("infer", path, *arguments)
        assert code == 1
        assert sentence.count("\n") == 1
    with open("evidence.json", "w") as stream:
        json.dump({"\x1b[2J": "yes\nno"}, stream)
    assert run("infer", path, "--evidence", "evidence.json")[0] == 1
    assert run("infer", "\x1b[31mmissing.uai")[0] == 1


def test_results_show_names_written_out(model):
    result = ibia.infer(model, {NAMES[2]: 1})
    for text in (str(result), repr(result)):
        assert all(character.isprintable() or character == "\n" for character in text)


def test_pages_show_markup_as_text(model):
    result = ibia.infer(model, {NAMES[2]: 1})
    page = result._repr_html_()
    assert "<script" not in page
    assert html.escape(NAMES[2]) in page


def test_printable_texts_stay():
    for text in ("a b", "Größe", "変数", "[x]", ""):
        assert plain(text) == text
    assert plain("a\tb\n\udcff") == r"a\tb\n\udcff"
    assert np.all([plain(chr(code)).isprintable() for code in range(0x3000)])


@pytest.mark.parametrize("suffix", [".xmlbif", ".bif"])
def test_nothing_in_a_model_is_run_or_opened(tmp_path, monkeypatch, suffix):
    """Audit hooks cannot be taken off again, so the files that are opened are seen through `open` itself."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    name = f"$(touch {tmp_path}/run)"
    if suffix == ".bif":
        text = f'network n {{ property include "{secret}"; }} '
        text += f'variable "{name}" {{ type discrete [ 1 ] {{ "{secret}" }}; }} probability ( "{name}" ) {{ table 1; }}'
    else:
        text = f"<BIF><NETWORK><NAME>file://{secret}</NAME><VARIABLE TYPE='nature'><NAME>{name}</NAME><OUTCOME>{secret}"
        text += f"</OUTCOME></VARIABLE><DEFINITION><FOR>{name}</FOR><TABLE>1</TABLE></DEFINITION></NETWORK></BIF>"
    path = tmp_path / f"model{suffix}"
    path.write_text(text)
    opened = []
    true_open = open

    def spy(file, *rest, **more):
        opened.append(str(file))
        return true_open(file, *rest, **more)

    monkeypatch.setattr("builtins.open", spy)
    model = ibia.read(path)
    monkeypatch.undo()
    assert opened == [str(path)]
    assert model.names == (name,)
    assert model.variables[0].states == (str(secret),)
    assert sorted(os.listdir(tmp_path)) == [path.name, "secret"]
