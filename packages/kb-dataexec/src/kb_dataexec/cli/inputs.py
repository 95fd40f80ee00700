"""The initial memory of `run`: a saved memory, arrays at addresses, or both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from kb_dataexec.cli.output import UsageError
from kb_dataexec.cli.outputs import load_array
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.names import memory_name
from kb_dataexec.memory.store import MemoryStore
from kb_messages import OFFSET_BITS, split_address

_LARGEST: Final = 1 << OFFSET_BITS
"""The size in bytes of a memory whose size nothing tells. Source: the bits of the offset in an address."""


def initial_memory(saved: Path | None, inputs: Sequence[str], log: OpLog) -> MemoryStore:
    """The memory saved in the folder *saved*, with the arrays of *inputs* written to it.

    Without a folder, the memory has all memories that the log and the inputs name. An input is ADDRESS=FILE.npy and
    puts the bytes of the array, row by row, at a physical address. Raises UsageError for any other input, and
    StoreError for an input outside a saved memory.
    """
    arrays = [_input(text) for text in inputs]
    if saved is not None:
        memory = MemoryStore.load(saved)
    else:
        named = {int(owner) for owner in np.unique(log.operands["owner"])} | {owner for owner, _, _ in arrays}
        memory = MemoryStore((owner, _LARGEST, memory_name(owner)) for owner in sorted(named - {0}))
    for owner, offset, array in arrays:
        memory.write_tensor(owner, offset, array, copy=False)
    return memory


def _input(text: str) -> tuple[int, int, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    address, _, file = text.partition("=")
    try:
        if not file:
            raise ValueError
        at = int(address, 0)
    except ValueError:
        needs = "ADDRESS=FILE.npy"
        raise UsageError("--input", repr(text), needs, "write it like 0x40000000000=a.npy") from None
    return *split_address(at), load_array(Path(file))
