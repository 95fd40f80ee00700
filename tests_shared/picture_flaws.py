"""What a reader could not read in an SVG: texts on one another, cut off, crossed by lines, or too faint.

`picture_flaws` needs no browser, so the tests of every picture can ask. Widths of texts are upper bounds.
"""

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from math import cos, radians, sin
from typing import NamedTuple

from svg_style import Styled, styled, tag

from kb_topology.diagram import text_width

LEAST_CONTRAST = 4.5
"""Source: W3C, WCAG 2.2, success criterion 1.4.3."""
_PAGES = {False: "#ffffff", True: "#14171a"}
_TOUCHING = 1.5
"""The most pixels by which boxes may overlap: boxes of text are taller than most letters."""


class Box(NamedTuple):
    """A rectangle, in pixels of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two overlap by more than a touch."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        tall = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide > _TOUCHING and tall > _TOUCHING

    def holds(self, other: "Box") -> bool:
        """Whether *other* lies within this box, up to a touch."""
        return (
            self.left <= other.left + _TOUCHING
            and self.top <= other.top + _TOUCHING
            and self.right >= other.right - _TOUCHING
            and self.bottom >= other.bottom - _TOUCHING
        )


class _Text(NamedTuple):
    said: str
    box: Box
    order: int
    ink: str


class _Area(NamedTuple):
    box: Box
    order: int
    ink: str
    opacity: float


class _Stroke(NamedTuple):
    box: Box
    order: int


def picture_flaws(svg: str, *, dark: bool = False, sheet: str = "") -> list[str]:
    """A sentence for each flaw of *svg*, as a light or a dark page shows it. *sheet* is the CSS of the page around it.

    Flaws are: two texts on one another, a text outside of the picture, a text with a line through it that no area
    hides, a text whose contrast with what is behind it is below 4.5, and a picture whose font is no sans-serif.
    """
    elements = styled(svg, dark, sheet)
    texts = [_text(each, order) for order, each in enumerate(elements) if _says(each)]
    areas = [_area(each, order) for order, each in enumerate(elements) if tag(each.element) == "rect"]
    areas = [each for each in areas if each.ink != "none" and each.opacity > 0]
    strokes = [each for order, one in enumerate(elements) for each in _strokes(one, order)]
    found = [f"no sans-serif font: {each.said!r}" for each in texts[:1] if not _is_sans(elements)]
    found += [f"outside of the picture: {each.said!r}" for each in texts if not _frame(elements[0]).holds(each.box)]
    found += [f"{a.said!r} on {b.said!r}" for a, b in combinations(texts, 2) if a.box.meets(b.box)]
    for each in texts:
        if any(_strikes(line, each, areas) for line in strokes):
            found.append(f"a line through {each.said!r}")
        ratio = contrast(each.ink, _behind(each, areas, _PAGES[dark]))
        if ratio < LEAST_CONTRAST:
            found.append(f"contrast {ratio:.2f} of {each.said!r}, needs {LEAST_CONTRAST}")
    return found


def contrast(a: str, b: str) -> float:
    """The contrast of two colours `#rrggbb`. Source: W3C, WCAG 2.2, contrast ratio."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in _rgb(colour)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> list[int]:
    named = {"": "#000000", "black": "#000000", "white": "#ffffff"}.get(colour, colour)
    whole = re.sub(r"^#(.)(.)(.)$", r"#\1\1\2\2\3\3", named)
    assert re.fullmatch(r"#[0-9a-fA-F]{6}", whole), f"a colour that the test cannot read: {colour!r}"
    return [int(whole[at : at + 2], 16) for at in (1, 3, 5)]


def _says(each: Styled) -> bool:
    return tag(each.element) == "text" and bool("".join(_words(each)).strip())


def _words(each: Styled) -> Iterator[str]:
    yield each.element.text or ""
    for child in each.element:
        if tag(child) == "tspan":
            yield child.text or ""


def _is_sans(elements: list[Styled]) -> bool:
    return all(each.style.get("font-family", "").endswith("sans-serif") for each in elements if _says(each))


def _frame(root: Styled) -> Box:
    left, top, width, height = (float(each) for each in root.style["viewBox"].split())
    return Box(left, top, left + width, top + height)


def _text(each: Styled, order: int) -> _Text:
    size = float(each.style.get("font-size", "16").removesuffix("px"))
    said = "".join(_words(each))
    width, anchor = text_width(said, 1) * size, each.style.get("text-anchor", "start")
    left = float(each.style.get("x", 0)) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    line = float(each.style.get("y", 0))
    box = Box(left, line - 0.76 * size, left + width, line + 0.22 * size)
    return _Text(said, _moved(box, each.transform), order, each.style.get("fill", "#000000"))


def _area(each: Styled, order: int) -> _Area:
    def number(name: str, whole: float) -> float:
        text = each.style.get(name, "0")
        return whole * float(text[:-1]) / 100 if text.endswith("%") else float(text.removesuffix("px"))

    left, top = number("x", 0), number("y", 0)
    box = Box(left, top, left + number("width", 1e6), top + number("height", 1e6))
    opacity = float(each.style.get("fill-opacity", 1)) * float(each.style.get("opacity", 1))
    return _Area(_moved(box, each.transform), order, each.style.get("fill", "#000000"), opacity)


def _strokes(each: Styled, order: int) -> Iterator[_Stroke]:
    """The pieces of a line or of a path of straight pieces; a sloping piece is cut into short ones."""
    if each.style.get("stroke", "none") in ("none", "transparent", ""):
        return
    for (x1, y1), (x2, y2) in _pieces(each):
        parts = 1 if x1 == x2 or y1 == y2 else max(1, int(max(abs(x2 - x1), abs(y2 - y1)) / 4))
        for part in range(parts):
            ax, bx = (x1 + (x2 - x1) * at / parts for at in (part, part + 1))
            ay, by = (y1 + (y2 - y1) * at / parts for at in (part, part + 1))
            box = Box(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))
            yield _Stroke(_moved(box, each.transform), order)


def _pieces(each: Styled) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    if tag(each.element) == "line":
        x1, y1, x2, y2 = (float(each.style.get(name, 0)) for name in ("x1", "y1", "x2", "y2"))
        yield (x1, y1), (x2, y2)
    elif tag(each.element) in ("path", "polyline"):
        drawn = each.style.get("d") or f"M{each.style.get('points', '').strip()}"
        if re.fullmatch(r"M[\d.eE\s,L+-]+", drawn):  # without curves and relative pieces
            numbers = [float(text) for text in re.findall(r"-?[\d.]+", drawn)]
            points = list(zip(numbers[::2], numbers[1::2], strict=True))
            yield from pairwise(points)


def _moved(box: Box, transform: str) -> Box:
    """*box* after all of *transform*: moves, and turns by multiples of 90 degrees and others, whose bounds it gives."""
    corners = [(x, y) for x in (box.left, box.right) for y in (box.top, box.bottom)]
    for name, text in reversed(re.findall(r"(\w+)\(([^)]*)\)", transform)):
        values = [float(each) for each in re.findall(r"-?[\d.]+", text)]
        if name == "translate":
            dx, dy = [*values, 0.0][:2]
            corners = [(x + dx, y + dy) for x, y in corners]
        elif name == "rotate":
            angle, (cx, cy) = radians(values[0]), [*values[1:], 0.0, 0.0][:2]
            corners = [
                (
                    cx + (x - cx) * cos(angle) - (y - cy) * sin(angle),
                    cy + (x - cx) * sin(angle) + (y - cy) * cos(angle),
                )
                for x, y in corners
            ]
        else:
            raise AssertionError(f"a transform that the test cannot read: {transform}")
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return Box(min(xs), min(ys), max(xs), max(ys))


def _strikes(line: _Stroke, text: _Text, areas: list[_Area]) -> bool:
    """Whether *line* crosses the letters of *text*, and no area that covers the text hides the line."""
    box, edge = text.box, 2.5
    inside = Box(box.left + edge, box.top + edge, box.right - edge, box.bottom - edge)
    wide = min(line.box.right, inside.right) - max(line.box.left, inside.left)
    tall = min(line.box.bottom, inside.bottom) - max(line.box.top, inside.top)
    if wide < 0 or tall < 0:
        return False
    return not any(
        line.order < area.order < text.order and area.opacity == 1 and area.box.holds(inside) for area in areas
    )


def _behind(text: _Text, areas: list[_Area], page: str) -> str:
    """The colour behind the middle of *text*."""
    x, y = (text.box.left + text.box.right) / 2, (text.box.top + text.box.bottom) / 2
    parts = _rgb(page)
    for area in areas:
        if area.order < text.order and area.box.left <= x <= area.box.right and area.box.top <= y <= area.box.bottom:
            parts = [
                round(own * area.opacity + below * (1 - area.opacity))
                for own, below in zip(_rgb(area.ink), parts, strict=True)
            ]
    return "#" + "".join(f"{part:02x}" for part in parts)
