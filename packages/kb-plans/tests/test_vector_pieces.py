"""Plans of vector programs whose rows do not fit: pieces of rows, and what one piece leaves to the next."""

import pytest
from plans_vector_programs import F16, F32, command_of, op, softmax, value

from kb_messages import (
    DType,
    Place,
    PlanError,
    Role,
    StageType,
    VectorProgram,
    When,
    check_plan,
)
from kb_plans import count, generate_vector_plan

FETCH, MATH, STORE = StageType.FETCH, StageType.MATH, StageType.STORE


def test_a_row_that_does_not_fit_is_reduced_in_pieces_that_carry_the_sum() -> None:
    # A piece of 32 f16 takes 64 bytes, its sum 64, what is carried 64, and the total in f16 64.
    wide, total = value(1, 200, F16), value(1, 1, F16)
    program = VectorProgram(inputs=(wide,), ops=(op("sum", total, 0, axis=1),), outputs=(1,))
    plan = generate_vector_plan(command_of(program), "pe0", 256)
    assert plan.grid == (1, 1, 7)
    assert [(stage.stage_type, stage.when, stage.math and stage.math.op) for stage in plan.stages] == [
        (FETCH, When.EVERY_TILE, None),
        (MATH, When.EVERY_TILE, "sum"),
        (MATH, When.FIRST_K, "copy"),
        (MATH, When.LATER_K, "add"),
        (MATH, When.LAST_K, "copy"),  # sums are f32, and rounded once
        (STORE, When.LAST_K, None),
    ]
    carried = plan.stages[3].operands
    assert [(each.role, each.place, each.dtype) for each in carried] == [
        (Role.IN, Place.ACCUMULATOR, F32),
        (Role.IN, Place.REGISTERS, F32),
        (Role.OUT, Place.ACCUMULATOR, F32),
    ]
    assert plan.lifetimes[Place.ACCUMULATOR].freed == (STORE,)
    assert count(plan).nbytes == {FETCH: 400, STORE: 2}
    check_plan(plan)


def test_pieces_count_their_columns_on() -> None:
    # Two rows of 64 columns: their numbers and values are added, and the largest of each row is wanted.
    numbers = op("index", value(2, 64, DType.I32), scalars=(5.0, 100.0, 3.0))
    program = VectorProgram(
        inputs=(value(2, 64, DType.I32),),
        ops=(numbers, op("add", value(2, 64, DType.I32), 0, 1), op("max", value(2, 1, DType.I32), 2, axis=1)),
        outputs=(3,),
    )
    plan = generate_vector_plan(command_of(program), "pe0", 512)
    piece = plan.stages[0].operands[0].cols.tile
    made, counted = plan.stages[1], plan.stages[2]
    assert (made.when, counted.when, counted.math and counted.math.scalars) == (
        When.FIRST_K,
        When.LATER_K,
        (3.0 * piece,),
    )
    assert plan.lifetimes[Place.ACCUMULATOR].freed == (STORE,)
    check_plan(plan)


def test_numbers_that_nobody_stores_are_free_after_the_last_piece() -> None:
    numbers = op("index", value(1, 64, DType.I32), scalars=(0.0, 0.0, 1.0))
    ops = numbers, op("add", value(1, 64), 0, 1), op("mul", value(1, 64), 2, 0)
    program = VectorProgram(inputs=(value(1, 64),), ops=ops, outputs=(3,))
    plan = generate_vector_plan(command_of(program), "pe0", 384)
    assert plan.grid[2] > 2
    lifetime = plan.lifetimes[Place.ACCUMULATOR]
    assert (lifetime.freed, lifetime.last) == ((MATH,), (-1, -1, -1, 2))
    check_plan(plan)


def test_a_piece_beside_what_follows_from_all_pieces_is_refused() -> None:
    with pytest.raises(PlanError, match="which no strip of rows or columns makes fit"):
        generate_vector_plan(command_of(softmax(1, 640)), "pe0", 383)
