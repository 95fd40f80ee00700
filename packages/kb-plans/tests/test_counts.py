from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kb_messages import (
    BufferNeeds,
    DmaParams,
    DType,
    GemmCommand,
    GemmParams,
    LoopOrder,
    Matrix,
    PipelinePlan,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    StoreCommand,
    TileShape,
    TransferParams,
    When,
)
from kb_plans import PlanCounts, count, generate_gemm_plan, generate_transfer_plan, service_kinds

sizes = st.integers(1, 20)
sides = st.integers(1, 8)


def packed_plan(
    m: int,
    n: int,
    k: int,
    tile: TileShape,
    pins: tuple[bool, bool, bool] = (False, False, False),
    order: LoopOrder = LoopOrder.MNK,
) -> PipelinePlan:
    a, b, out = (Matrix.packed(*shape, DType.F16) for shape in ((m, k), (k, n), (m, n)))
    pinned = {"a_pinned": pins[0], "b_pinned": pins[1], "out_pinned": pins[2]}
    command = GemmCommand(a=a, b=b, out=out, tile=tile, loop_order=order, **pinned)
    return generate_gemm_plan(command, "pe0")


def summed(plan: PipelinePlan) -> PlanCounts:
    """What `count` says, the slow way."""
    stages: Counter[StageType] = Counter()
    nbytes: Counter[StageType] = Counter()
    macs = 0
    for tile in plan.tiles:
        for stage in tile.stages:
            stages[stage.stage_type] += 1
            params = stage.params
            if isinstance(params, GemmParams):
                macs += params.m * params.n * params.k
            elif isinstance(params, DmaParams):
                nbytes[stage.stage_type] += params.memory.nbytes
            elif isinstance(params, TransferParams):
                nbytes[stage.stage_type] += params.nbytes
    return PlanCounts(tiles=len(plan.tiles), stages=dict(stages), nbytes=dict(nbytes), macs=macs)


@given(
    m=sizes,
    n=sizes,
    k=sizes,
    tile=st.builds(TileShape, sides, sides, sides),
    pins=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_counts_are_the_sums_over_the_tiles(
    m: int, n: int, k: int, tile: TileShape, pins: tuple[bool, bool, bool]
) -> None:
    plan = packed_plan(m, n, k, tile, pins)
    assert count(plan) == summed(plan)
    assert sum(count(plan).stages.values()) == plan.n_stages


def sized(params: Any) -> Any:
    """*params* without the place in memory."""
    return params.memory.nbytes if isinstance(params, DmaParams) else params


@given(
    m=sizes,
    n=sizes,
    k=sizes,
    tile=st.builds(TileShape, sides, sides, sides),
    pins=st.tuples(st.just(False), st.just(False), st.booleans()),
    order=st.sampled_from(LoopOrder),
)
def test_services_by_size_are_those_of_the_tiles(
    m: int, n: int, k: int, tile: TileShape, pins: tuple[bool, bool, bool], order: LoopOrder
) -> None:
    plan = packed_plan(m, n, k, tile, pins, order)
    by_tile = Counter((each.component, sized(each.params)) for tile in plan.tiles for each in tile.stages)
    by_size: Counter[Any] = Counter()
    for each in service_kinds(plan):
        by_size[plan.stages[each.stage].component, sized(each.params)] += each.n
    assert by_size == by_tile


def test_services_of_a_large_gemm_are_few() -> None:
    plan = packed_plan(10**6 + 1, 10**6 + 1, 10**6 + 1, TileShape(10, 10, 10))
    gemms = [each for each in service_kinds(plan) if isinstance(each.params, GemmParams)]
    assert len(gemms) == 2 * 2 * 3
    corner = [each for each in gemms if (each.params.m, each.params.n) == (1, 1)]
    assert sorted((each.params.k, each.n) for each in corner) == [(1, 1), (10, 1), (10, 10**5 - 1)]


def test_counts_of_an_even_gemm_by_hand() -> None:
    counts = count(packed_plan(512, 256, 1024, TileShape(128, 128, 256)))
    tiles, outputs = 4 * 2 * 4, 4 * 2
    a, b, out = 512 * 1024 * 2, 1024 * 256 * 2, 512 * 256 * 2
    assert counts == PlanCounts(
        tiles=tiles,
        stages={
            StageType.DMA_READ: 2 * tiles,
            StageType.FETCH: tiles,
            StageType.GEMM: tiles,
            StageType.STORE: outputs,
            StageType.DMA_WRITE: outputs,
        },
        nbytes={
            StageType.DMA_READ: 2 * a + 4 * b,  # a once for each of 2 column tiles, b for each of 4 row tiles
            StageType.FETCH: 2 * a + 4 * b,
            StageType.STORE: out,
            StageType.DMA_WRITE: out,
        },
        macs=512 * 256 * 1024,
    )


def test_counts_of_a_ragged_gemm_by_hand() -> None:
    counts = count(packed_plan(11881, 64, 147, TileShape(128, 64, 64)))
    assert counts.tiles == 93 * 1 * 3
    assert counts.nbytes[StageType.DMA_READ] == (11881 * 147 + 93 * 147 * 64) * 2
    assert counts.nbytes[StageType.DMA_WRITE] == 11881 * 64 * 2
    assert counts.macs == 11881 * 64 * 147


def test_a_pinned_operand_costs_no_dma_but_is_fetched_still() -> None:
    counts = count(packed_plan(512, 256, 1024, TileShape(128, 128, 256), (True, False, True)))
    a, b = 512 * 1024 * 2, 1024 * 256 * 2
    assert counts.nbytes == {
        StageType.DMA_READ: 4 * b, StageType.FETCH: 2 * a + 4 * b, StageType.STORE: 512 * 256 * 2,
    }  # fmt: skip


def test_counting_iterates_no_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PipelinePlan, "tiles", property(lambda _: pytest.fail("the tiles were asked for")))
    assert count(packed_plan(10**4, 10**4, 10**4, TileShape(1, 1, 1))).tiles == 10**12


def test_a_transfer_is_one_stage_of_all_its_bytes() -> None:
    matrix = Matrix(address=0, rows=3, cols=5, stride=64, dtype=DType.F32)
    plan = generate_transfer_plan(StoreCommand(src=matrix, dst=matrix), "pe0")
    once = {StageType.DMA_WRITE: 1}
    assert count(plan) == PlanCounts(tiles=1, stages=once, nbytes={StageType.DMA_WRITE: 3 * 5 * 4}, macs=0)


@pytest.mark.parametrize("plan", [None, 5, "plan"])
def test_only_plans_are_counted(plan: Any) -> None:
    with pytest.raises(PlanError, match=r"^count: got a value of type \w+, needs a plan$"):
        count(plan)


def test_a_plan_put_together_wrongly_is_refused() -> None:
    gemm = StageTemplate(stage_type=StageType.GEMM, component="pe0", when=When.EVERY_TILE, operands=())
    plan = PipelinePlan(kind="odd", grid=(1, 1, 1), stages=(gemm,), buffers=BufferNeeds())
    with pytest.raises(PlanError, match=r"^count: got a gemm stage without its operands, needs a and out"):
        count(plan)


def test_products_are_counted_from_a_and_the_result_alone() -> None:
    plan = packed_plan(8, 8, 8, TileShape(4, 4, 4))
    (at,) = (number for number, each in enumerate(plan.stages) if each.stage_type is StageType.GEMM)
    without = tuple(each for each in plan.stages[at].operands if each.role in (Role.A, Role.OUT))
    bare = replace(plan, stages=(*plan.stages[:at], replace(plan.stages[at], operands=without), *plan.stages[at + 1 :]))
    assert count(bare).macs == 8 * 8 * 8
