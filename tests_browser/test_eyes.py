"""The eyes find each planted fault of a page, and have nothing to say about the same page without the fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from eyes import see, watch, words
from playwright.sync_api import Browser, Page

PAGE = """<!doctype html><style>:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --ink: #e4e8ec; } }
body { background: var(--page); color: var(--ink); font: 14px sans-serif; margin: 20px; } svg { fill: var(--ink); }
</style><main><p>A view with a sentence and a table.<table><tr><td>cell<td>another</table>@</main>"""
CANVAS = """<canvas width="300" height="60"></canvas><script>
const to = document.querySelector("canvas").getContext("2d");
for (const [ink, x] of [["#ffffff", 0], ["#e0f0ff", 70], ["#d0ffd0", 140], ["#ffe0e0", 210]]) {
    to.fillStyle = ink; to.fillRect(x, 0, 90, 60);
}
to.font = "14px sans-serif"; to.fillStyle = "#1b1f24"; @
</script>"""


def ratio(*colours: int) -> float:
    """The contrast of two colours 0xRRGGBB. Source: W3C, WCAG 2.2, contrast ratio."""

    def luminance(colour: int) -> float:
        parts = [(colour >> shift & 255) / 255 for shift in (16, 8, 0)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


FAULTS = {
    "text over text, elements": (
        (
            '<div style="position:relative;height:40px"><span style="position:absolute;left:20px">first</span>'
            '<span style="position:absolute;left:@px">second</span></div>'
        ),
        ("35", "80"),
        "text over text: 'first' and 'second'",
    ),
    "text over text, a drawing": (
        '<svg width="200" height="60"><text x="20" y="30">first</text><text x="@" y="33">second</text></svg>',
        ("40", "90"),
        "text over text: 'first' and 'second'",
    ),
    "text over text, a shadow tree": (
        (
            '<div id="host"></div><script>document.getElementById("host").attachShadow({mode: "open"}).innerHTML ='
            """'<svg width="200" height="60"><text x="20" y="30">first</text><text x="@" y="33">second</text></svg>'"""
            "</script>"
        ),
        ("40", "90"),
        "text over text: 'first' and 'second'",
    ),
    "text over text, a canvas": (
        CANVAS.replace("@", 'to.fillText("first", 5, 20); to.fillText("second", @, 22);'),
        ("15", "60"),
        "text over text: 'first' and 'second'",
    ),
    "contrast of an element": (
        '<p style="background:#2060b0;color:@">on blue</p>',
        ("#a0c0e0", "#ffffff"),
        f"contrast {ratio(0xA0C0E0, 0x2060B0):.2f}: 'on blue'",
    ),
    "contrast of what is half seen through": (
        '<p style="color-scheme:light;background:#fff;color:#000;opacity:@">see through</p>',
        ("0.4", "1"),
        f"contrast {ratio(0x999999, 0xFFFFFF):.2f}: 'see through'",
    ),
    "contrast in a drawing": (
        (
            '<svg width="200" height="60"><rect width="90" height="60" style="fill:@"/>'
            '<text x="10" y="30" style="fill:#fff">on an area</text></svg>'
        ),
        ("#ccc", "#333"),
        f"contrast {ratio(0xFFFFFF, 0xCCCCCC):.2f}: 'on an area'",
    ),
    "contrast on a canvas": (
        CANVAS.replace("@", 'to.fillStyle = "@"; to.fillText("faint", 80, 20);'),
        ("#90a0b0", "#1b1f24"),
        f"contrast {ratio(0x90A0B0, 0xE0F0FF):.2f}: 'faint'",
    ),
    "text beyond its drawing": (
        '<svg width="200" height="60"><text x="@" y="30">a long label</text></svg>',
        ("170", "20"),
        "outside of its frame, svg: 'a long label'",
    ),
    "a label that is wider than its box": (
        (
            '<svg width="200" height="60"><g transform="translate(100 20) scale(@ 1)">'
            '<rect x="-1" width="2" height="30" style="fill:#8883"/></g>'
            '<text x="100" y="40" text-anchor="middle" style="font-size:12px">a long label</text></svg>'
        ),
        ("20", "60"),
        "outside of its frame, rect: 'a long label'",
    ),
    "a line through a text": (
        (
            '<svg width="200" height="60"><path d="M0 26L200 26" style="stroke:#888"/>'
            '<rect width="200" height="60" style="fill:#eee;fill-opacity:@"/><text x="20" y="30">struck</text></svg>'
        ),
        ("0.1", "1"),
        "a line through 'struck'",
    ),
    "text that is too small": (
        '<svg width="200" height="60" viewBox="0 0 @ 60"><text x="20" y="30" style="font-size:12px">tiny</text></svg>',
        ("400", "200"),
        "6.0 pixels are too small: 'tiny'",
    ),
    "text that is cut": (
        '<div style="width:90px;overflow:hidden;white-space:nowrap;@">a long sentence in a small place</div>',
        ("", "text-overflow:ellipsis"),
        "outside of its frame, div: 'a long sentence in a small place'",
    ),
    "text beyond its card": (
        '<div style="width:90px;background:#8883;white-space:@">a long sentence in a small card</div>',
        ("nowrap", "normal"),
        "outside of its frame, div: 'a long sentence in a small card'",
    ),
    "text beyond its canvas": (
        CANVAS.replace("@", 'to.fillText("a long label", @, 20);'),
        ("250", "20"),
        "outside of its frame, canvas: 'a long label'",
    ),
    "text cut by a clip": (
        CANVAS.replace("@", 'to.beginPath(); to.rect(0, 0, @, 60); to.clip(); to.fillText("a long label", 20, 20);'),
        ("60", "200"),
        "outside of its frame, canvas: 'a long label'",
    ),
    "a page wider than the window": (
        '<div style="width:@px;height:10px"></div>',
        ("900", "300"),
        "the page is 920 pixels wide in a window of 800",
    ),
    "a blank canvas": (
        (
            '<canvas width="300" height="60"></canvas><script>'
            'const to = document.querySelector("canvas").getContext("2d");'
            "for (let each = 0; each < @; each++) {"
            ' to.fillStyle = "#" + each + "0a0b0"; to.fillRect(9 * each, 0, 9, 9); }'
            "</script>"
        ),
        ("1", "9"),
        "blank: a canvas of 2 colours",
    ),
    "an empty drawing": (
        '<svg width="200" height="60">@</svg>',
        ("", '<circle r="4"></circle>'),
        "blank: an empty drawing in svg",
    ),
}


@pytest.fixture
def watched(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 800, "height": 600})
    watch(page)
    yield page
    page.close()


def seen(page: Page, folder: Path, part: str) -> list[str]:
    file = folder / "page.html"
    file.write_text(PAGE.replace("@", part), encoding="utf-8")
    page.goto(file.as_uri())
    return see(page)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_the_page_without_it_has_none(watched: Page, tmp_path: Path, name: str) -> None:
    part, (fault, whole), sentence = FAULTS[name]
    assert seen(watched, tmp_path, part.replace("@", fault)) == [sentence]
    assert seen(watched, tmp_path, part.replace("@", whole)) == []


def test_a_view_that_says_nothing_is_blank_unless_it_may_be_empty(watched: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><main><p>Runs</main>", encoding="utf-8")
    watched.goto(file.as_uri())
    assert see(watched) == [
        "blank: 4 letters of text, needs 20",
        "blank: no table, picture or list beside 'Runs'",
    ]
    assert see(watched, may_be_empty=True) == []


def test_words_of_elements_drawings_and_canvases_are_read(watched: Page, tmp_path: Path) -> None:
    part = '<svg width="90" height="20"><text y="15">drawn</text></svg>' + CANVAS.replace(
        "@", 'to.fillText("on it", 5, 9);'
    )
    assert seen(watched, tmp_path, part) == []
    assert words(watched) == ["A view with a sentence and a table.", "cell", "another", "drawn", "on it"]
