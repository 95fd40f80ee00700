"""The section "Lanes" of the report: pictures of PEs and memories over time, in the colours of the page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kb_cli.report.elements.equal_pes import folded_names
from kb_cli.report.elements.page_elements import Markup, element, section
from kb_cli.report.elements.stage_colours import stage_colours
from kb_cli.report.pictures.lane_strips import Strip, stage_of
from kb_cli.report.pictures.lanes import LanePicture, Lanes, MemoryLanes
from kb_cli.report.pictures.plots.scale import Scale
from kb_cli.terminal.units import duration, time_unit

LANE_PX: Final = 16
MOST_NBYTES: Final = 900_000
"""The most bytes of pictures of single PEs in a page of many. Source: assumed; a page stays below 2 MB."""
_LONG: Final = 40
"""The characters of a title that stand beside a picture without being cut."""
_LAST: Final = 92
"""The percentage of the width beyond which a mark has its label at its left, where there is room."""
_MEMORY: Final = "dma_read"
"""The stage whose colour memories have, as on the page of `kb web`."""


def lanes_section(lanes: Lanes) -> Markup:
    """Returns the section "Lanes": a picture for each kind of PE, or strips for many, and one for the memories."""
    drawn = _Drawn(lanes)
    parts = [drawn.key(), drawn.axis()]
    parts += drawn.strips() if lanes.strips else [drawn.of_pes(each) for each in lanes.pictures]
    if lanes.memories is not None:
        parts += drawn.of_memories(lanes.memories)
    since = f"Time 0 is {duration(lanes.start_ps)} after the start of the simulation. " if lanes.start_ps else ""
    many = (
        f"{len(lanes.pictures)} kinds of PEs differ, so a row shows all PEs of a place: the stage that was at work "
        "most, the stronger, the more of the PEs worked. Open a row for its PEs. "
    )
    text = (
        f"{since}The stronger a colour, the more of that moment the block was at work; no moment is left out. "
        f"{many if lanes.strips else ''}"
    )
    return section("Lanes", text.strip(), element("div", *parts, class_="time", style=drawn.style()))


class _Drawn:
    """The pictures of *lanes* as elements, which share colours and the axis of time."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        titles = (title for picture in lanes.pictures for title in picture.titles)
        self._stages = list(dict.fromkeys(map(stage_of, titles)))
        self._colours: Mapping[str, str] = stage_colours([*self._stages, _MEMORY])
        self._rows = {
            titles: at for at, titles in enumerate(dict.fromkeys(tuple(each.titles) for each in lanes.pictures))
        }
        self._picture_of = {pe: each for each in lanes.pictures for pe in each.groups}
        self._ticks = Scale(0, max(lanes.end_ps - lanes.start_ps, 1), 0, 100, log=False)
        self._is_small = sum(len(each.png) for each in lanes.pictures) * 4 // 3 <= MOST_NBYTES

    def style(self) -> str:
        """The values that all pictures share: a line below each mark of the axis, and the colours of rows by titles."""
        stops = []
        for value in self._ticks.marks():
            at = f"{self._ticks.at(value):.3f}%"
            stops.append(f"transparent {at},var(--rule) {at},var(--rule) calc({at} + 1px),transparent calc({at} + 1px)")
        grid = f"--grid:linear-gradient(to right,{','.join(stops)})"
        rows = (f"--rows{number}:{self._gradient(titles)}" for titles, number in self._rows.items())
        return ";".join([grid, *rows])

    def _gradient(self, titles: Sequence[str]) -> str:
        stops = []
        for row, title in enumerate(titles):
            colour, top, end = self._colours[stage_of(title)], row * LANE_PX, (row + 1) * LANE_PX
            stops.append(f"{colour} {top}px,{colour} {end - 2}px,transparent {end - 2}px,transparent {end}px")
        return f"linear-gradient({','.join(stops)})"

    def key(self) -> Markup:
        """The stages with their colours."""
        named = (
            element("span", element("i", style=f"background:{self._colours[stage]}"), stage) for stage in self._stages
        )
        return element("p", *named, class_="soft key")

    def axis(self) -> Markup:
        """The marks of time, above or below a picture."""
        size, unit = time_unit(self._ticks.high)
        marks = (
            element(
                "span",
                f"{value / size:g} {unit}",
                style=f"left:{self._ticks.at(value):.3f}%",
                **({"class_": "last"} if self._ticks.at(value) > _LAST else {}),
            )
            for value in self._ticks.marks()
        )
        return element("div", element("div"), element("div", *marks, class_="axis"), class_="lanes")

    def of_pes(self, picture: LanePicture) -> Markup:
        """The lanes of a kind of PE."""
        return self._figure(folded_names(picture.groups), picture)

    def strips(self) -> list[Markup]:
        """The strips, and the lanes of PEs that readers look for."""
        parts = [self._strip(each) for each in self._lanes.strips]
        for each in self._lanes.marked:
            caption = f"{each.pe} {each.what}, after {duration(each.end_ps)}"
            parts.append(self._figure(caption, self._picture_of[each.pe]))
        if not self._is_small:
            parts.append(element("p", "The lanes of other PEs would fill megabytes: see kb web.", class_="soft"))
        return parts

    def of_memories(self, memories: MemoryLanes) -> Iterator[Markup]:
        """The lanes of memories; all but the first are folded away."""
        text = "memories, while bytes of DMAs held them"
        picture = _picture(memories.png, self._colours[_MEMORY], len(memories.titles), text)
        grid = _beside(memories.titles, picture)
        left = f"; {memories.n_left_out} quieter ones are left out" if memories.n_left_out else ""
        figure = element("figure", element("figcaption", f"{text}{left}"), grid)
        few = len(memories.titles) <= 2 * LANE_PX
        yield figure if few else element("details", element("summary", f"{len(memories.titles)} {text}{left}"), grid)

    def _strip(self, strip: Strip) -> Markup:
        layers = (_layer(png, self._colours[stage]) for stage, png in strip.layers.items())
        name = strip.group.name
        row = element("div", *layers, class_="picture", role="img", aria_label=f"work of {name}", style="height:14px")
        head = element("div", element("div", name), row, class_="lanes")
        if not strip.inner and not self._is_small:
            return head
        inner = (
            map(self._strip, strip.inner) if strip.inner else [self._figure("", self._picture_of[strip.group.pes[0]])]
        )
        return element("details", element("summary", head), *inner, class_="strip")

    def _figure(self, name: str, picture: LanePicture) -> Markup:
        rows = f"var(--rows{self._rows[tuple(picture.titles)]})"
        label = f"lanes of {name or folded_names(picture.groups)}"
        image = _picture(picture.png, rows, len(picture.titles), label)
        caption = [element("figcaption", name)] if name else []
        return element("figure", *caption, _beside(picture.titles, image))


def _beside(titles: Sequence[str], image: Markup) -> Markup:
    named = (element("div", each, **({"title": each} if len(each) > _LONG else {})) for each in titles)
    names = element("div", *named, class_="titles")
    return element("div", names, image, class_="lanes")


def _picture(png: bytes, background: str, n_rows: int, label: str) -> Markup:
    height = f"height:{n_rows * LANE_PX}px"
    return element("div", _layer(png, background), class_="picture", role="img", aria_label=label, style=height)


def _layer(png: bytes, background: str) -> Markup:
    """Returns a layer that shows *background* where *png* is not clear, so that colours follow a dark page."""
    return element("i", style=f"background:{background};--png:url(data:image/png;base64,{b64encode(png).decode()})")
