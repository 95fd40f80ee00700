"""A pool of scratch buffers. Fresh memory costs page faults, which take as long as the cast that fills it."""

from __future__ import annotations

import math
from threading import Lock
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_MOST_KEPT_NBYTES: Final = 1 << 27
"""The most bytes that the pool keeps: both factors of a product of 4096 x 4096 x 4096, as f32."""

_kept: list[Array] = []
_lock = Lock()


class Scratch:
    """A loan of buffers. The arrays of `empty` return to the pool when the `with` statement ends."""

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
        """Returns an uninitialised array. Do not use it after the `with` statement."""
        nbytes = math.prod(shape) * dtype.itemsize
        with _lock:
            fitting = next((at for at, buffer in enumerate(_kept) if buffer.nbytes >= nbytes), None)
            buffer = np.empty(nbytes, np.uint8) if fitting is None else _kept.pop(fitting)
        self._given.append(buffer)
        return buffer[:nbytes].view(dtype).reshape(shape)
