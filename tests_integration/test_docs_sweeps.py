"""The sweeps of docs/sweeps print what the docs quote, and draw the same pictures. `nox -s docs` runs all five."""

import os
from pathlib import Path

import pytest
from python_copies import kb

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
ALL = bool(os.environ.get("KB_ALL_DOCS"))


@pytest.mark.parametrize("name", ["array", "tcm", "links", "mapping", "straggler"] if ALL else ["tcm"])
def test_a_sweep_prints_what_is_quoted(name: str, tmp_path: Path) -> None:
    command = f"kb sweep docs/sweeps/{name}.yaml --rows 6"
    quoted = PAGE[PAGE.index(f"{command}\n") :].partition("```text\n")[2].partition("\n```")[0]
    done = kb(ROOT, *command.split()[1:], "--out", str(tmp_path), "--jobs", "2" if ALL else "1")
    assert done.returncode == 0, done.stderr
    printed, _, report = done.stdout.rstrip().rpartition("\n\n")
    assert printed == quoted
    drawn = Path(report.partition("report.html")[0]) / "axes.svg"
    assert drawn.read_bytes() == (ROOT / "docs" / "sweeps" / f"{name}.svg").read_bytes()
