"""The content of a picture without coordinates: boxes in rows, and edges between boxes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Style = Literal["outside", "io", "fabric", "memory", "compute", "command", "group"]
Line = Literal["memory", "data", "command"]


class Box(Struct, frozen=True):
    """A rectangle with a title and lines of text under it."""

    key: str
    title: str
    lines: tuple[str, ...]
    style: Style


class Edge(Struct, frozen=True):
    """A line from box *a* to box *b*. With *arrows* it has an arrow at *b* and, unless *one_way*, at *a*."""

    a: str
    b: str
    label: str
    line: Line
    arrows: bool = False
    one_way: bool = False


class Chart(Struct, frozen=True):
    """Rows of boxes from top to bottom, the edges between boxes, and the text of the legend."""

    title: str
    subtitle: str
    rows: tuple[tuple[Box, ...], ...]
    edges: tuple[Edge, ...]
    note: str
