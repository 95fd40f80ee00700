"""MEMORY ops: DMA_READ, FETCH, STORE and DMA_WRITE. All of them move rectangles, and cast if the types differ.

Slots of messages that come free are released here too.
"""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.memory.store import MemoryStore
from kb_messages import Role


def moves(op: Op) -> list[tuple[OperandRow, OperandRow]]:
    """Returns the (source, destination) pairs of a memory op.

    Raises LogError unless its operands are SRC, DST, SRC, DST, ... and each pair agrees in rows and columns.
    """
    sources, targets = op.operands[::2], op.operands[1::2]
    roles = [row.role for row in op.operands]
    if not roles or roles != [Role.SRC, Role.DST] * len(targets):
        found = ", ".join(Role(role).name for role in roles) or "none"
        raise op.error(f"operands {found}", "SRC, DST pairs")
    for source, target in zip(sources, targets, strict=True):
        if source.shape != target.shape:
            raise op.error(f"a move of {source} to {target}", "the same rows and columns")
    return list(zip(sources, targets, strict=True))


def run(op: Op, store: MemoryStore) -> None:
    """Reads all sources, releases sources with `release`, and writes all destinations."""
    pairs = moves(op)
    values = op.read(store, [source for source, _ in pairs])
    if len(values) > 1:
        values = [np.array(value) for value in values]
    for (_, target), value in zip(pairs, values, strict=True):
        op.write(store, target, cast(value, target.dtype))


def release(op: Op, store: MemoryStore) -> None:
    """Releases the operands of *op*, whatever they hold."""
    for row in op.operands:
        store.release(*row.bytes_of)
