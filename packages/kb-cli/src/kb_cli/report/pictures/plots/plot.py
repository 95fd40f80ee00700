"""Pictures with axes as SVG: as a part of a page, and as a file of its own with a title."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import lines
from kb_cli.report.pictures.plots.plot_style import style_of

WIDTH: Final = 640
"""The width of a picture, in pixels of 12-pixel text. So text can be read in a window of 600 pixels."""
_SHOWN_WIDTH: Final = 800
"""The width at which a browser shows a file that nothing else sizes."""
_MARGIN: Final = 16
_LINE: Final = 16


class Plot(NamedTuple):
    """A picture: what it shows, its height in pixels, and its elements."""

    title: str
    height: float
    parts: list[Markup]


def inline(plot: Plot) -> Markup:
    """Returns *plot* for a page that has plot.css and says what the picture shows."""
    size = f"0 0 {WIDTH} {plot.height:g}"
    return element("svg", *plot.parts, class_="plot", viewBox=size, role="img", aria_label=plot.title)


def alone(plot: Plot, said: str) -> Markup:
    """Returns *plot* as a whole file, below its title and *said*, a sentence on what was swept."""
    texts = list(_texts(plot.title, said))
    top = 2 * _MARGIN + _LINE * len(texts)
    height = top + plot.height + _MARGIN
    wide = WIDTH + 2 * _MARGIN
    page = element("rect", class_="page", x=0, y=0, width=wide, height=height)
    drawn = [page, *texts, element("g", *plot.parts, transform=f"translate({_MARGIN},{top})")]
    return element(
        "svg",
        element("style", style_of("".join(drawn))),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        class_="plot",
        width=_SHOWN_WIDTH,
        height=round(height * _SHOWN_WIDTH / wide),
        viewBox=f"0 0 {wide} {height:g}",
        role="img",
        aria_label=plot.title,
    )


def _texts(title: str, said: str) -> Iterator[Markup]:
    heading = lines(title, WIDTH * 0.7)
    for number, text in enumerate([*heading, *lines(said, WIDTH)]):
        style = "heading" if number < len(heading) else "soft"
        yield element("text", text, x=_MARGIN, y=_MARGIN + 12 + (_LINE + 2) * number, class_=style)


def text(said: str, x: float, y: float, anchor: str = "start", style: str = "soft") -> Markup:
    """Returns a text of one line. *anchor* says which of its ends, or its middle, is at *x*."""
    return element("text", said, x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=style)


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    """Returns a straight line."""
    return element("line", x1=round(x1, 1), y1=round(y1, 1), x2=round(x2, 1), y2=round(y2, 1), class_=style)


def mark(x: float, y: float, radius: float, style: str, title: str = "") -> Markup:
    """Returns a dot. A reader who points at the dot sees *title*."""
    inside = [element("title", title)] if title else []
    return element("circle", *inside, cx=round(x, 1), cy=round(y, 1), r=radius, class_=style)
