"""The parts from which all generators build plans: operands, stages, and the layout of a tile's buffers."""

from __future__ import annotations

from collections.abc import Sequence

from kb_messages import (
    Axis,
    DType,
    GemmAttributes,
    MathAttributes,
    Matrix,
    OperandTemplate,
    Place,
    Role,
    StageTemplate,
    StageType,
    When,
)

SLOT_ALIGNMENT = 64
"""The alignment of operands in a buffer, in bytes. Source: assumed (a common SRAM line)."""

BLOCKS = {
    StageType.DMA_READ: "pe_dma",
    StageType.FETCH: "pe_fetch_store",
    StageType.GEMM: "pe_gemm",
    StageType.MATH: "pe_math",
    StageType.STORE: "pe_fetch_store",
    StageType.DMA_WRITE: "pe_dma",
}
"""The block of the PE that serves each type of stage."""


def slot(rows: Axis, cols: Axis, dtype: DType) -> int:
    """Bytes that the largest tile of an operand takes in a buffer."""
    return -(-rows.tile * cols.tile * dtype.nbytes // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


def fixed(size: int) -> Axis:
    """A side that is whole in every tile."""
    return Axis(dimension=None, total=size, tile=size)


def along(size: int, side: Axis) -> Axis:
    """The side of an operand of *size* elements: cut like *side* of the result, or broadcast over it."""
    return side if size == side.total else fixed(size)


def in_memory(role: Role, matrix: Matrix, rows: Axis, cols: Axis, when: When = When.EVERY_TILE) -> OperandTemplate:
    """The part of *matrix* in memory that belongs to a tile."""
    return OperandTemplate(
        role=role,
        place=Place.MEMORY,
        base=matrix.address,
        rows=rows,
        cols=cols,
        stride=matrix.stride,
        dtype=matrix.dtype,
        when=when,
    )


def in_buffer(
    role: Role,
    place: Place,
    base: int,
    rows: Axis,
    cols: Axis,
    dtype: DType,
    *,
    release: bool = False,
    when: When = When.EVERY_TILE,
) -> OperandTemplate:
    """The part of an operand that belongs to a tile, packed, at offset *base* of a buffer."""
    return OperandTemplate(
        role=role,
        place=place,
        base=base,
        rows=rows,
        cols=cols,
        stride=cols.tile * dtype.nbytes,
        dtype=dtype,
        release=release,
        when=when,
    )


def stage(
    kind: StageType,
    pe: str,
    operands: list[OperandTemplate],
    when: When = When.EVERY_TILE,
    math: MathAttributes | None = None,
    gemm: GemmAttributes | None = None,
    in_pieces: bool = False,
) -> StageTemplate:
    """A stage of type *kind*, served by the block of the PE *pe* that serves such stages."""
    return StageTemplate(
        stage_type=kind,
        component=f"{pe}.{BLOCKS[kind]}",
        when=when,
        operands=tuple(operands),
        math=math,
        gemm=gemm or GemmAttributes(),
        in_pieces=in_pieces,
    )


class Input:
    """An operand on its way to registers.

    DMA brings it to the input buffer of the tile, and FETCH from there to registers. A *pinned* operand lies in TCM and
    has no DMA. A *streamed* operand has no FETCH, because DMA writes registers. A *kept* operand has a panel's buffer
    instead of the tile's, so that later tiles along the inner loop fetch it without DMA.
    """

    def __init__(
        self,
        matrix: Matrix,
        pinned: bool,
        rows: Axis,
        cols: Axis,
        when: When = When.EVERY_TILE,
        streamed: bool = False,
        kept: bool = False,
    ) -> None:
        self.matrix, self.pinned, self.rows, self.cols, self.when = matrix, pinned, rows, cols, when
        self.streamed, self.kept = streamed, kept
        self.nbytes = slot(rows, cols, matrix.dtype)
        self.input_nbytes = 0 if pinned or streamed or kept else self.nbytes
        self.buffer_at = self.register_at = 0

    def read(self, pe: str) -> StageTemplate:
        """The DMA_READ of the operand."""
        place, at = (Place.REGISTERS, self.register_at) if self.streamed else self._buffer
        arriving = in_buffer(Role.DST, place, at, self.rows, self.cols, self.matrix.dtype)
        return stage(
            StageType.DMA_READ,
            pe,
            [in_memory(Role.SRC, self.matrix, self.rows, self.cols), arriving],
            self.when,
        )

    def fetched(self) -> list[OperandTemplate]:
        """The source and the target of the operand in the FETCH of the tile."""
        if self.pinned:
            source = in_memory(Role.SRC, self.matrix, self.rows, self.cols, self.when)
        else:
            source = in_buffer(
                Role.SRC,
                *self._buffer,
                self.rows,
                self.cols,
                self.matrix.dtype,
                release=True,
                when=self.when,
            )
        target = in_buffer(
            Role.DST, Place.REGISTERS, self.register_at, self.rows, self.cols, self.matrix.dtype, when=self.when
        )
        return [source, target]

    @property
    def _buffer(self) -> tuple[Place, int]:
        """The place of the buffer in TCM, and the offset in the buffer."""
        return (Place.PANEL, 0) if self.kept else (Place.INPUT_BUFFER, self.buffer_at)

    def in_registers(self, role: Role) -> OperandTemplate:
        """The operand in registers for its last reader, whose read releases the bytes."""
        return in_buffer(role, Place.REGISTERS, self.register_at, self.rows, self.cols, self.matrix.dtype, release=True)


def lay_out(inputs: list[Input]) -> tuple[int, int]:
    """Places *inputs* one behind the other. Returns (bytes of input buffer, bytes of registers) that they take."""
    buffered = registers = 0
    for each in inputs:
        each.buffer_at, each.register_at = buffered, registers
        buffered += each.input_nbytes
        registers += each.nbytes
    return buffered, registers


def bring_in(inputs: list[Input], pe: str, further: Sequence[OperandTemplate] = ()) -> list[StageTemplate]:
    """The DMA_READs of the *inputs* that are not pinned, and one FETCH of all that are not streamed.

    *further* are the source and the target of another move of that FETCH. Streamed inputs are read last, because they
    hold registers from their DMA_READ on.
    """
    reads = [each.read(pe) for each in sorted(inputs, key=lambda each: each.streamed) if not each.pinned]
    moves = [move for each in inputs if not each.streamed for move in each.fetched()]
    return [*reads, stage(StageType.FETCH, pe, [*moves, *further])]


def take_out(
    result: OperandTemplate, out: Matrix, pinned: bool, rows: Axis, cols: Axis, pe: str
) -> list[StageTemplate]:
    """STORE of *result* after the last tile over K and, unless *out* is pinned, its DMA_WRITE."""
    if pinned:
        return [stage(StageType.STORE, pe, [result, in_memory(Role.DST, out, rows, cols)], When.LAST_K)]
    staged = in_buffer(Role.DST, Place.OUTPUT_BUFFER, 0, rows, cols, out.dtype)
    leaving = in_buffer(Role.SRC, Place.OUTPUT_BUFFER, 0, rows, cols, out.dtype, release=True)
    return [
        stage(StageType.STORE, pe, [result, staged], When.LAST_K),
        stage(StageType.DMA_WRITE, pe, [leaving, in_memory(Role.DST, out, rows, cols)], When.LAST_K),
    ]
