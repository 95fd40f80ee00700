"""RowRoom: one array into which the rows of a table are read, file by file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_BLOCK_NBYTES: Final = 1 << 25
"""Blocks of this size go back to the system as soon as they are free. Source: DEFAULT_MMAP_THRESHOLD_MAX,
mallopt(3)."""


class RowRoom:
    """An array for all rows with columns *dtype* in *files*, in their order. The caller reads each file into `free`.

    Touching memory for the first time costs more than copying rows into it, and joining the rows of all files
    afterwards would touch twice as much. Rows from elsewhere are copied into blocks, which are freed one by one while
    all rows are joined.
    """

    def __init__(self, dtype: np.dtype[Any], files: Iterable[Path]) -> None:
        self._room = np.empty(0, dtype)
        with suppress(MemoryError):  # reading the files raises the error
            self._room = np.empty(nbytes_of(files) // dtype.itemsize, dtype)
        self._block = np.empty(0, dtype)
        self._used = 0
        self._taken: list[Array] = []

    @property
    def free(self) -> Array:
        """The part of the array that is not used yet."""
        return self._room[self._used :]

    def take(self, rows: Array) -> None:
        """Appends *rows*: either the first rows of `free`, or other rows, which are copied."""
        if np.may_share_memory(rows, self._room):
            self._used += len(rows)
            self._taken.append(rows)
            return
        while len(rows):
            if not len(self._block):
                self._block = np.empty(_BLOCK_NBYTES // rows.itemsize, rows.dtype)
            part = self._block[: len(rows)]
            part[:] = rows[: len(part)]
            self._taken.append(part)
            self._block, rows = self._block[len(part) :], rows[len(part) :]

    def joined(self) -> Array:
        """Returns all rows as one array. The RowRoom is empty then."""
        n_rows = sum(map(len, self._taken))
        if self._used == n_rows:
            return self._room[:n_rows]
        found, end = np.empty(n_rows, self._room.dtype), n_rows
        self._block = self._room = found[:0]
        while self._taken:
            part = self._taken.pop()
            found[end - len(part) : end] = part
            end -= len(part)
        return found


def nbytes_of(files: Iterable[Path]) -> int:
    """The bytes of *files* up to the first missing one. Nobody reads the files behind it."""
    nbytes = 0
    with suppress(OSError):
        for file in files:
            nbytes += os.stat(file).st_size
    return nbytes
