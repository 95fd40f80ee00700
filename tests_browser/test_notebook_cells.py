"""Results in the cells of notebooks: they follow the theme of the page, and leave the rest of the page as it is."""

import re

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import kernbench as kb

LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
AROUND = (
    '<h1 id="mine">mine</h1><p id="text" class="soft">text</p><svg id="own" width="60"><text y="9">own</text></svg>'
)
STYLED = [f"mine.{name}" for name in ("fontSize", "color", "margin")]
STYLED += ["text.color", "text.fontSize", "own.maxWidth", "own.minWidth", "own.display"]


@pytest.fixture(scope="module")
def cells() -> list[str]:
    def add(tl, x, y):
        tl.store(y, tl.load(x) + 1)

    x = np.ones((16, 64), np.float32)
    run = kb.run(add, x, kb.empty(x.shape, "f32"), pes=[0], chip="one_pe")
    return [each._repr_html_() for each in (run, kb.compare(run, run), kb.chip("one_sip"))]


def shown(page: Page, cells: list[str], body: str = "") -> None:
    page.set_content(f"<!doctype html><html><body {body}>{AROUND}{''.join(cells)}</body></html>")


def styles(page: Page) -> list[str]:
    names = [each.split(".") for each in STYLED]
    return page.evaluate(
        "names => names.map(([id, name]) => getComputedStyle(document.getElementById(id))[name])", names
    )


@pytest.mark.parametrize("reader", ["light", "dark"])
@pytest.mark.parametrize(
    ("body", "theme"),
    [
        ('data-jp-theme-light="true"', "light"),
        ('data-jp-theme-light="false"', "dark"),
        ('class="vscode-dark"', "dark"),
        ('data-theme="light"', "light"),
        ("", ""),
    ],
)
def test_a_cell_follows_the_theme_of_its_page(
    browser: Browser, cells: list[str], reader: str, body: str, theme: str
) -> None:
    page = browser.new_page(color_scheme=reader)
    shown(page, cells, body)
    found = page.eval_on_selector_all(
        ".kb-cell, .kb-chip", "all => all.map((each) => getComputedStyle(each).backgroundColor)"
    )
    assert found == [LIGHT if (theme or reader) == "light" else DARK] * 3
    page.close()


def test_cells_leave_the_page_as_it_is(page: Page, cells: list[str]) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    shown(page, [])
    before = styles(page)
    shown(page, cells * 2)
    assert styles(page) == before
    assert page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)") == ["mine", "text", "own"]
    assert page.evaluate("[...document.images].every((each) => each.complete && each.naturalWidth > 300)")
    assert said == []


def test_a_cell_fits_a_narrow_notebook(page: Page, cells: list[str]) -> None:
    page.set_viewport_size({"width": 600, "height": 800})
    shown(page, cells)
    assert page.evaluate("document.documentElement.scrollWidth") <= 600
    assert re.match(r"add on one_pe: ", page.locator(".kb-cell").first.inner_text())
