"""Pictures of the page of `kb web`, taken in a browser when the site is built, on a light and on a dark page."""

from __future__ import annotations

import threading
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlencode

from kb_cli.web.server import PageServer

SCHEMES = ("light", "dark")
_WINDOW = {"width": 1200, "height": 720}
_SETTLED_MS = 1500
"""How long a view is left alone before its picture is taken: canvases are drawn after the view is shown."""
_LONGEST_S = 120


class Screen(NamedTuple):
    """A view of a run: the name of the picture, the fields of the address, and what the picture shows."""

    name: str
    fields: dict[str, str]
    shows: str

    @property
    def files(self) -> dict[str, str]:
        """The file of the picture for each scheme."""
        return {scheme: f"{self.name}-{scheme}.png" for scheme in SCHEMES}


TIMELINE = Screen("web-timeline", {"view": "timeline"}, "The timeline of a matrix product on eight PEs")
TOPOLOGY = Screen("web-topology", {"view": "topology"}, "The chip in the colours of a run, where its memories are hot")
SCREENS = (TIMELINE, TOPOLOGY)


def take(browser: str, run: Path, out: Path) -> None:
    """Take the pictures of all screens of *run* with the program *browser*, into the new folder *out*."""
    from playwright.sync_api import sync_playwright  # only where a browser is there

    out.mkdir(parents=True)
    with sync_playwright() as playwright, PageServer(run, run / "none", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        chromium = playwright.chromium.launch(executable_path=browser)
        for screen in SCREENS:
            for scheme, file in screen.files.items():
                page = chromium.new_page(viewport=_WINDOW, color_scheme=scheme)
                _open(page, server.gate.opening, screen)
                page.screenshot(path=str(out / file))
                page.close()
        chromium.close()
        server.shutdown()


def _open(page: Any, address: str, screen: Screen) -> None:
    page.goto(address)
    _until(page, "document.body.dataset.shown > 0")
    found = page.evaluate("async () => (await (await fetch('/api/runs')).json()).runs[0].id")
    page.evaluate(f"location.hash = '{urlencode({**screen.fields, 'run': found})}'")
    _until(page, f"document.body.dataset.shown > 1 && document.body.dataset.view === '{screen.fields['view']}'")
    page.wait_for_timeout(_SETTLED_MS)


def _until(page: Any, condition: str) -> None:
    """Wait for *condition*. The page's policy forbids what the browser's own way to wait does."""
    last = monotonic() + _LONGEST_S
    while not page.evaluate(f"Boolean({condition})"):
        if monotonic() > last:
            raise TimeoutError(f"kb web: got no {condition} within {_LONGEST_S} s")
        page.wait_for_timeout(50)


def screen_html(screen: Screen, above: str) -> str:
    """The pictures of *screen* as HTML for a page *above* which their folder lies: the one of the reader's choice."""
    return "\n".join(
        f'<img class="screen only-{scheme}" src="{above}{file}" alt="{screen.shows}">'
        for scheme, file in screen.files.items()
    )
