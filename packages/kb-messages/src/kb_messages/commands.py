"""What a kernel asks of its PE: the commands that PE_CPU puts into the submission queue."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from kb_messages.address import OFFSET_BITS
from kb_messages.dtypes import DType
from kb_messages.oplog import MathAttributes
from kb_messages.rectangles import Rectangle
from kb_messages.stages import TileShape


class Matrix(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A 2-D operand at a physical address: `rows x cols` of `dtype`, rows `stride` bytes apart.

    `virtual` is the address that the kernel called it by, if that was a virtual one.
    """

    address: int
    rows: int
    cols: int
    stride: int
    dtype: DType
    virtual: int | None = None

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row's elements."""
        return self.cols * self.dtype.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, gaps between rows left out."""
        return self.rows * self.row_nbytes

    @property
    def span_nbytes(self) -> int:
        """Bytes from the first to the last, gaps between rows included."""
        return (self.rows - 1) * self.stride + self.row_nbytes

    @property
    def owner(self) -> int:
        """The number of the memory that holds it."""
        return self.address >> OFFSET_BITS

    @property
    def rectangle(self) -> Rectangle:
        """The bytes of the elements."""
        return Rectangle(self.address, self.rows, self.row_nbytes, self.stride)

    def part(self, row: int, col: int, rows: int, cols: int) -> Matrix:
        """`rows x cols` of the elements, from (row, col) on."""
        moved = row * self.stride + col * self.dtype.nbytes
        virtual = None if self.virtual is None else self.virtual + moved
        return Matrix(
            address=self.address + moved, rows=rows, cols=cols, stride=self.stride, dtype=self.dtype, virtual=virtual
        )

    @classmethod
    def packed(cls, rows: int, cols: int, dtype: DType, address: int = 0) -> Matrix:
        """A matrix whose rows follow each other without gaps."""
        return cls(address=address, rows=rows, cols=cols, stride=cols * dtype.nbytes, dtype=dtype)


class Fill(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a masked load does: its source goes to (`row`, `col`) of its target, and a constant to all around it.

    `immediate` is where the op log's blob of constants has it, as many times as there are elements around.
    """

    row: int
    col: int
    immediate: int


class LoadCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="load", omit_defaults=True):
    """Copy `src` (any memory) to `dst` (this PE's TCM). A simple command: one DMA read.

    With `fill`, `src` is smaller than `dst`.
    """

    src: Matrix
    dst: Matrix
    fill: Fill | None = None


class StoreCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="store"):
    """Copy `src` (this PE's TCM) to `dst` (any memory). A simple command: one DMA write."""

    src: Matrix
    dst: Matrix


class EpilogueScope(StrEnum):
    """When an epilogue op runs: on every tile's partial product, or once on the finished sum."""

    K_TILE = "k_tile"
    OUTPUT_TILE = "output_tile"


class EpilogueOp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An op on a GEMM's values while they are in registers. Which ops there are: `kb_plans.epilogue`.

    `operand` is what it adds or multiplies with: a row of as many columns as the output, a column of as many rows, or a
    matrix of its shape; a pinned one lies in this PE's TCM. `dtype` is what `cast` rounds to. With `group`, the operand
    has a row for each `group` elements along K.
    """

    op: str
    scope: EpilogueScope
    operand: Matrix | None = None
    operand_pinned: bool = False
    scalars: tuple[float, ...] = ()
    dtype: DType | None = None
    group: int | None = None


class GemmCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gemm"):
    """A composite: `out = a @ b`, then the epilogue's ops in their order, tiled over DMA, fetch/store, GEMM and MATH.

    A pinned operand already lies in this PE's TCM, so it has no DMA; `tile=None` lets the scheduler choose. A
    transposed operand is stored the other way round: `a` as k x m, `b` as n x k. With `b_stream`, b goes from memory to
    registers and takes no TCM.
    """

    a: Matrix
    b: Matrix
    out: Matrix
    tile: TileShape | None = None
    a_pinned: bool = False
    b_pinned: bool = False
    out_pinned: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    b_stream: bool = False
    epilogue: tuple[EpilogueOp, ...] = ()


class MathInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operand of a math command; a pinned one already lies in this PE's TCM, so it has no DMA."""

    matrix: Matrix
    pinned: bool = False


class MathCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="math"):
    """A composite, or with one tile a simple command: `out = math.op(*math.arguments(inputs))`, over
    DMA, fetch/store and MATH. `tile=None` lets the scheduler choose; its depth is 1.
    """

    math: MathAttributes
    inputs: tuple[MathInput, ...]
    out: Matrix
    tile: TileShape | None = None
    out_pinned: bool = False


Command = LoadCommand | StoreCommand | GemmCommand | MathCommand


def matrices_of(command: Struct) -> Iterator[Matrix]:
    """Every operand of a command, in the order of its fields; those inside inputs and epilogue ops too."""
    for name in command.__struct_fields__:
        value = getattr(command, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Matrix):
                yield each
            elif isinstance(each, Struct):
                yield from matrices_of(each)


def target_of(command: Command) -> Matrix:
    """What a command writes: the very Matrix that `matrices_of` gives; all others it reads."""
    return command.dst if isinstance(command, LoadCommand | StoreCommand) else command.out


class SubmittedCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command on its way: its global order, the PE that issued it and the kernel line that asked for it."""

    command_seq: int
    pe: str
    line: str
    command: Command


class CompletionRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What PE_SCHEDULER publishes to a PE's completion queue: a command whose `n_tiles` tiles are done, at `t_ps`."""

    command_seq: int
    pe: str
    t_ps: int
    n_tiles: int
