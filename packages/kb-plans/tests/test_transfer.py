from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kb_messages import (
    DmaParams,
    DType,
    Fill,
    LoadCommand,
    Matrix,
    Piece,
    Place,
    PlanError,
    Rectangle,
    Role,
    StageType,
    StoreCommand,
    check_plan,
    decode_plan,
    encode_plan,
)
from kb_plans import count, generate_transfer_plan

FAR = Matrix(address=1 << 48, rows=3, cols=5, stride=64, dtype=DType.F16)
NEAR = Matrix.packed(3, 5, DType.F16, 3 << 48)


@pytest.mark.parametrize(
    ("kind", "command"),
    [(StageType.DMA_READ, LoadCommand(src=FAR, dst=NEAR)), (StageType.DMA_WRITE, StoreCommand(src=NEAR, dst=FAR))],
    ids=["load", "store"],
)
def test_a_transfer_is_one_dma_stage_on_the_side_away_from_tcm(
    kind: StageType, command: LoadCommand | StoreCommand
) -> None:
    plan = generate_transfer_plan(command, "pe0")
    (tile,) = plan.tiles
    (stage,) = tile.stages
    assert (stage.stage_type, stage.component) == (kind, "pe0.pe_dma")
    assert stage.params == DmaParams(memory=Rectangle(1 << 48, 3, 10, 64))
    assert plan.buffers.input_nbytes == plan.buffers.output_nbytes == plan.buffers.register_nbytes == 0


def test_unequal_shapes_are_refused() -> None:
    message = "transfer: got 3 x 5 of f16 into 5 x 3 of f16, needs equal shapes and dtypes"
    with pytest.raises(PlanError, match=f"^{message}$"):
        generate_transfer_plan(LoadCommand(src=FAR, dst=Matrix.packed(5, 3, DType.F16)), "pe0")


def test_a_transfer_does_not_cast() -> None:
    message = "transfer: got 3 x 5 of f16 into 3 x 5 of f32, needs equal shapes and dtypes"
    with pytest.raises(PlanError, match=f"^{message}$"):
        generate_transfer_plan(LoadCommand(src=FAR, dst=Matrix.packed(3, 5, DType.F32)), "pe0")


@given(st.data())
def test_a_fill_takes_what_the_source_leaves_once_and_moves_no_byte_more(data: st.DataObject) -> None:
    rows, cols = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    row, col = data.draw(st.integers(0, 6 - rows)), data.draw(st.integers(0, 6 - cols))
    src = Matrix(address=1 << 48, rows=rows, cols=cols, stride=64, dtype=DType.F16)
    dst = Matrix.packed(6, 6, DType.F16, 3 << 48)
    plan = generate_transfer_plan(LoadCommand(src=src, dst=dst, fill=Fill(row=row, col=col, immediate=24)), "pe0")
    ((stage,),) = (tile.stages for tile in plan.tiles)
    assert stage.params == DmaParams(memory=Rectangle(1 << 48, rows, 2 * cols, 64))
    assert count(plan).nbytes == {StageType.DMA_READ: rows * cols * 2}
    written = dict.fromkeys(product(range(6), repeat=2), 0)
    (template,) = plan.stages
    for number, (source, target) in enumerate(zip(template.operands[::2], template.operands[1::2], strict=True)):
        top, left = divmod((target.base - (3 << 48)) // 2, 6)
        for cell in product(range(top, top + target.rows.total), range(left, left + target.cols.total)):
            written[cell] += 1 if number else 10
        assert (source.rows, source.cols) == (target.rows, target.cols)
        assert number == 0 or (source.place, source.base) == (Place.IMMEDIATE, 24)
        assert number == 0 or source.stride == source.cols.total * 2
    loaded = set(product(range(row, row + rows), range(col, col + cols)))
    assert written == {cell: 10 if cell in loaded else 1 for cell in written}


@pytest.mark.parametrize("dtype", [DType.F16, DType.F32])
def test_a_fill_that_fits_nowhere_is_refused(dtype: DType) -> None:
    fill = Fill(row=2 if dtype is DType.F16 else 0, col=0, immediate=0)
    with pytest.raises(PlanError) as caught:
        generate_transfer_plan(LoadCommand(src=FAR, dst=Matrix.packed(4, 5, dtype), fill=fill), "pe0")
    assert str(caught.value) == (
        f"transfer: got 3 x 5 of f16 at ({fill.row}, 0) of 4 x 5 of {dtype}, needs a part of it, and equal dtypes"
    )


TILE = Matrix.packed(4, 6, DType.F16, 3 << 48)
PIECES = (
    Piece(1 << 48, 64, TILE.address, 12, 2, 6),
    Piece((1 << 48) + 512, 0, TILE.address + 24, 12, 2, 3),
)
FILL = Piece(8, 6, TILE.address + 30, 12, 2, 3)


def test_a_transfer_in_pieces_is_one_stage_with_a_move_for_each() -> None:
    plan = generate_transfer_plan(LoadCommand(src=FAR, dst=TILE, pieces=PIECES, fills=(FILL,)), "pe0")
    ((stage,),) = (tile.stages for tile in plan.tiles)
    # What goes to several rows of the tile is read once.
    first, second = Rectangle(1 << 48, 2, 12, 64), Rectangle((1 << 48) + 512, 1, 6, 0)
    assert stage.params == DmaParams(memory=first, pieces=(first, second))
    (template,) = plan.stages
    moves = list(zip(template.operands[::2], template.operands[1::2], strict=True))
    assert [(src.place, src.base, src.stride) for src, _ in moves] == [
        (Place.MEMORY, 1 << 48, 64),
        (Place.MEMORY, (1 << 48) + 512, 0),
        (Place.IMMEDIATE, 8, 6),
    ]
    assert [(dst.base, dst.rows.total, dst.cols.total, dst.stride) for _, dst in moves] == [
        (TILE.address, 2, 6, 12),
        (TILE.address + 24, 2, 3, 12),
        (TILE.address + 30, 2, 3, 12),
    ]
    assert count(plan).nbytes == {StageType.DMA_READ: 24 + 6}
    check_plan(plan)
    assert decode_plan(encode_plan(plan)) == plan


def test_constants_alone_read_no_memory() -> None:
    plan = generate_transfer_plan(LoadCommand(src=FAR, dst=TILE, fills=(FILL,)), "pe0")
    assert plan.tiles[0].stages[0].params == DmaParams(Rectangle(0, 1, 12, 12), constants=True)
    assert count(plan).nbytes == {StageType.DMA_READ: 0}
    check_plan(plan)


def test_a_store_in_pieces_moves_the_other_way() -> None:
    plan = generate_transfer_plan(StoreCommand(src=TILE, dst=FAR, pieces=PIECES[:1]), "pe0")
    (template,) = plan.stages
    src, dst = template.operands
    assert (src.role, src.base, dst.role, dst.base) == (Role.SRC, TILE.address, Role.DST, 1 << 48)
    memory = Rectangle(1 << 48, 2, 12, 64)
    assert plan.tiles[0].stages[0].params == DmaParams(memory=memory, pieces=(memory,))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            LoadCommand(src=FAR, dst=TILE, pieces=(*PIECES, replace(PIECES[0], address=5 << 48))),
            "transfer: got pieces of several memories, needs one; give each memory its own command",
        ),
        (
            LoadCommand(src=FAR, dst=TILE, pieces=(replace(PIECES[0], place=TILE.address + 40),)),
            f"transfer: got a piece at {TILE.address + 40:#x}, needs a part of the tile at {TILE.address:#x}",
        ),
        (
            LoadCommand(src=FAR, dst=TILE, pieces=PIECES, fill=Fill(row=0, col=0, immediate=0)),
            "transfer: got pieces and a fill around one rectangle, needs one of them: `fills` go with pieces",
        ),
        (
            StoreCommand(src=TILE, dst=FAR, pieces=PIECES),
            "transfer: got a piece with stride 0, needs rows that do not overlap",
        ),
        (
            LoadCommand(src=FAR, dst=replace(TILE, dtype=DType.BF16), pieces=PIECES),
            "transfer: got pieces of f16 and bf16, needs equal dtypes",
        ),
        (
            LoadCommand(src=FAR, dst=TILE, pieces=(replace(PIECES[0], rows=0),)),
            "load pieces[0]: got 0 x 6, needs 1 to 274877906944 rows and columns",
        ),
        (
            LoadCommand(src=FAR, dst=TILE, pieces=(replace(PIECES[0], stride=-1),)),
            "load pieces[0] stride: got -0x1, needs 0 to 68 bits",
        ),
    ],
)
def test_pieces_that_mean_nothing_are_refused(command: LoadCommand | StoreCommand, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        generate_transfer_plan(command, "pe0")
    assert str(caught.value) == message


@pytest.mark.parametrize("piece", [replace(PIECES[0], stride=12), replace(PIECES[0], rows=1, stride=0)])
def test_a_store_takes_rows_that_touch_and_a_row_of_any_stride(piece: Piece) -> None:
    plan = generate_transfer_plan(StoreCommand(src=TILE, dst=FAR, pieces=(piece,)), "pe0")
    assert count(plan).nbytes == {StageType.DMA_WRITE: piece.rows * 12}
