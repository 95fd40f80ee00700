"""The site that was built: it asks no other host for anything, all it shows is there, and its search knows its words.

`nox -s site` builds it first. A site without a gallery, `KB_SITE_PARTS=pages`, has no pictures of runs. A site that was
built without a browser, `KB_SITE_PARTS=without screens`, has no pictures of `kb web`.
"""

import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "docs_site")
    gallery, screens = import_module("site_gallery"), import_module("site_screens")
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "embed": "src"}
"""The attribute by which an element makes the browser load a file. Of a `link` all but those that are followed do."""
FOLLOWED = {"canonical", "next", "prev", "index", "search", "alternate"}


class Loads(HTMLParser):
    """The files that a page loads, and those to which it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in LOADING and given.get(LOADING[tag]):
            self.loaded.append(given[LOADING[tag]])
        if tag in ("a", "link") and given.get("href"):
            is_loaded = tag == "link" and not FOLLOWED & set(given.get("rel", "").split())
            (self.loaded if is_loaded else self.followed).append(given["href"])


def pages() -> list[Path]:
    found = sorted(path for path in SITE.rglob("*.html") if "made" not in path.parts and "_static" not in path.parts)
    assert len(found) > 150, "build the site first: nox -s site"
    return found


def links_of(page: Path) -> Loads:
    found = Loads()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def missing(page: Path, links: list[str]) -> Iterator[str]:
    for link in links:
        split = urlsplit(link)
        if not split.scheme and split.path and not (page.parent / unquote(split.path)).exists():
            yield link


def test_no_page_loads_anything_from_another_host() -> None:
    found = {
        page.name: [link for link in links_of(page).loaded if urlsplit(link).netloc or urlsplit(link).scheme == "http"]
        for page in pages()
    }
    assert {name: links for name, links in found.items() if links} == {}


def test_no_style_loads_anything_from_another_host() -> None:
    sheets = sorted(SITE.rglob("*.css"))
    assert sheets
    asked = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)\s]*")
    assert {sheet.name: each for sheet in sheets if (each := asked.findall(sheet.read_text("utf-8")))} == {}


def test_the_check_sees_what_would_be_loaded() -> None:
    found = Loads()
    found.feed(
        '<script src="https://a/b.js"></script><link rel="stylesheet" href="//c/d.css"><a href="https://e/"></a>'
    )
    assert (found.loaded, found.followed) == (["https://a/b.js", "//c/d.css"], ["https://e/"])


def test_everything_that_a_page_loads_or_leads_to_is_there() -> None:
    found = {
        page.relative_to(SITE).as_posix(): [
            *missing(page, links_of(page).loaded),
            *missing(page, links_of(page).followed),
        ]
        for page in pages()
    }
    assert {name: links for name, links in found.items() if links} == {}


def test_the_search_knows_words_of_commands_specs_and_functions() -> None:
    index = (SITE / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert [word for word in ("whatif", "scoreboard", "transcendental_cycl", "atomic_xchg") if word not in index] == []
    assert "source/packages" not in index.partition('"docnames"')[2].partition("filenames")[0] or "source/" in index


@pytest.mark.skipif(os.environ.get("KB_SITE_PARTS") == "pages", reason="this site was built without a gallery")
def test_every_picture_and_report_of_the_gallery_is_there() -> None:
    wanted = [
        (f"{chapter.lower()}-{number}", Path(file).name)
        for chapter, entries in gallery.CHAPTERS.items()
        for number, entry in enumerate(entries)
        for file in (*entry.pictures, *entry.pages)
    ]
    if os.environ.get("KB_SITE_PARTS") != "without screens":
        wanted += [("web", file) for screen in screens.SCREENS for file in screen.files.values()]
    assert len(wanted) > 15
    assert [each for each in wanted if not (SITE / "made" / Path(*each)).stat().st_size > 500] == []
    text = (SITE / "gallery.html").read_text(encoding="utf-8")
    assert [f"made/{folder}/{file}" for folder, file in wanted if f"made/{folder}/{file}" not in text] == []


def test_a_notebook_is_there_with_what_its_cells_show() -> None:
    text = (SITE / "notebooks" / "first-kernel.html").read_text(encoding="utf-8")
    assert (SITE / "notebooks" / "first-kernel.ipynb").is_file()
    shown = 0 if os.environ.get("KB_SITE_PARTS") == "pages" else 3
    assert text.count('<div class="kb-cell">') == shown
    assert text.count('<div class="kb-chip">') == (shown > 0)
