"""Pipeline plans: what the blocks of a PE do for one command, tile by tile and stage by stage.

A `PipelinePlan` is parametric: a grid of tiles, and one `StageTemplate` for each stage a tile may have, whose operands
say how their rectangle follows the tile's place in the grid. Tiles are computed when asked for, so that a plan of a
million tiles costs nothing until it is iterated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import overload

from msgspec import Struct

from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.oplog import MathAttributes, Role


class StageType(IntEnum):
    """The kinds of service a tile passes through."""

    DMA_READ = 0
    FETCH = 1
    GEMM = 2
    MATH = 3
    STORE = 4
    DMA_WRITE = 5


class TileShape(Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of the output, columns of the output and depth of the product, in elements: `m x n x k`."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @classmethod
    def parse(cls, text: str) -> TileShape:
        """Reads `128x128x128`, M x N x K. Raises PlanError for anything else."""
        parts = text.lower().split("x")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
            raise PlanError("tile", repr(text), "three positive sizes MxNxK", "write it like 128x128x128")
        return cls(*(int(part) for part in parts))


class Place(IntEnum):
    """Where an operand's bytes lie. Only MEMORY has addresses in the plan; the others ride on the tile's token."""

    MEMORY = 0
    INPUT_BUFFER = 1
    OUTPUT_BUFFER = 2
    REGISTERS = 3
    ACCUMULATOR = 4


class When(IntEnum):
    """Which tiles over K have a stage, or an operand of one. LATER_K is every tile but the first."""

    EVERY_TILE = 0
    LAST_K = 1
    FIRST_K = 2
    LATER_K = 3

    def holds(self, k: int, k_grid: int) -> bool:
        """Whether tile *k* of *k_grid* along K is one of them."""
        if self is When.EVERY_TILE:
            return True
        if self is When.LAST_K:
            return k == k_grid - 1
        return (k == 0) is (self is When.FIRST_K)


class Axis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One side of an operand: `total` elements cut into pieces of `tile` along a dimension of the grid (0, 1 or 2).

    With no dimension the side is the same for every tile: the one row of a bias, say.
    """

    dimension: int | None
    total: int
    tile: int

    def extent(self, index: int) -> int:
        """Elements of piece *index*; the last piece may be ragged."""
        return min(self.tile, self.total - index * self.tile)

    def index(self, place: tuple[int, int, int]) -> int:
        """Which piece the tile at *place* in the grid has."""
        return 0 if self.dimension is None else place[self.dimension]


class OperandTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one operand's rectangle follows the tile.

    In MEMORY, `base` is the physical address of element (0, 0) of the whole operand and `stride` the bytes between
    its rows. Elsewhere `base` is the offset within the tile's buffer, whose rows are `stride` bytes apart. `when`
    says which of the tiles that have the stage have the operand too.
    """

    role: Role
    place: Place
    base: int
    rows: Axis
    cols: Axis
    stride: int
    dtype: DType
    release: bool = False
    when: When = When.EVERY_TILE


class Rectangle(Struct, frozen=True, gc=False):
    """`rows` runs of `row_nbytes`, `stride` bytes apart, from `base` (an address, or an offset within a buffer)."""

    base: int
    rows: int
    row_nbytes: int
    stride: int

    @property
    def nbytes(self) -> int:
        """Bytes in all rows, gaps left out."""
        return self.rows * self.row_nbytes


class DmaParams(Struct, frozen=True, kw_only=True, gc=False, tag="dma"):
    """DMA_READ and DMA_WRITE: the rectangle in memory that is read or written; the other end is the PE's TCM."""

    memory: Rectangle


class TransferParams(Struct, frozen=True, kw_only=True, tag="transfer"):
    """FETCH and STORE: the bytes that cross the TCM port."""

    nbytes: int


class GemmParams(Struct, frozen=True, kw_only=True, tag="gemm"):
    """GEMM: an m x k tile of `dtype` times a k x n tile of `dtype_b`, summed over k into m x n of `dtype_acc`."""

    m: int
    n: int
    k: int
    dtype: DType
    dtype_b: DType
    dtype_acc: DType
    accumulate: bool


class MathParams(Struct, frozen=True, kw_only=True, tag="math"):
    """MATH: `op` on rows x cols elements: those of the result, or those a reduction over `axis` reads.

    `dtype` is that of the result.
    """

    op: str
    rows: int
    cols: int
    dtype: DType
    axis: int | None = None


StageParams = DmaParams | TransferParams | GemmParams | MathParams


class Stage(Struct, frozen=True, gc=False):
    """One service: its type, the node id of the block that does it, and what that block needs to know."""

    stage_type: StageType
    component: str
    params: StageParams


class TilePlan(Struct, frozen=True, gc=False):
    """The stages of one tile, in order. `tile_id` counts from 0 within the command; `m, n, k` is its place."""

    tile_id: int
    m: int
    n: int
    k: int
    stages: tuple[Stage, ...]


class StageTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage of the tiles that `when` says, with the operands its op record lists; `math` is what a MATH does."""

    stage_type: StageType
    component: str
    when: When
    operands: tuple[OperandTemplate, ...]
    math: MathAttributes | None = None


class BufferNeeds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes one tile occupies: TCM input and output buffer, register operands, register accumulator."""

    input_nbytes: int = 0
    output_nbytes: int = 0
    register_nbytes: int = 0
    accumulator_nbytes: int = 0


class PipelinePlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command's whole work: `grid` tiles in M, N, K order (K innermost), each with the `stages` its place asks for.

    A tile passes through its stages in their order here. One of them at least is every tile's; construction raises
    PlanError otherwise.
    """

    kind: str
    grid: tuple[int, int, int]
    stages: tuple[StageTemplate, ...]
    buffers: BufferNeeds

    def __post_init__(self) -> None:
        if not self.n_every:
            raise PlanError(f"{self.kind} plan", "no stage that every tile has", "one, so that every tile does work")

    @property
    def tiles(self) -> TileSequence:
        """The tiles, computed on demand; `len` and indexing cost the same for any size."""
        return TileSequence(self)

    @property
    def n_tiles(self) -> int:
        """Tiles of the grid."""
        m, n, k = self.grid
        return m * n * k

    @property
    def n_every(self) -> int:
        """Stages that every tile has."""
        return sum(stage.when is When.EVERY_TILE for stage in self.stages)

    @property
    def n_stages(self) -> int:
        """Stage services of the whole plan."""
        m, n, _ = self.grid
        return m * n * sum(self.tiles_with(stage.when) for stage in self.stages)

    def tiles_with(self, *whens: When) -> int:
        """How many of the tiles along K all of *whens* hold for."""
        k_grid = self.grid[2]
        times = {0: 1, k_grid - 1: 1}
        if k_grid > 2:
            times[1] = k_grid - 2  # those between the first and the last are alike
        return sum(count for k, count in times.items() if all(when.holds(k, k_grid) for when in whens))

    def stages_at(self, k: int) -> list[int]:
        """Which of `stages` a tile at *k* along K has."""
        k_grid = self.grid[2]
        return [number for number, stage in enumerate(self.stages) if stage.when.holds(k, k_grid)]


_MAX_KNOWN_STAGES = 1 << 16
_LANE = 1 << 10
"""Tiles along K whose stages are made at a time."""

_Place = tuple[int, int, int]
_Addressed = tuple[int, int, int]
"""A stage whose rectangle moves with the tile: template number, row dimension, column dimension."""


class TileSequence(Sequence[TilePlan]):
    """The tiles of a plan as a sequence. Stages are shared between the tiles that agree on them."""

    def __init__(self, plan: PipelinePlan) -> None:
        self._plan = plan
        self._kinds: dict[tuple[bool, bool, bool, bool], tuple[Stage | _Addressed, ...]] = {}
        self._known: dict[tuple[int, int, int, int, int], list[Stage]] = {}

    def __len__(self) -> int:
        return self._plan.n_tiles

    @overload
    def __getitem__(self, index: int) -> TilePlan: ...
    @overload
    def __getitem__(self, index: slice) -> list[TilePlan]: ...
    def __getitem__(self, index: int | slice) -> TilePlan | list[TilePlan]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"tile {index} of a plan of {len(self)}")
        _, n_grid, k_grid = self._plan.grid
        mn, k = divmod(position, k_grid)
        m, n = divmod(mn, n_grid)
        stages = [lane[0] for lane in self._lanes((m, n, k), k + 1)]
        return TilePlan(position, m, n, k, tuple(stages))

    def __iter__(self) -> Iterator[TilePlan]:
        m_grid, n_grid, k_grid = self._plan.grid
        ends = sorted({1, *range(_LANE, k_grid - 1, _LANE), k_grid - 1, k_grid} - {0})
        tile_id = 0
        for m in range(m_grid):
            for n in range(n_grid):
                k = 0
                for end in ends:
                    for stages in zip(*self._lanes((m, n, k), end), strict=True):
                        yield TilePlan(tile_id, m, n, k, stages)
                        tile_id += 1
                        k += 1

    def _lanes(self, first: _Place, end: int) -> list[list[Stage]]:
        """For each stage of the tiles from *first* to k = *end* (all of one kind): that stage of every tile."""
        lanes = []
        for slot in self._slots(first):
            if isinstance(slot, Stage):
                lanes.append([slot] * (end - first[2]))
            else:
                lanes.append(self._addressed_lane(slot, first, end))
        return lanes

    def _addressed_lane(self, slot: _Addressed, first: _Place, end: int) -> list[Stage]:
        number, row, col = slot
        key = (number, first[row], first[col], first[2], end)
        lane = self._known.get(key)
        if lane is None:
            template = self._plan.stages[number]
            memory = _memory_side(template)
            lane = [
                Stage(template.stage_type, template.component, DmaParams(memory=rectangle(memory, (*first[:2], k))))
                for k in range(first[2], end)
            ]
            if len(self._known) * len(lane) >= _MAX_KNOWN_STAGES:
                self._known.clear()
            self._known[key] = lane
        return lane

    def _slots(self, place: _Place) -> tuple[Stage | _Addressed, ...]:
        """The stages of a tile at *place*; tiles at the same edges of the grid have the same."""
        m_grid, n_grid, k_grid = self._plan.grid
        m, n, k = place
        kind = (m == m_grid - 1, n == n_grid - 1, k == 0, k == k_grid - 1)
        slots = self._kinds.get(kind)
        if slots is None:
            slots = self._kinds[kind] = tuple(self._slot(number, place) for number in self._plan.stages_at(k))
        return slots

    def _slot(self, number: int, place: _Place) -> Stage | _Addressed:
        template = self._plan.stages[number]
        if template.stage_type in (StageType.DMA_READ, StageType.DMA_WRITE):
            memory = _memory_side(template)
            # A side that follows no dimension may as well follow K, by which lanes are told apart in any case.
            row, col = (2 if axis.dimension is None else axis.dimension for axis in (memory.rows, memory.cols))
            return number, row, col
        return Stage(template.stage_type, template.component, _params(template, place, self._plan.grid[2]))


def rectangle(operand: OperandTemplate, place: tuple[int, int, int]) -> Rectangle:
    """The bytes of *operand* that belong to the tile at *place* in the grid (m, n, k)."""
    rows, cols = operand.rows, operand.cols
    row = 0 if rows.dimension is None else place[rows.dimension]
    col = 0 if cols.dimension is None else place[cols.dimension]
    nbytes = operand.dtype.nbytes
    base = operand.base
    if operand.place is Place.MEMORY:
        base += row * rows.tile * operand.stride + col * cols.tile * nbytes
    return Rectangle(base, rows.extent(row), cols.extent(col) * nbytes, operand.stride)


def _memory_side(template: StageTemplate) -> OperandTemplate:
    outside = Role.SRC if template.stage_type is StageType.DMA_READ else Role.DST
    return next(each for each in template.operands if each.role is outside)


def _params(template: StageTemplate, place: tuple[int, int, int], k_grid: int) -> StageParams:
    operands = [operand for operand in template.operands if operand.when.holds(place[2], k_grid)]
    if template.stage_type is StageType.GEMM:
        return _gemm_params(operands, place)
    if template.stage_type in (StageType.FETCH, StageType.STORE):
        side = Role.SRC if template.stage_type is StageType.FETCH else Role.DST
        return TransferParams(nbytes=sum(rectangle(each, place).nbytes for each in operands if each.role is side))
    if template.stage_type is StageType.MATH and template.math is not None:
        return _math_params(template.math, operands, place)
    raise PlanError("plan", f"a {template.stage_type.name} stage", "a stage type that plans can hold")


def _gemm_params(operands: list[OperandTemplate], place: tuple[int, int, int]) -> GemmParams:
    by_role = {operand.role: operand for operand in operands}
    a, out = by_role[Role.A], by_role[Role.OUT]
    return GemmParams(
        m=out.rows.extent(out.rows.index(place)),
        n=out.cols.extent(out.cols.index(place)),
        k=a.cols.extent(a.cols.index(place)),
        dtype=a.dtype,
        dtype_b=by_role[Role.B].dtype,
        dtype_acc=out.dtype,
        accumulate=Role.ACC in by_role,
    )


def _math_params(math: MathAttributes, operands: list[OperandTemplate], place: tuple[int, int, int]) -> MathParams:
    side = Role.OUT if math.axis is None else Role.IN
    shaped = next(each for each in operands if each.role is side)
    return MathParams(
        op=math.op,
        rows=shaped.rows.extent(shaped.rows.index(place)),
        cols=shaped.cols.extent(shaped.cols.index(place)),
        dtype=next(each.dtype for each in operands if each.role is Role.OUT),
        axis=math.axis,
    )
