"""Numbers as colours, and colours as a PNG image."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

_COLOURS = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], dtype=np.float64)
"""RGB from low to high. Source: five points of matplotlib's viridis, which stays readable in grey and for the
colour-blind."""
_MISSING = (200, 200, 200)


def coloured(values: Values, low: float, high: float) -> npt.NDArray[np.uint8]:
    """The RGB of each value between *low* and *high*; grey for NaN."""
    missing = ~np.isfinite(values)
    at = np.where(missing, low, values) - low
    at = at / (high - low) if high > low else at * 0 + 0.5
    positions = np.linspace(0, 1, len(_COLOURS))
    channels = [np.interp(at, positions, _COLOURS[:, channel]) for channel in range(3)]
    pixels: npt.NDArray[np.uint8] = np.stack(channels, axis=-1).round().astype(np.uint8)
    pixels[missing] = _MISSING
    return pixels


def png_bytes(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Pixels (rows x columns x RGB) as a PNG. Source: W3C, Portable Network Graphics, section 11."""
    rows, columns, _ = pixels.shape
    lines = np.zeros((rows, 1 + 3 * columns), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
