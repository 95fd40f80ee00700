"""Tables, stalls and source on the page of `kb web`: they sort, are searched, fold what is alike, fit the window."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from playwright.sync_api import Browser
from web_page import GEMM, Shown, new_run, run_kb, served

from kb_cli.web import opened_runs

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "triton" / "layer_norm.py"
LATENCY = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of a benchmark, one of another, and a script of several kernels."""
    out = tmp_path_factory.mktemp("runs")
    new_run(out, *GEMM)  # M=200, with tiles that wait
    for size in ("64", "16"):
        new_run(out, "gemm", "-p", f"M={size}", "-p", "N=64", "-p", "K=64")
    new_run(out, "softmax", "-p", "M=32", "-p", "N=64")
    run_kb("exec", "--out", out, SCRIPT)
    return out


@pytest.fixture
def shown(browser: Browser, folder: Path) -> Iterator[Shown]:
    with served(folder) as server:
        found = Shown(browser.new_page(viewport={"width": 1400, "height": 900}), server)
        found.until("document.querySelectorAll('main tbody tr').length === 5")
        yield found
        assert found.said == []
        found.page.close()


def column(page: Shown, at: int) -> list[str]:
    rows = "[...document.querySelectorAll('main tbody tr')].filter((row) => !row.hidden)"
    found: list[str] = page.page.evaluate(f"{rows}.map((row) => row.cells[{at}].innerText)")
    return found


def picoseconds(text: str) -> float:
    value, unit = text.removeprefix("best ").split()
    return float(value) * {"ns": 1e3, "us": 1e6, "ms": 1e9}[unit]


def test_runs_sort_by_each_column_by_click_and_by_key(shown: Shown) -> None:
    page, came = shown.page, column(shown, 0)
    page.get_by_role("button", name="latency").click()
    times = [picoseconds(text) for text in column(shown, LATENCY)]
    assert times == sorted(times)
    assert page.locator("th[aria-sort=ascending]").inner_text() == "latency"
    page.get_by_role("button", name="latency").press("Enter")
    assert [picoseconds(text) for text in column(shown, LATENCY)] == sorted(times, reverse=True)
    assert shown.fragment["sort"] == "-latency"
    page.reload()
    shown.until("document.querySelector('th[aria-sort=descending]')")
    assert [picoseconds(text) for text in column(shown, LATENCY)] == sorted(times, reverse=True)
    page.get_by_role("button", name="latency").click()
    assert column(shown, 0) == came, "the third turn gives the order in which the table came"
    page.get_by_role("button", name="benchmark").click()
    assert column(shown, 1) == ["gemm", "gemm", "gemm", "script", "softmax"]


def test_the_fastest_run_of_a_benchmark_is_marked_and_every_run_names_parameters(shown: Shown) -> None:
    (fastest,) = shown.page.locator("main .best").all()
    gemms = [picoseconds(text) for text in shown.page.locator("tr:has-text('gemm') td:nth-child(4)").all_inner_texts()]
    assert picoseconds(fastest.inner_text()) == min(gemms)
    assert fastest.get_attribute("title") == "the fastest run of gemm"
    assert "M=32 N=64 dtype=f16" in shown.page.locator("tr:has-text('softmax')").inner_text()
    assert all(column(shown, 5))


def test_words_in_the_box_leave_the_runs_that_have_them(shown: Shown) -> None:
    box = shown.page.get_by_role("searchbox", name="find runs")
    box.fill("gemm M=200")
    assert shown.page.locator("main tbody tr:visible").count() == 1
    assert shown.page.locator(".tools.find").inner_text() == "1 of 5"
    assert shown.fragment["find"] == "gemm M=200"
    box.fill("add_parts_kernel")
    assert column(shown, 1) == ["script"], "a script is found by its kernels"


def test_a_script_has_an_overview_of_all_launches(shown: Shown) -> None:
    row = shown.page.locator("tr:has-text('layer_norm')")
    assert "launches" in row.inner_text()
    row.get_by_role("link").click()
    shown.until("document.body.dataset.view === 'overview' && document.querySelectorAll('section').length === 2")
    number = int(shown.page.locator("p.sentence").inner_text().split()[0])
    kernels, launches = shown.page.locator("section").all()
    assert launches.locator("tbody tr").count() == number
    counts = [int(text) for text in kernels.locator("td:nth-child(5)").all_inner_texts()]
    assert sum(counts) == number
    assert len(counts) > 1
    shares = [float(text.split()[0]) for text in launches.locator("td:nth-child(4)").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=0.06 * number)
    views = shown.page.locator("#views a").all_inner_texts()
    assert views == ["Runs", "Overview", "Sweeps"], "no view shows all launches at once but this"
    shown.keep("launches")
    launches.get_by_role("link", name="launch 1").first.click()
    shown.until("document.querySelector('#views a[title=\"What happened when\"]')")
    shown.page.locator("#of a").click()
    shown.until("document.querySelectorAll('section').length === 2")


def test_a_narrow_window_has_one_row_of_views_and_says_how_many_columns_there_are(shown: Shown) -> None:
    shown.page.set_viewport_size({"width": 600, "height": 900})
    shown.until("document.querySelector('main button.more')")
    line = shown.page.locator("main button.more")
    assert line.inner_text().endswith("more columns →")
    before = int(line.inner_text().split()[0])
    line.click()
    shown.until(f"!document.querySelector('main button.more').innerText.startsWith('{before} ')")
    first = "document.querySelector('main td').getBoundingClientRect().left"
    assert shown.page.evaluate(first) == shown.page.evaluate(
        "document.querySelector('main .scroll').getBoundingClientRect().left"
    )
    shown.page.locator("tr:has-text('softmax')").get_by_role("link").click()
    shown.until("document.body.dataset.view === 'overview' && document.querySelector('section')")
    tops = shown.page.evaluate("[...new Set([...document.querySelectorAll('#views a')].map((each) => each.offsetTop))]")
    assert len(tops) == 1
    assert shown.page.evaluate("document.querySelector('header').offsetHeight") < 80
    for view in ("Runs", "Sweeps"):
        shown.page.locator("#views a", has_text=view).focus()
        shown.page.wait_for_timeout(100)
        seen = "[...document.querySelectorAll('#views a')].map((each) => each.getBoundingClientRect())"
        lefts = shown.page.evaluate(f"{seen}.map((each) => [each.left, each.right])")
        left, right = lefts[0 if view == "Runs" else -1]
        assert 0 <= left < right <= 600, "a view that has the focus is seen"


def test_values_are_ordered_with_their_units(shown: Shown) -> None:
    texts = [
        "868.265 ns",
        "1.237 us",
        "40 ms",
        "2 s",
        "796.7 kB",
        "1.18 MB",
        "512 KiB",
        "61.8 %",
        "-3.1 %",
        "+620.000 ns",
        "1,024",
        "0 ps",
        "-",
        "",
    ]
    found = shown.page.evaluate("async (texts) => texts.map((await import('/sort.js')).valueOf)", texts)
    times = [868.265e-9, 1.237e-6, 0.04, 2]
    rest = [796_700, 1_180_000, 524_288, 61.8, -3.1, 620e-9, 1024, 0, None, None]
    assert found == [pytest.approx(each) if each is not None else None for each in (*times, *rest)]


def test_waits_that_are_alike_are_one_row_that_unfolds(shown: Shown, folder: Path) -> None:
    gemms = {json.loads((each / "run.json").read_text())["params"]["M"]: each for each in folder.glob("gemm-*")}
    run = gemms[200]
    shown.go(view="stalls", run=shown.id(run))
    shown.until("document.querySelector('button.fold')")
    rows = shown.page.locator("section").last.locator("tbody > tr:not(.part)")
    texts = rows.all_inner_texts()
    assert len(set(texts)) == len(texts), "no two rows say the same"
    assert any("8 PEs" in text for text in texts)
    fold = shown.page.locator("button.fold").first
    assert shown.page.locator("tr.part:visible").count() == 0
    fold.press("Enter")
    assert fold.get_attribute("aria-expanded") == "true"
    members = shown.page.locator("tr.part:visible")
    assert members.count() == 1
    assert members.locator("tbody tr").count() >= 1
    shown.keep("stalls-unfolded")
    shown.page.get_by_role("button", name="tiles", exact=True).last.click()
    after = (
        "document.querySelector('button.fold[aria-expanded=true]').closest('tr').nextSibling.classList.contains('part')"
    )
    assert shown.page.evaluate(after), "what is unfolded stays below its row"


def test_source_is_coloured_and_begins_at_the_left(shown: Shown, folder: Path) -> None:
    run = next(folder.glob("gemm-*"))
    shown.go(view="source", run=shown.id(run))
    shown.until("document.querySelector('td.code')")
    listing = "[...document.querySelectorAll('.listing td.code')]"
    text = shown.page.evaluate(f"{listing}.map((each) => each.textContent).join('\\n')")
    assert text == (run / "bench.py").read_text()
    found = set(shown.page.evaluate("[...document.querySelectorAll('td.code span')].map((each) => each.className)"))
    assert found == {"keyword", "text", "number", "comment", "name", "call", "mark"} & found
    assert {"keyword", "text", "number", "name", "call"} <= found
    box = "document.querySelector('main .scroll')"
    assert shown.page.evaluate(f"{box}.scrollWidth <= {box}.clientWidth"), "a line of code is not cut at 1400 pixels"
    assert shown.page.evaluate("document.querySelector('td.code').getBoundingClientRect().left") < 320
    assert "pe_gemm" in shown.page.locator("tr.costs").first.inner_text()


def test_pieces_of_python_give_the_text_again(shown: Shown) -> None:
    lines_of_source = [
        "@x.y",
        'def f(a):  # c "q"',
        '    """doc',
        "  # no",
        '"""',
        "    s = f\"a{b}\" + 'it\\'s'",
        '    return tl.load(1.5e-3) """open',
        "end",
    ]
    source = "\n".join(lines_of_source)
    ask = "async (text) => (await import('/python_text.js')).pieces(text)"
    lines = shown.page.evaluate(ask, source)
    assert "\n".join("".join(text for _, text in line) for line in lines) == source
    kinds = {text.strip(): kind for line in lines for kind, text in line if text.strip()}
    wanted = {"@x.y": "mark", "def": "keyword", "f": "name", '# c "q"': "comment", "# no": "text", "load": "call"}
    wanted |= {"'it\\'s'": "text", "1.5e-3": "number", '"""open': "text", "end": "text", "a": ""}
    assert {text: kinds[text] for text in wanted} == wanted


def test_a_view_that_waits_says_in_the_middle_what_is_read_and_how_far(
    shown: Shown, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, go_on = opened_runs.with_log, Event()

    def slow(*args: Any, **kwargs: Any) -> Any:
        go_on.wait(60)
        return right(*args, **kwargs)

    monkeypatch.setattr(opened_runs, "with_log", slow)
    run = next(folder.glob("softmax-*"))
    shown.page.evaluate(f"location.hash = 'view=stalls&run={shown.id(run)}'")
    shown.until("document.querySelector('.middle li.busy')")
    n_ops = json.loads((run / "run.json").read_text())["results"]["ops"]
    shown.until("document.querySelector('.middle li.busy').innerText.includes('records')")
    assert f"the op log: 0 of {n_ops:,} records" in shown.page.locator(".middle").inner_text()
    assert shown.page.get_by_role("progressbar").get_attribute("aria-valuenow") == "25", "one of four parts"
    box = shown.page.locator(".middle .panel").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] / 2 == pytest.approx(700, abs=12)
    shown.keep("loading")
    go_on.set()
    shown.until("document.querySelector('.view.stalls h1')")
    assert shown.page.locator(".middle").count() == 0


def test_a_run_without_a_log_says_which_command_makes_one(browser: Browser, tmp_path: Path) -> None:
    run = new_run(tmp_path, *GEMM, "--keep", "none")
    with served(tmp_path) as server:
        page = Shown(browser.new_page(viewport={"width": 600, "height": 800}), server)
        for view in ("timeline", "stalls"):
            page.go(view=view, run=page.id(run))
            page.until("document.querySelector('.middle code')")
            assert "(--keep none)" in page.page.locator(".middle").inner_text()
        command = page.page.locator(".middle code").inner_text()
        page.go(view="overview", run=page.id(run))
        page.until("document.querySelectorAll('section').length > 3")
        run_kb(*shlex.split(command)[1:])
        page.page.wait_for_timeout(400)  # a look at the folder is good for so long
        page.go(view="stalls", run=page.id(run))
        page.until("document.querySelector('table.matrix')")
        page.page.close()


@pytest.mark.parametrize("view", ["overview", "why", "stalls", "topology", "roofline", "compare"])
def test_every_table_with_names_sorts(shown: Shown, folder: Path, view: str) -> None:
    first, other = sorted(folder.glob("gemm-*"))[:2]
    more = {"why": {"op": 1}, "compare": {"with": shown.id(other)}}.get(view, {})
    shown.go(view=view, run=shown.id(first), **more)
    shown.until("document.querySelector('main table')")
    tables = (
        "[...document.querySelectorAll('main table')].filter((each) => each.tHead && each.tBodies[0].rows.length > 1)"
    )
    without = f"{tables}.filter((each) => ![...each.tHead.rows[0].cells].every((head) => !head.textContent || "
    without += "head.querySelector('button')) && [...each.tHead.rows[0].cells].some((head) => head.textContent)).length"
    assert shown.page.evaluate(f"{tables}.length") > 0
    assert shown.page.evaluate(without) == 0
