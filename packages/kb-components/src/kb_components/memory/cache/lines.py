"""The lines of a cache that a request touches."""

from __future__ import annotations

import numpy as np

from kb_components.memory.cache.tags import Lines
from kb_messages import OFFSET_MASK, CountedPieces, Rectangle

_MOST_SHAPES = 1 << 10


class LineFinder:
    """Finds the lines of *line_nbytes* bytes that requests touch.

    The lines of one shape of request are computed once.
    """

    def __init__(self, line_nbytes: int) -> None:
        self._line_nbytes = line_nbytes
        self._known: dict[tuple[int, int, int, int], Lines] = {}

    def lines(self, memory: Rectangle) -> Lines:
        """The numbers of all lines that bytes of *memory* lie in, each once and in ascending order."""
        pieces = memory.pieces if isinstance(memory, CountedPieces) else (memory,)
        if len(pieces) == 1:
            return self._of_rectangle(pieces[0])
        return np.unique(np.concatenate([self._of_rectangle(piece) for piece in pieces]))

    def _of_rectangle(self, memory: Rectangle) -> Lines:
        first, within = divmod(memory.base & OFFSET_MASK, self._line_nbytes)
        key = within, memory.rows, memory.row_nbytes, memory.stride
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_SHAPES:
                self._known.clear()
            found = self._known[key] = self._of_shape(*key)
        return found + first

    def _of_shape(self, within: int, rows: int, row_nbytes: int, stride: int) -> Lines:
        begins = within + stride * np.arange(rows, dtype=np.int64)
        first, last = begins // self._line_nbytes, (begins + row_nbytes - 1) // self._line_nbytes
        each = np.arange(int((last - first).max()) + 1)
        lines = first[:, None] + each
        return np.unique(lines[lines <= last[:, None]])
