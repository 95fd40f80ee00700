"""Places for labels in a plane: on no other label, mark or line, and as near to what they name as there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kb_cli.report.pictures.plots.labels import width

HEIGHT: Final = 14.0
"""The height of a line of text, in pixels."""
_FAR: Final = 16.0
"""The distance beyond which a line leads from a label to its mark, in pixels."""

_WAYS: Final = (
    (1, -0.5), (1, 0.5), (-1, -0.5), (-1, 0.5), (0, -1), (0, 1), (1, 0), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1),
)  # fmt: skip
"""The ways from a mark to its label, across and down, the best first."""


class Box(NamedTuple):
    """A rectangle, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share an area."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_within(self, other: Box) -> bool:
        """Whether *other* holds the whole box."""
        across = self.left >= other.left and self.right <= other.right
        return across and self.top >= other.top and self.bottom <= other.bottom


class Segment(NamedTuple):
    """A straight line between two points, in pixels."""

    x1: float
    y1: float
    x2: float
    y2: float

    def meets(self, box: Box) -> bool:
        """Whether the line passes *box*. Source: Liang and Barsky, "A new concept and method for line clipping",
        1984.
        """
        low, high = 0.0, 1.0
        dx, dy = self.x2 - self.x1, self.y2 - self.y1
        for step, room in (
            (-dx, self.x1 - box.left),
            (dx, box.right - self.x1),
            (-dy, self.y1 - box.top),
            (dy, box.bottom - self.y1),
        ):
            if step == 0:
                if room < 0:
                    return False
            elif step < 0:
                low = max(low, room / step)
            else:
                high = min(high, room / step)
        return low <= high


class PlacedLabel(NamedTuple):
    """A text whose baseline begins at (*x*, *y*), the *box* around it, and the line that leads to its mark, if any.

    *dash* is the style of a short line before the text, "" for none.
    """

    text: str
    x: float
    y: float
    box: Box
    leader: Segment | None = None
    dash: str = ""


class LabelPlaces:
    """The places that are taken within *frame*."""

    def __init__(self, frame: Box) -> None:
        self._frame = frame
        self._boxes: list[Box] = []
        self._lines: list[Segment] = []

    def take(self, *taken: Box | Segment) -> None:
        """Lets no label lie on *taken*."""
        for each in taken:
            if isinstance(each, Box):
                self._boxes.append(each)
            else:
                self._lines.append(each)

    def first_free(self, text: str, places: Iterable[tuple[float, float]], before: float = 0.0) -> PlacedLabel | None:
        """Returns *text* at the first of *places*, (left, baseline), that is free, and takes it; None if none is.

        *before* is the room to the left of the text that the label takes, too, in pixels.
        """
        for x, y in places:
            box = _around(text, x, y)._replace(left=x - 2 - before)
            if self._is_free(box):
                self._boxes.append(box)
                return PlacedLabel(text, x, y, box)
        return None

    def beside(self, text: str, x: float, y: float, reach: float = 90.0) -> PlacedLabel | None:
        """Returns *text* near the mark at (*x*, *y*), within *reach* pixels; None without room. A line leads from a
        place that is not next to the mark.
        """
        for distance, left, baseline in _around_mark(width(text), x, y, reach):
            box = _around(text, left, baseline)
            if not self._is_free(box):
                continue
            leader = _leader(box, x, y) if distance > _FAR else None
            if leader is not None and any(leader.meets(each) for each in self._texts()):
                continue
            self._boxes.append(box)
            if leader is not None:
                self._lines.append(leader)
            return PlacedLabel(text, left, baseline, box, leader)
        return None

    def _texts(self) -> Iterator[Box]:
        return (each for each in self._boxes if each.right - each.left > HEIGHT)

    def _is_free(self, box: Box) -> bool:
        if not box.is_within(self._frame) or any(box.meets(each) for each in self._boxes):
            return False
        return not any(each.meets(box) for each in self._lines)


def _around(text: str, x: float, y: float) -> Box:
    return Box(x - 2, y - 11, x + width(text) + 2, y + 4)


def _around_mark(wide: float, x: float, y: float, reach: float) -> Iterator[tuple[float, float, float]]:
    """Yields (distance, left, baseline) of places around a mark, the nearest first."""
    distance = 9.0
    while distance <= reach:
        for across, down in _WAYS:
            middle = x + across * distance
            left = middle if across > 0 else middle - wide if across < 0 else x - wide / 2
            yield distance, left, y + 4 + down * distance
        distance += 8.0


def _leader(box: Box, x: float, y: float) -> Segment:
    """Returns the line from the mark at (*x*, *y*) to the nearest point of *box*."""
    at = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
    return Segment(x, y, *at)
