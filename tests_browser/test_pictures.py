"""Every view of 1, 128 and 512 PEs, light and dark, wide and narrow: pictures for people, which eyes find readable."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eyes import see
from playwright.sync_api import Browser, Page
from web_page import VIEWS, Shown, keep, run_kb, served

from kb_cli.web.server import PageServer

PES = {1: "one_pe", 128: "one_sip", 512: "four_sip"}
SCHEMES, WIDTHS = ["light", "dark"], [1400, 600]
OF_A_RUN = [view for view in VIEWS if view not in ("runs", "sweeps")]
TALLEST = 3000
"""The most pixels of a picture's height. Source: assumed, some screens; a page of many rows says the same below."""
SWEEPS = {
    "gemm": ["-p", "tile=32x64x64,64x64x64,128x64x64", "--set", "$.cube.nodes.hbm.bw_gbs=64,128,204.8"],
    "softmax": ["-p", "M=64,128,256", "--set", "$.cube.nodes.sram.memory.size=1 MiB,2.5 MiB", "--cost", "size"],
}
CHIPS = ["one_cube", "one_sip", "four_sip", "devices/h100.yaml", "devices/wormhole.yaml"]
DRAWN = ["sip", "cube"]
Window = Callable[[str, int], Shown]


@pytest.fixture(scope="module")
def folder(sized_runs: dict[int, Path]) -> Path:
    """The folder of the runs, with sweeps in it."""
    out = sized_runs[1].parent
    for bench, options in SWEEPS.items():
        run_kb("sweep", bench, *options, "--jobs", "1", "--out", out / "sweeps")
    return out


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[PageServer]:
    with served(folder) as found:
        yield found


@pytest.fixture(scope="module")
def window(browser: Browser, server: PageServer) -> Iterator[Window]:
    """One page for each scheme and width, which all views take turns in. No console says anything."""
    shown: dict[tuple[str, int], Shown] = {}

    def opened(scheme: str, width: int) -> Shown:
        if (scheme, width) not in shown:
            page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
            shown[scheme, width] = Shown(page, server)
        return shown[scheme, width]

    yield opened
    for each in shown.values():
        assert each.said == []
        each.page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("pes", PES)
@pytest.mark.parametrize("view", OF_A_RUN)
def test_a_view_of_a_run_can_be_read(
    window: Window, sized_runs: dict[int, Path], view: str, pes: int, scheme: str, width: int
) -> None:
    shown = window(scheme, width)
    others = {1: 128, 128: 512, 512: 128}
    more = {"why": {"op": 40}, "compare": {"with": shown.id(sized_runs[others[pes]])}}
    shown.go(view=view, run=shown.id(sized_runs[pes]), **more.get(view, {}))
    if view == "timeline":
        shown.drawn()
    look(shown.page, f"{view}-{pes}-{scheme}-{width}", is_whole=view != "timeline")
    assert shown.page.locator("p.note").count() == 0, shown.page.locator("p.note").all_inner_texts()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("view", ["runs", "sweeps"])
def test_a_list_can_be_read(window: Window, view: str, scheme: str, width: int) -> None:
    shown = window(scheme, width)
    shown.go(view=view)
    look(shown.page, f"{view}-{scheme}-{width}")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("bench", SWEEPS)
def test_a_sweep_can_be_read(window: Window, bench: str, scheme: str, width: int) -> None:
    shown = window(scheme, width)
    ask = "async () => (await (await fetch('/api/sweeps')).json()).sweeps.map((each) => [each.benchmark, each.id])"
    shown.go(view="sweeps", sweep=dict(shown.page.evaluate(ask))[bench])
    look(shown.page, f"sweep-{bench}-{scheme}-{width}")


@pytest.fixture(scope="module")
def reports(sized_runs: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    out = tmp_path_factory.mktemp("reports")
    for pes, run in sized_runs.items():
        run_kb("report", run, "-o", out / f"{pes}.html", "--levers", 0)
    return {pes: out / f"{pes}.html" for pes in sized_runs}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("pes", PES)
def test_a_report_can_be_read(browser: Browser, reports: dict[int, Path], pes: int, scheme: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    page.goto(reports[pes].as_uri())
    look(page, f"report-{pes}-{scheme}-{width}")
    page.close()


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures of chips and of a probe, each a file of its own."""
    out, topologies = tmp_path_factory.mktemp("drawings"), Path(__file__).parents[1] / "topologies"
    for chip in CHIPS:
        path = topologies / chip if chip.endswith(".yaml") else chip
        for view in DRAWN:
            run_kb("topology", "show", path, "--view", view, "-o", out / f"{Path(chip).stem}-{view}.svg")
    run_kb("probe", "--all", "--topology", "one_cube", "--heatmap", out / "probe.svg")
    return out


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", [*(f"{Path(chip).stem}-{view}" for chip in CHIPS for view in DRAWN), "probe"])
def test_a_drawing_alone_can_be_read(browser: Browser, drawings: Path, name: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 850}, color_scheme=scheme)
    page.goto((drawings / f"{name}.svg").as_uri())
    look(page, f"drawing-{name}-{scheme}", is_whole=False)
    page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pictures_of_sweeps_alone_can_be_read(browser: Browser, folder: Path, scheme: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    drawn = sorted(folder.glob("sweeps/*/*.svg"))
    assert {each.stem for each in drawn} == {"axes", "front", "map"}
    for each in drawn:
        page.goto(each.as_uri())
        look(page, f"{each.parent.name.partition('-')[0]}-{each.stem}-{scheme}-{width}", is_whole=False)
    page.close()


def look(page: Page, name: str, is_whole: bool = True) -> None:
    """Keep a picture of *page*, with all that there is to scroll where *is_whole*. The eyes see no flaw on *page*."""
    size = page.viewport_size
    assert size is not None
    found = see(page)
    if is_whole:
        tall = page.evaluate(
            "Math.max(...[...document.querySelectorAll('html, main')].map((each) => each.scrollHeight))"
        )
        page.set_viewport_size({"width": size["width"], "height": max(size["height"], min(tall + 90, TALLEST))})
    keep(page, name)
    page.set_viewport_size(size)
    assert not found, "\n".join([name, *found])
