"""The initial memory of `run`: a saved memory, arrays at addresses, or both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.cli.output import UsageError
from kb_dataexec.cli.outputs import load_array, place_of
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.names import memory_name
from kb_dataexec.memory.store import MemoryStore
from kb_messages import OFFSET_BITS, DType

_LARGEST: Final = 1 << OFFSET_BITS
"""The size in bytes of a memory of unknown size. Source: the bits of the offset in an address."""


def initial_memory(saved: Path | None, inputs: Sequence[str], log: OpLog) -> MemoryStore:
    """Returns the memory saved in the folder *saved*, with the arrays of *inputs* written to it.

    Without a folder, the memory has all memories that the log and the inputs name. An input is ADDRESS=FILE.npy and
    puts the bytes of the array, row by row, at a physical address. ADDRESS:DTYPE=FILE.npy casts the array first. Raises
    UsageError for any other input, and StoreError for an input outside a saved memory.
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


def _input(text: str) -> tuple[int, int, Array]:
    place, _, file = text.partition("=")
    address, colon, dtype = place.partition(":")
    if not file or not address or (colon and dtype not in list(DType)):
        fix = f"write it like 0x1000000000000=a.npy or 0x1000000000000:f16=a.npy; types are {', '.join(DType)}"
        raise UsageError("--input", repr(text[:200]), "ADDRESS[:DTYPE]=FILE.npy", fix)
    owner, offset = place_of("--input", address)
    array = load_array(Path(file))
    if not array.size:
        raise UsageError(file, "an array without elements", "one element or more")
    return owner, offset, cast(array, DType(dtype)) if dtype else array
