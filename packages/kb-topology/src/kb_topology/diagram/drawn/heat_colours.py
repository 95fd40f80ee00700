"""The colours of all heat maps: from nothing, which is close to the page, to hot, which is orange on every page."""

from __future__ import annotations

from typing import Final

PAGES: Final = ("#ffffff", "#14171a")
"""The light and the dark page."""
HEAT_COLOURS: Final = (
    ("#f0dfbb", "#40311b"),
    ("#e7c48b", "#5c3e15"),
    ("#e0a963", "#774912"),
    ("#d88f3c", "#935513"),
    ("#d27507", "#b1611a"),
    ("#c26005", "#d06e28"),
    ("#b34c01", "#f17b3a"),
    ("#a43700", "#fe966d"),
)
"""Colours from cold to hot, each for a light and for a dark page.

Each colour has 1.25 times the contrast with the page that the colour before it has, so lightness alone orders the
colours, and hot stands out on both pages. Hues go from 85 degrees (cold) to 40 degrees (hot) in OKLCH, all of which the
colour-blind see as yellow to brown. Source: own numbers; contrast as in WCAG 2.2, hues as in CSS Color 4.
"""
ON_HEAT: Final = (
    *[("#0b0d10", "#ffffff")] * 5,
    ("#0b0d10", "#0b0d10"),
    *[("#ffffff", "#0b0d10")] * 2,
)
"""The colour of text on each of HEAT_COLOURS, with a contrast of at least 4.5."""


def heat_step(share: float) -> int:
    """Returns the number of the colour of *share*, 0 (cold) to 1 (hot). Shares beyond an end have the colour of it."""
    return min(max(int(share * len(HEAT_COLOURS)), 0), len(HEAT_COLOURS) - 1)
