"""The notebooks of the docs run in a Jupyter kernel, and their cells show results as HTML."""

import json
import os
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "docs_site")
    site = import_module("site_notebooks")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert [cell["id"] for cell in cells if cell["outputs"] or cell["execution_count"] is not None] == []


@pytest.mark.skipif(
    find_spec("nbclient") is None and "CI" not in os.environ, reason="nbclient: the group notebook is not installed"
)
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours
def test_the_first_notebook_shows_what_it_tells(tmp_path: Path) -> None:
    (path,) = NOTEBOOKS
    shown = site.outputs(path, tmp_path)
    cells = {name: re.sub(r"<style>.*?</style>|base64,[\w+/=]+", "", text) for name, text in shown.items()}
    html = {name for name, text in cells.items() if text.startswith("```{raw} html\n<div class=")}
    assert html == {"show-chip", "run-softmax", "run-ahead", "launches"}
    assert "<h1>softmax on one_cube: 3.448 us</h1>" in cells["run-softmax"]
    assert "In[3]:6" in cells["run-softmax"], "a line of the third cell"
    assert '<td class="number">3.057 us</td>' in cells["run-ahead"]
    assert "In[3]" not in cells["launches"]
    assert "In[5]:7" in cells["launches"]
    assert cells["loop"].startswith("```text\n{1: ")
    assert not any("ipykernel" in text or "progress" in text for text in cells.values())
    page = site.with_outputs(site.as_markdown(path.read_text(encoding="utf-8"), path.name), shown)
    assert page.count("```{raw} html") == 4
    assert "%% what" not in page
