"""What mkdocs does to pages while it builds the site: puts in what commands say about themselves, and turns notebooks
into pages.

Notebooks are shown with the outputs they were saved with; nothing is run.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_HELP = re.compile(r"^<!-- help:(.*)-->$", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for each notebook, beside the notebook itself."""
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        content = _page(Path(config.docs_dir, notebook.src_uri))
        files.append(File.generated(config, notebook.src_uri.removesuffix(".ipynb") + ".md", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Replace each mark for the help of a command by that help."""
    return _HELP.sub(lambda mark: f"```text\n{_help(mark[1].split()).rstrip()}\n```", markdown)


def _help(command: list[str]) -> str:
    from ibia import cli, competition

    main, arguments = (competition.main, command[1:]) if command[:1] == ["ibia-uai"] else (cli.main, command)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main([*arguments, "--help"])
    return shown.getvalue()


def _page(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, *rest = (_cell(cell) for cell in cells)
    return "\n\n".join([title, f"[The notebook itself]({path.name}){{ .md-button }}", *rest]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    data = output["data"]
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/html" in data:
        # Blank lines would end the block of HTML.
        return f'<div class="notebook">{"".join(data["text/html"]).replace(chr(10), " ")}</div>'
    return f"```text\n{''.join(data['text/plain'])}\n```"
