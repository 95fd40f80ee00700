"""Every module and file that a page of docs names in code exists, and the glossary has each word once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
