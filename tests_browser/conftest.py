"""A browser, which `nox -s browser` has found, and pages in it that reach this machine alone."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))  # tests import what they share from modules beside them
from web_page import GEMM, new_run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        options = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        found = playwright.chromium.launch(executable_path=os.environ["KB_BROWSER"], args=options)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    found = browser.new_page(viewport={"width": 1500, "height": 900})
    yield found
    found.close()


@pytest.fixture(scope="session")
def sized_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """A run on one PE, one on 128 PEs and one on 512 PEs, in one folder. No test changes or removes them."""
    out = tmp_path_factory.mktemp("sized")
    shared = ["gemm", "-p", "operands=one_slice"]
    return {
        1: new_run(out, *GEMM, "--topology", "one_pe"),
        128: new_run(out, *shared, "--topology", "one_sip"),
        512: new_run(out, *shared, "--topology", "four_sip"),
    }
