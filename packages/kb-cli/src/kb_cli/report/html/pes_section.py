"""The section "PEs" of the report: what the own time of each PE went to. Equal PEs share a row, which opens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kb_cli.report.elements.equal_pes import PeGroup, part_ranges, part_text, pe_groups
from kb_cli.report.elements.page_elements import Markup, bar_of, element, section
from kb_cli.report.elements.stage_colours import OTHERS, stage_colours
from kb_cli.terminal.units import percent
from kb_dataexec.analysis import PeShares

_PARTS: Final = 2
_COLOURS: Final = 6
"""The most blocks of a bar with a colour of their own."""
_MOST_ROWS: Final = 2_000
"""The most rows of a page. `--json` has every PE."""


def pes_section(views: Sequence[PeShares]) -> Markup:
    """Returns the section "PEs" of *views*, each kind of PE's own view."""
    groups = pe_groups(views)
    means: dict[str, float] = {}
    for group in groups:
        for part in part_ranges(group, views):
            means[part.block] = means.get(part.block, 0.0) + part.mean * len(group.pes)
    shown = sorted(means, key=lambda block: -means[block])[:_COLOURS]
    colours = stage_colours(shown)
    key = element(
        "p",
        *(element("span", element("i", style=f"background:{colours[block]}"), block) for block in shown),
        *([element("span", element("i", style=f"background:{OTHERS}"), "others")] if len(means) > len(shown) else []),
        class_="soft key",
    )
    n_rows = sum(1 for group in groups for _ in _rows_of(group))
    is_small = n_rows <= _MOST_ROWS
    rows = [_row(group, views, colours, is_small) for group in groups]
    text = "What each PE's own time went to. PEs whose times are equal stand together"
    if any(group.inner for group in groups):
        text += (
            "; the others stand together by place or nearness, with the least and the most share. Open a row for them"
        )
    more = [] if is_small else [element("p", f"{n_rows} rows are too many for a page: see --json", class_="soft")]
    return section("PEs", f"{text}.", key, *rows, *more)


def _rows_of(group: PeGroup) -> Iterator[PeGroup]:
    yield group
    for each in group.inner:
        yield from _rows_of(each)


def _row(group: PeGroup, views: Sequence[PeShares], colours: Mapping[str, str], opens: bool) -> Markup:
    parts = part_ranges(group, views)
    blocks: dict[str, float] = {}
    for part in parts:
        name = part.block if part.block in colours else ""
        blocks[name] = blocks.get(name, 0.0) + part.mean
    kept, rest = parts[:_PARTS], parts[_PARTS:]
    texts = [part_text(each) for each in kept]
    if rest:
        texts.append(f"{len(rest)} more {percent(sum(each.mean for each in rest))}")
    shares = ((colours[name], blocks[name]) for name in (*colours, "") if name in blocks and name)
    whole = bar_of(*shares, (OTHERS, blocks.get("", 0.0)))
    cells = element("div", group.name), whole, element("div", ", ".join(texts))
    head = element("div", *cells, class_="pe")
    if not group.inner or not opens:
        return head
    inner = (_row(each, views, colours, opens) for each in group.inner)
    return element("details", element("summary", head), *inner, class_="pes")
