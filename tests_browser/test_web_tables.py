"""Tables on the page of `kb web`: they sort, they are searched, and they say what does not fit the window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from web_page import Shown, new_run, run_kb, served

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "triton" / "layer_norm.py"
LATENCY = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of a benchmark, one of another, and a script of several kernels."""
    out = tmp_path_factory.mktemp("runs")
    for size in ("64", "200", "16"):
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
