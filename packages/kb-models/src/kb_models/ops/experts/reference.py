"""Products of references in float64, a part at a time."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_models.layout.value import Array

_ELEMENTS: Final = 1 << 24
"""The elements of a factor that are in float64 at a time: 128 MiB."""


def product(a: Array, b: Array) -> Array:
    """a @ b in float64, with a part of the columns of *b* at a time."""
    wide = a.astype(np.float64)
    step = max(1, _ELEMENTS // len(b))
    blocks = [wide @ b[:, at : at + step].astype(np.float64) for at in range(0, b.shape[1], step)]
    return np.concatenate(blocks, axis=1)
