"""Every example of the README runs: Python blocks and `ibia` commands, in order, in a fresh folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ibia import cli

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(README.read_text(encoding="utf-8"))


def commands(text: str) -> list[str]:
    """Return the `ibia ...` lines of a block; others set up a machine or need the benchmark folder."""
    lines = (line.split("#")[0].strip().removeprefix("$ ") for line in text.splitlines())
    return [line for line in lines if line.startswith("ibia ")]


def test_the_readme_has_examples_of_both_kinds():
    assert sum(language == "python" for language, _ in blocks()) >= 2
    assert sum(len(commands(text)) for language, text in blocks() if language in ("console", "sh")) >= 4


def test_every_example_runs(tmp_path, monkeypatch, capsys):
    # One test, not one per block: later blocks use the files that earlier ones write.
    monkeypatch.chdir(tmp_path)
    for language, text in blocks():
        if language == "python":
            exec(compile(text, "README.md", "exec"), {"__name__": "readme"})
        elif language in ("console", "sh"):
            for command in commands(text):
                with pytest.raises(SystemExit) as ended:
                    cli.main(shlex.split(command)[1:])
                assert ended.value.code == 0, f"{command}: {capsys.readouterr().err}"
    assert (tmp_path / "clinic.MAR").exists()


def test_what_the_comments_say_is_true():
    """The comments behind `print` that promise a value."""
    import ibia
    from ibia import examples

    assert ibia.infer(examples.student(), evidence={"test": "passed"}, bound=20).exact
    assert not ibia.infer(examples.grid(16, 16), bound=6).exact


def test_files_the_readme_shows_exist():
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (README.parent / target).exists(), target
