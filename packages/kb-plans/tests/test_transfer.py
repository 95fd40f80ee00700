from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_messages import (
    DmaParams,
    DType,
    Fill,
    LoadCommand,
    Matrix,
    Place,
    PlanError,
    Rectangle,
    StageType,
    StoreCommand,
)
from kb_plans import count, generate_transfer_plan

FAR = Matrix(address=1 << 42, rows=3, cols=5, stride=64, dtype=DType.F16)
NEAR = Matrix.packed(3, 5, DType.F16, 3 << 42)


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
    assert stage.params == DmaParams(memory=Rectangle(1 << 42, 3, 10, 64))
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
    src = Matrix(address=1 << 42, rows=rows, cols=cols, stride=64, dtype=DType.F16)
    dst = Matrix.packed(6, 6, DType.F16, 3 << 42)
    plan = generate_transfer_plan(LoadCommand(src=src, dst=dst, fill=Fill(row=row, col=col, immediate=24)), "pe0")
    ((stage,),) = (tile.stages for tile in plan.tiles)
    assert stage.params == DmaParams(memory=Rectangle(1 << 42, rows, 2 * cols, 64))
    assert count(plan).nbytes == {StageType.DMA_READ: rows * cols * 2}
    written = dict.fromkeys(product(range(6), repeat=2), 0)
    (template,) = plan.stages
    for number, (source, target) in enumerate(zip(template.operands[::2], template.operands[1::2], strict=True)):
        top, left = divmod((target.base - (3 << 42)) // 2, 6)
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
