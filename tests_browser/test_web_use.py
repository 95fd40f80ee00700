"""How the page is used for long: sums between marks, what is copied, and what goes wrong under an open page."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser
from web_page import Shown, new_run, run_kb, served

from kb_cli.run.base.folder_owner import owner
from kb_dataexec import read_log

SETTLED_S = 2.0
MOST_ASKED = 12
"""Requests of a timeline that was moved six times and gets no answer. Four tables are shown."""
PROGRESS = {
    "format": "kernbench-progress", "version": 1, "state": "running", "pid": 1, "row": None, "rows": None,
    "phase": "pass 1 (time)", "what": "", "elapsed_s": 2.5, "advanced_s": 2.5, "done": 3, "total": 12, "left_s": 7.5,
    "t_ps": 5000, "pes_done": 0, "pes": 8,
}  # fmt: skip
DENSE = ["gemm", "-p", "M=512", "-p", "N=512", "-p", "K=512", "-p", "tile=16x16x16", "--keep", "all", "--no-verify"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with more services than a window has pixels."""
    return new_run(tmp_path_factory.mktemp("runs"), *DENSE, "--topology", "one_pe")


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """The run in a folder of its own, which a test may spoil."""
    return Path(shutil.copytree(run, tmp_path / "runs" / run.name))


@pytest.fixture
def shown(browser: Browser, copied: Path) -> Iterator[Shown]:
    with served(copied.parent) as server:
        page = Shown(browser.new_page(viewport={"width": 1280, "height": 800}), server)
        yield page
        page.page.close()


def asked_while_moving(page: Shown) -> list[str]:
    found = list[str]()
    page.page.on("request", lambda each: found.append(each.url) if "/api/window" in each.url else None)
    for _ in range(6):
        page.page.locator(".lanes").press("w")
    page.until("document.querySelector('p.note')")
    page.page.wait_for_timeout(1000 * SETTLED_S)
    return found


def test_a_run_that_was_deleted_is_not_asked_for_again_and_again(shown: Shown, copied: Path) -> None:
    shown.go(view="timeline", run=shown.id(copied))
    shown.drawn()
    shutil.rmtree(copied)
    shown.page.wait_for_timeout(400)
    assert len(asked_while_moving(shown)) <= MOST_ASKED
    assert "got a run that is not there" in shown.page.locator("p.note").first.inner_text()


def test_a_server_that_went_and_came_is_asked_again(shown: Shown, copied: Path) -> None:
    shown.go(view="timeline", run=shown.id(copied))
    shown.drawn()
    shown.page.route("**/api/window*", lambda route: route.abort())
    assert len(asked_while_moving(shown)) <= MOST_ASKED
    assert "kb web does not answer" in shown.page.locator("p.note").first.inner_text()
    shown.page.unroute("**/api/window*")
    shown.until("!document.querySelector('p.note')", 20)


def test_another_server_on_the_port_says_which_address_to_open(browser: Browser, copied: Path) -> None:
    with served(copied.parent) as other:
        port = other.server_port  # is free when that server has ended
        other.shutdown()
    page = browser.new_page()
    try:
        for _ in range(2):
            with started(copied.parent, port) as address:
                if page.url != "about:blank":  # the page of the server before
                    told = page.locator("p.note", has_text="open that one again")
                    told.wait_for(timeout=60_000)
                page.goto(address)
                page.locator("main td a", has_text="gemm-").wait_for()
            page.locator("p.note", has_text="kb web does not answer").wait_for()
    finally:
        page.close()


@contextmanager
def started(folder: Path, port: int) -> Iterator[str]:
    """`kb web` in a process of its own, which is killed in the end. Gives the address that it prints."""
    command = [shutil.which("kb", path=Path(sys.executable).parent), "web", folder, "--port", str(port), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            printed = ""
            while "token=" not in printed:
                printed = process.stdout.readline()
                assert printed, "kb web prints its address"
            yield next(word for word in printed.split() if "token=" in word)
        finally:
            process.kill()


def test_the_timeline_of_a_run_that_goes_on_reads_on_after_an_answer_was_lost(shown: Shown, copied: Path) -> None:
    going = going_on(copied)
    shown.page.wait_for_timeout(400)  # a look at the folder is good for so long
    shown.go(view="timeline", run=shown.id(going[0]))
    shown.drawn()
    shown.page.locator(".lanes").press("Enter")
    shown.until("document.querySelector('.facts')")
    shown.page.route("**/api/lanes*", lambda route: route.abort())
    shown.page.wait_for_timeout(3100)  # the log is read again after three seconds
    tell(going[1], 6000)
    shown.until("document.querySelector('[role=status] p.note')", 20)
    shown.page.unroute("**/api/lanes*")
    shown.page.wait_for_timeout(3100)
    tell(going[1], 7000)
    shown.until("!document.querySelector('[role=status] p.note')", 20)
    assert shown.page.locator(".facts").count() == 1, "what was selected stays"


def test_the_list_keeps_its_focus_and_its_rows_while_a_run_goes_on(shown: Shown, copied: Path) -> None:
    going = going_on(shutil.copytree(copied, copied.parent / "more"))
    shown.go(view="runs")
    shown.until("document.querySelector('.card.running') && document.querySelector('td a')")
    shown.page.evaluate("document.querySelector('td a').isMine = true")
    for place, told in [("td a", 8000), (".card.running a", 9000)]:
        shown.page.locator(place).first.focus()
        before = shown.page.locator(".card.running").inner_text()
        tell(going[1], told)
        shown.until(f"document.querySelector('.card.running').innerText !== {json.dumps(before)}")
        shown.page.wait_for_timeout(1200)
        assert shown.page.evaluate(f"document.activeElement === document.querySelector('{place}')")
    assert shown.page.evaluate("document.querySelector('td a').isMine"), "a table in which nothing changed stays"


def going_on(folder: Path) -> tuple[Path, Path]:
    """Makes *folder* one of a run that goes on in this process. Gives what the list calls it, and where it lies."""
    there = folder.parent / f".gemm-0123456789ab.{owner()}-00000000-new"
    os.rename(folder, there)
    for name in ("run.json", "log/manifest.json"):
        (there / name).unlink()
    tell(there, 5000)
    return folder.parent / "gemm-0123456789ab", there


def tell(folder: Path, t_ps: int) -> None:
    new = folder / "progress.new"
    new.write_text(json.dumps({**PROGRESS, "t_ps": t_ps}))
    os.replace(new, folder / "progress.json")


PLACES = """() => {
    const [main, view] = ["main", ".view"].map((each) => document.querySelector(each));
    const text = view.querySelector("h1").getBoundingClientRect();
    return [main.scrollWidth - main.clientWidth, Math.round(text.left)];
}"""


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_views_are_as_wide_as_the_window_and_begin_at_one_place(shown: Shown, copied: Path, width: int) -> None:
    before = shutil.copytree(copied, copied.parent / f"gemm-{'of-a-long-name-' * 6}0")
    shown.page.wait_for_timeout(400)  # a look at the folder is good for so long
    shown.page.set_viewport_size({"width": width, "height": 800})
    run, lefts = shown.id(copied), set()
    for view in ("overview", "why", "source", "stalls", "topology", "roofline", "compare"):
        shown.go(view=view, run=run, **{"why": {"op": 20}, "compare": {"with": shown.id(before)}}.get(view, {}))
        shown.until("document.querySelector('.view h1')")
        wider, left = shown.page.evaluate(PLACES)
        assert wider <= 0, view
        lefts.add(left)
        shown.keep(f"{view}-{width}")
    assert len(lefts) == 1
    assert shown.said == []


def test_a_comparison_says_what_it_leaves_out_and_when_logs_are_equal(
    shown: Shown, copied: Path, tmp_path: Path
) -> None:
    small = ["gemm", "-p", "M=64", "-p", "N=64", "-p", "K=64"]
    one, many = (new_run(copied.parent, *small, "--topology", chip) for chip in ("one_pe", "one_sip"))
    chip = tmp_path / "other.yaml"
    chip.write_text((one / "topology.yaml").read_text().replace("name: one_pe", "name: other"))
    renamed = new_run(copied.parent, *small, "--topology", chip)
    shown.page.wait_for_timeout(400)  # a look at the folder is good for so long
    shown.go(view="compare", run=shown.id(many), **{"with": shown.id(one)})
    shown.until("document.querySelectorAll('.view table').length")
    of_first = json.loads(run_kb("compare", one, many, "--json"))["pes"][0]
    row = shown.page.locator("tr", has_text=of_first["pes"][0]).last.inner_text()
    assert row.endswith(f", {len(of_first['change_ps']) - 4} more")
    shown.go(view="compare", run=shown.id(renamed), **{"with": shown.id(one)})
    shown.until("document.querySelector('.view .sentence')?.innerText.startsWith('The')")
    sentence = "The digests of the two logs are equal: the differences changed no operation and no time."
    assert shown.page.locator(".view .sentence").inner_text() == sentence
    assert shown.said == []


def test_half_of_a_small_window_is_source_and_the_chip_fits_into_it(shown: Shown, copied: Path) -> None:
    shown.page.set_viewport_size({"width": 800, "height": 800})
    shown.go(view="source", run=shown.id(copied))
    shown.until("document.querySelector('td.code')")
    assert shown.page.evaluate("document.querySelector('td.code').getBoundingClientRect().left") < 400
    shown.page.set_viewport_size({"width": 640, "height": 800})
    shown.go(view="topology", run=shown.id(copied))
    shown.until("document.querySelector('.chip-picture')")
    chip = "document.querySelector('.chip-picture')"
    assert shown.page.evaluate(f"{chip}.scrollWidth - {chip}.clientWidth") == 0
    shown.page.set_viewport_size({"width": 360, "height": 800})
    assert shown.page.evaluate(f"{chip}.scrollWidth / {chip}.clientWidth") > 1.2, "labels stay large enough to be read"


def test_two_marks_add_up_what_was_at_work_and_copy_it(shown: Shown, copied: Path) -> None:
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log = read_log(copied / "log")
    end = int(log.ops["t_out_ps"].max())
    a, b = end // 4, end // 2
    shown.go(view="timeline", run=shown.id(copied), a=b, b=a)  # in either order
    shown.until("document.querySelector('aside table')")
    shown.drawn()
    shown.keep("timeline-sums")
    shown.page.locator("aside button", has_text="Copy").first.click()
    shown.until("document.querySelector('aside').innerText.includes('copied')")
    rows = [line.split("\t") for line in shown.page.evaluate("navigator.clipboard.readText()").split("\n")]
    assert rows[1] == [str(a), str(b)]
    gemm = log.ops[np.array(log.strings)[log.ops["name"]] == "gemm"]
    busy = int(np.maximum(np.minimum(gemm["t_end_ps"], b) - np.maximum(gemm["t_start_ps"], a), 0).sum())
    (row,) = (each for each in rows if each[0] == "pe_gemm: gemm")
    assert int(row[3]) == busy
    assert float(row[4]) == pytest.approx(busy / (b - a))
    at = rows.index(["on the path", "ps", "share"])
    assert sum(int(ps) for _, ps, _ in rows[at + 1 :]) == b - a
    lanes = shown.page.locator(".lanes")
    lanes.press("Escape")
    shown.until("!document.querySelector('aside table')")
    lanes.press("Enter")
    shown.until("document.querySelector('.facts')")
    shown.until("new URLSearchParams(location.hash).has('op') && !new URLSearchParams(location.hash).has('b')")
    lanes.press("M")
    shown.until("new URLSearchParams(location.hash).has('b')")
    asked = shown.fragment
    (record,) = log.ops[log.ops["op_id"] == int(asked["op"])]
    assert (int(asked["a"]), int(asked["b"])) == (int(record["t_start_ps"]), int(record["t_end_ps"]))
    assert shown.said == []


def test_marks_stay_when_views_change_and_pages_are_loaded_again(shown: Shown, copied: Path) -> None:
    end = int(read_log(copied / "log").ops["t_out_ps"].max())
    shown.go(view="timeline", run=shown.id(copied), a=end // 4, b=end // 2)
    shown.until("document.querySelector('aside table')")
    before = shown.page.locator("aside table").first.inner_text()
    page = shown.page
    steps = [
        lambda: [page.locator("nav a", has_text=each).click() for each in ("Stalls", "Timeline")],
        lambda: [page.keyboard.press(each) for each in "43"],
        lambda: [page.go_back(), page.go_forward()],
        page.reload,
    ]
    for step in steps:
        step()
        shown.until("document.body.dataset.view === 'timeline' && document.querySelector('aside table')")
        assert shown.page.locator("aside table").first.inner_text() == before
        assert (int(shown.fragment["a"]), int(shown.fragment["b"])) == (end // 4, end // 2)
    assert shown.said == []


def test_sums_that_had_no_answer_are_asked_for_again(shown: Shown, copied: Path) -> None:
    shown.page.route("**/api/sums*", lambda route: route.abort())
    shown.go(view="timeline", run=shown.id(copied), a=1000, b=9000)
    shown.until("document.querySelector('aside p.note')")
    assert "kb web does not answer" in shown.page.locator("aside p.note").inner_text()
    shown.page.unroute("**/api/sums*")
    shown.until("document.querySelector('aside table')", 20)


def test_sums_of_a_run_that_was_written_again_are_those_of_the_new_one(shown: Shown, copied: Path) -> None:
    shown.go(view="timeline", run=shown.id(copied))
    shown.drawn()
    lanes = shown.page.locator(".lanes")
    lanes.press("Enter")
    shown.until("document.querySelector('.facts')")
    for number in range(3):  # the server keeps as many runs
        other = Path(shutil.copytree(copied, copied.parent / f"gemm-{number}"))
        shown.page.wait_for_timeout(400)  # a look at the folder is good for so long
        shown.page.evaluate(f"fetch('/api/lanes?table=ops&run={shown.id(other)}').then((each) => each.text())")
    shutil.copy(copied / "run.json", copied / "new")
    os.replace(copied / "new", copied / "run.json")
    lanes.press("M")
    shown.until("document.querySelector('aside table')", 20)
    assert shown.page.locator("p.note").count() == 0


def test_sums_of_a_run_that_goes_on_keep_the_focus(shown: Shown, copied: Path) -> None:
    going = going_on(copied)
    shown.page.wait_for_timeout(400)
    shown.go(view="timeline", run=shown.id(going[0]), a=1000, b=9000)
    shown.until("document.querySelector('aside table')")
    asked = list[str]()
    shown.page.on("requestfinished", lambda each: asked.append(each.url) if "/api/sums" in each.url else None)
    copy = shown.page.locator("aside button", has_text="Copy").first
    copy.focus()
    t_ps = 5000
    while not asked:
        shown.page.wait_for_timeout(1000)
        tell(going[1], t_ps := t_ps + 1000)
        assert t_ps < 30_000
    shown.page.wait_for_timeout(500)
    assert shown.page.evaluate("document.activeElement.textContent") == "Copy"


def test_marks_do_not_lie_outside_of_the_run(shown: Shown, copied: Path) -> None:
    shown.go(view="timeline", run=shown.id(copied))
    shown.drawn()
    box = shown.page.locator(".lanes canvas").bounding_box()
    shown.page.keyboard.down("Shift")
    shown.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 100)
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + 5, box["y"] + 100, steps=5)  # over the names of the lanes
    shown.page.mouse.up()
    shown.page.keyboard.up("Shift")
    shown.until("new URLSearchParams(location.hash).has('b')")
    assert int(shown.fragment["a"]) == 0
    shown.until("document.querySelector('aside table')")
    assert shown.page.locator("p.note").count() == 0


def test_a_link_with_a_search_shows_what_it_found(shown: Shown, copied: Path) -> None:
    shown.go(view="timeline", run=shown.id(copied), find="dma_read")
    shown.until("document.querySelector('ol.found button')")
    assert shown.page.locator("input[type=search]").input_value() == "dma_read"
    assert shown.said == []


def test_a_send_leads_to_the_wait_for_its_message(browser: Browser, tmp_path: Path) -> None:
    folder = new_run(tmp_path, "stencil", "-p", "rows=32", "-p", "width=32", "-p", "pes=4")
    log = read_log(folder / "log")
    sends, waits = log.tables["sends"], log.tables["waits"]
    waited = waits[(waits["to_ps"] > waits["from_ps"]) & (waits["by_seq"] >= 0)][0]
    op = int(log.ops["op_id"][log.ops["command_seq"] == waited["by_seq"]][0])
    (send,) = sends[sends["command_seq"] == waited["by_seq"]]
    with served(tmp_path) as server:
        shown = Shown(browser.new_page(), server)
        shown.go(view="timeline", run=shown.id(folder), op=op)
        shown.until("document.querySelector('.facts')")
        assert f"{send['nbytes']} B" in shown.page.locator(".facts").inner_text()
        shown.drawn()
        shown.keep("timeline-message")
        shown.page.get_by_role("button", name="the wait for it").click()
        shown.until("document.querySelector('aside h2').innerText.startsWith('message of')")
        shown.page.get_by_role("button", name="its send").click()
        shown.until("document.querySelector('aside h2').innerText.startsWith('dma_write')")
        assert shown.said == []
