"""Arrays of addresses. An address can have more than the 63 bits of numpy's integers, as in SIPs from number 8 on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kb_messages import OFFSET_BITS, OFFSET_MASK

Ints = npt.NDArray[np.int64]


def addresses_of(addresses: Any) -> npt.NDArray[Any]:
    """*addresses*, nested sequences, as an array: of int64, or of Python's integers if one needs more bits."""
    try:
        return np.array(addresses, dtype=np.int64)
    except OverflowError:
        return np.array(addresses, dtype=object)


def owners_and_offsets(addresses: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """The two parts of each of *addresses*."""
    owners, offsets = addresses >> OFFSET_BITS, addresses & OFFSET_MASK
    return owners.astype(np.int64, copy=False), offsets.astype(np.int64, copy=False)
