import pytest

from kb_messages.commands import Matrix
from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.stages import DmaParams, Rectangle, StageType
from kb_plans import generate_transfer_plan

FAR = Matrix(address=1 << 42, rows=3, cols=5, stride=64, dtype=DType.F16)
NEAR = Matrix.packed(3, 5, DType.F16, 3 << 42)


@pytest.mark.parametrize(
    ("kind", "src", "dst"), [(StageType.DMA_READ, FAR, NEAR), (StageType.DMA_WRITE, NEAR, FAR)], ids=["load", "store"]
)
def test_a_transfer_is_one_dma_stage_on_the_side_away_from_tcm(kind: StageType, src: Matrix, dst: Matrix) -> None:
    plan = generate_transfer_plan(src, dst, kind, "pe0")
    (tile,) = plan.tiles
    (stage,) = tile.stages
    assert (stage.stage_type, stage.component) == (kind, "pe0.pe_dma")
    assert stage.params == DmaParams(memory=Rectangle(1 << 42, 3, 10, 64))
    assert plan.buffers.input_nbytes == plan.buffers.output_nbytes == plan.buffers.register_nbytes == 0


def test_unequal_shapes_are_refused() -> None:
    message = "transfer: got 3 x 5 of f16 into 5 x 3 of f16, needs equal shapes and dtypes"
    with pytest.raises(PlanError, match=f"^{message}$"):
        generate_transfer_plan(FAR, Matrix.packed(5, 3, DType.F16), StageType.DMA_READ, "pe0")


def test_a_transfer_does_not_cast() -> None:
    message = "transfer: got 3 x 5 of f16 into 3 x 5 of f32, needs equal shapes and dtypes"
    with pytest.raises(PlanError, match=f"^{message}$"):
        generate_transfer_plan(FAR, Matrix.packed(3, 5, DType.F32), StageType.DMA_READ, "pe0")


def test_only_dma_transfers() -> None:
    with pytest.raises(PlanError, match=r"^transfer: got FETCH, needs DMA_READ or DMA_WRITE$"):
        generate_transfer_plan(FAR, NEAR, StageType.FETCH, "pe0")
