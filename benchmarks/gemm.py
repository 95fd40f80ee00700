"""GEMM: C[M, N] = A[M, K] @ B[K, N]. The output is split over the PEs; each computes its block in one composite."""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Language, Tensor, TensorRef, TileShape, cast, product_tolerance

Size = Annotated[int, Meta(ge=1)]


def kernel(
    tl: Language,
    a_copies: list[TensorRef],
    b_copies: list[TensorRef],
    c: TensorRef,
    grid_m: int,
    grid_n: int,
    tile: TileShape | None,
    loop_order: str,
) -> None:
    """Program (i, j) of a grid of grid_m x grid_n computes block (i, j) of C from its copies of A and B."""
    i, j = divmod(tl.program_id(), grid_n)
    m, n = c.shape
    rows = slice(i * m // grid_m, (i + 1) * m // grid_m)
    cols = slice(j * n // grid_n, (j + 1) * n // grid_n)
    a, b = a_copies[j % len(a_copies)], b_copies[i % len(b_copies)]
    tl.wait(tl.composite("gemm", a[rows, :], b[:, cols], out=c[rows, cols], tile=tile, loop_order=loop_order))


class GemmParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in elements. `tile` is M x N x K; without it the PE's scheduler chooses the tile.
    With `loop_order=nmk`, a PE computes its output tiles column by column, and otherwise row by row. With
    `weight_stationary` it keeps a panel of B in TCM while it goes down a column, with `input_stationary` one of A along
    a row.

    With `operands=local` the rows of A and the columns of B that a PE reads lie in the PE's own HBM slice. With
    `operands=shared` there is one A and one B, and the PEs compete for the slices that hold them.
    """

    M: Size = 512
    N: Size = 512
    K: Size = 512
    dtype: DType = DType.F16
    tile: TileShape | None = None
    loop_order: Literal["mnk", "nmk", "weight_stationary", "input_stationary"] = "mnk"
    operands: Literal["local", "shared"] = "local"


class Gemm(Benchmark[GemmParams]):
    """A is cut into blocks of rows, B into blocks of columns, and C into blocks of both: one block of C for each PE."""

    Params = GemmParams
    name = "gemm"

    def inputs(self, p: GemmParams, rng: np.random.Generator) -> Arrays:
        """Standard normal numbers, or integers from -8 to 7, in the operands' dtype."""
        return {"a": _random((p.M, p.K), p.dtype, rng), "b": _random((p.K, p.N), p.dtype, rng)}

    def launch(self, host: Host, p: GemmParams, tensors: Arrays) -> dict[str, Tensor]:
        """One program for each block of C. PEs without a block stay idle."""
        grid_m, grid_n = pe_grid(p.M, p.N, host.num_pes)
        home = [[(i * grid_n + j) * host.num_slices // host.num_pes for j in range(grid_n)] for i in range(grid_m)]
        homes_a, homes_b = list(zip(*home, strict=True)), home
        if p.operands == "shared":
            homes_a, homes_b = homes_a[:1], homes_b[:1]
        a = host.replicas("a", tensors["a"], p.dtype, (grid_m, 1), homes_a)
        b = host.replicas("b", tensors["b"], p.dtype, (1, grid_n), homes_b)
        c = host.empty(
            "c", (p.M, p.N), _out_dtype(p), blocks=(grid_m, grid_n), slices=[pe for row in home for pe in row]
        )
        host.launch(kernel, a, b, c, grid_m, grid_n, p.tile, p.loop_order, pes=range(grid_m * grid_n))
        return {"c": c}

    def reference(self, p: GemmParams, inputs: Arrays) -> Arrays:
        """A @ B in float64, which is exact for the integers of `inputs`."""
        return {"c": inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)}

    def products(self, p: GemmParams, inputs: Arrays) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """C is A @ B and nothing more, so large ones can be checked by sample."""
        return {"c": (inputs["a"], inputs["b"])}

    def flops(self, p: GemmParams) -> int:
        """A multiplication and an addition for each term of each sum."""
        return 2 * p.M * p.N * p.K

    def footprint(self, p: GemmParams) -> int:
        """One copy of A and of B, and C."""
        return (p.M + p.N) * p.K * p.dtype.nbytes + p.M * p.N * _out_dtype(p).nbytes

    def tolerance(self, p: GemmParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """The bound of `product_tolerance`."""
        return {"c": product_tolerance(expected["c"], inputs["a"], inputs["b"], _out_dtype(p))}


def pe_grid(m: int, n: int, pes: int) -> tuple[int, int]:
    """The grid of at most *pes* programs whose largest block is smallest; of equals, the one with the least input."""
    splits = [(i, j) for i in range(1, min(m, pes) + 1) for j in range(1, min(n, pes // i) + 1)]
    return min(splits, key=lambda s: (-(-m // s[0]) * -(-n // s[1]), -(-m // s[0]) + -(-n // s[1]), s))


def _out_dtype(p: GemmParams) -> DType:
    return p.dtype if p.dtype.is_float else p.dtype.accumulator


def _random(shape: tuple[int, int], dtype: DType, rng: np.random.Generator) -> np.ndarray:
    if dtype.is_float:
        return cast(rng.standard_normal(shape, dtype=np.float32), dtype)
    return cast(rng.integers(-8, 8, shape), dtype)
