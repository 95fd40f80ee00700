"""What is wrong with a picture: what lies on something else, runs through a box, or leaves the page."""

from __future__ import annotations

from itertools import combinations, pairwise

from kb_topology.diagram.scene import LABEL, Placed, Polyline, Scene, text_width

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
