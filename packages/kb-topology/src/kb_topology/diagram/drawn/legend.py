"""The legend of a picture without a run: the meaning of the colours in use."""

from __future__ import annotations

from typing import NamedTuple

from kb_topology.diagram.chart import Chart
from kb_topology.diagram.drawn.scene import TEXT, text_width

_WORDS = {
    "outside": "outside the SIPs",
    "io": "IO",
    "fabric": "fabric",
    "memory": "memory",
    "compute": "compute",
    "command": "control",
    "group": "holds more",
}
_LINES = {"memory": "to HBM", "data": "data", "command": "commands"}
_BUNDLE = "several links"
_BOX, _LINE, _SPACE = 20, 24, 8


class LegendEntry(NamedTuple):
    """A sample of class *css*, and its meaning; *x* is from the left end of the legend, *text_x* that of the text."""

    css: str
    is_line: bool
    word: str
    x: float
    text_x: float


def entries(chart: Chart, has_bundles: bool) -> list[LegendEntry]:
    """The samples of styles and lines of *chart*, from left to right; *has_bundles*: one of several links too."""
    styles = {box.style for row in chart.rows for box in row}
    lines = {edge.line for edge in chart.edges}
    samples: list[tuple[str, bool, str]] = [(style, False, word) for style, word in _WORDS.items() if style in styles]
    samples += [(f"to-{line}", True, word) for line, word in _LINES.items() if line in lines]
    samples += [("to-data bundle", True, _BUNDLE)] if has_bundles else []
    found, x = [], 0.0
    for css, is_line, word in samples:
        text_x = x + (_LINE if is_line else _BOX)
        found.append(LegendEntry(css, is_line, word, x, text_x))
        x = text_x + text_width(word, TEXT) + _SPACE
    return found


def width(chart: Chart) -> float:
    """The pixels from the first sample to the end of the last word, as if *chart* had bundles."""
    found = entries(chart, True)
    return found[-1].text_x + text_width(found[-1].word, TEXT) if found else 0.0
