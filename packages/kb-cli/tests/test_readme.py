"""The README's table of rooms names every file of the package."""

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def test_every_file_answers_a_question_of_the_readme() -> None:
    table = (PACKAGE / "README.md").read_text(encoding="utf-8").partition("| room | question | file |")[2]
    named = set(re.findall(r"`(\w+)`", table.partition("## ")[0]))
    files = {path.stem for path in (PACKAGE / "src" / "kb_cli").rglob("*/*.py")} - {"__init__"}
    assert len(files) > 40
    assert files <= named
