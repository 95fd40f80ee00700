"""Padding: products in blocks that leave rows or columns of the MAC array empty."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts
from kb_cli.run.rules.work.block_shapes import BlockShapes
from kb_cli.run.rules.work.op_sums import OpSum, OpSums
from kb_cli.run.rules.work.path_time import PathTime
from kb_cli.run.rules.work.unit_costs import GEMM_ROLES, gemm_attributes, service_ps
from kb_cli.terminal.units import duration
from kb_dataexec import OpLog
from kb_engine import Host
from kb_messages import GemmParams, Role

_FIXED: Final = ("issue", "decode", "setup", "request", "latency", "response")
"""The work of blocks that takes equally long for each command, whatever its size."""


class _Product(NamedTuple):
    """All GEMMs of one kernel line that make one product of M x K times K x N, in blocks of m x n x k.

    `params` has the sizes of a block. `n_gemms` counts the GEMMs of all arrays, `longest_ps` is the time of the busiest
    array, and `n_arrays` the number of arrays that work.
    """

    line: str
    component: str
    sizes: tuple[int, int]
    params: GemmParams
    n_gemms: int
    longest_ps: int
    n_arrays: int


class Padding(Rule):
    """Finds products whose blocks fill a part of the MAC array, where other blocks of the same product fill more.

    A block pays for padding if a larger block costs the same, by the array's own pure cost. Two sizes are tried for
    each such side: the largest one of equal cost, and the largest one of less cost. A size counts only as far as the
    product has that many rows or columns: a vector times a matrix is as it is. The sizes of the product are those of
    tensors of two dimensions of which the line's blocks are loaded and stored. Where no tensors fit, nothing is said.

    The gain is the sum of three parts of the critical path. The line's GEMMs take the share that the blocks of the
    busiest array take in the new size, dealt out evenly. The fixed costs of commands follow the number of blocks. The
    bytes of loads follow from the sides of blocks: a block of m x n loads m + n rows or columns of depth k.
    """

    def __init__(self) -> None:
        self._gemms = OpSums("gemm", GEMM_ROLES)
        self._reads = BlockShapes("dma_read", Role.SRC)
        self._writes = BlockShapes("dma_write", Role.DST)

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        for each in (self._gemms, self._reads, self._writes):
            each.look(chunk)

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the flaw, or None for a run without the flaw."""
        found = [remedy for each in self._products(facts.host) if (remedy := self._remedy(each, facts)) is not None]
        return max(found, key=lambda each: each.gain, default=None)

    def _remedy(self, made: _Product, facts: RunFacts) -> Remedy | None:
        cost_ps = _cost_of(made, facts.host)
        now_ps = cost_ps(made.params.m, made.params.n)
        if not now_ps:
            return None
        sides = [
            _sides(size, total, lambda other, at=at: cost_ps(*_with(made.params, at, other)))  # type: ignore[misc]
            for at, (size, total) in enumerate(zip((made.params.m, made.params.n), made.sizes, strict=True))
        ]
        tried = [(self._gain(made, block, cost_ps, facts), block) for block in product(sides[0], sides[1])]
        gain, (m, n) = max(tried)
        if (m, n) == (made.params.m, made.params.n):
            return None
        now, k = made.params, made.params.k
        return Remedy(
            rule="padding of arrays",
            part="pe_gemm",
            flaw=f"blocks of {now.m} x {now.n} x {k} take {duration(now_ps)} of the array each, as much as blocks of "
            f"{sides[0][-1]} x {sides[1][-1]} x {k}",
            change=f"blocks of {m} x {n}, of which each takes {duration(cost_ps(m, n) or 0)}",
            gain=gain,
            basis="estimated",
            line=made.line,
        )

    def _gain(
        self, made: _Product, block: tuple[int, int], cost_ps: Callable[[int, int], int | None], facts: RunFacts
    ) -> float:
        """The gain of blocks of the sides *block*."""
        path, lines = PathTime(facts), self._reads.lines
        before, after = (_share(made, sides, cost_ps) for sides in ((made.params.m, made.params.n), block))
        gemm = path.by_line(lambda row: row.block == "pe_gemm")[made.line] * (1 - after.took_ps / made.longest_ps)
        fixed = sum(path.by_line(lambda row: row.what in _FIXED).values()) * (1 - after.n_gemms / before.n_gemms)
        moved = path.by_line(lambda row: row.line in lines and row.what in ("bytes", "shared", "busy with others"))
        loaded = after.n_loaded / before.n_loaded
        saved_ps = gemm + fixed + sum(moved.values()) * (1 - loaded)
        return path.gain(saved_ps, max(after.took_ps, path.busiest_ps(["pe_gemm"]) if loaded >= 1 else 0))

    def _products(self, host: Host) -> Iterator[_Product]:
        """Yields the products whose tensors are known."""
        by_line: dict[str, list[OpSum]] = defaultdict(list)
        for op in self._gemms:
            if len(op.shapes) == len(GEMM_ROLES):
                by_line[op.line].append(op)
        read, written = self._reads.of_tensors(host), self._writes.of_tensors(host)
        for line, ops in by_line.items():
            by_array: dict[str, int] = defaultdict(int)
            for op in ops:
                by_array[op.component] += op.took_ps
            first = max(ops, key=lambda op: op.took_ps)
            params = _params(first)
            sizes = _sizes(params, read, written)
            if sizes is not None:
                count = sum(op.n_ops for op in ops)
                yield _Product(line, first.component, sizes, params, count, max(by_array.values()), len(by_array))


class _Share(NamedTuple):
    """The share of a product that the busiest array has: its GEMMs, their time, and the rows and columns of depth k
    that are loaded for them.
    """

    n_gemms: float
    took_ps: float
    n_loaded: float


def _with(params: GemmParams, at: int, size: int) -> tuple[int, int]:
    return (size, params.n) if at == 0 else (params.m, size)


def _params(op: OpSum) -> GemmParams:
    """The parameters of the GEMM *op*, from the shapes of its operands."""
    flags, a, b, out = gemm_attributes(op), *(op.shapes[role] for role in GEMM_ROLES)
    return GemmParams(
        m=out.rows,
        n=out.cols,
        k=a.rows if flags.transpose_a else a.cols,
        dtype=a.dtype,
        dtype_b=b.dtype,
        dtype_acc=out.dtype,
        accumulate=flags.accumulate,
        transpose_a=flags.transpose_a,
        transpose_b=flags.transpose_b,
    )


def _cost_of(made: _Product, host: Host) -> Callable[[int, int], int | None]:
    """The pure cost of a GEMM of *made* with other rows and columns, in picoseconds."""

    def cost_ps(m: int, n: int) -> int | None:
        now = made.params
        other = GemmParams(
            m=m,
            n=n,
            k=now.k,
            dtype=now.dtype,
            dtype_b=now.dtype_b,
            dtype_acc=now.dtype_acc,
            accumulate=now.accumulate,
            transpose_a=now.transpose_a,
            transpose_b=now.transpose_b,
        )
        return service_ps(host, made.component, other)

    return cost_ps


def _sides(size: int, total: int, cost_ps: Callable[[int], int | None]) -> list[int]:
    """The sizes of a side to be tried: *size* alone if it is full; otherwise the full size below it, *size*, and the
    full size above it, as far as *total* allows.
    """
    now_ps = cost_ps(size)
    full = _largest(size, total, lambda other: cost_ps(other) == now_ps)
    if full <= size:
        return [size]
    below = _largest(0, size, lambda other: cost_ps(other) != now_ps)
    return [*([below] if below else []), size, full]


def _largest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number from *low* to *high* for which *holds* is true, if it is true up to there, and for *low*."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _share(made: _Product, block: tuple[int, int], cost_ps: Callable[[int, int], int | None]) -> _Share:
    """The share of the busiest array where blocks with the sides *block*, row by row, are dealt out in turn.

    The last blocks of a row and of a column may be smaller. Arrays that share the depth of a block have equal shares.
    """
    n_now = math.prod(-(-total // size) for total, size in zip(made.sizes, (made.params.m, made.params.n), strict=True))
    depth = max(1, made.n_gemms // n_now)
    rows, cols = (_pieces(total, size) for total, size in zip(made.sizes, block, strict=True))
    kinds = {(m, n): cost_ps(m, n) or 0 for m in {*rows} for n in {*cols}}
    took_ps = np.array([[kinds[m, n] for n in cols] for m in rows], np.float64).ravel()
    loaded = np.add.outer(rows, cols).ravel()
    if n_now < made.n_arrays:
        of_each = depth / made.n_arrays
        return _Share(len(took_ps) * of_each, float(took_ps.sum()) * of_each, int(loaded.sum()) * of_each)
    array = np.arange(len(took_ps)) % made.n_arrays
    sums = np.bincount(array, took_ps)
    busiest = int(np.argmax(sums))
    mine = array == busiest
    return _Share(int(mine.sum()) * depth, float(sums[busiest]) * depth, int(loaded[mine].sum()) * depth)


def _pieces(total: int, size: int) -> list[int]:
    return [min(size, total - start) for start in range(0, total, size)]


def _sizes(
    params: GemmParams, read: set[tuple[int, int, int, int]], written: set[tuple[int, int, int, int]]
) -> tuple[int, int] | None:
    """Rows and columns of the whole product of which GEMMs with *params* make blocks; None if no tensors fit.

    The blocks of Y are stored, and those of A and B are loaded, either of them perhaps transposed.
    """
    both_ways = {*read, *((cols, rows, n_cols, n_rows) for rows, cols, n_rows, n_cols in read)}
    for rows, cols, n_rows, n_cols in sorted(written):
        if (rows, cols) != (params.m, params.n):
            continue
        depths = {k for m, depth, whole, k in both_ways if (m, depth, whole) == (params.m, params.k, n_rows)}
        if depths & {k for depth, n, k, whole in both_ways if (depth, n, whole) == (params.k, params.n, n_cols)}:
            return n_rows, n_cols
    return None
