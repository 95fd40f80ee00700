"""The page of `kb web` and the report for the run of a workload: its ops, its model, and their lane in the timeline."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from web_page import Shown, keep, new_run, run_kb, served

sys.path.insert(0, str(Path(__file__).parents[1] / "packages" / "kb-cli" / "tests"))
from chain_workload import write_chain

OPS = ["layer.scale", "layer.product", "head"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    new_run(folder / "runs", write_chain(folder), "--topology", "one_pe", "-p", "context=32")
    return new_run(folder / "runs", write_chain(folder), "--topology", "one_pe", "--levers", 4)


@pytest.fixture
def shown(browser: Browser, run: Path) -> Iterator[Shown]:
    with served(run.parent) as server:
        page = browser.new_page(viewport={"width": 1500, "height": 900})
        yield Shown(page, server)
        page.close()


def test_the_overview_has_the_ops_and_the_model(shown: Shown, run: Path) -> None:
    shown.go(view="overview", run=shown.id(run))
    page = shown.page
    page.get_by_role("region", name="Ops", exact=True).wait_for()
    first = page.get_by_role("region", name="Ops", exact=True).locator("tbody td:first-child").all_inner_texts()
    assert first == [*OPS, "gaps between launches"]
    assert (
        page.get_by_role("region", name="The model").locator("tbody td:first-child").all_inner_texts()[-1]
        == "the model"
    )
    assert "tokens/s" in page.locator("dl.figures").inner_text()
    keep(page, "model_overview")
    assert not shown.said


def test_the_timeline_has_a_lane_of_ops(shown: Shown, run: Path) -> None:
    shown.go(view="timeline", run=shown.id(run))
    shown.drawn()
    keep(shown.page, "model_timeline")
    assert not shown.said


def test_a_comparison_has_the_ops(shown: Shown, run: Path) -> None:
    other = next(each for each in run.parent.iterdir() if each.name != run.name and each.is_dir())
    shown.go(view="compare", run=shown.id(run), **{"with": shown.id(other)})
    table = shown.page.get_by_role("region", name="op, before, after")
    table.wait_for()
    assert table.locator("tbody td:first-child").all_inner_texts() == OPS
    keep(shown.page, "model_compare")
    assert not shown.said


def test_the_report_has_the_ops(page: Page, run: Path, tmp_path: Path) -> None:
    run_kb("report", run, "-o", tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    page.get_by_role("heading", name="Ops", exact=True).wait_for()
    keep(page, "model_report")
