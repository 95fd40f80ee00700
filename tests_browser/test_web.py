"""The page of `kb web` in a browser: every view with an empty console, how the timeline is used, runs that go on."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser
from web_page import GEMM, VIEWS, Shown, new_run, served

from kb_cli.terminal.units import duration, percent, quantity
from kb_dataexec import read_log

SIZES = ["-p", "M=2048", "-p", "N=2048", "-p", "K=4096", "-p", "tile=32x32x64"]
MILLION = ["gemm", *SIZES, "--keep", "all", "--no-verify"]
OF_A_RUN = VIEWS[1:-1]
HINTS = """[...document.querySelectorAll(".scroll, .chart, #views")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.previousElementSibling)
    .map((each) => each.matches("button.more") && each.innerText.endsWith("→"))"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs on one PE, on eight PEs that share memories, on 512, of another benchmark, and of a million services.

    The tile of `left_open` is one that the chip chose.
    """
    out, shared = tmp_path_factory.mktemp("runs"), ["-p", "operands=one_slice"]
    return {
        "one": new_run(out, *GEMM, "--topology", "one_pe"),
        "eight": new_run(out, *GEMM, *shared),
        "many": new_run(out, *GEMM, *shared, "--topology", "four_sip"),
        "other": new_run(out, "softmax"),
        "left_open": new_run(out, *GEMM[:-2], "--topology", "one_pe"),
        "million": new_run(out, *MILLION, "--topology", "one_pe"),
    }


Open = Callable[..., Shown]


@pytest.fixture
def opened(browser: Browser, runs: dict[str, Path]) -> Iterator[Open]:
    """Opens the page of the runs; its console is to be empty in the end."""
    shown = []
    with served(runs["one"].parent) as server:

        def new(**options: Any) -> Shown:
            page = browser.new_page(**{"viewport": {"width": 1400, "height": 850}, **options})
            shown.append(Shown(page, server))
            return shown[-1]

        yield new
        for each in shown:
            assert each.said == []
            each.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_of_a_million_services_opens(opened: Open, runs: dict[str, Path], scheme: str) -> None:
    page = opened(color_scheme=scheme)
    more = {"why": {"op": 40}, "compare": {"with": page.id(runs["eight"])}, "runs": {}}
    for view in VIEWS:
        page.go(view=view, run=page.id(runs["million"]), **more.get(view, {}))
        if view == "timeline":
            page.drawn()
        page.keep(f"million-{view}-{scheme}")
        assert page.page.locator("p.note").count() == 0, page.page.locator("p.note").all_inner_texts()
        if view in ("runs", "compare"):
            text = page.page.locator("main").text_content()
            assert "M=2048" in text, "runs of one benchmark show parameters that differ"


@pytest.mark.parametrize("view", VIEWS)
def test_a_narrow_window_has_all_views(opened: Open, runs: dict[str, Path], view: str) -> None:
    page = opened(viewport={"width": 380, "height": 700})
    page.go(view=view, run=page.id(runs["eight"]), op=40)
    if view == "timeline":
        page.drawn()
    page.keep(f"narrow-{view}")
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
    page.page.evaluate("document.querySelector('#views').scrollLeft = 0")
    page.page.wait_for_timeout(200)
    hints = page.page.evaluate(HINTS)
    assert hints, "the views are wider than the window"
    assert all(hints), "a line says that there is more"


def test_a_million_services_are_drawn_soon_and_zoom_to_the_picosecond(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    run, asked = page.id(runs["million"]), list[str]()
    page.page.on("request", lambda each: asked.append(each.url))
    began = monotonic()
    page.go(view="timeline", run=run)
    page.until("document.querySelector('.legend i')")
    print(f"the lanes of a million services are there after {monotonic() - began:.2f} s")
    page.until("document.querySelector('.legend').innerText.includes('pe_')")  # blocks, which the path alone names
    lanes, window, path = (next(at for at, url in enumerate(asked) if part in url) for part in FIRST_ASKED)
    assert lanes < window < path
    log = read_log(runs["million"] / "log")
    assert f"{log.n_ops:,} services" in page.page.locator(".status").inner_text()
    op = int(log.ops["op_id"][log.n_ops // 2])
    page.go(view="timeline", run=run, op=op)
    page.until("document.querySelector('.facts')")
    (record,) = log.ops[log.ops["op_id"] == op]
    assert exact(int(record["t_start_ps"])) in page.page.locator(".facts").inner_text()
    page.keep("million-slice")
    frames = page.page.evaluate(FRAMES)
    print(f"a frame of the timeline takes {frames:.1f} ms")


PINNED = 70
"""The height at which the first pinned row begins."""
FIRST_ASKED = ("lanes?run=", "table=ops&lanes=", "table=path")
FRAMES = """async () => {
    const lanes = document.querySelector(".lanes"), times = [];
    for (let each = 0; each < 20; each++) {
        lanes.dispatchEvent(new KeyboardEvent("keydown", {key: each % 2 ? "a" : "d"}));
        const began = performance.now();
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - began);
    }
    return times.sort((a, b) => a - b)[10];
}"""


def exact(ps: int) -> str:
    return f"{ps // 1000:,}.{ps % 1000:03} ns"


def test_the_timeline_zooms_pans_selects_and_marks(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    run, log = page.id(runs["eight"]), read_log(runs["eight"] / "log")
    page.go(view="timeline", run=run, pins="ops sip0.cube0.pe0/pe_gemm: gemm")
    page.drawn()
    lanes = page.page.locator(".lanes")
    box = lanes.bounding_box()
    end = int(log.ops["t_out_ps"].max())
    middle = {"x": box["width"] * 0.6, "y": 100}
    lanes.hover(position=middle)
    page.page.mouse.wheel(0, -400)
    page.until("new URLSearchParams(location.hash).get('t0') > 0")
    first = page.fragment
    assert int(first["t1"]) - int(first["t0"]) < end / 2
    lanes.press("d")
    page.until(f"new URLSearchParams(location.hash).get('t0') > {first['t0']}")
    moved = page.fragment
    width = int(first["t1"]) - int(first["t0"])
    assert int(moved["t1"]) - int(moved["t0"]) == pytest.approx(width, abs=2)
    assert int(moved["t0"]) - int(first["t0"]) == pytest.approx(0.15 * width, abs=2)
    page.page.mouse.move(box["x"] + 700, box["y"] + 100)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 900, box["y"] + 100, steps=4)
    page.page.mouse.up()
    page.until(f"new URLSearchParams(location.hash).get('t0') < {moved['t0']}")
    lanes.press("Home")
    page.until("!new URLSearchParams(location.hash).has('t0')")
    gemms = [row for row in log.ops if log.strings[row["component"]] == "sip0.cube0.pe0.pe_gemm"]
    names = page.page.evaluate("Math.min(Math.max(document.querySelector('.lanes').clientWidth * 0.2, 112), 220)")
    share = int(gemms[3]["t_start_ps"] + gemms[3]["t_end_ps"]) / 2 / end
    x = names + share * (box["width"] - 2 - names)
    lanes.click(position={"x": x, "y": PINNED + 9})
    page.until("document.querySelector('.facts')")
    facts = page.page.locator("aside").inner_text()
    assert exact(int(gemms[3]["t_start_ps"])) in facts
    assert exact(int(gemms[3]["t_end_ps"])) in facts
    lanes.press("m")  # snaps to the nearest edge of the lane under the pointer
    page.until("new URLSearchParams(location.hash).has('a')")
    edges = {int(gemms[3][name]) for name in ("t_start_ps", "t_end_ps")}
    assert int(page.fragment["a"]) in edges
    lanes.press(".")
    page.until(f"document.querySelector('.facts').innerText.includes('{exact(int(gemms[4]['t_start_ps']))}')")
    page.keep("timeline-used")
    address = page.page.url
    page.page.get_by_role("link", name="Why only then?").click()
    page.until("document.body.dataset.view === 'why'")
    assert int(page.fragment["op"]) == gemms[4]["op_id"]
    page.page.locator("tbody a").first.click()  # a link of the chain, back into the timeline
    page.until("document.body.dataset.view === 'timeline'")
    page.until("document.querySelector('.facts')")
    page.page.goto(address)
    page.until(f"document.querySelector('.facts')?.innerText.includes('{exact(int(gemms[4]['t_start_ps']))}')")


def test_coverage_on_the_screen_is_that_of_the_log(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    page.go(view="timeline", run=page.id(runs["million"]), pins="ops sip0.cube0.pe0/pe_dma: dma_write")
    page.drawn()
    log = read_log(runs["million"] / "log")
    mine = log.ops[np.array(log.strings)[log.ops["name"]] == "dma_write"]
    share = (mine["t_end_ps"] - mine["t_start_ps"]).sum() / log.ops["t_out_ps"].max()
    row = page.page.evaluate(LANE, PINNED + 9)
    alpha = np.mean([pixel / 255 for pixel in row])
    assert (alpha - 0.2) / 0.8 == pytest.approx(share, abs=0.02)


LANE = """(y) => {
    const canvas = document.querySelector(".lanes canvas"), context = canvas.getContext("2d");
    const data = context.getImageData(400, y, 600, 1).data;
    return [...data].filter((_, at) => at % 4 === 3);
}"""


def test_a_search_finds_a_tile_and_shows_it(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    page.go(view="timeline", run=page.id(runs["many"]))
    page.drawn()
    page.page.locator(".lanes").press("/")
    page.page.keyboard.type("gemm tile 1 pe 3")
    page.page.keyboard.press("Enter")
    page.until("document.querySelector('ol.found button')")
    page.page.locator("ol.found button").first.click()
    page.until("document.querySelector('.facts')")
    assert "tile 1" in page.page.locator("aside").inner_text()
    page.keep("many-found")


def test_a_line_filters_every_view(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    page.go(view="source", run=page.id(runs["eight"]))
    page.page.locator("tr.dear a").first.click()
    page.until("document.querySelector('#filter .chip')")
    line = page.fragment["line"]
    for view in OF_A_RUN:
        page.page.locator("#views a", has_text=re.compile(f"^{view}$", re.IGNORECASE)).click()
        page.until(f"document.body.dataset.view === '{view}'")
        assert page.fragment["line"] == line
    page.page.locator("#filter button").click()
    page.until("!document.querySelector('#filter .chip')")


def test_the_keyboard_is_enough(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    page.go(view="overview", run=page.id(runs["eight"]))
    page.page.keyboard.press("3")
    page.until("document.body.dataset.view === 'timeline'")
    page.drawn()
    page.page.locator(".lanes").focus()
    page.page.keyboard.press("Enter")
    page.until("document.querySelector('.facts')")
    page.page.keyboard.press("f")
    page.until("new URLSearchParams(location.hash).has('t0')")
    page.page.keyboard.press("y")
    page.until("document.body.dataset.view === 'why'")


def test_the_keyboard_keeps_its_place_when_views_change(opened: Open, runs: dict[str, Path]) -> None:
    page = opened()
    page.go(view="overview", run=page.id(runs["eight"]))
    focused = "[document.activeElement.tagName, document.activeElement.textContent]"
    for view in ("Source", "Stalls"):
        before = page.page.evaluate("Number(document.body.dataset.shown)")
        page.page.locator("nav a", has_text=view).focus()
        page.page.keyboard.press("Enter")
        page.until(f"Number(document.body.dataset.shown) > {before}")
        assert page.page.evaluate(focused) == ["A", view]
    before = page.page.evaluate("Number(document.body.dataset.shown)")
    page.go(view="runs")
    page.page.locator("main td a").first.focus()
    page.page.keyboard.press("Enter")
    page.until(f"Number(document.body.dataset.shown) > {before + 1}")
    assert page.page.evaluate(focused)[0] == "MAIN"


def test_the_overview_shows_the_tiles_that_the_chip_chose(opened: Open, runs: dict[str, Path]) -> None:
    page, tiles = opened(), 'section:has(h2:text-is("Tiles"))'
    page.go(view="overview", run=page.id(runs["one"]))
    assert page.page.locator(tiles).count() == 0, "the kernel states its tile"
    page.go(view="overview", run=page.id(runs["left_open"]))
    (chosen,) = json.loads((runs["left_open"] / "run.json").read_text())["results"]["chosen_tiles"]
    cells = page.page.locator(f"{tiles} td").all_inner_texts()
    assert cells == [chosen["line"], chosen["tile"], "1"]
    assert page.page.locator(f"{tiles} td a").get_attribute("href").count("view=source") == 1


def test_numbers_have_the_form_that_kb_prints(opened: Open) -> None:
    page = opened()
    values = [0, 1, 999, 1000, 1234.5, 999_949, 1e6, 4_707_000, 1e9, 1.5e12, 123_456_789_012_345]
    ask = """async (values) => {
        const f = await import('/format.js');
        return values.map((each) => [f.duration(each), f.percent(each / 1e6), f.quantity(each, 'B')]);
    }"""
    found = page.page.evaluate(ask, values)
    assert found == [[duration(each), percent(each / 1e6), quantity(each, "B")] for each in values]


def test_a_run_goes_on_is_killed_and_shows_how_far_it_came(browser: Browser, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    out.mkdir()
    with served(out) as server:
        page = Shown(browser.new_page(viewport={"width": 1400, "height": 850}), server)
        slow = [*MILLION, "--topology", "one_pe", "--exact", "events", "--out", str(out)]
        command = [shutil.which("kb", path=Path(sys.executable).parent), "run", *slow]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            page.until("document.querySelector('.card.running dl')")
            page.until("document.querySelector('.card.running').innerText.includes('simulated')")
            first = page.page.locator(".card.running").inner_text()
            page.until(f"document.querySelector('.card.running').innerText !== {json.dumps(first)}")
            page.keep("live-runs")
            page.page.locator(".card.running a").click()
            page.until("document.body.dataset.view === 'timeline'")
            page.drawn()
            page.keep("live-timeline")
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        page.go(view="runs")
        page.until("document.querySelector('.card.died')")
        page.keep("died-runs")
        page.page.locator(".card.died a").click()
        page.until("document.querySelector('.status')?.innerText.includes('services')")
        page.drawn()
        page.keep("died-timeline")
        assert "got a log that was cut off: it goes up to" in page.page.locator("main").inner_text()
        assert page.said == []
        page.page.close()
