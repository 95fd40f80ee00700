"""The op log of a row softmax on many PEs, as the engine would write it: a million small records.

Each program takes one row at a time, as `benchmarks/softmax.py` does with `rows=1`: a load, seven math commands of
FETCH, MATH and STORE, and a store, which makes 23 records a row. Programs take turns, one command each, as they do when
all PEs run in step.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec import MemoryLogWriter, MemoryStore, OpLog
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE
from kb_messages import DType, MemorySpace, OpKind, Role, owner_of

X, W, LARGEST, SHIFTED, POWERS, TOTAL, QUOTIENT, RESULT = range(8)
"""The values of a row. Each has its own buffer in TCM."""
MATH: Final = (
    ('{"op":"copy"}', (X,), W),
    ('{"op":"max","axis":1}', (W,), LARGEST),
    ('{"op":"sub"}', (W, LARGEST), SHIFTED),
    ('{"op":"exp"}', (SHIFTED,), POWERS),
    ('{"op":"sum","axis":1}', (POWERS,), TOTAL),
    ('{"op":"div"}', (POWERS, TOTAL), QUOTIENT),
    ('{"op":"copy"}', (QUOTIENT,), RESULT),
)
PER_ROW: Final = 3 * len(MATH) + 2
REGISTERS_NBYTES: Final = 1 << 18


class Softmax(NamedTuple):
    """A log, the memory before it, the input *x*, and the parts of the f16 result, one for each PE.

    A part is the owner, offset, rows, bytes of a row, and stride.
    """

    log: OpLog
    memory: MemoryStore
    parts: list[tuple[int, int, int, int, int]]
    x: np.ndarray


class _Operand(NamedTuple):
    role: Role
    space: MemorySpace
    offset: int
    per_row: int
    cols: int
    dtype: DType
    release: bool = False


def softmax(rows: int, cols: int, n_pes: int) -> Softmax:
    """The log for *rows* rows, a multiple of *n_pes*. The slice of each PE holds its rows of X, then its rows of Y."""
    turns = rows // n_pes
    templates = _templates(cols, turns)
    writer = MemoryLogWriter()
    ops = np.zeros((turns, PER_ROW, n_pes), OPS_DTYPE)
    command = np.array([seq for seq, *_ in templates])
    turn, number, pe = np.ogrid[:turns, :PER_ROW, :n_pes]
    ops["command_seq"] = (turn * (len(MATH) + 2) + command[number]) * n_pes + pe
    ops["stage_index"] = (number - 1) % 3 * ((number > 0) & (number < PER_ROW - 1))
    ops["op_id"] = (turn * PER_ROW + number) * n_pes + pe
    for column, values in zip(("kind", "name", "params"), list(zip(*templates, strict=True))[1:4], strict=True):
        texts = values if column == "kind" else [writer.intern(text) for text in values]
        ops[column] = np.array(texts)[number]
    ops["component"], ops["line"] = writer.intern("pe"), writer.intern("softmax.py:24")
    operands = [_rows(operand, n, ops) for n, each in enumerate(templates) for operand in each[4]]
    table = np.concatenate([each.reshape(-1) for each in operands])
    writer.append(ops.reshape(-1), table.take(np.argsort(table["op_id"], kind="stable")))
    log = writer.close()
    assert isinstance(log, OpLog)
    x = (3 * np.random.default_rng(0).standard_normal((rows, cols), dtype=np.float32)).astype(np.float16)
    return Softmax(log, _memory(x, n_pes), _parts(turns, cols, n_pes), x)


def _templates(cols: int, turns: int) -> list[tuple[int, OpKind, str, str, list[_Operand]]]:
    """(command, kind, name, params, operands) of each record of one row."""
    wide, narrow, tall = (DType.F32, cols), (DType.F16, cols), (DType.F32, 1)
    shapes = [narrow, wide, tall, wide, wide, tall, wide, narrow]

    def at(role: Role, space: MemorySpace, value: int, place: int, release: bool = False) -> _Operand:
        dtype, length = shapes[value]
        return _Operand(role, space, place * 4 * cols, 0, length, dtype, release)

    def hbm(role: Role, base: int) -> _Operand:
        return _Operand(role, MemorySpace.HBM, base, 2 * cols, cols, DType.F16)

    tcm, reg = MemorySpace.TCM, MemorySpace.REG
    found = [(0, OpKind.MEMORY, "dma_read", "{}", [hbm(Role.SRC, 0), at(Role.DST, tcm, X, X)])]
    for seq, (params, inputs, out) in enumerate(MATH, start=1):
        pairs = [(at(Role.SRC, tcm, v, v), at(Role.DST, reg, v, n)) for n, v in enumerate(inputs)]
        used = [at(Role.IN, reg, v, n, True) for n, v in enumerate(inputs)]
        stored = [at(Role.SRC, reg, out, 2, True), at(Role.DST, tcm, out, out)]
        found += [
            (seq, OpKind.MEMORY, "fetch", "{}", [side for pair in pairs for side in pair]),
            (seq, OpKind.MATH, "math", params, [*used, at(Role.OUT, reg, out, 2)]),
            (seq, OpKind.MEMORY, "store", "{}", stored),
        ]
    y = hbm(Role.DST, 2 * cols * turns)
    return [*found, (len(MATH) + 1, OpKind.MEMORY, "dma_write", "{}", [at(Role.SRC, tcm, RESULT, RESULT), y])]


def _rows(operand: _Operand, number: int, ops: np.ndarray) -> np.ndarray:
    """One operand of record *number* of each row, as a table of (turns, PEs)."""
    turns, _, n_pes = ops.shape
    table = np.zeros((turns, n_pes), OPERAND_DTYPE)
    table["op_id"] = ops["op_id"][:, number]
    table["role"], table["space"], table["dtype"] = operand.role, operand.space.code, operand.dtype.info.code
    table["release"] = operand.release
    table["owner"] = [owner_of(0, 0, operand.space, pe) for pe in range(n_pes)]
    table["offset"] = operand.offset + operand.per_row * np.arange(turns)[:, None]
    table["rows"], table["row_nbytes"] = 1, operand.cols * operand.dtype.nbytes
    table["stride"] = table["row_nbytes"]
    return table


def _parts(turns: int, cols: int, n_pes: int) -> list[tuple[int, int, int, int, int]]:
    at = 2 * cols * turns
    return [(owner_of(0, 0, MemorySpace.HBM, pe), at, turns, 2 * cols, 2 * cols) for pe in range(n_pes)]


def _memory(x: np.ndarray, n_pes: int) -> MemoryStore:
    sizes = {MemorySpace.HBM: 4 * x.nbytes, MemorySpace.TCM: 1 << 21, MemorySpace.REG: REGISTERS_NBYTES}
    store = MemoryStore(
        (owner_of(0, 0, space, pe), nbytes, f"{space}{pe}") for space, nbytes in sizes.items() for pe in range(n_pes)
    )
    for pe, part in enumerate(np.split(x, n_pes)):
        store.write_tensor(owner_of(0, 0, MemorySpace.HBM, pe), 0, part)
    return store
