"""Commands: the work that a kernel orders from its PE. PE_CPU puts commands into the submission queue.

`data_op` is True for a message that reads or writes data when it is served. Only such messages have records in the op
log.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.log.oplog import MathAttributes
from kb_messages.math.vector import VectorProgram
from kb_messages.memory.address import OFFSET_BITS
from kb_messages.memory.rectangles import Rectangle
from kb_messages.plans.loop_order import LoopOrder
from kb_messages.plans.stages import TileShape


class Matrix(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A 2-D operand at a physical address: `rows x cols` of `dtype`, rows `stride` bytes apart.

    `virtual` is the virtual address that the kernel used, or None if the kernel used the physical one.
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
        """Bytes of the elements, without gaps between rows."""
        return self.rows * self.row_nbytes

    @property
    def span_nbytes(self) -> int:
        """Bytes from the first to the last element, with the gaps between rows."""
        return (self.rows - 1) * self.stride + self.row_nbytes

    @property
    def owner(self) -> int:
        """The owner number of the memory that holds the matrix."""
        return self.address >> OFFSET_BITS

    @property
    def rectangle(self) -> Rectangle:
        """The bytes of the elements as a rectangle."""
        return Rectangle(self.address, self.rows, self.cols * self.dtype.nbytes, self.stride)

    def part(self, row: int, col: int, rows: int, cols: int) -> Matrix:
        """The `rows x cols` elements from (row, col) on."""
        moved = row * self.stride + col * self.dtype.nbytes
        virtual = None if self.virtual is None else self.virtual + moved
        return Matrix(
            address=self.address + moved, rows=rows, cols=cols, stride=self.stride, dtype=self.dtype, virtual=virtual
        )

    @classmethod
    def packed(cls, rows: int, cols: int, dtype: DType, address: int = 0) -> Matrix:
        """A matrix whose rows follow each other without gaps. Raises PlanError for a dtype that is no DType."""
        if type(dtype) is not DType:
            raise PlanError("Matrix.packed", f"dtype {dtype!r}", "a DType", "write it like DType.F16 or DType('f16')")
        return cls(address=address, rows=rows, cols=cols, stride=cols * dtype.nbytes, dtype=dtype)


class Fill(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rest of a masked load: the source goes to (`row`, `col`) of the target, and a constant to all bytes around.

    `immediate` is the offset of the constant in the op log's blob. The blob repeats the constant for each element
    around the source.
    """

    row: int
    col: int
    immediate: int


class Piece(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`rows x cols` elements of a memory, and their place in a tile.

    The rows are `stride` bytes apart from `address` on, and in the tile `place_stride` bytes apart from the TCM address
    `place` on. A load with `stride` 0 reads one row and puts it to every row of the place. `virtual` is the virtual
    address that the kernel used, or None if the kernel used the physical one.
    """

    address: int
    stride: int
    place: int
    place_stride: int
    rows: int
    cols: int
    virtual: int | None = None

    def memory(self, dtype: DType) -> Rectangle:
        """The bytes in memory. With `stride` 0 they are one row."""
        rows = self.rows if self.stride else 1
        return Rectangle(self.address, rows, self.cols * dtype.nbytes, self.stride)

    def tile(self, dtype: DType) -> Rectangle:
        """The bytes in the tile, as a rectangle of TCM."""
        return Rectangle(self.place, self.rows, self.cols * dtype.nbytes, self.place_stride)


class LoadCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="load", omit_defaults=True):
    """Copies `src` (any memory) to `dst` (the TCM of this PE). A simple command: one DMA read.

    With `fill`, `src` is smaller than `dst`. With `pieces`, which lie in one memory, the command copies the pieces to
    their places in `dst`, and `src` is the first row of the first piece. `fills` are parts of `dst` that take
    constants: the `address` of such a piece is an offset in the op log's blob. With fills and no pieces, the command
    reads no memory, and `src` is the first row of the first fill.
    """

    data_op: ClassVar[bool] = True
    src: Matrix
    dst: Matrix
    fill: Fill | None = None
    pieces: tuple[Piece, ...] = ()
    fills: tuple[Piece, ...] = ()


class StoreCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="store", omit_defaults=True):
    """Copies `src` (the TCM of this PE) to `dst` (any memory). A simple command: one DMA write.

    With `pieces`, which lie in one memory and do not overlap, the command copies parts of `src` to the pieces, and
    `dst` is the first row of the first piece.
    """

    data_op: ClassVar[bool] = True
    src: Matrix
    dst: Matrix
    pieces: tuple[Piece, ...] = ()


class SendCommand(StoreCommand, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="send", omit_defaults=True):
    """A store of `src` to `dst`, a slot in the TCM of another PE, that carries message `number` of a channel.

    The channel leads from the program that sends to program `to` of the launch, and has the name `channel_tag`. The
    messages of a channel count from 0.
    """

    to: int
    channel_tag: str
    number: int


class EpilogueScope(StrEnum):
    """When an epilogue op runs: on the partial product of every tile, or once on the finished sum."""

    K_TILE = "k_tile"
    OUTPUT_TILE = "output_tile"


class EpilogueOp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An op on the values of a GEMM while they are in registers. `kb_plans.EPILOGUE_OPS` lists the ops.

    `operand` is the second argument of an addition or a product: a row with the columns of the output, a column with
    its rows, or a matrix of its shape. A pinned operand lies in the TCM of the PE. `dtype` is the type to which `cast`
    rounds. With `group`, the operand has a row for each `group` elements along K.
    """

    op: str
    scope: EpilogueScope
    operand: Matrix | None = None
    operand_pinned: bool = False
    scalars: tuple[float, ...] = ()
    dtype: DType | None = None
    group: int | None = None


class GemmCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gemm", gc=False):
    """A composite: `out = a @ b`, then the ops of the epilogue in order, tiled over DMA, fetch/store, GEMM and MATH.

    A pinned operand already lies in the TCM of the PE, so it has no DMA. With `tile=None` the scheduler chooses the
    tile. `loop_order` is the order of the output tiles, and decides whether a panel of a or b stays in the PE. A
    transposed operand is stored transposed: `a` as k x m, `b` as n x k. With `b_stream`, b goes from memory to
    registers and takes no TCM.

    With `acc`, `out = acc + a @ b`. `acc` has the shape of `out` and the type of sums, and lies in the TCM of the PE.
    With `out_held` the result stays in the register file of the PE, at the physical address of `out`, until a
    `DrainCommand` takes it. With `acc_held` too, `acc` is such a result, and the sum takes its place: both are at one
    address.
    """

    data_op: ClassVar[bool] = True
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
    loop_order: LoopOrder = LoopOrder.MNK
    acc: Matrix | None = None
    acc_held: bool = False
    out_held: bool = False


class DrainCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="drain"):
    """Takes `src`, a sum that a GEMM left in the register file of this PE, to `dst` in its TCM. A simple command."""

    data_op: ClassVar[bool] = True
    src: Matrix
    dst: Matrix


class AtomicCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="atomic"):
    """`target = math.op(*math.arguments([target, *operands]))`, in one request at the memory that holds `target`.

    `operands` lie in the TCM of the PE and have the shape and dtype of `target`. With `old`, in TCM too, the bytes of
    `target` are read first. `copy` and `fill` take the place of `target` and do not read it.
    """

    data_op: ClassVar[bool] = True
    math: MathAttributes
    target: Matrix
    operands: tuple[Matrix, ...] = ()
    old: Matrix | None = None

    @property
    def reads_target(self) -> bool:
        """Whether the result depends on the bytes before."""
        return self.math.op not in ("copy", "fill")


class MathInput(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operand of a math command. A pinned operand already lies in the TCM of the PE, so it has no DMA."""

    matrix: Matrix
    pinned: bool = False


class MathCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="math"):
    """`out = math.op(*math.arguments(inputs))` over DMA, fetch/store and MATH.

    It is a composite, or with one tile a simple command. With `tile=None` the scheduler chooses the tile, whose depth
    is 1.
    """

    data_op: ClassVar[bool] = True
    math: MathAttributes
    inputs: tuple[MathInput, ...]
    out: Matrix
    tile: TileShape | None = None
    out_pinned: bool = False


class VectorCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="vector", gc=False):
    """Applies `program` to `inputs`, and stores its outputs to `outputs`, all in the TCM of this PE."""

    data_op: ClassVar[bool] = True
    program: VectorProgram
    inputs: tuple[Matrix, ...]
    outputs: tuple[Matrix, ...]


Command = (
    LoadCommand | StoreCommand | SendCommand | GemmCommand | DrainCommand | AtomicCommand | MathCommand | VectorCommand
)


def matrices_of(command: Struct) -> Iterator[Matrix]:
    """Every operand of a command in the order of its fields, with the operands of inputs and epilogue ops."""
    if isinstance(command, VectorCommand):
        yield from command.inputs
        yield from command.outputs
        return
    if isinstance(command, GemmCommand) and not command.epilogue:
        yield command.a
        yield command.b
        yield command.out
        if command.acc is not None:
            yield command.acc
        return
    for name in command.__struct_fields__:
        value = getattr(command, name)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Matrix):
                yield each
            elif isinstance(each, Struct):
                yield from matrices_of(each)


def target_of(command: LoadCommand | StoreCommand | GemmCommand | DrainCommand | MathCommand) -> Matrix:
    """The Matrix that a command writes, the same object as in `matrices_of`. The command reads all other matrices.

    For a command with pieces, use `accesses_of`.
    """
    if isinstance(command, AtomicCommand):
        return command.target
    return command.dst if isinstance(command, LoadCommand | StoreCommand | DrainCommand) else command.out


def accesses_of(command: Command) -> tuple[list[Rectangle], list[Rectangle]]:
    """Returns (rectangles that a command reads, rectangles that it writes)."""
    if isinstance(command, VectorCommand):
        return [each.rectangle for each in command.inputs], [each.rectangle for each in command.outputs]
    if isinstance(command, StoreCommand) and command.pieces:
        return [command.src.rectangle], [piece.memory(command.src.dtype) for piece in command.pieces]
    if isinstance(command, LoadCommand) and (command.pieces or command.fills):
        memories = [piece.memory(command.src.dtype) for piece in command.pieces]
        return memories, [piece.tile(command.src.dtype) for piece in (*command.pieces, *command.fills)]
    if isinstance(command, LoadCommand | StoreCommand):
        return [command.src.rectangle], [command.dst.rectangle]
    if isinstance(command, AtomicCommand):
        written = [command.target] if command.old is None else [command.target, command.old]
        return [each.rectangle for each in (command.target, *command.operands)], [each.rectangle for each in written]
    target = target_of(command)
    return [each.rectangle for each in matrices_of(command) if each is not target], [target.rectangle]


class SubmittedCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A command with its place in the global order, the PE that issues it, and the kernel line that orders it."""

    command_seq: int
    pe: str
    line: str
    command: Command

    @property
    def data_op(self) -> bool:
        """Whether the command reads or writes data, which all commands of kernels do."""
        return self.command.data_op


class CompletionRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The entry of a completion queue: PE_SCHEDULER finished the `n_tiles` tiles of a command at `t_ps`."""

    data_op: ClassVar[bool] = False
    command_seq: int
    pe: str
    t_ps: int
    n_tiles: int
