"""The page on collectives: its example runs and verifies, and its plan is printed as quoted."""

import re
from pathlib import Path

from python_copies import kb

PAGE = (Path(__file__).parents[1] / "docs" / "collectives.md").read_text(encoding="utf-8")


def test_the_example_verifies(tmp_path: Path) -> None:
    example = PAGE[PAGE.index("```python\n") :].split("```")[1].removeprefix("python\n")
    (tmp_path / "sums.py").write_text(example, encoding="utf-8")
    done = kb(tmp_path, "run", "sums.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"verified +y: ok", done.stdout)


def test_the_plan_is_as_quoted(tmp_path: Path) -> None:
    block = PAGE[PAGE.index("```text\n") :].split("```")[1].removeprefix("text\n")
    done = kb(tmp_path, "plan", "--collective", "all_reduce", "--nbytes", "64KiB", "--topology", "one_sip")
    assert done.stdout == block
