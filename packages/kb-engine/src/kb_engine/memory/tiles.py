"""Tiles in TCM: loads make them from bytes of memories, and stores cut parts from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from kb_dataexec import numpy_dtype
from kb_messages import DType


def strided(elements: npt.NDArray[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any]:
    """A view of *elements* from the first one on, in *shape*, at *strides* in bytes. Writes go to *elements*.

    The view is made of the bits of the elements, because numpy's function knows no type of 8-bit floats.
    """
    bits = elements.view(f"u{elements.itemsize}")
    return as_strided(bits, shape, strides, writeable=elements.flags.writeable).view(elements.dtype)


class TilePart(NamedTuple):
    """`rows x cols` elements of a tile, whose elements are numbered row by row: rows `pitch` apart from `start` on."""

    start: int
    pitch: int
    rows: int
    cols: int

    def of(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The part of all the *elements* of a tile: a view if these are adjacent."""
        flat = np.ascontiguousarray(elements).reshape(-1)
        nbytes = flat.itemsize
        return strided(flat[self.start :], (self.rows, self.cols), (self.pitch * nbytes, nbytes))


class MadeTile(NamedTuple):
    """A tile of `size` elements: loaded elements go to `parts`, one after the other, and all others are `element`."""

    size: int
    dtype: DType
    element: bytes
    parts: tuple[TilePart, ...]

    def of(self, loaded: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """The elements of the tile, read-only. *loaded* has the elements of each part."""
        target = numpy_dtype(self.dtype)
        whole = np.full(self.size, np.frombuffer(self.element, target), target)
        for part, elements in zip(self.parts, loaded, strict=True):
            part.of(whole)[...] = elements
        whole.flags.writeable = False
        return whole
