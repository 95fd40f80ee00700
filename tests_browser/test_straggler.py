"""A new user, from the list of runs: which of 128 PEs is the straggler, why, and what to change?"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eyes import words
from playwright.sync_api import Browser
from web_page import Shown, new_run, served

SLOW = "sip0.cube5.pe3"


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Shown]:
    """The page of a run on 128 PEs, of which one takes twice as long for everything."""
    chip = tmp_path / "one_slow.yaml"
    text = (Path(__file__).parents[1] / "topologies" / "one_sip.yaml").read_text(encoding="utf-8")
    chip.write_text(f"{text}\nslow: {{{SLOW}: 2}}\n", encoding="utf-8")
    new_run(tmp_path / "runs", "softmax", "-p", "M=1024", "-p", "N=512", "--topology", chip, "--levers", 0)
    with served(tmp_path / "runs") as server:
        page = browser.new_page(viewport={"width": 1400, "height": 850})
        shown = Shown(page, server)
        yield shown
        assert shown.said == []
        page.close()


def leads_to(shown: Shown, view: str, act: Callable[[], object]) -> None:
    """Wait until *act* has led to *view*."""
    before = shown.page.evaluate("Number(document.body.dataset.shown)")
    act()
    shown.until(f"Number(document.body.dataset.shown) > {before}")
    assert shown.page.evaluate("document.body.dataset.view") == view


def test_a_few_clicks_name_the_straggler_the_cause_and_the_lever(shown: Shown) -> None:
    page = shown.page
    leads_to(shown, "overview", page.locator("main td a").first.click)  # the only run
    sentence = page.locator("p.sentence").inner_text()
    assert f"{SLOW} is slow by 2" in sentence
    assert "times the work that is due to it" in sentence
    assert "give a slow PE the work of another PE, divided by its factor" in sentence
    shown.keep("straggler-overview")

    leads_to(shown, "timeline", lambda: page.keyboard.press("3"))
    shown.drawn()
    assert page.locator("p.straggler").inner_text().startswith(f"{SLOW} ends last, ")
    page.get_by_role("button", name="Show it").click()
    page.wait_for_timeout(500)
    assert any(SLOW in each for each in words(page))
    shown.keep("straggler-timeline")

    leads_to(shown, "why", page.get_by_role("link", name="Why so late?").click)
    assert SLOW in page.locator("h1").inner_text()
    assert page.locator("tbody tr").first.inner_text().startswith("pe_math\tmath\t"), "its math took most of its time"
    shown.keep("straggler-why")

    leads_to(shown, "timeline", page.go_back)
    leads_to(shown, "overview", page.get_by_role("link", name="What to change?").click)
    assert "choose other blocks" in page.locator("p.sentence").inner_text()
