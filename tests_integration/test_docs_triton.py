"""The script of docs/triton.md runs under `kb exec`, and prints what the page says."""

import re
from pathlib import Path

from python_copies import kb

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "triton.md").read_text(encoding="utf-8")


def test_the_script_prints_what_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text(PAGE.split("```python\n")[1].partition("```")[0], encoding="utf-8")
    quoted = PAGE.split("```text\n")[1].partition("```")[0]
    done = kb(tmp_path, "exec", "add.py")
    assert (done.returncode, done.stderr) == (0, "")
    folder = re.compile(r"run folder kb-runs/add-[0-9a-f]*")  # a hash over the versions of kernbench, too
    lines = [[line.rstrip() for line in folder.sub("", text).splitlines()] for text in (done.stdout, quoted)]
    assert lines[0] == lines[1]
