"""The topology of `kb web` in a browser: it opens where something is hot, and boxes lead to their parts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from web_page import Shown, new_run, served


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen cubes, of which one holds the operand that all PEs read."""
    return new_run(tmp_path_factory.mktemp("runs"), "all_reduce", "--topology", "one_sip")


@pytest.fixture(params=[1400, 600])
def shown(browser: Browser, run: Path, request: pytest.FixtureRequest) -> Iterator[Shown]:
    with served(run.parent) as server:
        page = browser.new_page(viewport={"width": request.param, "height": 900})
        found = Shown(page, server)
        yield found
        assert found.said == []
        page.close()


def title(shown: Shown) -> str:
    return str(shown.page.locator(".chip-picture text.heading").text_content())


def test_a_click_opens_a_cube_and_then_a_pe_and_the_path_leads_back(shown: Shown, run: Path) -> None:
    shown.go(view="topology", run=shown.id(run), shown="system")
    width = shown.page.viewport_size["width"]
    for part in ("sip0", "sip0.cube5", "sip0.cube5.pe2"):
        shown.page.locator(f".chip-picture a[aria-label='open {part}']").click()
        shown.until(f"new URLSearchParams(location.hash.slice(1)).get('part') === '{part}'")
        shown.until(f"document.querySelector('.way b')?.textContent === '{part.split('.')[-1]}'")
        assert title(shown).startswith(f"one_sip: {part} in")
        assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
        shown.keep(f"topology-{part}-{width}")
    shown.page.get_by_label("beside it").select_option("sip0.cube5.pe4")
    shown.until("document.querySelector('.way b')?.textContent === 'pe4'")
    shown.page.locator(".way a", has_text="cube5").click()
    shown.until("document.querySelector('.way b')?.textContent === 'cube5'")


def test_a_box_is_opened_by_key_and_keeps_the_window(shown: Shown, run: Path) -> None:
    shown.go(view="topology", run=shown.id(run), part="sip0", t0=0, t1=1000000)
    shown.page.locator(".chip-picture a[aria-label='open sip0.cube3']").focus()
    shown.page.keyboard.press("Enter")
    shown.until("document.querySelector('.way b')?.textContent === 'cube3'")
    assert (shown.fragment["t0"], shown.fragment["t1"]) == ("0", "1000000")


def test_it_opens_where_something_is_hot_and_names_it(shown: Shown, run: Path) -> None:
    shown.go(view="topology", run=shown.id(run))
    most = shown.page.locator("p", has_text="Most used").inner_text()
    first = shown.page.locator(".uses tbody a").first.inner_text()
    assert first in most
    assert "system" not in title(shown)
    shown.keep(f"topology-hot-{shown.page.viewport_size['width']}")


def test_a_picture_that_is_wider_than_the_window_can_be_fitted(browser: Browser, run: Path) -> None:
    with served(run.parent) as server:
        page = browser.new_page(viewport={"width": 600, "height": 900})
        shown = Shown(page, server)
        shown.go(view="topology", run=shown.id(run), part="sip0.cube5")
        picture = "document.querySelector('.chip-picture')"
        hidden = f"{picture}.scrollWidth - {picture}.clientWidth"
        shown.until(f"{hidden} > 0")
        page.get_by_role("button", name="Fit the picture").click()
        shown.until(f"{hidden} === 0")
        assert shown.said == []
        page.close()
