"""Writes a log of compressed rows by hand: two copies of 8 x 4 elements of f32 by the DMA of one PE, in two chunks.

Command 0 copies A to B, and command 1 copies B to C, in four pieces of two rows each. Piece *i* of both together, op
*i*, ends at 10 + 10 i ps. The first chunk has ops 0 to 5. It tells of both commands, of which command 1 is not done.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from dataexec_gemm_log import HBM

from kb_dataexec import FolderLogWriter, MemoryStore
from kb_dataexec.log.compressed.chunk_format import CAUSES, COMMAND_TIMES, SLOTS, pack_chunk, rows_of
from kb_messages import (
    Axis,
    BufferNeeds,
    DType,
    OperandTemplate,
    PipelinePlan,
    Place,
    Role,
    StageTemplate,
    StageType,
    When,
    encode_plan,
    join_address,
)

A, B, C = 0x1000, 0x2000, 0x3000
VALUES = np.arange(32, dtype=np.float32).reshape(8, 4)
TEXTS = ("pe", "pe_dma", "kernel.py:3", "kernel.py:4", "transfer", "dma_read", "{}")
N_OPS, CHUNK_PS = 8, 65


def form(base=A, cols=4):
    """The plan of a copy as JSON. *base* is where its operands lie where no command says so."""
    rows, sides = Axis(dimension=0, total=8, tile=2), Axis(dimension=1, total=cols, tile=cols)
    operands = [
        OperandTemplate(
            role=role,
            place=Place.MEMORY,
            base=join_address(HBM, base),
            rows=rows,
            cols=sides,
            stride=16,
            dtype=DType.F32,
        )
        for role in (Role.SRC, Role.DST)
    ]
    stage = StageTemplate(
        stage_type=StageType.DMA_READ, component="pe_dma", when=When.EVERY_TILE, operands=tuple(operands)
    )
    return encode_plan(PipelinePlan(kind="transfer", grid=(4, 1, 1), stages=(stage,), buffers=BufferNeeds()))


class ChunkTables:
    """The tables of the two chunks as lists of rows, for a test to change, and the forms of each.

    `arrays` are further tables of each chunk, by their names in a chunk.
    """

    def __init__(self) -> None:
        done = self.command(0, done_ps=40)
        self.chunks = [self._chunk([done, self.command(1)]), self._chunk([self.command(1, done_ps=80)])]
        first, second = self.chunks
        first |= {"chunk": [[CHUNK_PS, 16]], "pes": [[0, -1, 0]], "parts": [[-1, 0, 2, 0, 0, 0], [-1, 0, -1, 2, 2, 20]]}
        second |= {"chunk": [[81, 16]], "parts": [[-1, 0, 2, 0, 0, 0]], "addresses": [[HBM, B], [HBM, C]]}
        first["addresses"] = [[HBM, A], [HBM, B], [HBM, B], [HBM, C]]
        first["records"] = [[op, 0, 10 * op, 10 * op + 10, 10 * op + 10] for op in range(2)]
        second["records"] = [[op, 0, 10 * op, 10 * op + 10, 10 * op + 10] for op in range(6, 8)]
        self.forms = [[form(A)], [form(B)]]
        self.arrays = [{}, {}]

    @staticmethod
    def command(number, done_ps=-1, seq=None):
        """The row of command *number*, with one ring of slots for input buffers that the plan does not use."""
        times = dict.fromkeys(COMMAND_TIMES, 0) | {"t_done_ps": done_ps}
        causes = dict.fromkeys(CAUSES, -1) | {"after": 0, "operand_ps": 0}
        row = [4 * number, number if seq is None else seq, 0, 2, 0, 0, *times.values()]
        return [*row, *causes.values(), 0, *[-1] * (len(SLOTS) - 1)]

    @staticmethod
    def _chunk(commands):
        return {"plans": [[0]], "stages": [[1, -1]], "slots": [[0, 64, 2, 0]], "commands": commands}

    def write(self, folder):
        """Write the log to *folder*. Its manifest fits it, whatever a test changed."""
        writer = FolderLogWriter(folder)
        for text in TEXTS:
            writer.intern(text)
        for tables, forms, arrays in zip(self.chunks, self.forms, self.arrays, strict=True):
            rows = {name: rows_of(name, chain(*rows)) for name, rows in tables.items()}
            writer.append_compressed(pack_chunk(rows | arrays, forms))
        writer.close()
        return folder


def memory():
    """The memory before the log, in which A holds VALUES."""
    store = MemoryStore([(HBM, 1 << 30, "hbm")])
    store.write_tensor(HBM, A, VALUES)
    return store
