"""Views of elements at strides, also of types that numpy has no name for."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided


def strided(elements: npt.NDArray[Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any]:
    """A view of *elements* from the first one on, in *shape*, at *strides* in bytes. Writes go to *elements*.

    The view is made of the bits of the elements, because numpy's function knows no type of 8-bit floats.
    """
    bits = elements.view(f"u{elements.itemsize}")
    return as_strided(bits, shape, strides, writeable=elements.flags.writeable).view(elements.dtype)
