"""Images in the colours of heat maps, one for light and one for dark pages: of matrices, and of legends."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.png import Values, palette_png
from kb_topology.diagram import HEAT_COLOURS

_LEVELS: Final = 64
"""The colours of an image, which lie between those of HEAT_COLOURS."""
_SIDE: Final = 560
"""Pixels of an image, at least half of them: some viewers ignore `image-rendering` and blur single pixels."""
_PAGES: Final = ("on-light", "on-dark")


def heat_images(shares: Values, **place: float) -> Iterator[Markup]:
    """Yields an image of *shares* (rows x columns, 0 cold to 1 hot, NaN clear) for each kind of page at *place*."""
    known = np.isfinite(shares)
    levels = np.where(known, 1 + np.round(np.where(known, shares, 0.0) * (_LEVELS - 1)), 0).astype(np.uint8)
    rows, columns = (max(1, _SIDE // count) for count in shares.shape)
    levels = levels.repeat(rows, axis=0).repeat(columns, axis=1)
    for page, style in enumerate(_PAGES):
        png = base64.b64encode(palette_png(levels, _palette(page))).decode()
        yield element(
            "image", preserveAspectRatio="none", class_=f"pixels {style}", href=f"data:image/png;base64,{png}", **place
        )


def heat_ramp(falls: bool, **place: float) -> Iterator[Markup]:
    """Yields the colours from cold to hot at *place*; with *falls* from hot to cold."""
    shares = np.linspace(0, 1, _LEVELS).reshape(1, -1)
    return heat_images(shares[:, ::-1] if falls else shares, **place)


def _palette(page: int) -> npt.NDArray[np.uint8]:
    """Returns the colours of a page (levels x RGB); the first is that of clear pixels."""
    ends = [[int(each[page][at : at + 2], 16) for at in (1, 3, 5)] for each in HEAT_COLOURS]
    places = np.linspace(0, 1, len(ends))
    between = np.linspace(0, 1, _LEVELS)
    channels = [np.interp(between, places, np.array(ends, np.float64)[:, channel]) for channel in range(3)]
    colours: npt.NDArray[np.uint8] = np.vstack([np.zeros(3), np.stack(channels, axis=-1)]).round().astype(np.uint8)
    return colours
