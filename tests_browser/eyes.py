"""What a reader could not read on a page: texts on one another, faint or cut off, and views that show nothing.

The checks run in the browser (`eyes.js`), on boxes of texts: of elements, of drawings, and of canvases, whose texts
are kept while a page draws them.
"""

from pathlib import Path

from playwright.sync_api import Page

_SCRIPT = (Path(__file__).parent / "eyes.js").read_text(encoding="utf-8")


def watch(page: Page) -> None:
    """Keep the texts that canvases of *page* show from now on. Call this before the page goes to an address."""
    page.add_init_script(f"{_SCRIPT}; eyes.watch();")


def words(page: Page) -> list[str]:
    """Every text that *page* shows or can be scrolled to, in elements, drawings and canvases."""
    page.evaluate(f"() => {{ {_SCRIPT} }}")
    found: list[str] = page.evaluate("eyes.read()")
    return found


def see(page: Page, *, may_be_empty: bool = False) -> list[str]:
    """A sentence for each flaw of what *page* shows now.

    Flaws are: text over text, a contrast below 4.5, a text outside of its frame, a line of a drawing through a text, a
    font below 7.5 pixels, a page wider than the window, and a view that is blank unless it *may_be_empty*. Blank is a
    view with fewer than 20 letters, without a table, picture or list, or with a canvas of fewer than four colours.
    """
    page.evaluate(f"() => {{ {_SCRIPT} }}")
    found: list[str] = page.evaluate(f"eyes.see({str(may_be_empty).lower()})")
    return found
