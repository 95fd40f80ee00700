"""Numbers as colours or as shades of one colour, and these as a PNG image."""

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
_SHADE = (42, 120, 214)
"""RGB of pictures in one colour."""


def coloured(values: Values, low: float, high: float) -> npt.NDArray[np.uint8]:
    """Returns the RGB of each value between *low* and *high*, (rows, columns, 3); grey for NaN."""
    missing = ~np.isfinite(values)
    at = np.where(missing, low, values) - low
    at = at / (high - low) if high > low else at * 0 + 0.5
    positions = np.linspace(0, 1, len(_COLOURS))
    channels = [np.interp(at, positions, _COLOURS[:, channel]) for channel in range(3)]
    pixels: npt.NDArray[np.uint8] = np.stack(channels, axis=-1).round().astype(np.uint8)
    pixels[missing] = _MISSING
    return pixels


def png_bytes(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Returns pixels (rows x columns x RGB) as a PNG."""
    rows, columns, _ = pixels.shape
    lines = np.zeros((rows, 1 + 3 * columns), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)

    return _file(struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0), [], lines)


def shaded_png(levels: npt.NDArray[np.int64], most: int) -> bytes:
    """Returns *levels* (rows x columns, 0 to *most*, at most 15) as a PNG of one colour: 0 is clear, and *most* is
    opaque.

    A pixel takes 4 bits and has no background, so the picture suits a light and a dark page.
    """
    rows, columns = levels.shape
    padded = np.zeros((rows, columns + columns % 2), np.uint8)
    padded[:, :columns] = levels
    lines = np.zeros((rows, 1 + padded.shape[1] // 2), np.uint8)
    lines[:, 1:] = padded[:, ::2] << 4 | padded[:, 1::2]
    alpha = bytes(round(255 * level / most) for level in range(most + 1))
    header = struct.pack(">IIBBBBB", columns, rows, 4, 3, 0, 0, 0)
    return _file(header, [(b"PLTE", bytes(_SHADE) * (most + 1)), (b"tRNS", alpha)], lines)


def _file(header: bytes, further: list[tuple[bytes, bytes]], lines: npt.NDArray[np.uint8]) -> bytes:
    """Returns a PNG file. Source: W3C, Portable Network Graphics, section 11."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    chunks = [(b"IHDR", header), *further, (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)
