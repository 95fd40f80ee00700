"""GEMM: C[M, N] = A[M, K] @ B[K, N]. Each PE computes a block of C, or PEs take tiles of C in turn, as libraries do."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

import kb_messages
import kb_plans
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


def sharded_kernel(tl: Language, blocks: list["Block"], c: TensorRef, steps: list[slice], most: TileShape) -> None:
    """A program computes a block of C, at most `most` at a time. It loads the next step of K while it multiplies."""
    a, b, rows, cols, first = blocks[tl.program_id()]
    along = steps[first:] + steps[:first]
    spans = list(product(even(rows, most.m), even(cols, most.n)))
    loads = tl.ahead((tl.load_async(a[down, k]), tl.load_async(b[k, right])) for down, right in spans for k in along)
    for down, right in spans:
        acc = 0
        for _ in along:
            acc = tl.dot(*next(loads), acc)
        tl.store(c[down, right], acc.to(c.dtype))


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
    that holds them. With `operands=sharded` one A and one B lie cut over the slices of all cubes of a SIP, and the PEs
    read what they need over the network; SIPs cut one of the two, and have a copy of the other. `auto` is `sharded` on
    many cubes, and otherwise `replicated`.

    A library's tensors that all fit into the caches lie there when the kernel begins, because measurements repeat a
    product. With `warm=false` the caches are empty.
    """

    M: Size = 512
    N: Size = 512
    K: Size = 512
    dtype: DType = DType.F16
    tile: TileShape | None = None
    loop_order: Literal["mnk", "nmk", "weight_stationary", "input_stationary"] = "mnk"
    operands: Annotated[Literal["auto", "replicated", "one_slice", "sharded"], RENAMED] = "auto"
    method: Literal["auto", "blocks", "library"] = "auto"
    warm: bool = True

    def __post_init__(self) -> None:
        if self.method == "library" and self.is_for_blocks:
            raise ValueError("method=library has no operands and no loop_order to choose")
        if self.operands == "sharded" and self.loop_order != "mnk":
            raise ValueError("operands=sharded has no loop_order to choose")

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
        grid = cube_grid(host, p) if p.operands in ("auto", "sharded") else None
        if p.operands == "sharded" and grid is None:
            needs = "HBM in each cube, and rows and columns of C for a block of each cube"
            raise kb_messages.KernelError("gemm", "operands=sharded", needs, "choose operands=replicated")
        if grid is not None and (p.operands == "sharded" or (len(host.pes_by_cube[0]) > 1 and p.loop_order == "mnk")):
            return {"c": _launch_sharded(host, p, tensors, grid)}
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
    """The cut of *size* that is estimated to be fastest on the chip of *host*.

    Raises PlanError for a chip whose schedulers state no costs.
    """
    chip = chip_costs(host, next(matrix.address for _, matrix in tensors.a.every_block()))
    if chip is None:
        raise kb_messages.PlanError("gemm", "schedulers that state no costs", "tile=MxNxK, or method=blocks")
    return suggest_waves(size, chip)


def chip_costs(host: Host, address: int) -> ChipCosts | None:
    """The costs of the chip of *host*, whose operands lie in the memory at *address*. Its PEs are taken to be equal.

    Slow PEs count as the others. None where their schedulers state no costs.
    """
    pes = host.engine.pes
    scheduler: Any = pes[host.engine.topology.usual_pe].scheduler
    if not hasattr(scheduler, "tile_room") or not hasattr(scheduler, "tile_costs"):
        return None
    memory = host.engine.components.get(host.engine.topology.address_map.decode(address)[0].node_id)
    return ChipCosts(
        n_pes=len(pes),
        room=scheduler.tile_room,
        costs=scheduler.tile_costs,
        address=address,
        shared_reads=getattr(memory and memory.spec, "multicast", 1),
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
    grid_m, grid_n = pe_grid(p.M, p.N, host.num_pes, BlockCosts.of(host, p))
    home = [[(i * grid_n + j) * host.num_slices // host.num_pes for j in range(grid_n)] for i in range(grid_m)]
    homes_a, homes_b = list(zip(*home, strict=True)), home
    if p.operands == "one_slice":
        homes_a, homes_b = homes_a[:1], homes_b[:1]
    a = host.replicas("a", arrays["a"], p.dtype, (grid_m, 1), homes_a)
    b = host.replicas("b", arrays["b"], p.dtype, (1, grid_n), homes_b)
    c = host.empty("c", (p.M, p.N), _out_dtype(p), blocks=(grid_m, grid_n), slices=[pe for row in home for pe in row])
    host.launch(kernel, a, b, c, grid_m, grid_n, p.tile, p.loop_order, pes=range(grid_m * grid_n))
    operands = "replicated" if p.operands == "auto" else p.operands
    host.chose(method="blocks", operands=operands, grid=f"{grid_m} x {grid_n}")
    return c


def part(n: int, parts: int, number: int) -> slice:
    """Part *number* of *n* rows or columns that are cut into *parts*."""
    return slice(number * n // parts, (number + 1) * n // parts)


LEAST_DEPTH = 32
"""The least depth of a part of K that lies in one slice. Source: assumed; shorter rows take more bursts than bytes."""
MOST_GRIDS = 8
"""The grids whose blocks are cut into tiles to compare them. Source: assumed; more change no choice of the tests."""


class BlockCosts(NamedTuple):
    """The costs of a block of C on a PE of `chip`, which has `n_memories`, for parameters `p`."""

    p: GemmParams
    chip: ChipCosts
    n_memories: int

    @classmethod
    def of(cls, host: Host, p: GemmParams) -> "BlockCosts | None":
        """The costs of the chip of *host*; None for a chip without HBM, or whose schedulers state no costs.

        PEs behind one cache count as having a memory each, because a cache serves reads of the same bytes together.
        """
        hbm = [each for each in host.engine.topology.address_map.regions if each.space == "hbm"]
        chip = chip_costs(host, hbm[0].base) if hbm else None
        return None if chip is None else cls(p, chip, host.num_pes if shares_a_cache(host) else host.num_slices)

    def least_ps(self, m: int, n: int, n_pes: int) -> float:
        """The least time of a block of m x n: its operations, its bytes on their way, or all PEs' bytes at a memory."""
        p, nbytes = self.p, self.p.K * (m + n) * self.p.dtype.nbytes
        product = kb_messages.GemmParams(
            m=m, n=n, k=p.K, dtype=p.dtype, dtype_b=p.dtype, dtype_acc=p.dtype.accumulator, accumulate=True
        )
        array_ps = self.chip.costs.time(kb_messages.StageType.GEMM, product).holds_ps
        port_ps = (self._read(SAMPLE_NBYTES).alone_ps - self._read(1).alone_ps) * nbytes / SAMPLE_NBYTES
        return max(array_ps, port_ps, self._memory_ps(nbytes) * self._sharing(n_pes))

    def block_ps(self, m: int, n: int, n_pes: int) -> float:
        """The estimated time of the largest block, m x n, on *n_pes* PEs, in the fastest of a few tiles.

        A PE searches all tiles, which takes long. A PE fills its buffers after half of the PEs that share its memory,
        on average. Where no tile fits, it is the least time, because the launch will say why none fits.
        """
        sharing = self._sharing(n_pes)
        times = (self._tiled_ps(command, sharing) for command in self._commands(m, n))
        return min(times, default=self.least_ps(m, n, n_pes))

    def _commands(self, m: int, n: int) -> Iterator[kb_messages.GemmCommand]:
        p, chip = self.p, self.chip
        sides = ((m, p.K, p.dtype), (p.K, n, p.dtype), (m, n, _out_dtype(p)))
        a, b, out = (kb_messages.Matrix.packed(*each, chip.address) for each in sides)
        command = kb_messages.GemmCommand(a=a, b=b, out=out, loop_order=kb_messages.LoopOrder(p.loop_order))
        large = [
            TileShape(min(side, m), min(side, n), min(depth, p.K)) for side, depth in product(TILE_SIDES, TILE_DEPTHS)
        ]
        for tile in [p.tile] if p.tile else [kb_plans.suggest_tile(command, chip.room), *large]:
            tiled = replace(command, tile=tile)
            if chip.room.holds(kb_plans.generate_gemm_plan(tiled, "").buffers, 1):
                yield tiled

    def _tiled_ps(self, command: kb_messages.GemmCommand, sharing: float) -> float:
        plan = kb_plans.generate_gemm_plan(command, "")
        moved = kb_plans.count(plan).nbytes
        read, written = (
            moved.get(each, 0) for each in (kb_messages.StageType.DMA_READ, kb_messages.StageType.DMA_WRITE)
        )
        alone_ps = kb_plans.estimate(plan, self.chip.room, self.chip.costs).latency_ps
        first_ps = self._memory_ps(min(read, self.chip.room.input_nbytes)) * (sharing - 1) / 2
        return max(alone_ps, self._memory_ps(read + written) * sharing) + first_ps

    def _sharing(self, n_pes: int) -> float:
        """The PEs, of *n_pes*, that have a memory together."""
        return max(1.0, n_pes / self.n_memories)

    def _memory_ps(self, nbytes: int) -> float:
        return nbytes * self._read(SAMPLE_NBYTES).memory_ps / SAMPLE_NBYTES

    def _read(self, nbytes: int) -> kb_plans.StageTime:
        memory = kb_messages.Rectangle(self.chip.address, 1, nbytes, nbytes)
        return self.chip.costs.time(kb_messages.StageType.DMA_READ, kb_messages.DmaParams(memory))


TILE_SIDES, TILE_DEPTHS = (256, 128, 64), (256, 128, 64)
"""Sides and depths of the tiles of an estimate. Source: assumed; PEs of bundled chips choose tiles near these."""
SAMPLE_NBYTES = 1 << 20
"""The bytes of a read whose time says how fast bytes move. Source: assumed; the latency is taken off."""


def pe_grid(m: int, n: int, pes: int, costs: BlockCosts | None = None) -> tuple[int, int]:
    """The grid of at most *pes* programs whose largest block is estimated to be fastest, then the one with the least
    input. Without *costs*, the grid whose largest block is smallest.
    """
    splits = [(i, j) for i in range(1, min(m, pes) + 1) for j in range(1, min(n, pes // i) + 1)]
    largest = {(i, j): (-(-m // i), -(-n // j)) for i, j in splits}
    by_size = {split: (rows * cols, rows + cols, split) for split, (rows, cols) in largest.items()}
    if costs is None:
        return min(splits, key=by_size.__getitem__)
    least_ps = {split: costs.least_ps(*block, prod(split)) for split, block in largest.items()}
    best = sorted(splits, key=lambda split: (least_ps[split], by_size[split]))[:MOST_GRIDS]
    return min(best, key=lambda split: (costs.block_ps(*largest[split], prod(split)), by_size[split]))


class Block(NamedTuple):
    """A block of C, the A and the B that its PE reads, and the number of the step of K at which the PE begins."""

    a: Tensor
    b: Tensor
    rows: slice
    cols: slice
    first: int


def even(span: slice, most: int) -> list[slice]:
    """*span* in as few parts of nearly equal length as have at most *most* rows or columns."""
    n = span.stop - span.start
    cuts = [part(n, -(-n // most), number) for number in range(-(-n // most))]
    return [slice(span.start + each.start, span.start + each.stop) for each in cuts]


class CubeGrid(NamedTuple):
    """The blocks of C, down M and along N: of SIPs, of the cubes of a SIP, and of the PEs of a cube."""

    sips: tuple[int, int]
    cubes: tuple[int, int]
    pes: tuple[int, int]

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks in all."""
        (down, along) = zip(*self, strict=True)
        return prod(down), prod(along)


def cube_grid(host: Host, p: GemmParams) -> CubeGrid | None:
    """The grid over all SIPs, cubes and PEs whose largest block is estimated to be fastest, then with least input.

    SIPs cut the longer side of C, because each SIP has a copy of the operand that it does not cut. None where a cube
    has no HBM, or where C has too few rows or columns for a block of each cube.
    """
    topology, pes_by_cube, costs = host.engine.topology, host.pes_by_cube, BlockCosts.of(host, p)
    n_sips, n_cubes, n_pes = len(pes_by_cube), len(pes_by_cube[0]), len(pes_by_cube[0][0])
    nodes = [topology.graph.nodes[each.node_id] for each in topology.address_map.regions if each.space == "hbm"]
    if len({(node.sip, node.cube) for node in nodes}) < n_sips * n_cubes:
        return None
    sips = (1, n_sips) if p.M <= p.N else (n_sips, 1)
    found = [
        CubeGrid(sips, (cm, n_cubes // cm), (pm, pn))
        for cm in range(1, n_cubes + 1)
        for pm in range(1, n_pes + 1)
        for pn in range(1, n_pes // pm + 1)
        if n_cubes % cm == 0
    ]
    found = [grid for grid in found if grid.blocks[0] <= p.M and grid.blocks[1] <= p.N]

    def key(grid: CubeGrid) -> tuple[float, int, int, CubeGrid]:
        (gm, gn), (cm, cn) = grid.blocks, grid.cubes
        m, n = -(-p.M // gm), -(-p.N // gn)
        least_ps = m * n if costs is None else costs.least_ps(m, n, gm * gn)
        return least_ps, m + n, -(-p.M // (sips[0] * cm)) + -(-p.N // (sips[1] * cn)), grid

    return min(found, key=key, default=None)


def most_of_a_block(host: Host, p: GemmParams) -> TileShape:
    """The largest part of a block, and step of K, whose sums and operands fit the registers, and the next loads TCM."""
    pe = next(iter(host.engine.pes.values()))
    room = pe.tcm_nbytes - pe.scheduler.reserved_nbytes
    fits = [
        TileShape(side, side, depth)
        for side, depth in product((512, 256, 128, 64, 32, 16), (128, 64, 32, 16))
        if side * side * p.dtype.accumulator.nbytes + 4 * side * depth * p.dtype.nbytes <= pe.register_nbytes
        and side * side * _out_dtype(p).nbytes + 6 * side * depth * p.dtype.nbytes <= room
    ]
    return max(fits, key=lambda tile: (tile.m, tile.k), default=TileShape(16, 16, 16))


def _launch_sharded(host: Host, p: GemmParams, arrays: Arrays, grid: CubeGrid) -> Tensor:
    """One A and one B for all cubes of a SIP, cut into rows or columns, and along K, over all slices.

    A PE reads what it needs over the network. PEs that read the same rows or columns begin at different steps of K, so
    that each slice serves one of them at a time. A network that can multicast serves them together.
    """
    sips = host.pes_by_cube
    (sm, sn), (cm, cn), (pm, pn) = grid
    gm, gn = grid.blocks
    of_block = {
        ((u * cm + r) * pm + x, (v * cn + s) * pn + y): sips[u * sn + v][r * cn + s][x * pn + y]
        for u, v, r, s, x, y in product(*map(range, (sm, sn, cm, cn, pm, pn)))
    }
    near = {at: host.hbm_slice_of(pe) for at, pe in of_block.items()}
    down, along = gm // sm, gn // sn
    most = p.tile or most_of_a_block(host, p)
    parts = max(1, min(max(down, along), p.K // LEAST_DEPTH))
    a = host.replicas("a", arrays["a"], p.dtype, (gm, parts), [
        [near[i, v * along + k * along // parts] for i in range(gm) for k in range(parts)] for v in range(sn)
    ])  # fmt: skip
    b = host.replicas("b", arrays["b"], p.dtype, (parts, gn), [
        [near[u * down + k * down // parts, j] for k in range(parts) for j in range(gn)] for u in range(sm)
    ])  # fmt: skip
    c = host.empty("c", (p.M, p.N), _out_dtype(p), blocks=(gm, gn), slices=[near[at] for at in sorted(near)])
    steps = [each for number in range(parts) for each in even(part(p.K, parts, number), most.k)]
    starts = [next(i for i, step in enumerate(steps) if step.start >= part(p.K, parts, k).start) for k in range(parts)]
    turns = 0 if host.engine.topology.spec.multicast else 1
    blocks = [
        Block(
            a[j // along],
            b[i // down],
            part(p.M, gm, i),
            part(p.N, gn, j),
            starts[turns * (i * parts // down + j * parts // along) % parts],
        )
        for i, j in sorted(of_block)
    ]
    host.launch(sharded_kernel, blocks, c, steps, most, pes=[of_block[at] for at in sorted(of_block)])
    host.chose(method="blocks", operands="sharded", grid=f"{gm} x {gn}")
    return c


def _out_dtype(p: GemmParams) -> DType:
    return p.dtype if p.dtype.is_float else p.dtype.accumulator


def _random(shape: tuple[int, int], dtype: DType, rng: np.random.Generator) -> np.ndarray:
    if dtype.is_float:
        return cast(rng.standard_normal(shape, dtype=np.float32), dtype)
    return cast(rng.integers(-8, 8, shape), dtype)
