import gc
from typing import Any

import msgspec
import pytest
from messages_plans import copy_plan, operand, stage

from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.log.oplog import MathAttributes, Role
from kb_messages.plans.plan import BufferNeeds, PipelinePlan
from kb_messages.plans.stages import (
    Axis,
    DmaParams,
    GemmParams,
    MathParams,
    OperandTemplate,
    Place,
    Rectangle,
    StageTemplate,
    StageType,
    TransferParams,
    When,
    rectangle,
)

MOVES = {StageType.DMA_READ: Role.SRC, StageType.DMA_WRITE: Role.DST}


def test_stages_are_counted_without_iterating() -> None:
    plan = copy_plan(3, 2, 4)
    assert plan.n_stages == 3 * 2 * 4 + 3 * 2 == sum(len(tile.stages) for tile in plan.tiles)


def four_whens(k: int) -> PipelinePlan:
    """Stages of the last, every, the first, every and each later tile over K, told apart by their columns."""
    whens = (When.LAST_K, When.EVERY_TILE, When.FIRST_K, When.EVERY_TILE, When.LATER_K)
    side = Axis(dimension=None, total=1, tile=1)
    stages = tuple(
        stage(
            StageType.FETCH,
            when,
            operand(Role.SRC, Place.MEMORY, side, Axis(dimension=None, total=number, tile=number), 64),
        )
        for number, when in enumerate(whens, start=1)
    )
    return PipelinePlan(kind="four", grid=(1, 2, k), stages=stages, buffers=BufferNeeds())


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, [[1, 2, 3, 4]]),
        (2, [[2, 3, 4], [1, 2, 4, 5]]),
        (4, [[2, 3, 4], [2, 4, 5], [2, 4, 5], [1, 2, 4, 5]]),
    ],
)
def test_a_tile_has_the_stages_of_its_place_over_k_in_the_plans_order(k: int, expected: list[list[int]]) -> None:
    plan = four_whens(k)
    moved = [[each.params.nbytes // 2 for each in tile.stages] for tile in plan.tiles]  # type: ignore[union-attr]
    assert moved == 2 * expected
    assert plan.n_stages == sum(map(len, moved))


def test_tiles_for_which_several_conditions_hold_are_counted_without_iterating() -> None:
    plan, one = four_whens(5), four_whens(1)
    assert [plan.tiles_with(when) for when in When] == [5, 1, 1, 4]
    assert plan.tiles_with(When.LATER_K, When.LAST_K) == 1
    assert plan.tiles_with(When.FIRST_K, When.LAST_K) == 0
    assert [one.tiles_with(when) for when in When] == [1, 1, 1, 0]
    assert one.tiles_with(When.FIRST_K, When.LAST_K) == 1


def test_an_operand_of_the_last_tile_alone_is_moved_by_that_tile_alone() -> None:
    side = Axis(dimension=None, total=3, tile=3)
    always = operand(Role.SRC, Place.REGISTERS, side, side, 6)
    last = OperandTemplate(
        role=Role.SRC, place=Place.MEMORY, base=0, rows=side, cols=side, stride=6, dtype=DType.F16, when=When.LAST_K
    )
    fetch = stage(StageType.FETCH, When.EVERY_TILE, always, last)
    plan = PipelinePlan(kind="fetch", grid=(1, 1, 2), stages=(fetch,), buffers=BufferNeeds())
    assert [tile.stages[0].params for tile in plan.tiles] == [TransferParams(nbytes=18), TransferParams(nbytes=36)]


def test_a_side_without_a_dimension_is_the_same_for_every_tile() -> None:
    one, cols = Axis(dimension=None, total=1, tile=1), Axis(dimension=1, total=20, tile=8)
    bias = operand(Role.SRC, Place.MEMORY, one, cols, 40)
    assert rectangle(bias, (7, 2, 5)) == Rectangle(1000 + 2 * 8 * 2, 1, 4 * 2, 40)


def test_a_plan_without_a_stage_that_every_tile_has_is_refused() -> None:
    _, write = copy_plan(1, 1, 1).stages
    message = "copy plan: got no stage that every tile has, needs one such stage, so that every tile does work"
    with pytest.raises(PlanError, match=f"^{message}$"):
        PipelinePlan(kind="copy", grid=(1, 1, 1), stages=(write,), buffers=BufferNeeds())


@pytest.mark.parametrize(("axis", "shape"), [(None, (2, 4)), (0, (2, 4)), (1, (2, 4))])
def test_a_math_stage_counts_the_elements_of_its_result_or_those_it_reduces(
    axis: int | None, shape: tuple[int, int]
) -> None:
    rows, cols = Axis(dimension=0, total=10, tile=4), Axis(dimension=1, total=20, tile=8)
    one = Axis(dimension=None, total=1, tile=1)
    read = operand(Role.IN, Place.REGISTERS, rows, cols, 16)
    written = operand(Role.OUT, Place.ACCUMULATOR, one if axis == 0 else rows, one if axis == 1 else cols, 16)
    math = MathAttributes(op="exp" if axis is None else "sum", axis=axis)
    template = StageTemplate(
        stage_type=StageType.MATH, component="pe0", when=When.EVERY_TILE, operands=(read, written), math=math
    )
    plan = PipelinePlan(kind="math", grid=(3, 3, 1), stages=(template,), buffers=BufferNeeds())
    # The last tile: 10 - 8 rows, 20 - 16 columns.
    params = MathParams(op=math.op, rows=shape[0], cols=shape[1], dtype=DType.F16, axis=axis)
    assert plan.tiles[-1].stages[0].params == params


def test_a_product_accumulates_on_the_tiles_that_read_the_sum() -> None:
    rows = cols = depth = Axis(dimension=None, total=4, tile=4)
    a, b = (operand(role, Place.REGISTERS, rows, depth, 8) for role in (Role.A, Role.B))
    sums = OperandTemplate(
        role=Role.ACC, place=Place.ACCUMULATOR, base=0, rows=rows, cols=cols, stride=16, dtype=DType.F32,
        when=When.LATER_K,
    )  # fmt: skip
    out = operand(Role.OUT, Place.ACCUMULATOR, rows, cols, 16)
    plan = PipelinePlan(
        kind="sum", grid=(1, 1, 3), stages=(stage(StageType.GEMM, When.EVERY_TILE, a, b, sums, out),),
        buffers=BufferNeeds(),
    )  # fmt: skip
    params = [tile.stages[0].params for tile in plan.tiles]
    assert [isinstance(each, GemmParams) and each.accumulate for each in params] == [False, True, True]


def test_a_stage_that_plans_cannot_hold_is_refused() -> None:
    plan = PipelinePlan(
        kind="odd", grid=(1, 1, 1), stages=(stage(StageType.MATH, When.EVERY_TILE),), buffers=BufferNeeds()
    )
    with pytest.raises(PlanError, match=r"^plan: got a MATH stage, needs a stage type that plans can hold$"):
        plan.tiles[0]


def test_a_plan_survives_json() -> None:
    plan = copy_plan(2, 3, 4)
    again = msgspec.json.decode(msgspec.json.encode(plan), type=PipelinePlan)
    assert again == plan
    assert again.tiles[7] == plan.tiles[7]
    assert isinstance(again.tiles[7].stages[0].params, DmaParams)


@pytest.mark.parametrize(
    "grid", [(0, 1, 1), (-1, -1, 1), (1, 1.0, 1), (True, 1, 1), (1, 1), [1, 1, 1], (1 << 32, 1 << 31, 1), None]
)
def test_a_grid_without_tiles_or_with_too_many_is_refused(grid: Any) -> None:
    with pytest.raises(PlanError, match=r"^plan grid: got .*, needs .*$"):
        PipelinePlan(kind="copy", grid=grid, stages=copy_plan(1, 1, 1).stages, buffers=BufferNeeds())


def test_a_plan_knows_whether_a_read_writes_registers() -> None:
    plan = copy_plan(3, 2, 4)
    assert not plan.reads_to_registers
    axis = Axis(dimension=None, total=1, tile=1)
    ends = [operand(Role.SRC, Place.MEMORY, axis, axis, 2), operand(Role.DST, Place.REGISTERS, axis, axis, 2)]
    read = stage(StageType.DMA_READ, When.EVERY_TILE, *ends)
    streamed = PipelinePlan(kind="copy", grid=(3, 2, 4), stages=(*plan.stages, read), buffers=BufferNeeds())
    assert streamed.reads_to_registers
    assert streamed.on("pe1", streamed.addresses).reads_to_registers


def test_a_plan_knows_which_of_its_addresses_each_transfer_has() -> None:
    plan = copy_plan(3, 2, 4)
    axis = Axis(dimension=None, total=1, tile=1)
    in_tcm, in_memory = (operand(Role.SRC, place, axis, axis, 2) for place in (Place.INPUT_BUFFER, Place.MEMORY))
    target = operand(Role.DST, Place.MEMORY, axis, axis, 2)
    fill = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.IMMEDIATE, axis, axis, 2), target)
    stages = (stage(StageType.FETCH, When.EVERY_TILE, in_memory), *plan.stages, fill)
    stages = (*stages, stage(StageType.DMA_WRITE, When.EVERY_TILE, in_tcm, target))
    plan = PipelinePlan(kind="copy", grid=(3, 2, 4), stages=stages, buffers=BufferNeeds())
    assert plan.transfers == ((1, 1), (2, 2), (4, 4))


def test_the_collector_of_cycles_does_not_look_at_the_parts_of_a_plan() -> None:
    part = copy_plan(3, 2, 4).stages[0]
    assert not any(map(gc.is_tracked, (part, part.operands[0], part.operands[0].rows)))
