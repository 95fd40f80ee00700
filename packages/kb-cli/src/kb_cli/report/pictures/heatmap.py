"""Heat maps as SVG: a panel for each quantity, with a coloured cell for each pair and a scale."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.report.data.probe import LARGEST_WHOLE, latency_ns, short_name
from kb_cli.report.pictures.png import Values, coloured, png_bytes
from kb_cli.run.base.files import write_whole
from kb_engine.probe import ProbeMatrix
from kb_topology import Topology

_SIDE = 560
_MARGIN = 150
_SCALE = 110


class HeatMapPanel(Struct, frozen=True, kw_only=True):
    """One quantity: `values[row, column]`, NaN for no value. The scale shows `unit`."""

    title: str
    unit: str
    values: Values


class Tick(Struct, frozen=True):
    """A label for the rows or columns from `start` up to the next tick."""

    start: int
    text: str


def heat_map(title: str, panels: Sequence[HeatMapPanel], rows: Sequence[Tick], columns: Sequence[Tick]) -> str:
    """Returns an SVG with the panels side by side. *rows* and *columns* are the labels of the cells."""
    width = len(panels) * (_MARGIN + _SIDE + _SCALE)
    height = 60 + _SIDE + _MARGIN
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#333333">'
        ),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="24" font-size="16">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, number * (_MARGIN + _SIDE + _SCALE) + _MARGIN, 60, rows, columns)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: HeatMapPanel, left: int, top: int, rows: Sequence[Tick], columns: Sequence[Tick]) -> list[str]:
    low, high = _range(panel.values)
    n_rows, n_columns = panel.values.shape
    png = base64.b64encode(png_bytes(_enlarged(coloured(panel.values, low, high)))).decode()
    parts = [
        f'<text x="{left}" y="{top - 10}" font-size="14">{escape(panel.title)}</text>',
        (
            f'<image x="{left}" y="{top}" width="{_SIDE}" height="{_SIDE}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{png}"/>'
        ),
        f'<rect x="{left}" y="{top}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#333333"/>',
    ]
    for tick, y, size in _places(rows, n_rows):
        parts.append(f'<line x1="{left - 4}" y1="{top + y:.1f}" x2="{left}" y2="{top + y:.1f}" stroke="#333333"/>')
        parts.append(f'<text x="{left - 8}" y="{top + y + size / 2 + 4:.1f}" text-anchor="end">{escape(tick)}</text>')
    bottom = top + _SIDE
    for tick, x, size in _places(columns, n_columns):
        at, middle = left + x, left + x + size / 2
        parts.append(f'<line x1="{at:.1f}" y1="{bottom}" x2="{at:.1f}" y2="{bottom + 4}" stroke="#333333"/>')
        parts.append(
            f'<text transform="translate({middle + 4:.1f},{bottom + 8}) rotate(-90)" text-anchor="end">'
            f"{escape(tick)}</text>"
        )
    return parts + _scale(panel.unit, low, high, left + _SIDE + 20, top)


def _places(ticks: Sequence[Tick], count: int) -> list[tuple[str, float, float]]:
    """Returns text, start and size of each tick that is shown. Ticks are left out where labels would touch."""
    least = max(1, -(-len(ticks) * 15 // _SIDE))
    kept = ticks[::least]
    ends = [*(tick.start for tick in kept[1:]), count]
    cell = _SIDE / count
    return [(tick.text, tick.start * cell, (end - tick.start) * cell) for tick, end in zip(kept, ends, strict=True)]


def _scale(unit: str, low: float, high: float, left: int, top: int) -> list[str]:
    ramp = np.linspace(high, low, 128).reshape(-1, 1)
    png = base64.b64encode(png_bytes(coloured(ramp, low, high))).decode()
    middle = (low + high) / 2
    labels = ((0, high), (_SIDE // 2, middle), (_SIDE, low)) if high > low else ((_SIDE // 2, middle),)
    return [
        (
            f'<image x="{left}" y="{top}" width="14" height="{_SIDE}" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{png}"/>'
        ),
        f'<text x="{left}" y="{top - 10}">{escape(unit)}</text>',
        *(f'<text x="{left + 20}" y="{top + y + 4}">{value:.4g}</text>' for y, value in labels),
    ]


def _range(values: Values) -> tuple[float, float]:
    there = values[np.isfinite(values)]
    return (float(there.min()), float(there.max())) if there.size else (0.0, 0.0)


def _enlarged(cells: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Returns each cell as a block of equal pixels, because some viewers ignore `image-rendering` and blur single
    pixels.
    """
    rows, columns = (max(1, _SIDE // count) for count in cells.shape[:2])
    return cells.repeat(rows, axis=0).repeat(columns, axis=1)


def save_heat_map(chip: Topology, matrix: ProbeMatrix, path: Path) -> None:
    """Draws latency beside bandwidth, PEs down and memories along, to *path*. Raises OSError, which names the file."""
    picture = heat_map(
        f"{chip.name}: every PE (down) reads {matrix.nbytes} B of every memory (along), alone",
        [
            HeatMapPanel(title="latency", unit="ns", values=latency_ns(matrix)),
            HeatMapPanel(title="bandwidth", unit="GB/s", values=matrix.bandwidth_gbs),
        ],
        _ticks(matrix.sources),
        _ticks(matrix.memories),
    )
    write_whole(path, picture.encode())


def _ticks(names: tuple[str, ...]) -> list[Tick]:
    """Returns a label for each node where there are few, otherwise for each cube."""
    if len(names) <= LARGEST_WHOLE:
        return [Tick(number, short_name(name)) for number, name in enumerate(names)]
    groups = groupby(range(len(names)), key=lambda number: ".".join(names[number].split(".")[:2]))
    return [Tick(next(iter(members)), cube) for cube, members in groups]
