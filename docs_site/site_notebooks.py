"""Notebooks of the docs as pages: their cells as Markdown, and what the cells show when the site runs them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_OUTPUT = "%% what {id} shows"
_AT = re.compile(r"^%% what ([\w-]+) shows\n", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MOST_S = 60
"""The most seconds that a cell may take."""


def as_markdown(notebook: str, file: str) -> str:
    """The cells of *notebook*, the text of *file*, as Markdown, with a mark below each cell of code for what it shows.

    The last line leads to *file*, which the site has beside the page.
    """
    cells = _cells(json.loads(notebook)["cells"])
    return "\n\n".join([*cells, f'<p><a href="{file}" download>This page as a notebook</a></p>']) + "\n"


def _cells(cells: list[dict[str, Any]]) -> Iterator[str]:
    for cell in cells:
        text = "".join(cell["source"])
        yield text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```\n\n{_OUTPUT.format(id=cell['id'])}"


def with_outputs(page: str, shown: Mapping[str, str]) -> str:
    """*page*, which `as_markdown` made, with the outputs *shown* by the ids of their cells in place of the marks."""
    return _AT.sub(lambda at: shown.get(at[1], ""), page)


def outputs(path: Path, work: Path) -> dict[str, str]:
    """Runs the notebook *path* in the folder *work*. Gives the outputs of each cell as Markdown, by the cell's id.

    Raises nbclient's CellExecutionError for a cell that fails.
    """
    cells = executed(path, work)
    return {cell["id"]: "\n\n".join(filter(None, map(_shown, cell["outputs"]))) + "\n" for cell in cells}


def executed(path: Path, work: Path) -> list[dict[str, Any]]:
    """The cells of code of the notebook *path* after a run in the folder *work*, in a Jupyter kernel of this Python."""
    import nbformat
    from nbclient import NotebookClient

    os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")  # else Jupyter warns that its folders will move
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=_MOST_S, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    client.execute(env={**os.environ, "IPYTHONDIR": str(work / "ipython")})  # not the history of whoever builds this
    return [cell for cell in notebook.cells if cell["cell_type"] == "code"]


def _shown(output: dict[str, Any]) -> str:
    """One output: HTML as it is, anything else as text; "" for the place where the progress of a run was."""
    data = output.get("data", {})
    if "text/html" in data:
        return f"```{{raw}} html\n{data['text/html']}\n```" if data["text/html"] else ""
    text = _COLOURS.sub("", data.get("text/plain", output.get("text", "")))
    return f"```text\n{text.rstrip()}\n```"
