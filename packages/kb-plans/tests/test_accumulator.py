"""Plans of GEMMs with an accumulator, and of commands that take sums out of registers."""

import pytest
from msgspec.structs import replace

from kb_messages import (
    DrainCommand,
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmCommand,
    HeldSum,
    Matrix,
    Place,
    PlanError,
    Role,
    StageType,
    TileShape,
    TransferParams,
    When,
    decode_plan,
    encode_plan,
)
from kb_plans import TileRoom, count, generate_drain_plan, generate_gemm_plan, generate_plan

REGISTERS = 7 << 38
A = Matrix.packed(8, 48, DType.F16, 1 << 40)
B = Matrix.packed(48, 4, DType.F16, 2 << 40)
ACC = Matrix.packed(8, 4, DType.F32, 3 << 40)
SUM = Matrix.packed(8, 4, DType.F32, REGISTERS + 1024)
IN_TCM = GemmCommand(
    a=A, b=B, out=ACC, acc=ACC, tile=TileShape(8, 4, 16), a_pinned=True, b_pinned=True, out_pinned=True
)
HELD = replace(IN_TCM, out=SUM, out_held=True)
CHAIN = replace(HELD, acc=SUM, acc_held=True)
FRESH = replace(HELD, acc=None)
ROOM = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=1 << 20)


def stages(command):
    """(type, bytes of its TransferParams) of each stage of each tile."""
    plan = generate_gemm_plan(command, "pe0")
    return [
        [
            (stage.stage_type.name, stage.params.nbytes if isinstance(stage.params, TransferParams) else None)
            for stage in tile.stages
        ]
        for tile in plan.tiles
    ]


def test_the_first_tile_over_k_fetches_the_accumulator():
    operands, product = 2 * (8 * 16 + 16 * 4), ("GEMM", None)
    assert stages(IN_TCM) == [
        [("FETCH", operands + 128), product],
        [("FETCH", operands), product],
        [("FETCH", operands), product, ("STORE", 128)],
    ]
    assert [tile.stages[1].params.accumulate for tile in generate_gemm_plan(IN_TCM, "pe0").tiles] == [True] * 3


def test_a_sum_that_stays_is_not_stored_and_one_that_stayed_is_not_fetched():
    operands, product = 2 * (8 * 16 + 16 * 4), ("GEMM", None)
    assert stages(HELD) == [[("FETCH", operands + 128 * (k == 0)), product] for k in range(3)]
    assert stages(CHAIN) == stages(FRESH) == [[("FETCH", operands), product]] * 3
    assert [tile.stages[1].params.accumulate for tile in generate_gemm_plan(FRESH, "pe0").tiles] == [False, True, True]
    assert [tile.stages[1].params.accumulate for tile in generate_gemm_plan(CHAIN, "pe0").tiles] == [True] * 3


@pytest.mark.parametrize(("command", "begins"), [(HELD, True), (FRESH, True), (CHAIN, False)])
def test_a_held_sum_takes_no_accumulator_of_the_tile(command, begins):
    plan = generate_gemm_plan(command, "pe0")
    assert plan.held == HeldSum(1024, 128, begins, ends=False)
    assert plan.buffers.accumulator_nbytes == plan.buffers.output_nbytes == 0
    assert plan.buffers.register_nbytes == 256 + 128
    assert generate_gemm_plan(IN_TCM, "pe0").held is None
    assert decode_plan(encode_plan(plan)) == plan
    assert count(plan).macs == 8 * 4 * 48


def test_a_sum_that_does_not_stay_is_the_first_of_the_accumulator():
    (product,) = (stage for stage in generate_gemm_plan(IN_TCM, "pe0").stages if stage.stage_type is StageType.GEMM)
    assert [(each.place, each.base) for each in product.operands if each.role is Role.OUT] == [(Place.ACCUMULATOR, 0)]


def test_a_drain_is_one_store_that_releases_the_sum():
    command = DrainCommand(src=SUM, dst=ACC)
    plan = generate_plan(command, "pe0", ROOM)
    assert plan == generate_drain_plan(command, "pe0")
    (stage,) = plan.stages
    assert (plan.kind, stage.stage_type, stage.component) == ("drain", StageType.STORE, "pe0.pe_fetch_store")
    source, target = stage.operands
    assert (source.role, source.place, source.base, source.release) == (Role.SRC, Place.HELD, 1024, True)
    assert (target.role, target.place, target.base, target.when) == (Role.DST, Place.MEMORY, 3 << 40, When.EVERY_TILE)
    assert plan.held == HeldSum(1024, 128, begins=False, ends=True)
    assert (plan.grid, plan.n_tiles) == ((1, 1, 1), 1)
    assert plan.tiles[0].stages[0].params == TransferParams(nbytes=128)


RELU = (EpilogueOp(op="relu", scope=EpilogueScope.OUTPUT_TILE),)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (replace(IN_TCM, acc=Matrix.packed(8, 5, DType.F32)), "gemm acc: got 8 x 5 of f32, needs 8 x 4 of f32, as the"),
        (replace(IN_TCM, acc=A), "gemm acc: got 8 x 48 of f16, needs 8 x 4 of f32, as the sum has; convert it to f32"),
        (replace(IN_TCM, epilogue=RELU), "gemm acc: got an epilogue, needs none beside an accumulator"),
        (replace(FRESH, epilogue=RELU), "gemm acc: got an epilogue, needs none beside an accumulator"),
        (replace(CHAIN, acc=ACC), "gemm acc: got a held sum that the result does not replace, needs out_held at the"),
        (replace(CHAIN, out_held=False), "gemm acc: got a held sum that the result does not replace"),
        (replace(FRESH, acc_held=True), "gemm acc: got a held sum that the result does not replace"),
        (replace(FRESH, tile=TileShape(4, 4, 16)), "gemm out: got 8 x 4 of f32 in 2 x 1 tiles that stay in registers"),
        (replace(FRESH, out=Matrix.packed(8, 4, DType.F16)), "gemm out: got 8 x 4 of f16 in 1 x 1 tiles"),
        (replace(FRESH, out=replace(SUM, stride=64)), "gemm out: got 8 x 4 of f32 in 1 x 1 tiles that stay"),
        (replace(IN_TCM, acc=3), "gemm acc: got the int '3', needs a Matrix"),
        (replace(IN_TCM, out_held=1), "gemm out_held: got the int '1', needs a bool"),
        (DrainCommand(src=SUM, dst=B), "drain: got 8 x 4 of f32 into 48 x 4 of f16, needs a packed sum, and equal"),
        (
            DrainCommand(src=replace(SUM, stride=64), dst=ACC),
            "drain: got 8 x 4 of f32 into 8 x 4 of f32, needs a",
        ),
        (DrainCommand(src=3, dst=ACC), "drain src: got the int '3', needs a Matrix"),
    ],
)
def test_what_does_not_fit_together_is_refused(command, text):
    with pytest.raises(PlanError) as caught:
        generate_plan(command, "pe0", ROOM)
    assert text in str(caught.value)


def test_the_scheduler_may_cut_the_output_when_nothing_is_held():
    plan = generate_plan(replace(IN_TCM, tile=None), "pe0", ROOM)
    assert plan.held is None
    small = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=256)
    assert generate_plan(replace(IN_TCM, tile=None), "pe0", small).n_tiles > 1
