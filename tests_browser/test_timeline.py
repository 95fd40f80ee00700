"""The timeline of many PEs in a browser: the tree, heat strips, pins, order, the whole run above, marks, and keys."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
from playwright.sync_api import Browser
from web_page import Shown, new_run, served

from kb_dataexec import read_log

PINNED = 70
"""The height at which the first pinned row begins."""
FOLDED = 22
NAMES = 220
SIZE = {"width": 1400, "height": 900}
PIXELS = """([x, y, width]) => {
    const canvas = document.querySelector(".lanes canvas");
    const data = canvas.getContext("2d").getImageData(x, y, width, 1).data;
    return [...Array(width).keys()].map((at) => [...data.slice(4 * at, 4 * at + 4)]);
}"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("runs")
    small = ["-p", "M=1024", "-p", "N=1024", "-p", "K=64", "--no-verify", "--keep", "all", "--levers", "none"]
    many = {chip: new_run(out, "gemm", *small, "--topology", chip) for chip in ("one_sip", "four_sip")}
    return many | {"eight": new_run(out, "gemm", "-p", "M=200", "-p", "N=136", "-p", "K=72", "-p", "tile=32x16x24")}


@pytest.fixture
def shown(browser: Browser, runs: dict[str, Path]) -> Iterator[Shown]:
    with served(runs["eight"].parent) as server:
        page = Shown(browser.new_page(viewport=SIZE), server)
        yield page
        assert page.said == []
        page.page.close()


def open_run(shown: Shown, run: Path, **fields: object) -> None:
    shown.go(view="timeline", run=shown.id(run), **fields)
    shown.drawn()


def press(shown: Shown, *keys: str) -> None:
    for key in keys:
        shown.page.locator(".lanes").press(key)


def said(shown: Shown) -> str:
    """The words for the row of the cursor."""
    return shown.page.locator(".unseen").text_content() or ""


def test_512_pes_are_on_one_screen_and_the_straggler_is_named_and_found(shown: Shown, runs: dict[str, Path]) -> None:
    began = monotonic()
    open_run(shown, runs["four_sip"])
    print(f"512 PEs are there after {monotonic() - began:.2f} s")
    shown.keep("timeline-512")
    assert shown.page.evaluate(
        "document.querySelector('.lanes').scrollHeight <= document.querySelector('.lanes').clientHeight"
    )
    log = read_log(runs["four_sip"] / "log")
    ends = {}
    for row in log.ops:
        pe = log.strings[row["component"]].rpartition(".")[0]
        ends[pe] = max(ends.get(pe, 0), int(row["t_end_ps"]))
    last = [pe for pe, end in ends.items() if end == max(ends.values())]
    sentence = shown.page.locator(".straggler")
    assert sentence.inner_text().split(" ")[0] in last
    shown.page.get_by_role("button", name="Show it").click()
    shown.until("document.querySelector('.facts')")
    assert said(shown).startswith(sentence.inner_text().split(" ")[0])
    assert shown.page.locator("select").nth(1).input_value() == "end"
    shown.until("document.querySelector('.facts').innerText.includes('held up by')")
    shown.keep("timeline-512-straggler")
    shown.page.get_by_role("link", name="Why so late?").click()
    shown.until("document.body.dataset.view === 'why'")


def test_the_tree_opens_and_folds_by_keys_and_clicks(shown: Shown, runs: dict[str, Path]) -> None:
    open_run(shown, runs["one_sip"])
    press(shown, "ArrowDown")
    while not said(shown).startswith("sip0.cube0,"):
        press(shown, "ArrowDown")
    assert "folded, 8 PEs" in said(shown)
    press(shown, "ArrowRight")
    assert "sip0.cube0, open" in said(shown)
    press(shown, "ArrowRight", "Enter", "ArrowRight")
    assert said(shown) == "pe_dma: dma_read"
    press(shown, "ArrowLeft")
    assert said(shown).startswith("sip0.cube0.pe0, open")
    rows = shown.page.locator(".status").first
    before = rows.inner_text()
    press(shown, "e")  # all PEs of all cubes
    shown.until(f"document.querySelector('.status').innerText !== {json.dumps(before)}")
    press(shown, "E", "ArrowLeft", "E")
    assert "sip0.cube0, folded" in said(shown)
    shown.page.wait_for_timeout(200)
    top = int(shown.page.evaluate("document.querySelector('.lanes').scrollTop"))
    assert top == 0


def test_the_heat_of_a_pe_is_the_exact_share(shown: Shown, runs: dict[str, Path]) -> None:
    """A pixel is as dark as the share of its time in which at least one block of the PE was at work."""
    pe = "sip0.cube3.pe5"
    open_run(shown, runs["one_sip"], pins=f"ops {pe}")
    log = read_log(runs["one_sip"] / "log")
    ask = f"fetch('/api/lanes?table=ops&run={shown.id(runs['one_sip'])}').then((each) => each.json())"
    t0, t1 = shown.page.evaluate(f"{ask}.then((each) => [each.from_ps, each.until_ps])")
    ours = np.char.startswith(np.array(log.strings), f"{pe}.")[log.ops["component"]]
    spans = log.ops[ours][["t_start_ps", "t_end_ps"]].tolist()
    width = shown.page.evaluate("document.querySelector('.lanes canvas').width") - NAMES
    edges = np.linspace(t0, t1, width + 1)
    fine = np.linspace(0, 1, 41)[:-1] + 1 / 80
    shares = []
    for a, b in pairwise(edges):
        at = a + fine * (b - a)
        shares.append(np.any([(at >= start) & (at < end) for start, end in spans], axis=0).mean())
    alphas = np.array([pixel[3] for pixel in shown.page.evaluate(PIXELS, [NAMES, PINNED + FOLDED // 2, width])]) / 255
    expected = np.where(np.array(shares) > 0, 0.2 + 0.8 * np.array(shares), 0)
    off = np.abs(alphas - expected)
    assert (off < 0.06).mean() > 0.98  # 1/40 of a pixel, and a byte; all others are lines of the time axis


def test_pins_and_order_stay_in_the_address(shown: Shown, runs: dict[str, Path]) -> None:
    open_run(shown, runs["one_sip"])
    press(shown, "ArrowDown")
    while not said(shown).startswith("sip0.cube2,"):
        press(shown, "ArrowDown")
    press(shown, "p", "o")
    shown.until("new URLSearchParams(location.hash).get('pins') === 'ops sip0.cube2'")
    assert shown.fragment["order"] == "busy"
    shown.page.reload()
    shown.until("document.querySelector('.legend i')")
    shown.drawn()
    assert shown.page.locator("select").nth(1).input_value() == "busy"
    shown.keep("timeline-pinned")
    shown.page.mouse.click(*pin_at(shown))
    shown.until("!new URLSearchParams(location.hash).has('pins')")
    press(shown, "o", "o")
    shown.until("!new URLSearchParams(location.hash).has('order')")


def pin_at(shown: Shown) -> tuple[float, float]:
    box = shown.page.locator(".lanes canvas").bounding_box()
    return box["x"] + NAMES - 14, box["y"] + PINNED + 10


def test_the_whole_run_moves_the_window(shown: Shown, runs: dict[str, Path]) -> None:
    open_run(shown, runs["eight"])
    end = int(read_log(runs["eight"] / "log").ops["t_out_ps"].max())
    box = shown.page.locator(".lanes canvas").bounding_box()
    wide = box["width"] - NAMES

    def drag(a: float, b: float) -> None:
        shown.page.mouse.move(box["x"] + NAMES + a * wide, box["y"] + 14)
        shown.page.mouse.down()
        shown.page.mouse.move(box["x"] + NAMES + b * wide, box["y"] + 14, steps=5)
        shown.page.mouse.up()
        shown.page.wait_for_timeout(500)

    drag(0.2, 0.4)  # a new window
    first = [int(shown.fragment[each]) / end for each in ("t0", "t1")]
    assert first == pytest.approx([0.2, 0.4], abs=0.005)
    drag(0.3, 0.6)  # the window itself
    assert [int(shown.fragment[each]) / end for each in ("t0", "t1")] == pytest.approx([0.5, 0.7], abs=0.005)
    drag(0.7, 0.8)  # its end
    assert [int(shown.fragment[each]) / end for each in ("t0", "t1")] == pytest.approx([0.5, 0.8], abs=0.005)


def test_marks_snap_to_edges_in_the_window_alone(shown: Shown, runs: dict[str, Path]) -> None:
    log = read_log(runs["eight"] / "log")
    gemms = [row for row in log.ops if log.strings[row["component"]] == "sip0.cube0.pe0.pe_gemm"]
    start, end = int(gemms[2]["t_start_ps"]), int(gemms[2]["t_end_ps"])
    third = (end - start) // 3
    for t0, t1, wanted in [(start + third, end - third, None), (start + third, end + 5, end)]:
        open_run(shown, runs["eight"], t0=t0, t1=t1, pins="ops sip0.cube0.pe0/pe_gemm: gemm")
        box = shown.page.locator(".lanes canvas").bounding_box()
        shown.page.mouse.move(box["x"] + NAMES + 200, box["y"] + PINNED + 9)
        press(shown, "m")
        shown.until("new URLSearchParams(location.hash).has('a')")
        found = int(shown.fragment["a"])
        assert t0 <= found <= t1
        assert wanted is None or found == wanted
        press(shown, "Escape")
        shown.until("!new URLSearchParams(location.hash).has('a')")


def test_the_panel_takes_no_room_until_something_is_selected(shown: Shown, runs: dict[str, Path]) -> None:
    open_run(shown, runs["eight"])
    size = "[document.querySelector('.lanes').clientWidth, document.querySelector('.lanes').clientHeight]"
    wide, high = shown.page.evaluate(size)
    assert (wide, high) > (1300, 600)
    log = read_log(runs["eight"] / "log")
    op = next(int(row["op_id"]) for row in log.ops if log.strings[row["name"]] == "gemm")
    shown.go(view="timeline", run=shown.id(runs["eight"]), op=op, colour="path")
    shown.until("document.querySelector('.facts')?.innerText.includes('M x N x K')")
    shown.until("document.querySelector('.facts').innerText.includes('held up by')")
    after = shown.page.evaluate(size)
    assert after[0] == wide, "what the pointer is on stays where it is"
    assert after[1] < high
    press(shown, "c")
    shown.drawn()
    shown.keep("timeline-selected")
    press(shown, "Escape")
    shown.until(f"document.querySelector('.lanes').clientHeight === {high}")


def test_no_colour_stands_for_two_things_and_no_word_leaves_its_swatch(shown: Shown, runs: dict[str, Path]) -> None:
    open_run(shown, runs["eight"])
    shown.until("document.querySelector('.legend').innerText.includes('links')")
    shown.page.set_viewport_size({"width": 600, "height": 900})
    shown.drawn()
    shown.keep("timeline-600")
    colours = shown.page.evaluate("[...document.querySelectorAll('.legend i')].map((each) => each.style.background)")
    assert len(set(colours)) == len(colours) > 6
    tall = shown.page.evaluate(
        "[...document.querySelectorAll('.legend span')].map((each) => each.getClientRects()[0].height)"
    )
    assert max(tall) < 26
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")


def test_messages_have_arrows_on_request(browser: Browser, tmp_path: Path) -> None:
    folder = new_run(tmp_path, "stencil", "-p", "rows=32", "-p", "width=32", "-p", "pes=4", "--levers", "none")
    with served(tmp_path) as server:
        shown = Shown(browser.new_page(viewport=SIZE), server)
        open_run(shown, folder)
        asked = list[str]()
        shown.page.on("requestfinished", lambda each: asked.append(each.url) if "/api/arrows" in each.url else None)
        press(shown, "c")
        shown.page.wait_for_timeout(800)
        assert len(asked) == 1
        shown.keep("timeline-arrows")
        press(shown, "c", "w")
        shown.page.wait_for_timeout(800)
        assert len(asked) == 1, "arrows that nobody wants are not asked for"
        assert shown.said == []
        shown.page.close()
