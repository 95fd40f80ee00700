"""A picture with coordinates, and the sizes of text."""

from __future__ import annotations

import unicodedata

from msgspec import Struct

from kb_topology.diagram.chart import Box, Chart, Heat, Line

TEXT, TITLE, LABEL, HEADING = 12, 14, 11, 18
"""Sizes of text in pixels."""
MARGIN, LINE, HEAD, FOOT = 32, 17, 72, 76
"""Space at the sides, from line to line of a box, above and below the rows, in pixels."""
LABEL_LINE = 13
"""From line to line of a label, in pixels."""
_EM = {
    **dict.fromkeys(" fijltI.,:;'|!()[]/-", 0.42),
    **dict.fromkeys("mwMWQO@%+=<>#&^~", 1.02),
    **dict.fromkeys("ABCDEFGHJKLNPRSTUVXYZ", 0.79),
}
_DIGIT, _WIDE, _BOLD = 0.65, 1.3, 1.14


def text_width(text: str, size: int) -> float:
    """An upper bound of the width of *text* in a sans-serif font, in pixels. Titles are bold.

    Source: measured for DejaVu Sans, the widest of the usual fonts, and rounded up. Wide letters of other scripts are
    assumed to be 1.3 em.
    """
    wide = sum(_WIDE if unicodedata.east_asian_width(each) in "WF" else _EM.get(each, _DIGIT) for each in text)
    return wide * size * (_BOLD if size >= TITLE else 1)


class Placed(Struct, frozen=True):
    """A box with its place, in pixels from the top left."""

    box: Box
    x: float
    y: float
    width: float
    height: float


class Polyline(Struct, frozen=True):
    """A line through *points*, with an arrow at its end and, if *both*, at its start."""

    points: tuple[tuple[float, float], ...]
    line: Line
    arrow: bool = False
    both: bool = False
    tip: str = ""
    heat: Heat | None = None


class Label(Struct, frozen=True):
    """A line of text that begins at *x*, its baseline at *y*; *anchor* `middle` centres it there."""

    text: str
    x: float
    y: float
    anchor: str = "start"


class Scene(Struct, frozen=True):
    """A chart with coordinates, in pixels."""

    chart: Chart
    width: float
    height: float
    boxes: tuple[Placed, ...]
    paths: tuple[Polyline, ...]
    labels: tuple[Label, ...]

    @property
    def foot(self) -> float:
        """Where the rows end and the legend begins, from the top."""
        return self.height - FOOT - LINE * len(self.chart.facts)
