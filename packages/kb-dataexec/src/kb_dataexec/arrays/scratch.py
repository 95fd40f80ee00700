"""Memory for values that are needed for a moment, kept for the next such values: touching fresh memory takes as long as
casting into it, or longer."""

from __future__ import annotations

import math
from threading import Lock
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_MOST_KEPT_NBYTES: Final = 1 << 27
"""Both factors of a product of 4096 x 4096 x 4096, as f32."""

_kept: list[Array] = []
_lock = Lock()


class Scratch:
    """What `empty` gives is the caller's until the `with` statement ends; then others may have it."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: list[Array] = []

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            _kept.extend(self._given)
            _kept.sort(key=lambda buffer: buffer.nbytes)
            while sum(buffer.nbytes for buffer in _kept) > _MOST_KEPT_NBYTES:
                _kept.pop()
        self._given.clear()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """As `np.empty`."""
        nbytes = math.prod(shape) * dtype.itemsize
        with _lock:
            fitting = next((at for at, buffer in enumerate(_kept) if buffer.nbytes >= nbytes), None)
            buffer = np.empty(nbytes, np.uint8) if fitting is None else _kept.pop(fitting)
        self._given.append(buffer)
        return buffer[:nbytes].view(dtype).reshape(shape)
