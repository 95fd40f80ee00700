"""Packs the rows of an auxiliary table: the row of a command, 125 bytes, takes about one byte.

Rows that follow each other are similar. So each column becomes the differences from row to row, modulo two to the power
of its bits. Its lowest bytes come first, then the bytes above them, and so on. Most of these bytes are zero or repeat,
and zlib packs them. A checksum of these bytes stands before them, because zlib does not look at their last bits.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_messages import MOST_NBYTES, LogError

PACKED_SUFFIX: Final = ".z"
_LEVEL: Final = 1
"""The level of zlib. Source: measured; level 6 takes half as long again and saves less than a byte a record."""
_CHECKSUM_NBYTES: Final = 4


def packed_path(folder: Path, name: str, chunk: int) -> Path:
    """The path of a chunk of the auxiliary table *name*."""
    return folder / f"{name}-{chunk:06d}{PACKED_SUFFIX}"


def pack(table: Array, where: str) -> bytes:
    """Packs the rows of *table*. Raises LogError, which begins with *where*, for a gibibyte of rows or more."""
    if table.nbytes >= MOST_NBYTES:
        needs = f"less than {MOST_NBYTES}"
        raise LogError(where, f"{table.nbytes} bytes of rows in one chunk", needs, "append them in several chunks")
    planes = b"".join(_planes(table[name]) for name in table.dtype.names or ())
    data = zlib.compress(planes, _LEVEL)
    return zlib.crc32(data).to_bytes(_CHECKSUM_NBYTES, "little") + data


def unpack(data: bytes, dtype: np.dtype[Any], where: str) -> Array:
    """Unpacks rows with columns *dtype* that `pack` packed.

    Raises LogError, which begins with *where*, for other bytes.
    """
    found = zlib.decompressobj()
    body = data[_CHECKSUM_NBYTES:]
    try:
        planes = found.decompress(body, MOST_NBYTES) if zlib.crc32(body) == _checksum(data) else b""
    except zlib.error:
        planes = b""
    n_rows, rest = divmod(len(planes), dtype.itemsize)
    if not found.eof or found.unused_data or rest:
        raise LogError(where, f"{len(data)} bytes that are no packed rows", f"rows of {dtype.itemsize} bytes, packed")
    table = np.empty(n_rows, dtype)
    at = 0
    for name in dtype.names or ():
        kind = dtype[name]
        column = np.frombuffer(planes, np.uint8, n_rows * kind.itemsize, at).reshape(kind.itemsize, n_rows)
        np.cumsum(np.ascontiguousarray(column.T).view(kind)[:, 0], dtype=kind, out=table[name])
        at += column.size
    return table


def _planes(column: Array) -> bytes:
    """The differences from row to row as bytes: the lowest byte of all rows, then the next byte of all rows, ..."""
    differences = np.empty(len(column), column.dtype)
    differences[:1] = column[:1]
    np.subtract(column[1:], column[:-1], out=differences[1:])  # twice as quick as np.diff for tables of some 100 rows
    return differences.view(np.uint8).reshape(-1, column.itemsize).T.tobytes()


def _checksum(data: bytes) -> int:
    return int.from_bytes(data[:_CHECKSUM_NBYTES], "little")
