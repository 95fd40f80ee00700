"""Labels of pictures that lie on nothing else: side by side, and in lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kb_topology.diagram import text_width

SIZE: Final = 12
"""The size of the text of pictures with axes, in pixels, as plot.css has it."""
GAP: Final = 8.0
"""The least distance of two labels, in pixels."""


def width(text: str) -> float:
    """Returns the width of *text* in pixels, at most."""
    return text_width(text, SIZE)


def spread(widths: Sequence[float], wanted: Sequence[float], start: float, end: float) -> list[float]:
    """Returns the middles of labels of *widths* that are nearest to *wanted*, which rise, and lie on no other.

    All lie between *start* and *end*, if there is room. Source: isotonic regression by pooling adjacent violators.
    """
    before, offsets = 0.0, list[float]()
    for each in widths:
        offsets.append(before + each / 2)
        before += each + GAP
    pools: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            total, count = total + pools[-1][0], count + pools[-1][1]
            pools.pop()
        pools.append((total, count))
    lefts = [total / count for total, count in pools for _ in range(count)]
    last = end - (before - GAP)
    return [max(min(left, last), start) + offset for left, offset in zip(lefts, offsets, strict=True)]


def kept(widths: Sequence[float], room: float) -> list[int]:
    """Returns the numbers of the labels that fit side by side into *room*: all, or each second, each third, ..."""
    for step in range(1, len(widths) + 1):
        if sum(each + GAP for each in widths[::step]) - GAP <= room:
            return list(range(0, len(widths), step))
    return []


def fitting(widths: Sequence[float], middles: Sequence[float], first: Sequence[int] = ()) -> list[int]:
    """Returns the numbers of the labels to show at *middles*, so that no two meet. *first* are shown before others."""
    shown: list[int] = []
    for at in (*first, *range(len(widths))):
        free = (abs(middles[at] - middles[other]) >= (widths[at] + widths[other]) / 2 + GAP for other in shown)
        if at not in shown and all(free):
            shown.append(at)
    return sorted(shown)


def lines(text: str, room: float) -> list[str]:
    """Returns *text* in lines of at most *room* pixels, cut between words; a longer word has a line of its own."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".strip()
        if found[-1] and width(longer) > room:
            found.append(word)
        else:
            found[-1] = longer
    return found


def cut(text: str, room: float) -> str:
    """Returns *text*, with an ellipsis in its middle if it is wider than *room* pixels."""
    if width(text) <= room:
        return text
    keep = len(text) - 1
    while keep > 2 and width(_without_middle(text, keep)) > room:
        keep -= 1
    return _without_middle(text, keep)


def _without_middle(text: str, keep: int) -> str:
    return f"{text[: -(-keep // 2)]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - keep // 2 :]}"
