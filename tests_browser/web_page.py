"""The page of `kb web` in a browser, as tests use it: runs to show, a server, and a page whose console is kept."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from click.testing import CliRunner
from eyes import see, watch
from playwright.sync_api import Page

from kb_cli.main import kb
from kb_cli.web.server import PageServer

GEMM = ["gemm", "-p", "M=200", "-p", "N=136", "-p", "K=72", "-p", "tile=32x16x24"]
VIEWS = ["runs", "overview", "timeline", "why", "source", "stalls", "topology", "roofline", "compare", "sweeps"]
PICTURES = Path(os.environ.get("KB_PICTURES", "build/pictures"))


def run_kb(*args: object, note: str = "") -> str:
    """What kb prints. It notes *note* beside, or nothing."""
    done = CliRunner().invoke(kb, [str(arg) for arg in args], catch_exceptions=False)
    assert (done.exit_code, done.stderr[: len(note)]) == (0, note), done.stderr
    assert bool(done.stderr) == bool(note), done.stderr
    return done.stdout


def new_run(out: Path, *args: object, note: str = "") -> Path:
    return Path(json.loads(run_kb("run", *args, "--out", out, "--json", note=note))["run_dir"])


def keep(page: Page, name: str) -> None:
    """A picture of *page* for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(PICTURES / f"{name}.png"))


class Shown:
    """A page that a server shows. What the console says, or a request to another host, is an error."""

    def __init__(self, page: Page, server: PageServer) -> None:
        self.page, self.server, self.said = page, server, list[str]()
        watch(page)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda asked: self.ours(asked.url) or self.said.append(asked.url))
        page.goto(server.gate.opening)
        assert page.url.startswith(server.gate.address)
        assert "token" not in page.url
        self.until("document.body.dataset.shown > 0")

    def ours(self, url: str) -> bool:
        return url.startswith(self.server.gate.address)

    def id(self, folder: Path) -> str:
        ask = (
            "async () => (await (await fetch('/api/runs')).json()).runs.map((each) => [each.name, each.id, each.state])"
        )
        return next(run for name, run, _ in self.page.evaluate(ask) if name == folder.name)

    def go(self, **fields: object) -> None:
        """Open an address and wait for its view."""
        before = self.page.evaluate("document.body.dataset.shown")
        self.page.evaluate(f"location.hash = '{'&'.join(f'{name}={value}' for name, value in fields.items())}'")
        self.until(f"document.body.dataset.shown > {before}")
        assert self.page.evaluate("document.body.dataset.view") == fields.get("view", "overview")

    def until(self, condition: str, seconds: float = 90) -> None:
        last = monotonic() + seconds
        while not self.page.evaluate(f"Boolean({condition})"):
            assert monotonic() < last, f"{condition}; the console: {self.said}"
            self.page.wait_for_timeout(50)

    def drawn(self) -> None:
        """Wait until the canvas of the timeline has colours of a legend, and no request is under way."""
        self.until("document.querySelector('.legend i')")
        self.page.wait_for_timeout(600)

    def keep(self, name: str) -> None:
        """A picture for people to look at, of which texts can be read."""
        keep(self.page, name)
        found = see(self.page, may_be_empty=True)
        assert not found, "\n".join([name, *found])

    @property
    def fragment(self) -> dict[str, str]:
        found: dict[str, str] = self.page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
        return found


@contextmanager
def served(folder: Path) -> Iterator[PageServer]:
    with PageServer(folder, folder / "sweeps", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
