"""Sweeps on the page of `kb web`, in a browser."""

import re
from pathlib import Path

from playwright.sync_api import Browser
from web_page import GEMM, Shown, run_kb, served

SWEPT = ["sweep", *GEMM[:-1], "tile=32x16x24,16x16x24", "-p", "operands=replicated,one_slice", "--jobs", "1"]
BW = "$.cube.nodes.hbm.bw_gbs=51.2,102.4,204.8"


def test_a_sweep_has_its_pictures_and_rows(browser: Browser, tmp_path: Path) -> None:
    run_kb(*SWEPT, "--set", BW, "--out", tmp_path / "sweeps")
    with served(tmp_path) as server:
        for scheme in ("light", "dark"):
            page = Shown(browser.new_page(color_scheme=scheme), server)
            page.go(view="sweeps")
            page.page.get_by_role("link", name=re.compile("^gemm-")).click()
            page.until("document.querySelectorAll('.plotted svg').length === 3")
            assert "12 points" in page.page.locator("p.sentence").inner_text()
            assert page.page.locator("section").last.locator("tbody tr").count() == 12
            page.keep(f"sweep-{scheme}")
            page.page.keyboard.press("1")
            page.until("document.body.dataset.view === 'runs'")
            page.page.keyboard.press("0")
            page.until("document.body.dataset.view === 'sweeps'")
            assert page.said == []
            page.page.close()
