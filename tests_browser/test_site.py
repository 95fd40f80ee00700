"""The search of the documentation's site: a word leads to its page, from the disk and from a server.

`KB_SITE` names a site that was built. Without it, one is built without a gallery.
"""

import os
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from web_page import keep

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    if "KB_SITE" in os.environ:
        return Path(os.environ["KB_SITE"]).resolve()
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "docs_site" / "build_site.py", "--no-gallery", "--out", out], check=True)
    return out / "site"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture(params=["disk", "server"])
def address(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Where the site begins."""
    if request.param == "disk":
        yield folder.as_uri()
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def site(page: Page, address: str) -> Iterator[Page]:
    """The first page. The console is to have no error in the end, and nothing is asked of anybody else."""
    errors, elsewhere = list[str](), list[str]()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else elsewhere.append(asked.url))
    page.goto(f"{address}/index.html")
    yield page
    assert (errors, elsewhere) == ([], [])


def search(site: Page, word: str) -> None:
    """Type *word* as a reader does."""
    site.keyboard.press("Control+k")
    box = site.locator("input[type=search]:visible")
    expect(box).to_be_focused()
    box.fill(word)
    box.press("Enter")
    site.wait_for_url("**/search.html?q=*")


def test_a_word_leads_to_the_pages_that_have_it(site: Page, address: str) -> None:
    search(site, "scoreboard")
    expect(site.locator(".search-summary")).to_contain_text("pages matching")
    found = site.locator("#search-results li")
    titles = found.locator("a").all_inner_texts()
    assert len(titles) > 5
    assert "Processing element" in titles
    excerpts = found.locator("p.context")
    if address.startswith("http"):
        expect(excerpts.first).to_contain_text("scoreboard", ignore_case=True)
    else:
        assert excerpts.count() == 0
    keep(site, f"site-search-{address.partition(':')[0]}")
    found.get_by_role("link", name="Processing element").click()
    expect(site.locator("h1")).to_contain_text("Processing element")
    assert "/design/processing-element.html" in site.url


@pytest.mark.parametrize(
    ("word", "title"), [("whatif", "kb whatif"), ("transcendental_cycles", "Blocks"), ("atomic_xchg", "tl")]
)
def test_commands_attributes_and_functions_are_found(site: Page, word: str, title: str) -> None:
    search(site, word)
    results = site.locator("#search-results li a")
    expect(results.filter(has_text=title).first).to_be_visible()


def test_a_word_that_is_nowhere_is_said_to_be_nowhere(site: Page) -> None:
    search(site, "zyzzyva")
    expect(site.locator(".search-summary")).to_contain_text("did not match any documents")


DARKNESS = """async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
    [canvas.width, canvas.height] = [image.width, image.height];
    context.drawImage(image, 0, 0);
    return [...context.getImageData(8, 8, 1, 1).data].slice(0, 3);
}"""
"""The colour of a point near the corner of a picture, where a chip has its page."""


@pytest.mark.parametrize(("reader", "switch"), [("light", "dark"), ("dark", "light"), ("dark", "auto")])
def test_pictures_are_light_or_dark_as_the_switch_of_the_site_says(
    browser: Browser, folder: Path, reader: str, switch: str
) -> None:
    context = browser.new_context(color_scheme=reader, viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.add_init_script(f"localStorage.setItem('mode', '{switch}')")
    page.goto(f"{folder.as_uri()}/index.html")
    picture = page.locator("img[src$='decode-chip.svg']")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    assert box["width"] > 600
    data = b64encode(picture.screenshot()).decode()
    bright = sum(page.evaluate(DARKNESS, data)) / 3
    is_dark = (reader if switch == "auto" else switch) == "dark"
    assert bright < 40 if is_dark else bright > 240
    keep(page, f"site-landing-{reader}-{switch}")
    context.close()
