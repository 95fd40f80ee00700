"""The test of pictures finds each flaw, and has nothing to say about a picture without one."""

import re
from importlib.resources import files
from itertools import pairwise

import pytest
from picture_flaws import contrast, picture_flaws

from kb_topology.diagram import HEAT_COLOURS, ON_HEAT, PAGES, heat_step

STYLE = (
    "text{font:12px Arial,sans-serif;fill:var(--ink)} .on text{fill:#fff} :root{--ink:#000}"
    "@media (prefers-color-scheme: dark){:root{--ink:#eee}}"
)


def svg(*parts: str) -> str:
    inside = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 100"><style>{STYLE}</style>{inside}</svg>'


WORD = '<text x="20" y="30">word</text>'
FLAWED = {
    "'other' on 'word'": '<text x="40" y="36">other</text>' + WORD,
    "outside of the picture: 'out'": '<text x="195" y="30">out</text>',
    "outside of the picture: 'upwards'": '<text transform="translate(9,20) rotate(-90)">upwards</text>',
    "a line through 'word'": f'<line x1="0" y1="26" x2="90" y2="26" stroke="#888"/>{WORD}',
    "a line through 'word' ": f'<path d="M0 60L70 0" stroke="#888"/>{WORD}',
    "contrast 3.54 of 'word', needs 4.5": '<text x="20" y="30" style="fill:#888">word</text>',
    "contrast 2.00 of 'a', needs 4.5": '<g class="on"><rect x="0" y="0" width="90" height="90" fill="#d0b0b0"/>'
    '<text x="20" y="30">a</text></g>',
    "no sans-serif font: 'word'": '<text x="20" y="30" style="font-family:serif">word</text>',
}


@pytest.mark.parametrize("flaw", FLAWED)
def test_a_flaw_has_its_sentence(flaw: str) -> None:
    assert picture_flaws(svg(FLAWED[flaw])) == [flaw.strip()]


def test_a_picture_that_can_be_read_has_no_flaw_on_either_page() -> None:
    hidden = '<rect x="15" y="15" width="60" height="20" fill="var(--page)"/>'
    whole = svg(
        "<style>:root{--page:#fff}@media (prefers-color-scheme: dark){:root{--page:#222222}}</style>",
        f'<line x1="0" y1="26" x2="90" y2="26" stroke="#888"/>{hidden}{WORD}',
        '<text transform="translate(150,90) rotate(-90)" text-anchor="start">upwards</text>',
        '<text x="190" y="12" text-anchor="end">end</text>',
    )
    assert (picture_flaws(whole), picture_flaws(whole, dark=True)) == ([], [])
    assert picture_flaws(whole.replace("#eee", "#555"), dark=True)


@pytest.mark.parametrize("page", [0, 1])
def test_heat_goes_from_the_page_to_orange_in_even_steps(page: int) -> None:
    colours = [each[page] for each in HEAT_COLOURS]
    far = [contrast(PAGES[page], colour) for colour in colours]
    steps = [b / a for a, b in pairwise(far)]
    assert far[0] < 1.5
    assert far[-1] > 6.5
    assert min(steps) > 1.24
    assert max(steps) < 1.3
    red, green, blue = (int(colours[-1][at : at + 2], 16) for at in (1, 3, 5))
    assert red > green > blue
    assert all(contrast(a[page], b[page]) >= 4.5 for a, b in zip(HEAT_COLOURS, ON_HEAT, strict=True))


def test_reports_and_the_page_of_the_browser_have_the_colours_of_pictures_of_chips() -> None:
    sheet = files("kb_cli.report.elements").joinpath("plot.css").read_text()
    for name, colours in (("heat", HEAT_COLOURS), ("on-heat", ON_HEAT)):
        assert re.findall(rf"--{name}\d: (#\w+);", sheet) == [each[page] for page in (0, 1) for each in colours]
    assert re.findall(r"--plot-page: (#\w+);", sheet) == list(PAGES)
    script = files("kb_cli.web").joinpath("page", "palette.js").read_text()
    assert f"const HEATS = {len(HEAT_COLOURS)};" in script


def test_shares_beyond_the_ends_have_the_colours_of_the_ends() -> None:
    assert [heat_step(share) for share in (-1.0, 0.0, 0.124, 0.125, 0.99, 1.0, 9.0)] == [0, 0, 0, 1, 7, 7, 7]
