"""Plans of vector programs whose rows do not fit: pieces of rows, and what one piece leaves to the next."""

import pytest
from plans_vector_programs import F16, F32, command_of, op, softmax, value

from kb_messages import (
    DType,
    MathAttributes,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    VectorOp,
    VectorProgram,
    VectorValue,
    When,
    check_plan,
)
from kb_plans import count, generate_vector_plan
from kb_plans.vectors.carry import PieceKind, _kinds

FETCH, MATH, STORE = StageType.FETCH, StageType.MATH, StageType.STORE
PIECE, SHORT, COUNT, TOTAL = PieceKind.PIECE, PieceKind.SHORT, PieceKind.COUNT, PieceKind.TOTAL


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


def kinds_of(*ops: VectorOp, inputs: tuple[VectorValue, ...] = (value(4, 640),)) -> tuple[PieceKind, ...] | None:
    """The kinds of the values of a program in pieces of 640 columns."""
    return _kinds(VectorProgram(inputs=inputs, ops=ops, outputs=(len(inputs),)), 640)


def test_a_value_is_a_piece_or_short_or_counts_or_depends_on_all_pieces() -> None:
    wide, column = value(4, 640), value(4, 1)
    total = op("sum", column, 0, axis=1)
    assert kinds_of(total, op("neg", column, 1)) == (PIECE, TOTAL, TOTAL)
    assert kinds_of(total, op("sub", wide, 0, 1)) is None
    assert kinds_of(op("sum", value(1, 640), 0, axis=0)) == (PIECE, PIECE)
    assert kinds_of(op("exp", column, 1), inputs=(wide, column)) == (PIECE, SHORT, SHORT)
    assert kinds_of(op("cumsum", wide, 0, axis=1)) == (PIECE, PIECE)
    assert kinds_of(op("cumsum", wide, 0, axis=1, reverse=True)) is None
    assert kinds_of(op("sort", wide, 0, axis=1)) is None


def test_what_is_made_counts_only_where_columns_have_numbers() -> None:
    whole = value(4, 640, DType.I32)
    assert kinds_of(op("index", whole, scalars=(0.0, 1.0, 2.0))) == (PIECE, COUNT)
    assert kinds_of(op("index", whole, scalars=(0.0, 1.0, 0.0))) == (PIECE, PIECE)
    assert kinds_of(op("fill", whole, scalars=(2.0,))) == (PIECE, PIECE)
    assert kinds_of(op("fill", value(4, 1), scalars=(2.0,))) == (PIECE, SHORT)
    assert kinds_of(op("fill", value(4, 2), scalars=(2.0,))) is None


def test_no_pieces_of_a_column_or_of_other_lengths_or_of_another_shape() -> None:
    wide, column, long = value(4, 640), value(4, 1), value(640, 1)
    alone = VectorProgram(inputs=(column,), ops=(op("sum", column, 0, axis=1),), outputs=(1,))
    assert _kinds(alone, 1) is None
    pair = VectorProgram(inputs=(value(4, 2),), ops=(op("sum", column, 0, axis=1),), outputs=(1,))
    assert _kinds(pair, 2) == (PIECE, TOTAL)
    assert kinds_of(op("sum", column, 0, axis=1), inputs=(wide, value(4, 3))) is None
    # The short value is a row of 640 here, of which a tile would have to have a piece.
    turned = VectorOp(math=MathAttributes(op="add"), arguments=(0, 1), result=wide, shapes=(None, (1, 640)))
    assert kinds_of(turned, inputs=(wide, long)) is None
    halves = VectorOp(math=MathAttributes(op="sum", axis=1), arguments=(0,), result=value(8, 1), shapes=((8, 320),))
    assert kinds_of(halves) is None


def test_the_last_reader_of_a_piece_releases_it() -> None:
    # 0: x, 1: numbers of columns, 2: x + numbers, 3: its square, 4: beside x, 5: the sum of each row
    wide = value(1, 640)
    ops = (
        op("index", value(1, 640, DType.I32), scalars=(0.0, 0.0, 1.0)),
        op("add", wide, 0, 1),
        op("mul", wide, 2, 2),
        op("sub", wide, 3, 0),
        op("sum", value(1, 1), 4, axis=1),
    )
    plan = generate_vector_plan(command_of(VectorProgram(inputs=(wide,), ops=ops, outputs=(5,))), "pe0", 768)
    assert plan.grid[2] > 1
    released = [
        (stage.math.op, stage.when, [each.release for each in stage.operands if each.role is Role.IN])
        for stage in plan.stages
        if stage.math is not None
    ]
    assert released == [
        ("index", When.FIRST_K, []),
        ("add", When.LATER_K, [False]),
        ("add", When.EVERY_TILE, [False, False]),  # x has another reader, and the numbers count on
        ("mul", When.EVERY_TILE, [False, True]),
        ("sub", When.EVERY_TILE, [True, True]),
        ("sum", When.EVERY_TILE, [True]),
        ("copy", When.FIRST_K, [True]),
        ("add", When.LATER_K, [False, True]),
    ]
    check_plan(plan)


EVERY, FIRST, LATER = When.EVERY_TILE, When.FIRST_K, When.LATER_K
# Registers of a tile: 64 f16 of the row, then a slot of 64 bytes for each of these. In the accumulator: three slots.
ROW, EXTREME, INDEX, TEST, OTHER = (("r", at) for at in (0, 128, 192, 256, 320))
FOUND, BEST, BEFORE = (("a", at) for at in (0, 64, 128))


def places(stage: StageTemplate) -> list[tuple[str, int]]:
    return [("r" if each.place is Place.REGISTERS else "a", each.base) for each in stage.operands]


@pytest.mark.parametrize(
    ("name", "reduced", "beyond", "keeps", "nan"),
    [
        ("argmax", "max", "maximum", "le", BEST),
        ("argmin", "min", "minimum", "ge", BEST),
        ("argmax_number", "max_number", "maximum_number", "le", EXTREME),
        ("argmin_number", "min_number", "minimum_number", "ge", EXTREME),
    ],
)
@pytest.mark.parametrize("dtype", [F16, DType.I16])
def test_a_search_keeps_the_extreme_of_the_pieces_before_and_its_column(
    name: str, reduced: str, beyond: str, keeps: str, nan: tuple[str, int], dtype: DType
) -> None:
    searched = op(name, value(1, 1, DType.I32), 0, axis=1)
    program = VectorProgram(inputs=(value(1, 2000, dtype),), ops=(searched,), outputs=(1,))
    plan = generate_vector_plan(command_of(program), "pe0", 1024)
    # Two tiles of 128 + 4 * 64 bytes and three slots of 64 are 960 bytes. 65 elements would take 192.
    assert plan.grid == (1, 1, 32)
    done = [
        (stage.math.op, stage.when, stage.math.axis, stage.math.scalars, *places(stage))
        for stage in plan.stages
        if stage.math is not None
    ]
    no_number = [("isnan", LATER, None, (), nan, OTHER), ("or", LATER, None, (), TEST, OTHER, TEST)]
    assert done == [
        (reduced, EVERY, 1, (), ROW, EXTREME),
        (name, EVERY, 1, (), ROW, INDEX),
        ("fill", FIRST, None, (0.0,), BEFORE),
        ("copy", FIRST, None, (), INDEX, FOUND),
        ("copy", FIRST, None, (), EXTREME, BEST),
        ("add", LATER, None, (64.0,), BEFORE, BEFORE),
        ("add", LATER, None, (), INDEX, BEFORE, INDEX),
        (keeps, LATER, None, (), EXTREME, BEST, TEST),
        *(no_number if dtype is F16 else []),
        ("where", LATER, None, (), TEST, FOUND, INDEX, FOUND),
        (beyond, LATER, None, (), BEST, EXTREME, BEST),
    ]
    check_plan(plan)
