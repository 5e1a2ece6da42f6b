"""Every example of the README runs: Python blocks and `ibia` commands, in order, in a fresh folder."""

from __future__ import annotations

import re
from pathlib import Path

from page_examples import blocks, commands, run_page

README = Path(__file__).parents[1] / "README.md"


def test_the_readme_has_examples_of_both_kinds():
    assert sum(block.language == "python" for block in blocks(README)) >= 2
    assert sum(len(commands(block)) for block in blocks(README) if block.language == "console") >= 4


def test_every_example_runs(tmp_path, monkeypatch):
    # One test, not one per block: later blocks use the files that earlier ones write.
    monkeypatch.chdir(tmp_path)
    run_page(README)
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
