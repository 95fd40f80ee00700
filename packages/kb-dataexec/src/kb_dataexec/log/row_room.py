"""RowRoom: one array for the rows of a table that is read file by file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_BLOCK_NBYTES: Final = 1 << 25
"""So much memory goes back to the system as soon as it is free. Source: DEFAULT_MMAP_THRESHOLD_MAX, mallopt(3)."""


class RowRoom:
    """Room for all rows with columns *dtype* in *files*, in their order. Whoever reads a file reads it into `free`.

    Memory that is touched for the first time costs more than the rows' copy. Joining the rows of all files afterwards
    would touch twice as much. Rows that are in no file are copied into blocks, which are given back one by one while
    all rows are joined.
    """

    def __init__(self, dtype: np.dtype[Any], files: Iterable[Path]) -> None:
        self._room = np.empty(0, dtype)
        with suppress(MemoryError):  # who reads the files says what is wrong
            self._room = np.empty(nbytes_of(files) // dtype.itemsize, dtype)
        self._block = np.empty(0, dtype)
        self._used = 0
        self._taken: list[Array] = []

    @property
    def free(self) -> Array:
        """What is left of the room."""
        return self._room[self._used :]

    def take(self, rows: Array) -> None:
        """Count *rows* as the next ones: the first of `free`, or others, of which a copy is kept."""
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
        """All rows that were taken, as one array. The room is empty then."""
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
    """The bytes of *files* up to the first one that is missing, because nobody reads those behind it."""
    nbytes = 0
    with suppress(OSError):
        for file in files:
            nbytes += os.stat(file).st_size
    return nbytes
