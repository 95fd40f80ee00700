"""Stages and blocks have one colour each, in reports and in the page."""

import re

from kb_cli.report.elements.stage_colours import OTHERS, colour_of, colours_css
from kb_cli.web.server import page_files


def test_a_block_has_the_colour_of_its_stage() -> None:
    for block, stage in (("pe_gemm", "gemm"), ("pe_math", "math"), ("hbm", "dma_read"), ("pe_dma", "dma_write")):
        assert colour_of(block) == colour_of(stage) != OTHERS
    assert colour_of("toy") == OTHERS


def test_the_page_takes_the_colours_of_reports_and_has_none_of_its_own() -> None:
    files = page_files()
    assert files["/colours.css"].body.decode() == colours_css()
    assert b'href="/colours.css"' in files["/"].body
    light, dark = colours_css().split("@media")
    names = [re.findall(r"--(colour-\w+): #\w{6}", part) for part in (light, dark)]
    assert names[0] == names[1] == [*(f"colour-{number}" for number in range(16)), "colour-others"]
    script = files["/palette.js"].body.decode()
    assert not set(re.findall(r"#\w{6}", colours_css())) & set(re.findall(r"#\w{6}", script))
