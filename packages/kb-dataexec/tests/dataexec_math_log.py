"""Writes op logs with MATH records by hand: a GEMM with an epilogue, and a softmax over rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dataexec_gemm_log import HBM, REG, REGIONS, TCM, GemmProblem, LogBuilder, move

from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.logfile import OpLog
from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType, OpKind, Role

ACC = 1 << 16
BIAS, RESIDUAL, ROUNDED = ACC + (1 << 14), ACC + (2 << 14), ACC + (3 << 14)
SCALE = 0.75


def params(op: str, axis: int | None = None, scalars: tuple[float, ...] = ()) -> str:
    axis_text = "" if axis is None else f',"axis":{axis}'
    scalar_text = f',"scalars":{list(scalars)}' if scalars else ""
    return f'{{"op":"{op}"{axis_text}{scalar_text}}}'


@dataclass
class EpilogueProblem(GemmProblem):
    """C = cast(relu((A @ B + bias) scale) + residual): bias is a row, residual as large as C, both of A's type.

    All happens in the accumulator; the last record takes the residual and rounds to A's type in other registers.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        rng = np.random.default_rng(self.seed + 1)
        self.bias = cast(rng.uniform(-0.5, 1, (1, self.n)), self.dtype)
        self.residual = cast(rng.uniform(-1, 1, (self.m, self.n)), self.dtype)
        self.at_bias = self.at_c + (self.m * self.n * self.out.nbytes + 4096) // 4096 * 4096
        self.at_residual = self.at_bias + (self.bias.nbytes + 4096) // 4096 * 4096

    def memory(self) -> MemoryStore:
        store = super().memory()
        store.write_tensor(HBM, self.at_bias, self.bias)
        store.write_tensor(HBM, self.at_residual, self.residual)
        return store

    def reference(self) -> tuple[np.ndarray, np.ndarray]:
        """One rounding to A's type, one to C's (of the same type), and a few in f32 on values of about 1 to 10."""
        product, size = self.expected()
        scaled = np.maximum((product + self.bias.astype(np.float64)) * SCALE, 0)
        residual = self.residual.astype(np.float64)
        bound = np.sqrt(self.k) * 2.0**-24 * size + 8 * 2.0**-24 * (scaled + np.abs(residual) + size + 1)
        expected = scaled + residual
        return expected, bound + 2 * self.out.info.unit_roundoff * np.abs(expected) + self.out.info.smallest_subnormal

    def _add_epilogue(self, add, slot: int, tile: tuple[int, int, int, int]) -> None:
        m0, n0, m, n = tile
        d, size = self.dtype, self.dtype.nbytes
        at_residual, stride = self.at_residual + (m0 * self.n + n0) * size, self.n * size
        bias, residual = (HBM, self.at_bias + n0 * size, 1, n, n * size, d), (HBM, at_residual, m, n, stride, d)
        tcm = [(TCM, slot + offset, *rest[2:4], n * size, d) for offset, rest in ((0, bias), (1 << 13, residual))]
        reg = [(REG, at, *rest[2:4], n * size, d) for at, rest in ((BIAS, bias), (RESIDUAL, residual))]
        for source, target in zip((bias, residual), tcm, strict=True):
            add(OpKind.MEMORY, "dma_read", [move(Role.SRC, *source), move(Role.DST, *target)])
        pairs = [(move(Role.SRC, *source, 1), move(Role.DST, *target)) for source, target in zip(tcm, reg, strict=True)]
        add(OpKind.MEMORY, "fetch", [side for pair in pairs for side in pair])
        acc, rounded = (REG, ACC, m, n, n * 4, DType.F32), (REG, ROUNDED, m, n, n * size, d)
        read, write = move(Role.IN, *acc), move(Role.OUT, *acc)
        add(OpKind.MATH, "math", [read, move(Role.IN, *reg[0], 1), write], params("add"))
        add(OpKind.MATH, "math", [read, write], params("mul", scalars=(SCALE,)))
        add(OpKind.MATH, "math", [read, write], params("relu"))
        add(OpKind.MATH, "math", [read, move(Role.IN, *reg[1], 1), write], params("add"))
        add(OpKind.MATH, "math", [move(Role.IN, *acc, 1), move(Role.OUT, *rounded)], params("copy"))
        add(OpKind.MATH, "math", [move(Role.IN, *rounded, 1), write], params("copy"))


@dataclass
class SoftmaxProblem:
    """Y (m x n) = softmax over the rows of X, in blocks of rows: max, sub, exp, sum, div in f32 registers."""

    m: int
    n: int
    block: int
    dtype: DType = DType.F16
    seed: int = 0

    def __post_init__(self) -> None:
        self.x = cast(np.random.default_rng(self.seed).uniform(-3, 3, (self.m, self.n)), self.dtype)
        self.out, self.at_x, self.at_y = self.dtype, 4096, 1 << 16
        nbytes = self.n * self.out.nbytes
        self.output = (HBM, self.at_y, self.m, nbytes, nbytes)

    def memory(self) -> MemoryStore:
        store = MemoryStore(REGIONS)
        store.write_tensor(HBM, self.at_x, self.x)
        return store

    def reference(self) -> tuple[np.ndarray, np.ndarray]:
        x = self.x.astype(np.float64)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        return expected, expected * (2 * self.out.info.unit_roundoff + 32 * 2.0**-24) + self.out.info.smallest_subnormal

    def result(self, store: MemoryStore) -> np.ndarray:
        return store.read(*self.output, self.out)

    def log(self) -> OpLog:
        builder = LogBuilder()
        for tile_id, row in enumerate(range(0, self.m, self.block)):
            self._add_block(builder, tile_id, row, min(self.block, self.m - row))
        return builder.log()

    def _add_block(self, builder: LogBuilder, tile_id: int, row: int, m: int) -> None:
        n, nbytes = self.n, self.n * self.dtype.nbytes
        buffer, x = (TCM, 0, m, n, nbytes, self.dtype), (REG, 0, m, n, nbytes, self.dtype)
        work, column = (REG, 1 << 14, m, n, n * 4, DType.F32), (REG, 1 << 15, m, 1, 4, DType.F32)

        def hbm(at: int) -> tuple:
            return (HBM, at + row * nbytes, m, n, nbytes, self.dtype)

        def add(kind: OpKind, name: str, operands, text: str = "") -> None:
            builder.add((0, tile_id, len(builder.ops)), kind, name, operands, text)

        add(OpKind.MEMORY, "dma_read", [move(Role.SRC, *hbm(self.at_x)), move(Role.DST, *buffer)])
        add(OpKind.MEMORY, "fetch", [move(Role.SRC, *buffer, 1), move(Role.DST, *x)])
        add(OpKind.MATH, "math", [move(Role.IN, *x), move(Role.OUT, *column)], params("max", 1))
        ends = [move(Role.IN, *x, 1), move(Role.IN, *column, 1), move(Role.OUT, *work)]
        add(OpKind.MATH, "math", ends, params("sub"))
        add(OpKind.MATH, "math", [move(Role.IN, *work), move(Role.OUT, *work)], params("exp"))
        add(OpKind.MATH, "math", [move(Role.IN, *work), move(Role.OUT, *column)], params("sum", 1))
        ends = [move(Role.IN, *work, 1), move(Role.IN, *column, 1), move(Role.OUT, *work)]
        add(OpKind.MATH, "math", ends, params("div"))
        add(OpKind.MEMORY, "store", [move(Role.SRC, *work, 1), move(Role.DST, *buffer)])
        add(OpKind.MEMORY, "dma_write", [move(Role.SRC, *buffer, 1), move(Role.DST, *hbm(self.at_y))])
