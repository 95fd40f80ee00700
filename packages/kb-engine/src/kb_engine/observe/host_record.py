"""The record of a host write: one op that copies an immediate into a memory."""

from __future__ import annotations

import numpy as np

from kb_dataexec import LogWriter
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE
from kb_engine.observe.observer import Rows
from kb_messages import Matrix, MemorySpace, OpKind, PhysAddr, Role, split_address

_TEXTS = {"name": "host_write", "component": "host", "line": "host", "params": "{}"}


def host_write_tables(
    writer: LogWriter, matrix: Matrix, data: bytes, ids: tuple[int, int], times_ps: tuple[int, int]
) -> tuple[Rows, Rows]:
    """The ops and operands of a write of *data* to *matrix*, with *data* added to the immediates of *writer*.

    *ids* are the place in command order and the op id, *times_ps* the begin and the end.
    """
    ops = np.zeros(1, dtype=OPS_DTYPE)
    for column, text in _TEXTS.items():
        ops[column] = writer.intern(text)
    ops["command_seq"], ops["op_id"] = ids
    ops["kind"] = OpKind.MEMORY
    ops["t_ready_ps"] = ops["t_start_ps"] = times_ps[0]
    ops["t_end_ps"] = ops["t_out_ps"] = times_ps[1]
    operands = np.zeros(2, dtype=OPERAND_DTYPE)
    operands["op_id"], operands["dtype"] = ids[1], matrix.dtype.info.code
    operands["rows"], operands["row_nbytes"] = matrix.rows, matrix.row_nbytes
    operands["role"] = (Role.SRC, Role.DST)
    operands["space"] = (MemorySpace.IMMEDIATE.code, PhysAddr.decode(matrix.address).space.code)
    owner, offset = split_address(matrix.address)
    operands["owner"] = (0, owner)
    operands["offset"] = (writer.immediate(data), offset)
    operands["stride"] = (matrix.row_nbytes, matrix.stride)
    return ops, operands
