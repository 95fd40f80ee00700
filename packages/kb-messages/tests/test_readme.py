import doctest
from pathlib import Path

import kb_messages

README = Path(__file__).parents[1] / "README.md"


def test_the_readme_shows_what_happens() -> None:
    failed, attempted = doctest.testfile(str(README), module_relative=False)
    assert attempted >= 9
    assert failed == 0


def test_the_readme_lists_every_public_name() -> None:
    table = README.read_text(encoding="utf-8").partition("## Public names")[2].partition("\n## ")[0]
    assert [name for name in kb_messages.__all__ if f"`{name}`" not in table] == []
