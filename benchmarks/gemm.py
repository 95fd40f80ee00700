"""GEMM: C[M, N] = A[M, K] @ B[K, N]. Each PE computes a block of C, or PEs take tiles of C in turn, as libraries do."""

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Language, Tensor, TensorRef, TileShape, cast, product_tolerance
from kb_plans import SUMS_NBYTES, ChipCosts, GemmSize, Waves, suggest_waves

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
    rows, cols = part(m, grid_m, i), part(n, grid_n, j)
    a, b = a_copies[j % len(a_copies)], b_copies[i % len(b_copies)]
    tl.wait(tl.composite("gemm", a[rows, :], b[:, cols], out=c[rows, cols], tile=tile, loop_order=loop_order))


def tile_kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, size: GemmSize, tile: TileShape) -> None:
    """A program computes a tile of C. The PE goes on while bytes are on the way."""
    at = tile_at(tl.program_id(0), size, tile)
    of_b = slice(at.matrix * size.k, (at.matrix + 1) * size.k)
    tl.composite("gemm", a[at.rows, :], b[of_b, at.cols], out=c[at.rows, at.cols], tile=tile)


class Cut(NamedTuple):
    """The programs of a product of `size`: output tiles of `tile`, and parts of K that are `depth` deep."""

    size: GemmSize
    tile: TileShape
    depth: int


def split_kernel(
    tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, sums: TensorRef, arrived: TensorRef, cut: Cut
) -> None:
    """A program writes the f32 sum of a tile over a part of K to *sums*. The last one of a tile adds its parts up.

    *sums* has the parts one below the other, and *arrived* counts the parts of each tile.
    """
    size, tile, depth = cut
    splits = -(-size.k // depth)
    at, number = tile_at(tl.program_id(0) // splits, size, tile), tl.program_id(0) % splits
    along = slice(number * depth, min((number + 1) * depth, size.k))
    of_b = slice(at.matrix * size.k + along.start, at.matrix * size.k + along.stop)
    mine = sums[at.rows_of_part(number, size), at.cols]
    tl.wait(tl.composite("gemm", a[at.rows, along], b[of_b, at.cols], out=mine, tile=tile))
    if int(tl.atomic_add(arrived[at.row : at.row + 1, at.col : at.col + 1], 1)) + 1 == splits:
        add_parts(tl, c, sums, at, size, splits)


def add_parts(tl: Language, c: TensorRef, sums: TensorRef, at: "TileAt", size: GemmSize, splits: int) -> None:
    """Stores the sum of the parts of a tile, SUMS_NBYTES of parts at a time."""
    step = max(1, SUMS_NBYTES // (splits * (at.cols.stop - at.cols.start) * sums.dtype.nbytes))
    for first in range(at.rows.start, at.rows.stop, step):
        some = at._replace(rows=slice(first, min(first + step, at.rows.stop)))
        parts = [tl.load_async(sums[some.rows_of_part(number, size), at.cols]) for number in range(splits)]
        total = parts[0]
        for each in parts[1:]:
            total = total + each
        tl.store(c[some.rows, at.cols], total.to(c.dtype))


class TileAt(NamedTuple):
    """A tile of C: its place among the tiles of all matrices, the number of its matrix, and its rows and columns."""

    row: int
    col: int
    matrix: int
    rows: slice
    cols: slice

    def rows_of_part(self, number: int, size: GemmSize) -> slice:
        """The rows of part *number* of K in the sums of all parts, which lie one below the other."""
        above = number * size.batch * size.m
        return slice(above + self.rows.start, above + self.rows.stop)


def tile_at(number: int, size: GemmSize, tile: TileShape) -> TileAt:
    """Tile *number* of C: tiles are numbered along M first, then along N, then by matrix."""
    n_rows, n_cols = -(-size.m // tile.m), -(-size.n // tile.n)
    matrix, i, j = number // (n_rows * n_cols), number % n_rows, number // n_rows % n_cols
    rows = slice(matrix * size.m + i * tile.m, matrix * size.m + min((i + 1) * tile.m, size.m))
    return TileAt(matrix * n_rows + i, j, matrix, rows, slice(j * tile.n, min((j + 1) * tile.n, size.n)))


RENAMED = Meta(extra={"renamed": {"local": "replicated", "shared": "one_slice"}})


class GemmParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in elements. With `method=blocks`, C is cut into as many blocks as the chip has PEs. With
    `method=library`, PEs take tiles of C in turn from one A and B, and K is cut into parts where tiles are few; the
    tiles and parts are those that are estimated to be fastest. `auto` is `library` on a chip whose PEs share one memory
    behind a cache, unless `operands` or `loop_order` is set, which are for blocks.

    `tile` is M x N x K. Without it a library chooses the tile of its programs, and the PE's scheduler that of a block.
    With `loop_order=nmk`, a PE computes its output tiles column by column, and otherwise row by row. With
    `weight_stationary` it keeps a panel of B in TCM while it goes down a column, with `input_stationary` one of A along
    a row.

    With `operands=replicated` the rows of A and the columns of B that a PE reads lie in the PE's own HBM slice. With
    `operands=one_slice` there is one A and one B, and the PEs that read the same rows or columns compete for the slice
    that holds them. `auto` is `replicated`.

    A library's tensors that all fit into the caches lie there when the kernel begins, because measurements repeat a
    product. With `warm=false` the caches are empty.
    """

    M: Size = 512
    N: Size = 512
    K: Size = 512
    dtype: DType = DType.F16
    tile: TileShape | None = None
    loop_order: Literal["mnk", "nmk", "weight_stationary", "input_stationary"] = "mnk"
    operands: Annotated[Literal["auto", "replicated", "one_slice"], RENAMED] = "auto"
    method: Literal["auto", "blocks", "library"] = "auto"
    warm: bool = True

    def __post_init__(self) -> None:
        if self.method == "library" and self.is_for_blocks:
            raise ValueError("method=library has no operands and no loop_order to choose")

    @property
    def is_for_blocks(self) -> bool:
        """Whether a parameter is set that only blocks have."""
        return self.operands != "auto" or self.loop_order != "mnk"


class Gemm(Benchmark[GemmParams]):
    """The product of two matrices on all PEs of a chip."""

    Params = GemmParams
    name = "gemm"

    def inputs(self, p: GemmParams, rng: np.random.Generator) -> Arrays:
        """Standard normal numbers, or integers from -8 to 7, in the operands' dtype."""
        return {"a": _random((p.M, p.K), p.dtype, rng), "b": _random((p.K, p.N), p.dtype, rng)}

    def launch(self, host: Host, p: GemmParams, tensors: Arrays) -> dict[str, Tensor]:
        """The kernel of the method. `host.choices` has what was chosen for the chip."""
        if p.method == "library" or (p.method == "auto" and shares_a_cache(host) and not p.is_for_blocks):
            return {"c": _launch_library(host, p, tensors)}
        return {"c": _launch_blocks(host, p, tensors)}

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


def shares_a_cache(host: Host) -> bool:
    """Whether several PEs share each memory of the chip, behind a cache."""
    return host.cache_nbytes > 0 and host.num_pes > host.num_slices


class Operands(NamedTuple):
    """The tensors of a GEMM: the matrices of a batch lie one below the other."""

    a: Tensor
    b: Tensor
    c: Tensor

    @property
    def nbytes(self) -> int:
        """The bytes of all three."""
        return sum(matrix.nbytes for each in self for _, matrix in each.every_block())


class TileGrid(NamedTuple):
    """The programs of a GEMM: `splits` parts of K, the fastest, then tiles along M, tiles along N, and matrices."""

    splits: int
    m: int
    n: int
    batch: int

    @property
    def n_programs(self) -> int:
        """Programs in all."""
        return self.splits * self.m * self.n * self.batch


def grid_of(size: GemmSize, cut: Waves) -> TileGrid:
    """The programs of a GEMM of *size* that is cut as *cut* says."""
    depth = _depth(size, cut)
    return TileGrid(-(-size.k // depth), -(-size.m // cut.tile.m), -(-size.n // cut.tile.n), size.batch)


def launch_gemm(host: Host, size: GemmSize, tensors: Operands, cut: Waves, n_programs: int | None = None) -> Any:
    """Launch `c = a @ b`, cut as *cut* says, or the first *n_programs* programs of it alone.

    Returns the LaunchResult.
    """
    grid = grid_of(size, cut)
    n_programs = n_programs or grid.n_programs
    if grid.splits == 1:
        return host.launch(tile_kernel, *tensors, size, cut.tile, grid=n_programs, pes="all")
    sums = host.empty("sums", (grid.splits * size.batch * size.m, size.n), size.dtype.accumulator)
    arrived = host.tensor("arrived", np.zeros((size.batch * grid.m, grid.n), np.int32), "i32")
    launched = (*tensors, sums, arrived, Cut(size, cut.tile, _depth(size, cut)))
    result = host.launch(split_kernel, *launched, grid=n_programs, pes="all")
    host.free(sums)
    host.free(arrived)
    return result


def warm_caches(host: Host, tensors: Operands) -> bool:
    """Brings *tensors* into the caches of the chip, if all of them fit: a kernel before has read A and B, written C.

    Returns whether they fit.
    """
    if tensors.nbytes > host.cache_nbytes:
        return False
    for each in tensors:
        host.warm(each, written=each is tensors.c)
    return True


def suggest_cut(host: Host, size: GemmSize, tensors: Operands) -> Waves:
    """The cut of *size* that is estimated to be fastest on the chip of *host*."""
    return suggest_waves(size, chip_costs(host, tensors.a))


def chip_costs(host: Host, a: Tensor) -> ChipCosts:
    """The costs of the chip of *host*, whose operands lie where *a* does. Its PEs are taken to be equal."""
    pes = list(host.engine.pes.values())
    scheduler: Any = pes[0].scheduler
    address = next(matrix.address for _, matrix in a.every_block())
    memory: Any = host.engine.components[host.engine.topology.address_map.decode(address)[0].node_id]
    return ChipCosts(
        n_pes=len(pes),
        room=scheduler.tile_room,
        costs=scheduler.tile_costs,
        address=address,
        shared_reads=getattr(memory.spec, "multicast", 1),
    )


def _depth(size: GemmSize, cut: Waves) -> int:
    """How deep a part of K is: whole steps of the tile."""
    return -(-size.k // (cut.tile.k * cut.splits)) * cut.tile.k


def _launch_library(host: Host, p: GemmParams, arrays: Arrays) -> Tensor:
    """One program for each tile of C and part of K. A PE takes its next program when it is free."""
    size = GemmSize(p.M, p.N, p.K, p.dtype, _out_dtype(p))
    a, b = (host.tensor(name, arrays[name], p.dtype) for name in "ab")
    tensors = Operands(a, b, host.empty("c", (p.M, p.N), size.out_dtype))
    cut = suggest_cut(host, size, tensors) if p.tile is None else Waves(p.tile, 1, 0)
    grid = grid_of(size, cut)
    is_warm = p.warm and warm_caches(host, tensors)
    launch_gemm(host, size, tensors, cut)
    host.chose(method="library", operands="one_slice", tile=str(cut.tile), grid=f"{grid.m} x {grid.n}")
    if grid.splits > 1:
        host.chose(parts_of_k=grid.splits)
    if host.cache_nbytes:
        host.chose(cache="warm" if is_warm else "cold")
    return tensors.c


def _launch_blocks(host: Host, p: GemmParams, arrays: Arrays) -> Tensor:
    """One program for each block of C. PEs without a block stay idle."""
    grid_m, grid_n = pe_grid(p.M, p.N, host.num_pes)
    home = [[(i * grid_n + j) * host.num_slices // host.num_pes for j in range(grid_n)] for i in range(grid_m)]
    homes_a, homes_b = list(zip(*home, strict=True)), home
    if p.operands == "one_slice":
        homes_a, homes_b = homes_a[:1], homes_b[:1]
    a = host.replicas("a", arrays["a"], p.dtype, (grid_m, 1), homes_a)
    b = host.replicas("b", arrays["b"], p.dtype, (1, grid_n), homes_b)
    c = host.empty("c", (p.M, p.N), _out_dtype(p), blocks=(grid_m, grid_n), slices=[pe for row in home for pe in row])
    host.launch(kernel, a, b, c, grid_m, grid_n, p.tile, p.loop_order, pes=range(grid_m * grid_n))
    operands = "replicated" if p.operands == "auto" else p.operands
    host.chose(method="blocks", operands=operands, grid=f"{grid_m} x {grid_n}", copies_of_a=len(a), copies_of_b=len(b))
    return c


def part(n: int, parts: int, number: int) -> slice:
    """Part *number* of *n* rows or columns that are cut into *parts*."""
    return slice(number * n // parts, (number + 1) * n // parts)


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
