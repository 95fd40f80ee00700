"""Finds the tensors of a run by their places in memory."""

from __future__ import annotations

import numpy as np

from kb_cli.run.rules.chip_places import Array, tensor_starts
from kb_engine import Host
from kb_messages import OFFSET_BITS


def tensors_at(host: Host, owner: Array, offset: Array) -> Array:
    """The number in `host.tensors` of the tensor whose block begins last at or before each place; -1 without one."""
    owners, offsets, numbers = tensor_starts(host)
    if not len(owners) or not len(owner):
        return np.full(len(owner), -1, np.int64)
    known = np.unique(owners)
    first = np.searchsorted(known, owners) << OFFSET_BITS | offsets
    of_known = np.minimum(np.searchsorted(known, owner), len(known) - 1)
    at = np.maximum(np.searchsorted(first, of_known << OFFSET_BITS | offset, side="right") - 1, 0)
    is_there = (known[of_known] == owner) & (owners[at] == owner) & (offsets[at] <= offset)
    return np.where(is_there, numbers[at], -1)
