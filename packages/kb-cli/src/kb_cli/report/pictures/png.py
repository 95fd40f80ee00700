"""PNG images of numbers: as colours of a palette, and as shades of one colour."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

_SHADE = (42, 120, 214)
"""RGB of pictures in one colour."""
LEVELS: Final = 15
"""The number of shades above none. Work of less than half a shade is shown as the faintest one."""


def shades(covered: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Returns the shade of each share, 0 to LEVELS. Only a share of 0 has shade 0."""
    found: npt.NDArray[np.int64] = np.maximum(np.rint(covered * LEVELS), covered > 0).astype(np.int64)
    return found


def palette_png(numbers: npt.NDArray[np.uint8], colours: npt.NDArray[np.uint8]) -> bytes:
    """Returns pixels (rows x columns), which are numbers of *colours* (at most 256 x RGB), as a PNG. 0 is clear."""
    rows, columns = numbers.shape
    lines = np.zeros((rows, 1 + columns), np.uint8)
    lines[:, 1:] = numbers
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    return _file(header, [(b"PLTE", colours.tobytes()), (b"tRNS", b"\0")], lines)


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
