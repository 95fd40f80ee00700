"""The content of a picture without coordinates: boxes in rows, and edges between boxes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Style = Literal["outside", "io", "fabric", "memory", "compute", "command", "group"]
Line = Literal["memory", "data", "command"]


class Heat(Struct, frozen=True):
    """The utilization, 0 to 1, of the parts that one box or line stands for.

    `top` is the utilization of the busiest part, and `mean` the mean of all parts.
    """

    top: float
    mean: float


class Box(Struct, frozen=True):
    """A rectangle with a title and lines of text under it. Boxes that are `like` one another are equally wide.

    `tip` is the text of the tooltip. Boxes of one `column` have their centres below one another, and a column lies
    as far from the next one as any other; 0.5 lies halfway between 0 and 1. A box that `is_small` is as narrow as its
    text. `part` is the id of the SIP, cube or PE that the box stands for.
    """

    key: str
    title: str
    lines: tuple[str, ...]
    style: Style
    like: str = ""
    tip: str = ""
    heat: Heat | None = None
    column: float | None = None
    is_small: bool = False
    part: str = ""


class Edge(Struct, frozen=True):
    """A line from box *a* to box *b*, for `count` equal links. With *arrows* it has an arrow at *b* and, unless
    *one_way*, at *a*.

    `label` is of one link. A wire in a PE has none. What the line `says` is its label and its heat, or less.
    """

    a: str
    b: str
    label: tuple[str, ...]
    line: Line
    arrows: bool = False
    one_way: bool = False
    tip: str = ""
    heat: Heat | None = None
    count: int = 1
    says: Literal["all", "heat", "nothing"] = "all"


class Chart(Struct, frozen=True):
    """Rows of boxes from top to bottom, the edges between boxes, and the text of the legend.

    With `measured`, colours show how busy a part was; without, they show its kind. `facts` are lines below the note,
    about properties that no box and no edge shows.
    """

    title: str
    subtitle: str
    rows: tuple[tuple[Box, ...], ...]
    edges: tuple[Edge, ...]
    note: str
    measured: bool = False
    facts: tuple[str, ...] = ()


def percents(heats: tuple[Heat, ...]) -> tuple[str, ...]:
    """The numbers of a label: `83 %`, or, where parts differ, `max 83 %` and `mean 40 %`; `idle` for no use."""
    if not heats:
        return ()
    top, mean = max(heat.top for heat in heats), sum(heat.mean for heat in heats) / len(heats)
    if top <= 0:
        return ("idle",)
    if percent(top) == percent(mean):
        return (percent(top),)
    return (f"max {percent(top)}", f"mean {percent(mean)}")


def percent(share: float) -> str:
    """`83 %`, and `< 1 %` for a share that is small and not zero."""
    return "< 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"
