"""Writes the op log of a tiled GEMM by hand, as a simulator would write it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kb_dataexec.arrays.dtypes import cast, numpy_dtype
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.logfile import MemoryLogWriter, OpLog
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.verify.tolerance import gemm_tolerance
from kb_messages import DType, MemorySpace, OpKind, Role, owner_of

HBM = owner_of(0, 0, MemorySpace.HBM, 0)
TCM = owner_of(0, 0, MemorySpace.TCM, 0)
REG = owner_of(0, 0, MemorySpace.REG, 0)
SPACE = {owner: MemorySpace(name).code for owner, name in ((HBM, "hbm"), (TCM, "tcm"), (REG, "reg"))}
REGIONS = [(HBM, 1 << 30, "hbm"), (TCM, 1 << 20, "tcm"), (REG, 1 << 18, "reg")]


def move(role: Role, owner: int, offset: int, rows: int, cols: int, stride: int, dtype: DType, release: int = 0):
    nbytes = cols * dtype.nbytes
    return (role, SPACE[owner], owner, offset, rows, nbytes, nbytes if rows == 1 else stride, dtype.info.code, release)


@dataclass
class LogBuilder:
    """Rows in the order they are added; op ids count up."""

    writer: MemoryLogWriter = field(default_factory=MemoryLogWriter)
    ops: list[tuple[int, ...]] = field(default_factory=list)
    operands: list[tuple[int, ...]] = field(default_factory=list)

    def add(
        self,
        place,
        kind: OpKind,
        name: str,
        operands,
        params: str = "",
        component: str = "pe0",
        line: str = "kernel.py:3",
        span_ps: tuple[int, int] | None = None,
    ) -> int:
        op_id = len(self.ops)
        texts = (self.writer.intern(text) for text in (name, component, line, params))
        start, end = span_ps or (op_id, op_id + 1)
        times = (start, start, end, end, 0, 0, 0, 0, 0, 0)
        self.ops.append((op_id, *place, kind, *texts, *times))
        self.operands += [
            (op_id, role, space, code, release, owner, offset, rows, row_nbytes, stride)
            for role, space, owner, offset, rows, row_nbytes, stride, code, release in operands
        ]
        return op_id

    def log(self) -> OpLog:
        self.writer.append(np.array(self.ops, OPS_DTYPE), np.array(self.operands, OPERAND_DTYPE))
        return self.writer.close()


@dataclass
class GemmProblem:
    """C (m x n, dtype out) = A (m x k) @ B (k x n), in row-major HBM, in tiles; K innermost, two tile buffers."""

    m: int
    n: int
    k: int
    tile: tuple[int, int, int]
    dtype: DType = DType.F16
    out: DType | None = None
    seed: int = 0
    command_seq: int = 0
    slots: int = 2
    transpose_b: bool = False

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.out = self.out or (self.dtype if self.dtype.is_float else DType.I32)
        shapes = ((self.m, self.k), (self.n, self.k) if self.transpose_b else (self.k, self.n))
        if self.dtype.is_float:
            self.a, self.b = (cast(rng.uniform(-1, 1, shape), self.dtype) for shape in shapes)
        else:
            self.a, self.b = (rng.integers(-128, 128, shape).astype(numpy_dtype(self.dtype)) for shape in shapes)
        align = 4096
        self.at_a = align
        self.at_b = self.at_a + (self.a.nbytes + align) // align * align
        self.at_c = self.at_b + (self.b.nbytes + align) // align * align

    @property
    def output(self) -> tuple[int, int, int, int, int]:
        nbytes = self.n * self.out.nbytes
        return (HBM, self.at_c, self.m, nbytes, nbytes)

    def memory(self) -> MemoryStore:
        store = MemoryStore(REGIONS)
        store.write_tensor(HBM, self.at_a, self.a)
        store.write_tensor(HBM, self.at_b, self.b)
        return store

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """(A @ B, |A| @ |B|) in float64."""
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        b = b.T if self.transpose_b else b
        return a @ b, np.abs(a) @ np.abs(b)

    def reference(self) -> tuple[np.ndarray, np.ndarray]:
        """(the output in float64, how far each element may be from it)."""
        expected, size = self.expected()
        return expected, gemm_tolerance(expected, size, self.k, self.out)

    def result(self, store: MemoryStore) -> np.ndarray:
        return store.read(*self.output, self.out)

    def log(self) -> OpLog:
        builder = LogBuilder()
        self.add_to(builder)
        return builder.log()

    def add_to(self, builder: LogBuilder) -> None:
        tm, tn, tk = self.tile
        tile_id = 0
        for m0 in range(0, self.m, tm):
            for n0 in range(0, self.n, tn):
                for k0 in range(0, self.k, tk):
                    self._add_tile(builder, tile_id, m0, n0, k0)
                    tile_id += 1

    def _add_tile(self, builder: LogBuilder, tile_id: int, m0: int, n0: int, k0: int) -> None:
        tm, tn, tk = self.tile
        m, n, k = min(tm, self.m - m0), min(tn, self.n - n0), min(tk, self.k - k0)
        d, acc, size = self.dtype, self.dtype.accumulator, self.dtype.nbytes
        slot = tile_id % self.slots * (1 << 14)
        tcm_a, tcm_b, tcm_c = slot, slot + (1 << 13), (1 << 15) + slot
        reg_a, reg_b, reg_c = slot, slot + (1 << 13), 1 << 16
        brow, bcol, b0, bstride = (
            (n, k, n0 * self.k + k0, self.k) if self.transpose_b else (k, n, k0 * self.n + n0, self.n)
        )
        stage = 0

        def add(kind: OpKind, name: str, operands, params: str = "") -> None:
            nonlocal stage
            builder.add((self.command_seq, tile_id, stage), kind, name, operands, params)
            stage += 1

        src, dst = Role.SRC, Role.DST
        a_hbm = move(src, HBM, self.at_a + (m0 * self.k + k0) * size, m, k, self.k * size, d)
        b_hbm = move(src, HBM, self.at_b + b0 * size, brow, bcol, bstride * size, d)
        add(OpKind.MEMORY, "dma_read", [a_hbm, move(dst, TCM, tcm_a, m, k, k * size, d)])
        add(OpKind.MEMORY, "dma_read", [b_hbm, move(dst, TCM, tcm_b, brow, bcol, bcol * size, d)])
        fetch = [
            move(src, TCM, tcm_a, m, k, k * size, d, 1),
            move(dst, REG, reg_a, m, k, k * size, d),
            move(src, TCM, tcm_b, brow, bcol, bcol * size, d, 1),
            move(dst, REG, reg_b, brow, bcol, bcol * size, d),
        ]
        add(OpKind.MEMORY, "fetch", fetch)
        factors = [
            move(Role.A, REG, reg_a, m, k, k * size, d, 1),
            move(Role.B, REG, reg_b, brow, bcol, bcol * size, d, 1),
        ]
        flags = ['"accumulate":true'] * (k0 > 0) + ['"transpose_b":true'] * self.transpose_b
        both = [move(role, REG, reg_c, m, n, n * 4, acc) for role in ([Role.ACC] if k0 else []) + [Role.OUT]]
        add(OpKind.GEMM, "gemm", factors + both, "{" + ",".join(flags) + "}" if flags else "")
        if k0 + k == self.k:
            self._add_epilogue(add, slot, (m0, n0, m, n))
            out, osize = self.out, self.out.nbytes
            buffer = (TCM, tcm_c, m, n, n * osize, out)
            to_hbm = move(dst, HBM, self.at_c + (m0 * self.n + n0) * osize, m, n, self.n * osize, out)
            add(OpKind.MEMORY, "store", [move(src, REG, reg_c, m, n, n * 4, acc, 1), move(dst, *buffer)])
            add(OpKind.MEMORY, "dma_write", [move(src, *buffer, 1), to_hbm])

    def _add_epilogue(self, add, slot: int, tile: tuple[int, int, int, int]) -> None:
        """What is done to a finished accumulator before it is stored; *tile* is (m0, n0, m, n)."""
