"""Plans of atomics."""

import pytest
from msgspec.structs import replace

from kb_messages import (
    AtomicCommand,
    DmaParams,
    DType,
    MathAttributes,
    Matrix,
    PlanError,
    Role,
    StageType,
    accesses_of,
    decode_command,
    decode_plan,
    encode_command,
    encode_plan,
)
from kb_plans import TileRoom, count, generate_plan

TARGET = Matrix(address=1 << 48, rows=3, cols=5, stride=64, dtype=DType.I32)
VALUE, OLD = Matrix.packed(3, 5, DType.I32, 3 << 48), Matrix.packed(3, 5, DType.I32, 5 << 48)
ADD = AtomicCommand(math=MathAttributes(op="add"), target=TARGET, operands=(VALUE,))
ROOM = TileRoom(input_nbytes=0, output_nbytes=0, register_nbytes=0)


def plan(command):
    return generate_plan(command, "pe0", ROOM)


def test_an_atomic_is_one_dma_write_with_a_function():
    found = plan(ADD)
    (stage,) = found.stages
    assert (found.kind, stage.stage_type, stage.component, stage.math) == (
        "atomic",
        StageType.DMA_WRITE,
        "pe0.pe_dma",
        ADD.math,
    )
    assert [(each.role, each.base) for each in stage.operands] == [
        (Role.IN, TARGET.address), (Role.IN, VALUE.address), (Role.OUT, TARGET.address),
    ]  # fmt: skip
    (tile,) = found.tiles
    assert [each.params for each in tile.stages] == [DmaParams(TARGET.rectangle, atomic=True)]
    assert count(found).nbytes == {StageType.DMA_WRITE: 60}
    assert decode_plan(encode_plan(found)) == found
    assert decode_command(encode_command(ADD)) == ADD


def test_the_bytes_before_are_read_first():
    command = replace(ADD, old=OLD)
    (tile,) = plan(command).tiles
    assert [(each.stage_type, each.params) for each in tile.stages] == [
        (StageType.DMA_READ, DmaParams(TARGET.rectangle)),
        (StageType.DMA_WRITE, DmaParams(TARGET.rectangle, atomic=True)),
    ]
    assert accesses_of(command) == (
        [TARGET.rectangle, VALUE.rectangle], [TARGET.rectangle, OLD.rectangle],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("math", "operands", "roles"),
    [
        (MathAttributes(op="copy"), (VALUE,), [Role.IN, Role.OUT]),
        (MathAttributes(op="fill", scalars=(3.0,)), (), [Role.OUT]),
        (MathAttributes(op="cas", scalars=(1.0,), scalar_at=(1,)), (VALUE,), [Role.IN, Role.IN, Role.OUT]),
        (MathAttributes(op="cas", scalars=(1.0, 2.0)), (), [Role.IN, Role.OUT]),
    ],
)
def test_an_exchange_does_not_read_its_target(math, operands, roles):
    (stage,) = plan(replace(ADD, math=math, operands=operands)).stages
    assert [each.role for each in stage.operands] == roles


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (replace(ADD, math=MathAttributes(op="exp")), "atomic: got 'exp', needs one of add, maximum"),
        (replace(ADD, operands=()), "atomic add: got 0 operands and 0 scalars, needs 1 arguments beside the target"),
        (replace(ADD, math=MathAttributes(op="cas")), "atomic cas: got 1 operands and 0 scalars, needs 2 arguments"),
        (replace(ADD, operands=(TARGET.part(0, 0, 2, 5),)), "atomic add: got 2 x 5 of i32, needs 3 x 5 of i32"),
        (replace(ADD, old=replace(OLD, dtype=DType.F32)), "atomic add: got 3 x 5 of f32, needs 3 x 5 of i32"),
        (replace(ADD, operands=(3,)), "atomic operands[0]: got the int '3', needs a Matrix"),
        (
            replace(ADD, math=MathAttributes(op="cas", scalars=(1.0,), scalar_at=(7,))),
            "atomic cas: got scalar_at [7] of 1 scalars, needs a place among the arguments for each scalar",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(command, text):
    with pytest.raises(PlanError) as caught:
        plan(command)
    assert text in str(caught.value)


def test_bits_are_those_of_integers():
    floats = replace(TARGET, dtype=DType.F32)
    command = AtomicCommand(math=MathAttributes(op="bit_or", scalars=(1.0,)), target=floats)
    with pytest.raises(PlanError, match="atomic bit_or: got a target of f32, needs integers"):
        plan(command)
    assert plan(replace(command, target=TARGET)).kind == "atomic"
    assert plan(replace(command, math=replace(command.math, op="add"))).kind == "atomic"
