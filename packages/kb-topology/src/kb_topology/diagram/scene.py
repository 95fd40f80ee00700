"""A picture with coordinates, and the sizes of text."""

from __future__ import annotations

from msgspec import Struct

from kb_topology.diagram.chart import Box, Chart, Line

TEXT, TITLE, LABEL = 12, 14, 11
"""Sizes of text in pixels."""
MARGIN, LINE, HEAD, FOOT = 32, 17, 64, 64
"""Space at the sides, from line to line of a box, above and below the rows, in pixels."""


def text_width(text: str, size: int) -> float:
    """An upper bound of the width of *text* in a sans-serif font, in pixels. Source: assumed, 0.62 em a letter."""
    return 0.62 * size * len(text)


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


class Label(Struct, frozen=True):
    """Text that begins at *x*, its baseline at *y*; *anchor* `middle` centres it there."""

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
