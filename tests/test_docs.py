"""Every example of the documentation runs (those with other packages, where these are installed); the site is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from page_examples import blocks as blocks_of
from page_examples import commands, run_page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
NEEDED = {"pgmpy.md": "pgmpy", "pyagrum.md": "pyagrum"}


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, tmp_path, monkeypatch):
    if page in NEEDED:
        pytest.importorskip(NEEDED[page], reason=f"{NEEDED[page]} is not installed")
    monkeypatch.chdir(tmp_path)
    run_page(DOCS / page)


def test_there_are_examples_of_both_kinds():
    blocks = [block for page in PAGES for block in blocks_of(DOCS / page)]
    assert sum(block.language == "python" for block in blocks) >= 15
    assert sum(len(commands(block)) for block in blocks if block.language == "console") >= 15


@pytest.mark.parametrize("page", PAGES)
def test_files_a_page_shows_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (DOCS / page).read_text(encoding="utf-8")):
        file = DOCS / target
        # A notebook becomes a page when the site is built.
        assert file.exists() or file.with_suffix(".ipynb").exists(), target


def test_every_public_name_is_in_the_reference():
    import ibia

    reference = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [name for name in ibia.__all__ if f"::: ibia.{name}\n" not in reference] == []


def test_the_site_is_built_without_a_warning(tmp_path):
    """Broken links and anchors, pages that no menu leads to, and names that are not there are warnings."""
    for package in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "WARNING" not in ended.stderr
    assert (tmp_path / "site" / "notebooks" / "grid.html").exists()
    assert "Exit codes:" in (tmp_path / "site" / "command-line.html").read_text(encoding="utf-8")
