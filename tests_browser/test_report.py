"""The HTML report in a browser: opened from a file, with an empty console, light and dark, wide and narrow."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from eyes import see
from playwright.sync_api import Browser, Page
from web_page import GEMM, PICTURES, run_kb

TITLES = ["Where the time went", "Speed of light", "Levers", "Lines", "Roofline", "Lanes", "PEs", "Configuration"]
MARKUP = "<img src=x onerror=alert(1)>"
NARROW, WIDE = 360, 1500
DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
PAGE_LIGHT = """() => {
    const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number);
    return (r + g + b) / 765;
}"""


def reported(folder: Path, *run: object, options: Sequence[object] = ()) -> Path:
    """The page of a new run below *folder*."""
    run_dir = json.loads(run_kb("run", *run, "--out", folder / "runs", "--json"))["run_dir"]
    run_kb("report", run_dir, "-o", folder / "report.html", *options)
    return folder / "report.html"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page for one PE, for eight PEs that share memories, and for 512 PEs."""
    shared, one = ["-p", "operands=one_slice"], ["--levers", 1]
    return {
        name: reported(tmp_path_factory.mktemp(name), *GEMM, *more, "--topology", name, options=one)
        for name, more in (("one_pe", []), ("one_cube", shared), ("four_sip", shared))
    }


@pytest.fixture(params=["light", "dark"])
def shown(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that follows the reader's choice of colours. What the console or the network says is an error."""
    page = browser.new_page(viewport={"width": WIDE, "height": 900}, color_scheme=request.param)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda asked: said.append(asked.url))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda asked: said.extend([] if asked.url.startswith(("file:", "data:")) else [asked.url]))
    yield page
    page.close()
    assert said == []


@pytest.mark.parametrize("name", ["one_pe", "one_cube", "four_sip"])
def test_every_section_is_shown_in_light_and_dark(shown: Page, reports: dict[str, Path], name: str) -> None:
    assert reports[name].stat().st_size < 2_000_000
    shown.goto(reports[name].as_uri())
    assert shown.locator("h2").all_inner_texts() == TITLES
    assert shown.title() == f"kernbench: gemm on {name}"
    page = shown.evaluate(PAGE_LIGHT)
    is_dark = shown.evaluate(DARK)
    assert page < 0.2 if is_dark else page > 0.9
    assert see(shown) == []


@pytest.mark.parametrize("name", ["one_pe", "one_cube", "four_sip"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_nothing_is_wider_than_the_window(shown: Page, reports: dict[str, Path], name: str, width: int) -> None:
    """Tables and pictures that do not fit scroll in their own place."""
    shown.set_viewport_size({"width": width, "height": 900})
    shown.goto(reports[name].as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    outside: Any = shown.evaluate(
        "[...document.querySelectorAll('p, h1, h2, .scroll, .lanes, dl')]"
        ".filter((each) => each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.className)"
    )
    assert outside == []


def test_pictures_of_lanes_are_drawn_and_stand_beside_their_titles(shown: Page, reports: dict[str, Path]) -> None:
    """A row of 16 pixels for each title, in the colour of its stage, masked by a PNG of 400 pixels."""
    shown.goto(reports["one_cube"].as_uri())
    pictures = shown.locator("figure .picture")
    heights = pictures.evaluate_all("all => all.map((each) => each.getBoundingClientRect().height)")
    titles = shown.locator("figure .titles").evaluate_all("all => all.map((each) => each.children.length)")
    assert heights == [16 * rows for rows in titles]
    sizes = pictures.locator("i").evaluate_all(
        "async (all) => Promise.all(all.map(async (each) => { const image = new Image();"
        "image.src = getComputedStyle(each).maskImage.slice(5, -2); await image.decode();"
        "return [image.naturalWidth, image.naturalHeight]; }))"
    )
    assert sizes == [[400, rows] for rows in titles]
    first = shown.locator("figure .picture i").first
    inks = [
        shown.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--colour-{n}')") for n in (0, 1)
    ]
    drawn = first.evaluate("each => getComputedStyle(each).backgroundImage")
    for ink in inks:
        assert f"rgb({', '.join(str(int(ink[at : at + 2], 16)) for at in (1, 3, 5))})" in drawn
    assert "memories, while bytes of DMAs held them" in shown.locator("figcaption").all_inner_texts()
    assert shown.locator(".titles").last.inner_text().splitlines()[0].startswith("sip0.cube0.hbm0")


def test_512_pes_that_are_alike_share_a_picture(shown: Page, tmp_path: Path) -> None:
    run = ["vector_add", "-p", "N=524288", "-p", "block=1024", "--topology", "four_sip"]
    shown.goto(reported(tmp_path, *run, options=["--levers", 0]).as_uri())
    captions = shown.locator("figcaption").all_inner_texts()
    assert captions[0].startswith("512 PEs alike, sip0.cube0.pe0 to sip3.cube15.pe7")
    assert len(captions) == 2
    assert shown.locator(".titles").last.inner_text() == "512 memories alike, sip0.cube0.hbm0 to sip3.cube15.hbm7"


def test_512_pes_that_differ_take_six_screens_and_open(shown: Page, tmp_path: Path) -> None:
    """Six screens of 900 pixels at a width of 1400. A row opens to its PEs, by the keyboard, too."""
    page = reported(tmp_path, *GEMM[:1], "--topology", "four_sip", options=["--levers", 0])
    assert page.stat().st_size < 2_000_000
    shown.set_viewport_size({"width": 1400, "height": 900})
    shown.goto(page.as_uri())
    assert shown.evaluate("document.documentElement.scrollHeight") <= 6 * 900
    for kind in ("strip", "pes"):
        row = shown.locator(f"details.{kind}").first
        hidden = row.locator(".strip, .pe").nth(1)
        assert not hidden.is_visible()
        row.locator("summary").first.press("Enter")
        assert hidden.is_visible()
    assert shown.evaluate("document.documentElement.scrollWidth") <= 1400
    PICTURES.mkdir(parents=True, exist_ok=True)
    shown.screenshot(
        path=str(PICTURES / f"report-512-{'dark' if shown.evaluate(DARK) else 'light'}.png"), full_page=True
    )


def test_what_a_user_wrote_stays_text(shown: Page, tmp_path: Path) -> None:
    """The name of the benchmark, a parameter and the kernel's line are markup. None of it becomes an element."""
    text = (Path(__file__).parents[1] / "benchmarks" / "vector_add.py").read_text()
    assert '    name = "vector_add"\n' in text
    assert "tl.store(" in text
    text = text.replace('    name = "vector_add"\n', f"    name = {MARKUP!r}\n", 1)
    lines = [f"{line}  # </td><script>alert(2)</script>" if "tl.store(" in line else line for line in text.splitlines()]
    (tmp_path / "mine.py").write_text("\n".join(lines) + "\n")
    path = reported(tmp_path, tmp_path / "mine.py", "-p", "N=4096", "--topology", "one_pe")
    shown.goto(path.as_uri())
    assert shown.locator("h1").inner_text() == f"{MARKUP} on one_pe"
    assert "</td><script>alert(2)</script>" in shown.locator(".source").inner_text()
    assert shown.locator("script").count() == 0
    assert shown.locator("img").count() == 0
    found = ["Flaws of the kernel" if title == "Levers" else title for title in TITLES]
    assert shown.locator("h2").all_inner_texts() == found
