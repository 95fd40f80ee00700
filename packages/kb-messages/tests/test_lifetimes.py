"""Lifetimes of places, from stages written by hand: what each kind of tile claims and frees, and where."""

import pytest

from kb_messages import Axis, DType, OperandTemplate, Place, PlanError, Role, StageTemplate, StageType, When, tile_kind
from kb_messages.plans.lifetimes import lifetimes_of

SIDE = Axis(dimension=None, total=4, tile=4)
READ, FETCH, GEMM, MATH, STORE, WRITE = (
    StageType.DMA_READ, StageType.FETCH, StageType.GEMM, StageType.MATH, StageType.STORE, StageType.DMA_WRITE,
)  # fmt: skip
MEMORY, REGISTERS, SUM = Place.MEMORY, Place.REGISTERS, Place.ACCUMULATOR
INPUT, OUTPUT = Place.INPUT_BUFFER, Place.OUTPUT_BUFFER


def stage(kind, *operands, when=When.EVERY_TILE):
    templates = tuple(
        OperandTemplate(role=role, place=place, base=0, rows=SIDE, cols=SIDE, stride=8, dtype=DType.F16)
        for role, place in operands
    )
    return StageTemplate(stage_type=kind, component=f"pe_{kind.name.lower()}", when=when, operands=templates)


def move(kind, source, target, when=When.EVERY_TILE):
    return stage(kind, (Role.SRC, source), (Role.DST, target), when=when)


GEMM_STAGE = stage(GEMM, (Role.A, REGISTERS), (Role.B, REGISTERS), (Role.OUT, SUM))
RELU = stage(MATH, (Role.IN, SUM), (Role.OUT, SUM), when=When.LAST_K)
OUT = move(STORE, SUM, OUTPUT, When.LAST_K), move(WRITE, OUTPUT, MEMORY, When.LAST_K)
PLAIN = move(READ, MEMORY, INPUT), move(READ, MEMORY, INPUT), move(FETCH, INPUT, REGISTERS), GEMM_STAGE, *OUT
STREAMED = (
    move(READ, MEMORY, INPUT),
    move(READ, MEMORY, REGISTERS),
    move(FETCH, INPUT, REGISTERS),
    GEMM_STAGE,
    RELU,
    *OUT,
)


@pytest.mark.parametrize(("k", "k_grid", "kind"), [(0, 1, 2), (0, 2, 0), (1, 2, 3), (0, 3, 0), (1, 3, 1), (2, 3, 3)])
def test_tiles_of_one_kind_stand_alike_along_k(k, k_grid, kind):
    assert tile_kind(k, k_grid) == kind


def test_a_plain_gemm_claims_registers_with_its_fetch_and_frees_each_place_by_one_stage():
    found = lifetimes_of(PLAIN, 3)
    ends = {place: (each.claimed, each.freed) for place, each in found.items()}
    assert ends == {
        INPUT: (READ, (FETCH,)),
        OUTPUT: (STORE, (WRITE,)),
        REGISTERS: (FETCH, (GEMM,)),
        SUM: (GEMM, (STORE,)),
    }
    assert [each.last for each in found.values()] == [None] * 4
    assert found[REGISTERS].first is None


def test_a_streamed_operand_claims_registers_with_its_own_read():
    registers = lifetimes_of(STREAMED, 3)[REGISTERS]
    assert (registers.claimed, registers.first) == (READ, (1, 1, -1, 1))


def test_the_registers_of_a_tile_are_freed_by_its_last_stage_that_computes():
    """Tiles before the last over K end with their GEMM, stage 3; the last one with its relu, stage 4."""
    assert lifetimes_of(STREAMED, 3)[REGISTERS].last == (3, 3, -1, 4)
    assert lifetimes_of(STREAMED, 2)[REGISTERS].last == (3, -1, -1, 4)
    assert lifetimes_of(STREAMED, 1)[REGISTERS].last == (-1, -1, 4, -1)
    assert lifetimes_of(STREAMED, 3)[REGISTERS].freed == (GEMM, MATH)


def test_a_transfer_holds_no_place():
    assert lifetimes_of([move(READ, MEMORY, MEMORY)], 1) == {}


def test_a_place_that_no_stage_writes_is_a_plan_error():
    with pytest.raises(
        PlanError, match=r"^plan: got stages that read input_buffer, and no stage that writes it, needs "
    ):
        lifetimes_of([move(FETCH, INPUT, REGISTERS), GEMM_STAGE, *OUT], 1)
