"""The answer of `kb whatif` as SVG: the latency before, measured and at best, and the blocks whose time changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kb_cli.compare.blocks import BlockChange, block_name
from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import GAP, cut
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, alone, line, text
from kb_cli.report.pictures.plots.scale import Scale
from kb_cli.terminal.units import durations, signed_percent, value_text
from kb_cli.whatif.whatif import WhatIf

_NAMES: Final = 150
"""The width of the names at the left, in pixels."""
_VALUES: Final = 190
_ROW, _BAR = 26, 16
_MOST_BLOCKS: Final = 8
"""The most blocks with a row, the ones whose time changed most. `--json` has all."""


def whatif_file(found: WhatIf) -> bytes:
    """Returns the picture of *found* as an SVG file in UTF-8."""
    sets = (f"{each.path}: {_value(each.before)} \N{RIGHTWARDS ARROW} {_value(each.after)}" for each in found.set)
    said = " ".join([f"{'; '.join(sets)}.", *found.comparison.sentences])
    return f"{alone(whatif_picture(found), said)}\n".encode()


def whatif_picture(found: WhatIf) -> Plot:
    """Returns a bar for the latency of the run, of the other chip, and of that chip at best, then a row for each block
    whose time on the critical path changed.
    """
    parts = list(_latencies(found))
    top = _ROW * len(_times(found)) + 34.0
    changed = [each for each in found.comparison.blocks if each.path_change_ps][:_MOST_BLOCKS]
    if changed:
        parts += _blocks(changed, top)
        top += _ROW * (len(changed) + 1)
    best = "" if found.bound_ps is None or not found.before_ps else signed_percent(found.bound_ps / found.before_ps - 1)
    return Plot(f"{signed_percent(found.change)} measured{best and f', {best} at best'}", top, parts)


def _times(found: WhatIf) -> list[tuple[str, int]]:
    times = [("before", found.before_ps), ("measured", found.latency_ps)]
    return times if found.bound_ps is None else [*times, ("at best (bound)", found.bound_ps)]


def _latencies(found: WhatIf) -> Iterator[Markup]:
    times = _times(found)
    room = Scale(0.0, max(max(ps for _, ps in times), 1), _NAMES, WIDTH - _VALUES, log=False)
    texts = durations([ps for _, ps in times])
    for row, ((name, ps), said) in enumerate(zip(times, texts, strict=True)):
        top = row * _ROW
        style = {"before": "other", "measured": "best"}.get(name, "open")
        yield text(name, 0, top + 14, style="name" if name == "measured" else "")
        yield element("rect", x=_NAMES, y=top + 2, width=round(room.at(ps) - _NAMES, 1), height=_BAR, class_=style)
        change = f" ({signed_percent(ps / found.before_ps - 1)})" if row and found.before_ps else ""
        yield text(f"{said}{change}", room.at(ps) + GAP, top + 14, style="")


def _blocks(changed: list[BlockChange], top: float) -> Iterator[Markup]:
    """Yields a row for each block: a bar from zero to the change of its time, to the left for less time."""
    changes = [each.path_change_ps for each in changed]
    left, right = float(_NAMES), float(WIDTH - _VALUES)
    texts = durations([abs(change) for change in changes])
    most = max(map(abs, changes))
    low, high = min(*changes, 0), max(*changes, 0)
    room = Scale(low, high, left, right, log=False) if most else Scale(-1, 1, left, right, log=False)
    yield text("change of the time on the critical path, by block; to the left is faster", 0, top, style="soft")
    for row, (each, change, said) in enumerate(zip(changed, changes, texts, strict=True), 1):
        y = top + row * _ROW - 12
        begin, end = sorted((room.at(0), room.at(change)))
        yield text(cut(block_name(each.block), _NAMES - GAP), 0, y + 12, style="")
        style = "less" if change < 0 else "more"
        yield element("rect", x=round(begin, 1), y=y, width=max(round(end - begin, 1), 1), height=_BAR, class_=style)
        yield text(f"{'-' if change < 0 else '+'}{said}", WIDTH - _VALUES + GAP, y + 12, style="")
    yield line(room.at(0), top + 8, room.at(0), top + _ROW * len(changed) + 8, "first")


def _value(value: object) -> str:
    return "not stated" if value is None else value_text(value)
