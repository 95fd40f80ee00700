"""Every module and file that a page of docs names in code exists, the glossary has each word once, and docs/tl.md has
what the docstrings say."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "tl_reference")
    tl = import_module("tl_page")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MODULE = re.compile(r"`(kb_\w+(?:\.\w+)+)`")
FILE = re.compile(r"`([\w.-]+/[\w./-]+\.(?:py|md|yaml|toml))`")
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \| \[([\w.]+)\]\(([^)]+)\) \|$", re.MULTILINE)


def exists(name: str) -> bool:
    """Whether *name* is a module, or a name that stands in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT / "packages" / parts[0].replace("_", "-") / "src" / Path(*parts[:length])
        for module in (path.with_suffix(".py"), path / "__init__.py"):
            if module.is_file():
                source = module.read_text(encoding="utf-8")
                return all(re.search(rf"\b{each}\b", source) for each in parts[length:])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for name in MODULE.findall(text) if not exists(name)] == []
    assert [name for name in FILE.findall(text) if not (ROOT / name).exists()] == []


def test_every_session_of_nox_is_in_the_page_of_checks() -> None:
    """A session is a function under `@nox.session`. The page names sessions in the first columns of its tables."""
    source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    firsts = "".join(re.findall(r"^\|([^|]+)\|", page, re.MULTILINE))
    sessions = re.findall(r"^@nox\.session.*\n(?:@.*\n)*def (\w+)\(", source, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", firsts)) == sorted(sessions)


def test_the_check_tells_names_that_are_not_there() -> None:
    assert exists("kb_engine.host.benchmark.Benchmark")
    assert not exists("kb_engine.nowhere")
    assert not exists("kb_engine.host.benchmark.Nobody")


def test_the_glossary_has_each_word_once_with_its_file() -> None:
    rows = ROW.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    words = [word for cell, _, _ in rows for word in cell.split(", ")]
    assert len(rows) >= 40
    assert len(set(words)) == len(words)
    assert [link for _, name, link in rows if Path(link).name != name or not (ROOT / "docs" / link).is_file()] == []


def test_every_function_of_the_kernel_language_has_an_example() -> None:
    for subject in tl.SUBJECTS:
        shown = {name.partition("_")[2] for name in tl.EXAMPLES if name.startswith(f"{subject}_")} - {"index"}
        missing, strange = tl.public(subject) - shown, shown - tl.public(subject)
        fix = f"give it one in tests_integration/tl_reference, then `{tl.COMMAND}`; see tl_given.py there"
        assert not missing, f"{subject}: got {sorted(missing)} without an example, needs one for each: {fix}"
        assert not strange, f"{subject}: got examples of {sorted(strange)}, needs names of the kernel language"


def test_the_reference_of_the_kernel_language_is_that_of_its_docstrings() -> None:
    assert tl.PAGE.read_text(encoding="utf-8") == tl.page(), f"docs/tl.md is out of date: run `{tl.COMMAND}`"
