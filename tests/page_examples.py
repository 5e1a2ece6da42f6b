"""Runs the examples of a page of the documentation, in order, in the current folder.

A block with a title is a file, which is written. ``python`` blocks without one are run, each on its own; what a comment
behind ``→`` promises has to be printed. Of ``console`` blocks the lines behind ``$`` are run, and the lines below them
have to be part of what they print (``...`` stands for any). Other blocks are there to be read.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ibia import cli, competition

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"# → (.*)$", re.MULTILINE)
RUN, READ = {"python", "console"}, {"sh", "text", "json"}


class Block(NamedTuple):
    """A block of code: its language, the file it is (or nothing), and what stands in it."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = [Block(*groups) for groups in BLOCK.findall(text)]
    assert text.count("\n```") == 2 * len(found), f"{page.name}: a block that is not understood"
    assert {block.language for block in found} <= RUN | READ, page.name
    return found


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Return the commands of a console, each with the lines it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split(" #")[0], []))
        else:
            found[-1][1].append(line)
    return found


def run_page(page: Path) -> None:
    """Run all examples of a page."""
    for block in blocks(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            _check(block.text, PROMISE.findall(block.text), _run_python(block.text, page.name))
        elif block.language == "console":
            for command, promised in commands(block):
                _check(command, promised, _run_command(command))


def _run_python(text: str, name: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(text, name, "exec"), {"__name__": "docs"})
    return shown.getvalue()


def _run_command(command: str) -> str:
    words = shlex.split(command)
    with pytest.MonkeyPatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        program, *arguments = words
        if program == "python":
            run = [sys.executable, *arguments]
            return subprocess.run(run, capture_output=True, text=True, check=True, timeout=300, env=os.environ).stdout
        shown, complaints = io.StringIO(), io.StringIO()
        main = {"ibia": cli.main, "ibia-uai": competition.main}[program]
        with (
            contextlib.redirect_stdout(shown),
            contextlib.redirect_stderr(complaints),
            pytest.raises(SystemExit) as ended,
        ):
            main(arguments)
    assert not ended.value.code, f"{command}: {complaints.getvalue()}"
    return shown.getvalue()


def _check(what: str, promised: list[str], shown: str) -> None:
    lines = iter([" ".join(line.split()) for line in shown.splitlines()])
    for promise in promised:
        if promise.strip() not in ("", "..."):
            assert " ".join(promise.split()) in lines, f"{what}\ndoes not print\n{promise}\nin\n{shown}"
