"""Every example of the README runs: Python blocks and `ibia` commands, in the order of the page, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
PYTHON = ("python", "py")
SHELL = ("console", "sh", "bash", "shell")


def blocks(text: str) -> list[tuple[int, str, str]]:
    """Return the line, the language and the content of each fenced block."""
    return [(text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in BLOCK.finditer(text)]


def commands(language: str, content: str) -> list[list[str]]:
    """Return the `ibia` commands of a block, as words; in a console block only lines after a prompt are commands."""
    lines = content.replace("\\\n", " ").splitlines()
    if language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    every = [shlex.split(line, comments=True) for line in lines]
    return [words for words in every if words and words[0] == "ibia"]


def test_commands_are_found():
    assert commands("console", "$ ibia info a.uai\nibia is printed\n$ make demo\n") == [["ibia", "info", "a.uai"]]
    assert commands("sh", "make test\nibia infer a \\\n  --bound 3 # why\n") == [["ibia", "infer", "a", "--bound", "3"]]
    assert blocks("one\n```python\nx = 1\n```\n```sh\nls\n```\n") == [(2, "python", "x = 1\n"), (5, "sh", "ls\n")]


@pytest.mark.skipif(not README.exists(), reason="there is no README beside the tests")
def test_every_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    ran = {"python": 0, "ibia": 0}
    for line, language, content in blocks(README.read_text(encoding="utf-8")):
        if language in PYTHON:
            # Line numbers of the page, so that a failure points at the example.
            exec(compile("\n" * line + content, str(README), "exec"), namespace)
            ran["python"] += 1
        elif language in SHELL:
            for words in commands(language, content):
                ended = subprocess.run(
                    [sys.executable, "-m", *words], capture_output=True, text=True, check=False, timeout=300
                )
                assert ended.returncode == 0, f"README line {line}: {shlex.join(words)}: {ended.stderr}"
                assert ended.stderr == ""
                ran["ibia"] += 1
    assert ran["python"] >= 1, "no example in Python was found"
    assert ran["ibia"] >= 1, "no example of the command line was found"


@pytest.mark.skipif(not README.exists(), reason="there is no README beside the tests")
def test_pictures_and_pages_exist():
    text = re.sub(r"<!--.*?-->", "", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (README.parent / target).exists(), f"the README points to {target}, which is not there"
