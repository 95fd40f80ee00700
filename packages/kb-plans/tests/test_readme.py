import doctest
from pathlib import Path


def test_the_readme_shows_what_happens() -> None:
    failed, attempted = doctest.testfile(str(Path(__file__).parents[1] / "README.md"), module_relative=False)
    assert attempted >= 8
    assert failed == 0
