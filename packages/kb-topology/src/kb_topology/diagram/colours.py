"""The colours of pictures, for light and for dark pages."""

from __future__ import annotations

from kb_topology.diagram.chart import Heat

FILLS = {
    "outside": ("#e7e9ec", "#3a3f46"),
    "io": ("#efe3d3", "#4d4436"),
    "fabric": ("#dbe6f1", "#33424f"),
    "memory": ("#dcebdf", "#34483a"),
    "compute": ("#e8e0f0", "#443c50"),
    "command": ("#f3e0e0", "#503a3c"),
    "group": ("#f2f3f5", "#2c3036"),
}
STROKES = {"memory": ("#3f7d52", "#86c79a"), "data": ("#3b6a96", "#8ab6dd"), "command": ("#a05252", "#dd9c9c")}
TEXTS = ("#22262b", "#e6e9ec")
PAGES = ("#ffffff", "#1b1e22")
UNMEASURED = (("#f6f7f8", "#23272c"), ("#c3c8ce", "#4a5058"))
"""Fill and stroke of what no counter measures, and the stroke of what was idle."""
RAMP = (
    ("#ecdd85", "#344873"),
    ("#d3c98b", "#3f5c83"),
    ("#b1b08f", "#4d6e85"),
    ("#8b9693", "#74887f"),
    ("#5c7799", "#939c78"),
    ("#406294", "#b5b36e"),
    ("#264a85", "#d8cc64"),
    ("#0d2f6b", "#fbe75a"),
)
"""Colours from little use to full use. Lightness alone orders them, on a light page towards dark and on a dark page
towards light, and blue and yellow are told apart in the common kinds of colour blindness. Source: own numbers, in the
manner of cividis (Nunez, Anderton and Renslow, PLoS ONE 13(7), 2018).
"""
ON_RAMP = (
    *[("#111418", "#ffffff")] * 3,
    ("#111418", "#111418"),
    *[("#ffffff", "#111418")] * 4,
)
"""The colour of text on each colour of RAMP."""


def step(heat: Heat | None) -> str:
    """The name of the colour of *heat*: `cold`, `warm0` to `warm7`, or `none` for what was not measured."""
    if heat is None:
        return "none"
    return f"warm{min(int(heat.top * len(RAMP)), len(RAMP) - 1)}" if heat.top > 0 else "cold"


def style_sheet(measured: bool) -> str:
    """The colours as CSS. They follow the reader's choice of light or dark."""
    light, dark = ("".join(_rules(measured, page)) for page in (0, 1))
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(measured: bool, page: int) -> list[str]:
    rules = [
        f"text{{fill:{TEXTS[page]}}}",
        f".page{{fill:{PAGES[page]}}}",
        f"rect{{stroke:{('#7b838c', '#7b838c')[page]}}}",
        f".tip{{fill:{('#5b636c', '#aab2bb')[page]}}}",
    ]
    if not measured:
        rules += [f".{name}{{fill:{colours[page]}}}" for name, colours in FILLS.items()]
        return rules + [f".to-{name}{{stroke:{colours[page]}}}" for name, colours in STROKES.items()]
    fill, stroke = UNMEASURED[0][page], UNMEASURED[1][page]
    rules += [f".none,.cold{{fill:{fill}}}", f".to-none,.to-cold{{stroke:{stroke};stroke-width:1.2px}}"]
    rules += [".none{stroke-dasharray:4 3}.to-none{stroke-dasharray:4 3}"]
    for number, (colours, texts) in enumerate(zip(RAMP, ON_RAMP, strict=True)):
        rules.append(f".warm{number}{{fill:{colours[page]}}}.on-warm{number} text{{fill:{texts[page]}}}")
        rules.append(f".to-warm{number}{{stroke:{colours[page]};stroke-width:{1.6 + 0.5 * number:g}px}}")
    return rules
