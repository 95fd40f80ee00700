"""Far accesses: the rectangles that DMA ops read and write in memories, as opposed to tile buffers and registers.

Programs share bytes through such accesses alone, or through the TCM of a PE, which `tcm_accesses` finds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.dma_ops import READ, WRITE
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.columns import columns_of
from kb_dataexec.log.tables import OpLog
from kb_messages import MemorySpace, OpKind, Role

_OPS: Final = ("op_id", "command_seq", "name", "kind", "component", "line", "t_start_ps", "t_end_ps")
_RECTANGLE: Final = ("owner", "offset", "rows", "row_nbytes", "stride")
_FETCH_OR_STORE: Final = ("fetch", "store")
_HOST_MOVES: Final = ("host_copy", "host_write")


class AccessKind(IntEnum):
    """What an access does with its bytes. An atomic reads and writes them at once."""

    READ = 0
    WRITE = 1
    ATOMIC = 2


class Accesses(NamedTuple):
    """Accesses in columns. `kind` has AccessKinds, and the last columns before it are the rectangle of the bytes.

    `name`, `component` and `line` are numbers of strings of the log. An access is one operand of the op `op_id`.
    """

    op_id: Array
    command_seq: Array
    name: Array
    component: Array
    line: Array
    t_start_ps: Array
    t_end_ps: Array
    owner: Array
    offset: Array
    rows: Array
    row_nbytes: Array
    stride: Array
    kind: Array

    def at(self, which: Array) -> Accesses:
        """Returns the accesses that *which* marks or numbers."""
        return Accesses(*(column[which] for column in self))

    @classmethod
    def joined(cls, parts: list[Accesses]) -> Accesses:
        """Returns the accesses of all *parts*, at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @property
    def with_atomics(self) -> tuple[Accesses, Array]:
        """The accesses with all reads of commands with an atomic as atomics; and whether each of these is such a read.

        The read brings the value from before the atomic.
        """
        in_atomic = np.isin(self.command_seq, self.command_seq[self.kind == AccessKind.ATOMIC])
        returns = in_atomic & (self.kind == AccessKind.READ)
        return self._replace(kind=np.where(returns, int(AccessKind.ATOMIC), self.kind)), returns

    @property
    def end(self) -> Array:
        """The offset behind the last byte of each access."""
        found: Array = self.offset + (self.rows - 1) * self.stride + self.row_nbytes
        return found


def far_accesses(chunk: OpLog) -> Accesses:
    """Returns the accesses of DMA ops of *chunk* on the side of the memory: what they read, write or change there.

    Constants are left out. *chunk* has the operands of its ops, and may have others.
    """
    read, write = (_number(chunk, name) for name in (READ, WRITE))
    return _accesses(chunk, read, write)


def tcm_accesses(chunk: OpLog, owners: Array) -> Accesses:
    """Returns the accesses to the TCMs *owners* by the ops of *chunk* that fetch operands and store results."""
    fetch, store = (_number(chunk, name) for name in _FETCH_OR_STORE)
    found = _accesses(chunk, fetch, store)
    return found.at(np.isin(found.owner, owners))


def host_accesses(chunk: OpLog) -> Accesses:
    """Returns the accesses of the host's writes and copies in *chunk*: what they read and write in memories."""
    copy, write = (_number(chunk, name) for name in _HOST_MOVES)
    read = _accesses(chunk, copy, -1)
    written = [_accesses(chunk, -1, name) for name in (copy, write)]
    return Accesses.joined([read, *written])


def _number(chunk: OpLog, name: str) -> int:
    return chunk.strings.index(name) if name in chunk.strings else -1


def _accesses(chunk: OpLog, read: int, write: int) -> Accesses:
    """The operands that ops of the name number *read* read, and those that ops of the name number *write* write."""
    names = np.ascontiguousarray(chunk.ops["name"])
    columns = columns_of(chunk.ops, _OPS, np.flatnonzero((names == read) | (names == write)))
    ids = columns["op_id"]
    operands = chunk.operands
    space, role = operands["space"], operands["role"]
    wanted = (space != MemorySpace.IMMEDIATE.code) & (space != MemorySpace.REG.code)
    wanted &= (role == Role.SRC) | (role == Role.DST) | (role == Role.OUT)
    near = np.flatnonzero(wanted)
    at, is_there = _find(ids, np.ascontiguousarray(operands["op_id"][near]))
    near, at = near[is_there], at[is_there]
    role = role[near]
    is_read, is_atomic = columns["name"][at] == read, columns["kind"][at] == OpKind.MATH
    kept = np.where(is_read, role == Role.SRC, role == np.where(is_atomic, Role.OUT, Role.DST))
    near, at, is_read, is_atomic = near[kept], at[kept], is_read[kept], is_atomic[kept]
    kind = np.where(is_read, AccessKind.READ, np.where(is_atomic, AccessKind.ATOMIC, AccessKind.WRITE))
    found = {name: columns[name][at] for name in _OPS if name != "kind"}
    found |= {name: operands[name][near].astype(np.int64) for name in _RECTANGLE}
    return Accesses(**found, kind=kind)


def _find(ids: Array, wanted: Array) -> tuple[Array, Array]:
    """Returns (the index of each of *wanted* in *ids*, whether it is there)."""
    if not len(ids) or not len(wanted):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    low, span = int(ids.min()), int(ids.max() - ids.min()) + 1
    if span <= 8 * len(ids) + 1024:
        table = np.full(span, -1, np.int64)
        table[ids - low] = np.arange(len(ids))
        inside = (wanted >= low) & (wanted < low + span)
        at = table[np.where(inside, wanted - low, 0)]
        return np.maximum(at, 0), inside & (at >= 0)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    at = order[place]
    return at, ids[at] == wanted
