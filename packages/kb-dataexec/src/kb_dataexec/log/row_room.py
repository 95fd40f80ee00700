"""RowRoom: one array for the rows of a table that is read file by file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kb_dataexec.arrays.dtypes import Array


class RowRoom:
    """Room for all rows with columns *dtype* in *files*, in their order. Whoever reads a file reads it into `free`.

    Memory that is touched for the first time costs more than the rows' copy. Joining the rows of all files afterwards
    would touch twice as much.
    """

    def __init__(self, dtype: np.dtype[Any], files: Iterable[Path]) -> None:
        self._room = np.empty(0, dtype)
        with suppress(MemoryError):  # who reads the files says what is wrong
            self._room = np.empty(nbytes_of(files) // dtype.itemsize, dtype)
        self._used = 0
        self._taken: list[Array] = []

    @property
    def free(self) -> Array:
        """What is left of the room."""
        return self._room[self._used :]

    def take(self, rows: Array) -> None:
        """Count *rows* as the next ones: the first of `free`, or others where these had no room."""
        if np.may_share_memory(rows, self._room):
            self._used += len(rows)
        self._taken.append(rows)

    @property
    def rows(self) -> Array:
        """All rows that were taken, as one array."""
        if self._used == sum(map(len, self._taken)):
            return self._room[: self._used]
        return np.concatenate(self._taken)


def nbytes_of(files: Iterable[Path]) -> int:
    """The bytes of *files* up to the first one that is missing, because nobody reads those behind it."""
    nbytes = 0
    with suppress(OSError):
        for file in files:
            nbytes += os.stat(file).st_size
    return nbytes
