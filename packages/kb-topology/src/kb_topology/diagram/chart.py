"""What a picture shows, before anything has a place: boxes in rows, and edges between them."""

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
    """A line from box *a* to box *b*; an arrow at *b*, and one at *a* unless *one_way*, if *arrows*."""

    a: str
    b: str
    label: str
    line: Line
    arrows: bool = False
    one_way: bool = False


class Chart(Struct, frozen=True):
    """Rows of boxes from top to bottom, the edges between them, and what the legend says."""

    title: str
    subtitle: str
    rows: tuple[tuple[Box, ...], ...]
    edges: tuple[Edge, ...]
    note: str
