"""A picture with coordinates, the sizes of text, and the check that nothing in the picture lies on anything else."""

from __future__ import annotations

import unicodedata
from itertools import combinations, pairwise

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
    """A line through *points*, with an arrow at its end and, if *both*, at its start. A *bundle* is several links."""

    points: tuple[tuple[float, float], ...]
    line: Line
    arrow: bool = False
    both: bool = False
    tip: str = ""
    heat: Heat | None = None
    bundle: bool = False


class Label(Struct, frozen=True):
    """A line of text that begins at *x*, with its baseline at *y*; *anchor* `middle` centres it there."""

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
        """The y where the rows end and the legend begins."""
        return self.height - FOOT - LINE * len(self.chart.facts)


Rectangle = tuple[float, float, float, float]
_APART = 4
"""Parallel lines that are nearer than this many pixels look like one."""


def flaws(scene: Scene) -> list[str]:
    """A sentence for each flaw of *scene*; none for a picture in which everything can be read.

    No label may touch another label, a box or a line; no line may pass through a box or lie on another line; no box may
    touch another box; and all must be on the page. A line is a row of level and upright pieces.
    """
    boxes = [(f"box {placed.box.key}", _rectangle(placed)) for placed in scene.boxes]
    labels = [(f"label {label.text!r}", _text(label.text, label.x, label.y, label.anchor)) for label in scene.labels]
    lines = [(path, _pieces(path)) for path in scene.paths]
    found = [f"{a} on {b}" for (a, one), (b, other) in combinations([*labels, *boxes], 2) if _touch(one, other)]
    for name, text in labels:
        found += [f"{name} on a line" for _, pieces in lines if any(_touch(text, piece) for piece in pieces)]
    for name, (x0, y0, x1, y1) in boxes:
        inside = (x0 + 1, y0 + 1, x1 - 1, y1 - 1)
        found += [f"a line through {name}" for _, pieces in lines if any(_touch(inside, piece) for piece in pieces)]
    for (_, one), (_, other) in combinations(lines, 2):
        if any(_along(a, b) for a in one for b in other):
            found.append(f"a line on a line near {one[0][0]:.0f}, {one[0][1]:.0f}")
    for name, (x0, y0, x1, y1) in (*boxes, *labels, *(("a line", piece) for _, pieces in lines for piece in pieces)):
        if x0 < 0 or y0 < 0 or x1 > scene.width or y1 > scene.height:
            found.append(f"{name} off the page")
    return found


def _rectangle(placed: Placed) -> Rectangle:
    return placed.x, placed.y, placed.x + placed.width, placed.y + placed.height


def _text(text: str, x: float, y: float, anchor: str) -> Rectangle:
    width = text_width(text, LABEL)
    left = x - (width / 2 if anchor == "middle" else 0)
    return left, y - 0.8 * LABEL, left + width, y + 0.25 * LABEL


def _pieces(path: Polyline) -> list[Rectangle]:
    return [(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)) for (x0, y0), (x1, y1) in pairwise(path.points)]


def _touch(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] + 0.5 and b[0] < a[2] + 0.5 and a[1] < b[3] + 0.5 and b[1] < a[3] + 0.5


def _along(a: Rectangle, b: Rectangle) -> bool:
    """Whether two pieces lie on each other: both level or both upright, near, and side by side for some length."""
    across, along = max(a[0], b[0]) - min(a[2], b[2]), max(a[1], b[1]) - min(a[3], b[3])
    upright = a[0] == a[2] and b[0] == b[2] and a[1] != a[3] and b[1] != b[3]
    level = a[1] == a[3] and b[1] == b[3] and a[0] != a[2] and b[0] != b[2]
    return (upright and across < _APART and along < -1) or (level and along < _APART and across < -1)
