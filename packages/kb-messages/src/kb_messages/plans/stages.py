"""Stages: the work of one block of a PE for one tile, and its dependence on the place of the tile in the grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain, repeat
from typing import Final

from msgspec import Struct

from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.log.oplog import GemmAttributes, MathAttributes, Role
from kb_messages.memory.rectangles import Rectangle
from kb_messages.text import int_of


class StageType(IntEnum):
    """The kinds of service a tile passes through."""

    __hash__ = int.__hash__  # that of Enum is a Python function, and plans look stages up all the time

    DMA_READ = 0
    FETCH = 1
    GEMM = 2
    MATH = 3
    STORE = 4
    DMA_WRITE = 5


class TileShape(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Rows of the output, columns of the output and depth of the product, in elements: `m x n x k`."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @classmethod
    def parse(cls, text: str) -> TileShape:
        """The shape that *text*, like `128x128x128`, names as M x N x K. Raises PlanError for any other text."""
        sides = [int_of(part) or 0 for part in text.lower().split("x")]
        if len(sides) != 3 or 0 in sides:
            raise PlanError("tile", repr(text), "three positive sizes MxNxK", "write it like 128x128x128")
        return cls(*sides)


class Place(IntEnum):
    """The place where the bytes of an operand lie.

    For MEMORY the plan has addresses, and for IMMEDIATE offsets in the op log's blob of constants. For the other places
    the plan has offsets in a buffer, and the token of the tile knows the place of that buffer.

    PANEL is a buffer that tiles share. The tiles at one index along K share it for one turn of the outer loop. The
    first of them along the inner loop fills the buffer, and only the last of them releases its bytes when it reads.

    HELD is a sum that lies in registers between commands. The plan has its offset in the register file.
    """

    MEMORY = 0
    INPUT_BUFFER = 1
    OUTPUT_BUFFER = 2
    REGISTERS = 3
    ACCUMULATOR = 4
    IMMEDIATE = 5
    PANEL = 6
    HELD = 7


class When(IntEnum):
    """The tiles along K that have a stage, or an operand of a stage. LATER_K is every tile except the first."""

    EVERY_TILE = 0
    LAST_K = 1
    FIRST_K = 2
    LATER_K = 3

    def holds(self, k: int, k_grid: int) -> bool:
        """Whether tile *k* of the *k_grid* tiles along K has the stage or operand."""
        if self is When.EVERY_TILE:
            return True
        if self is When.LAST_K:
            return k == k_grid - 1
        return (k == 0) is (self is When.FIRST_K)


class Axis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One side of an operand: `total` elements, cut into pieces of `tile` elements along a dimension of the grid.

    Dimensions are 0 (M), 1 (N) and 2 (K). A side without dimension is the same for every tile, like the row of a bias.
    """

    dimension: int | None
    total: int
    tile: int

    def extent(self, index: int) -> int:
        """Elements of piece *index*. The last piece may be smaller than the others."""
        return min(self.tile, self.total - index * self.tile)

    def index(self, place: tuple[int, int, int]) -> int:
        """The index of the piece that belongs to the tile at *place* (m, n, k)."""
        return 0 if self.dimension is None else place[self.dimension]


class OperandTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The rectangle of an operand as a function of the tile.

    In MEMORY, `base` is the physical address of element (0, 0) of the whole operand, and `stride` the bytes from row to
    row. In IMMEDIATE, `base` is an offset in the op log's blob of constants. At other places `base` is an offset in the
    buffer of the tile, whose rows are `stride` bytes apart. With `release`, the read frees the bytes. Among the tiles
    that have the stage, `when` selects the tiles that have the operand.
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

    def follows(self, dimension: int) -> bool:
        """Whether the rectangle moves along a dimension of the grid."""
        return dimension in (self.rows.dimension, self.cols.dimension)


_PANEL: Final = Place.PANEL  # Python 3.11 looks a member of an enumeration up by a call
_K: Final = 2
_ROUNDS: Final = 6
"""The index of the number of rounds among the arguments of `philox`."""


class DmaParams(Struct, frozen=True, gc=False, tag="dma"):
    """DMA_READ and DMA_WRITE: the rectangle in memory that is read or written.

    The other end is the TCM of the PE or, with `to_registers`, its register file. A transfer in pieces has several
    rectangles of one memory, in `pieces`, and `memory` is then the first of them. With `constants` no memory is read:
    the constants come with the command, and `memory` has their bytes at address 0. An `atomic` write also reads the
    bytes at the memory.
    """

    memory: Rectangle
    to_registers: bool = False
    pieces: tuple[Rectangle, ...] = ()
    constants: bool = False
    atomic: bool = False


class TransferParams(Struct, frozen=True, kw_only=True, tag="transfer"):
    """FETCH and STORE: the bytes that cross the TCM port."""

    nbytes: int


class GemmParams(Struct, frozen=True, kw_only=True, tag="gemm"):
    """GEMM: an m x k tile of `dtype` times a k x n tile of `dtype_b`, summed over k into m x n of `dtype_acc`.

    A transposed operand lies in registers as k x m (A) or n x k (B).
    """

    m: int
    n: int
    k: int
    dtype: DType
    dtype_b: DType
    dtype_acc: DType
    accumulate: bool
    transpose_a: bool = False
    transpose_b: bool = False


class MathParams(Struct, frozen=True, kw_only=True, tag="math"):
    """MATH: `op` on rows x cols elements.

    A reduction over `axis` reads these elements, and any other op writes them.

    `dtype` is the type of the result. `depth` is the number of rounds of `philox`, the number of elements along `axis`
    from which `gather` chooses, and 1 for all other functions.
    """

    op: str
    rows: int
    cols: int
    dtype: DType
    axis: int | None = None
    depth: int = 1


StageParams = DmaParams | TransferParams | GemmParams | MathParams


class Stage(Struct, frozen=True, gc=False):
    """One service: its type, the node id of the block that serves it, and the parameters that decide its time."""

    stage_type: StageType
    component: str
    params: StageParams


class TilePlan(Struct, frozen=True, gc=False):
    """The stages of a tile, in order. `tile_id` counts from 0 in the command; `m, n, k` is its place in the grid."""

    tile_id: int
    m: int
    n: int
    k: int
    stages: tuple[Stage, ...]


class StageTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A stage of the tiles that `when` selects, with the operands that its op record lists.

    `line` is the line of the kernel, if the lines of a command's stages differ. `math` is the function of a MATH stage.
    `gemm` describes how the factors of a GEMM are stored; its operands decide whether the GEMM accumulates. A DMA stage
    `in_pieces` moves every one of its operands in memory, which do not depend on the tile.
    """

    stage_type: StageType
    component: str
    when: When
    operands: tuple[OperandTemplate, ...]
    math: MathAttributes | None = None
    gemm: GemmAttributes = GemmAttributes()
    in_pieces: bool = False
    line: str = ""

    @property
    def to_registers(self) -> bool:
        """Whether the stage is a DMA_READ that writes registers instead of TCM."""
        return self.stage_type is StageType.DMA_READ and any(
            operand.place is Place.REGISTERS for operand in self.operands
        )

    @property
    def fills_panel(self) -> bool:
        """Whether the stage writes a panel's buffer. Only the first tiles along the inner loop have such a stage."""
        for operand in self.operands:  # noqa: SIM110  # twice as fast as any(), and each plan of a PE asks
            if operand.place is _PANEL and operand.role.is_write:
                return True
        return False


def stages_at(templates: Sequence[StageTemplate], k: int, k_grid: int, is_later: bool = False) -> list[int]:
    """The numbers of the *templates* whose stage a tile at *k* of *k_grid* along K has.

    With *is_later* the tile is behind the first one along the inner loop, and so does not fill a panel.
    """
    return [
        number
        for number, template in enumerate(templates)
        if template.when.holds(k, k_grid) and not (is_later and template.fills_panel)
    ]


def rectangle(operand: OperandTemplate, place: tuple[int, int, int]) -> Rectangle:
    """The bytes of *operand* that belong to the tile at *place* (m, n, k) in the grid."""
    rows, cols = operand.rows, operand.cols
    row = 0 if rows.dimension is None else place[rows.dimension]
    col = 0 if cols.dimension is None else place[cols.dimension]
    nbytes = operand.dtype.nbytes
    base = operand.base
    if operand.place is Place.MEMORY:
        base += row * rows.tile * operand.stride + col * cols.tile * nbytes
    return Rectangle(base, rows.extent(row), cols.extent(col) * nbytes, operand.stride)


def rectangles_along_k(operand: OperandTemplate, first: tuple[int, int, int], end: int) -> Iterator[Rectangle]:
    """`rectangle` of a MEMORY operand for each tile from *first* up to, and without, k = *end*.

    All tiles except the last have rectangles of one shape, so their bases are a range.
    """
    start, last = rectangle(operand, first), rectangle(operand, (*first[:2], end - 1))
    rows, cols = operand.rows, operand.cols
    step = rows.tile * operand.stride if rows.dimension == _K else 0
    if cols.dimension == _K:
        step += cols.tile * operand.dtype.nbytes
    stop = start.base + (end - 1 - first[2]) * step
    bases = range(start.base, stop, step) if step else repeat(start.base, end - 1 - first[2])
    alike = map(Rectangle, bases, repeat(start.rows), repeat(start.row_nbytes), repeat(start.stride))
    return chain(alike, (last,))


def memory_side(template: StageTemplate) -> OperandTemplate:
    """The operand of a DMA stage that lies in memory. The other operands lie in the PE.

    It is the OUT of an atomic, a DMA_WRITE with a function.
    """
    outside = Role.SRC if template.stage_type is StageType.DMA_READ else Role.DST
    if template.math is not None:
        outside = Role.OUT
    return next(each for each in template.operands if each.role is outside)


def pieces_params(template: StageTemplate) -> DmaParams:
    """The parameters of a DMA stage in pieces. A row that goes to several places is read once.

    A stage with constants alone gets a rectangle at address 0.
    """
    side = memory_side(template)
    if side.place is not Place.MEMORY:
        nbytes = rectangle(side, (0, 0, 0)).nbytes
        return DmaParams(Rectangle(0, 1, nbytes, nbytes), constants=True)
    role = side.role
    pieces = tuple(
        rectangle(each, (0, 0, 0)) if each.stride else Rectangle(each.base, 1, each.cols.total * each.dtype.nbytes, 0)
        for each in template.operands
        if each.role is role and each.place is Place.MEMORY
    )
    return DmaParams(pieces[0], False, pieces)


def stage_params(template: StageTemplate, place: tuple[int, int, int], k_grid: int) -> StageParams:
    """The parameters that decide the time of a stage of *template* for the tile at *place*. The stage is no DMA.

    Raises PlanError for a stage type that plans cannot hold.
    """
    operands = [operand for operand in template.operands if operand.when.holds(place[2], k_grid)]
    if template.stage_type is StageType.GEMM:
        return _gemm_params(template.gemm, operands, place)
    if template.stage_type in (StageType.FETCH, StageType.STORE):
        side = Role.SRC if template.stage_type is StageType.FETCH else Role.DST
        return TransferParams(nbytes=sum(rectangle(each, place).nbytes for each in operands if each.role is side))
    if template.stage_type is StageType.MATH and template.math is not None:
        return _math_params(template.math, operands, place)
    raise PlanError("plan", f"a {template.stage_type.name} stage", "a stage type that plans can hold")


def depth_axis(gemm: GemmAttributes, a: OperandTemplate) -> Axis:
    """The side of the operand *a* of a GEMM over which the products are summed."""
    return a.rows if gemm.transpose_a else a.cols


def _gemm_params(gemm: GemmAttributes, operands: list[OperandTemplate], place: tuple[int, int, int]) -> GemmParams:
    by_role = {operand.role: operand for operand in operands}
    a, out = by_role[Role.A], by_role[Role.OUT]
    depth = depth_axis(gemm, a)
    return GemmParams(
        m=out.rows.extent(out.rows.index(place)),
        n=out.cols.extent(out.cols.index(place)),
        k=depth.extent(depth.index(place)),
        dtype=a.dtype,
        dtype_b=by_role[Role.B].dtype,
        dtype_acc=out.dtype,
        accumulate=Role.ACC in by_role,
        transpose_a=gemm.transpose_a,
        transpose_b=gemm.transpose_b,
    )


def _math_params(math: MathAttributes, operands: list[OperandTemplate], place: tuple[int, int, int]) -> MathParams:
    side = Role.OUT if math.axis is None and math.op != "histogram" else Role.IN
    shaped = next(each for each in operands if each.role is side)
    return MathParams(
        op=math.op,
        rows=shaped.rows.extent(shaped.rows.index(place)),
        cols=shaped.cols.extent(shaped.cols.index(place)),
        dtype=next(each.dtype for each in operands if each.role is Role.OUT),
        axis=math.axis,
        depth=_depth(math, [each for each in operands if each.role is Role.IN], place),
    )


def _depth(math: MathAttributes, inputs: list[OperandTemplate], place: tuple[int, int, int]) -> int:
    """The `depth` of MathParams: rounds of `philox`, elements from which `gather` chooses, or 1."""
    if math.op == "philox":
        rounds = math.arguments(inputs)[_ROUNDS]
        return int(rounds) if isinstance(rounds, float) else 1
    if math.op == "gather":
        side = inputs[1].cols if math.axis == 1 else inputs[1].rows
        return side.extent(side.index(place))
    return 1
