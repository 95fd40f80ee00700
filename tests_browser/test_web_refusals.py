"""The page of `kb web` where there is nothing to show: wrong addresses, strangers, empty folders, names of markup."""

import json
from pathlib import Path

from playwright.sync_api import Browser
from web_page import GEMM, VIEWS, Shown, new_run, served

MARKUP = "<img src=x onerror=alert(1)>"
WRONG = [
    ("view=overview&run=nowhere", "run=nowhere: got a run that is not there, needs one of the runs in "),
    ("view=nothing&run=RUN", "view: got nothing, needs one of runs, overview, "),
    ("view=stalls", "stalls: got no run, needs one of these"),
    ("view=why&run=RUN&op=999999", "op: got 999999, needs an op of the log, 0 to "),
    ("view=why&run=RUN&op=x", "op: got x, needs a number of 0 or more"),
    ("view=timeline&run=RUN&t0=5&t1=5", "t0, t1: got 5 to 5, needs an end after the begin"),
    ("view=timeline&run=RUN&t1=100", "t0: got nothing, needs the other end of a window, because t1 is 100"),
    ("view=topology&run=RUN&t0=100", "t1: got nothing, needs the other end of a window, because t0 is 100"),
    ("view=overview&run=RUN&nosuch=1", "nosuch: got a field that no view has, needs one of view, run, "),
    ("view=stalls&run=RUN&pe=none", "pe: got 'none', needs one that has records in the log"),
    ("view=compare&run=RUN&with=nowhere", "run=nowhere: got a run that is not there"),
    ("view=sweeps&sweep=nowhere", "sweep=nowhere: got a sweep that is not there"),
]
"""Addresses with what nobody can show, and what the page says."""


def test_what_a_user_wrote_stays_text(browser: Browser, tmp_path: Path) -> None:
    bench = tmp_path / f"{MARKUP}.py"
    bench.write_text(HOSTILE.replace("MARKUP", MARKUP))
    folder = new_run(tmp_path / "runs", bench, "-p", f"label={MARKUP}")
    with served(folder.parent) as server:
        page = Shown(browser.new_page(), server)
        alerts = []
        page.page.on("dialog", lambda dialog: alerts.append(dialog.message))
        for view in VIEWS:
            page.go(view=view, run=page.id(folder), op=0)
            page.page.wait_for_timeout(100)
            assert page.page.locator("img").count() == 0
        page.go(view="overview", run=page.id(folder))
        assert MARKUP in page.page.locator("main").inner_text()
        page.keep("hostile")
        assert (alerts, page.said) == ([], [])
        page.page.close()


HOSTILE = '''"""A product whose names are markup: MARKUP."""

import numpy as np
from kb_engine import Benchmark
from msgspec import Struct


def kernel(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c))  # MARKUP


class Params(Struct):
    size: int = 8
    label: str = "x"


class Hostile(Benchmark[Params]):
    Params = Params

    def inputs(self, p, rng):
        return {name: rng.standard_normal((p.size, p.size), dtype=np.float32) for name in "ab"}

    def launch(self, host, p, tensors):
        a, b = (host.tensor(name, tensors[name], "f32") for name in "ab")
        c = host.empty("c", (p.size, p.size), "f32")
        host.launch(kernel, a, b, c, pes=[0])
        return {"c": c}

    def reference(self, p, inputs):
        return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}

    def flops(self, p):
        return 2 * p.size**3
'''


def test_wrong_addresses_are_answered_in_sentences(browser: Browser, tmp_path: Path) -> None:
    folder = new_run(tmp_path, *GEMM, "--topology", "one_pe")
    with served(tmp_path) as server:
        stranger = browser.new_context().new_page()
        for path in ("", "?token=wrong", "api/runs", "main.js"):
            reply = stranger.goto(server.gate.address + path)
            assert reply is not None
            assert (reply.status, reply.text().partition(":")[0]) == (401, "token"), path
        page = Shown(browser.new_page(), server)
        posted = "async () => { const it = await fetch('/api/runs', {method: 'POST'}); return it.status; }"
        assert page.page.evaluate(posted) == 405
        run = page.id(folder)
        for address, said in WRONG:
            page.page.evaluate(f"location.hash = {json.dumps(address.replace('RUN', run))}")
            page.until(f"document.querySelector('p.note')?.innerText.startsWith({json.dumps(said)})", 20)
        page.keep("wrong")
        page.page.close()


def test_an_empty_folder_says_how_to_fill_it(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        page = Shown(browser.new_page(), server)
        page.until("document.querySelector('main code')")
        assert "kb run gemm" in page.page.locator("main").inner_text()
        page.keep("empty")
        assert page.said == []
        page.page.close()
