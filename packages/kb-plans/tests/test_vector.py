"""Plans of vector programs: which stages they have, where values lie in registers, and how they are cut into strips."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from plans_vector_programs import F16, F32, command_of, op, softmax, value

from kb_messages import (
    DType,
    MathAttributes,
    Matrix,
    Place,
    PlanError,
    Role,
    StageType,
    VectorOp,
    VectorProgram,
    VectorValue,
    check_plan,
    stage_params,
)
from kb_plans import TileRoom, count, generate_plan, generate_vector_plan
from kb_plans.vectors.program import check_program
from kb_plans.vectors.registers import last_uses, lay_out_values
from kb_plans.vectors.strips import Strips, strips_of_rows

FETCH, MATH, STORE = StageType.FETCH, StageType.MATH, StageType.STORE


def test_a_program_is_one_fetch_a_math_for_each_op_and_one_store() -> None:
    plan = generate_vector_plan(command_of(softmax(4, 64)), "pe0", 1 << 16)
    assert plan.kind == "vector"
    assert plan.grid == (1, 1, 1)
    assert [stage.stage_type for stage in plan.stages] == [FETCH, *[MATH] * 7, STORE]
    assert [stage.line for stage in plan.stages] == [f"k.py:{n}" for n in (1, 1, 1, 2, 1, 1, 2, 1, 1)]
    counts = count(plan)
    assert counts.nbytes == {FETCH: 4 * 64 * 2, STORE: 4 * 64 * 2}
    check_plan(plan)


def test_registers_are_used_again_when_nobody_reads_their_value_any_more() -> None:
    # 4 x 64: 512 bytes in f16, 1024 in f32, a column 64. x [0, 512), its f32 [512, 1536), then x is free:
    # the largest [0, 64), the difference in place of the f32, the power in place of the difference, the sum where the
    # largest was, the quotient in place of the power. Its f16 fits below.
    layout = lay_out_values(softmax(4, 64), [512, 1024, 64, 1024, 1024, 64, 1024, 512])
    assert layout.offsets == (0, 512, 0, 512, 512, 0, 512, 0)
    assert layout.nbytes == 1536


def test_an_argument_is_released_by_its_last_reader_alone() -> None:
    plan = generate_vector_plan(command_of(softmax(4, 64)), "pe0", 1 << 16)
    released = [[each.release for each in stage.operands if each.role is Role.IN] for stage in plan.stages[1:-1]]
    assert released == [[True], [False], [True, True], [True], [False], [True, True], [True]]
    square = VectorProgram(inputs=(value(4, 4),), ops=(op("mul", value(4, 4), 0, 0),), outputs=(1,))
    assert [each.release for each in generate_vector_plan(command_of(square), "pe0", 256).stages[1].operands] == [
        False, True, False,
    ]  # fmt: skip


def test_a_value_that_leaves_and_is_read_stays_until_the_store() -> None:
    wide = value(4, 4)
    program = VectorProgram(inputs=(wide,), ops=(op("exp", wide, 0), op("neg", wide, 1)), outputs=(1, 2))
    assert last_uses(program) == [0, 2, 2]
    plan = generate_vector_plan(command_of(program), "pe0", 1 << 10)
    places = [each.base for each in plan.stages[-1].operands if each.role is Role.SRC]
    assert len(set(places)) == 2
    assert all(each.release for each in plan.stages[-1].operands if each.role is Role.SRC)
    assert plan.lifetimes[Place.REGISTERS].freed == (STORE,)


def test_values_without_operands_have_no_fetch() -> None:
    fill = op("fill", value(4, 4), scalars=(0.0,))
    plan = generate_vector_plan(command_of(VectorProgram(inputs=(), ops=(fill,), outputs=(0,))), "pe0", 64)
    assert [stage.stage_type for stage in plan.stages] == [MATH, STORE]
    check_plan(plan)


@pytest.mark.parametrize(
    ("register_nbytes", "strips"),
    [
        (1536, 1),  # all four rows: 1536 bytes at a time, as above
        (2 * 896, 1),  # they fit once, and that is enough
        (2 * 384, 4),  # a row: 128 + 256 bytes, twice
        (2 * 768, 1),
        (2 * 768 - 1, 4),  # less than all four; two rows take 256 + 512, which fits once, and one row twice
        (384, 4),
    ],
)
def test_what_does_not_fit_is_worked_on_in_strips_of_rows(register_nbytes: int, strips: int) -> None:
    plan = generate_vector_plan(command_of(softmax(4, 64)), "pe0", register_nbytes)
    assert plan.grid == (strips, 1, 1)
    assert plan.buffers.register_nbytes <= register_nbytes
    assert count(plan).nbytes == {FETCH: 4 * 64 * 2, STORE: 4 * 64 * 2}
    check_plan(plan)


def test_sums_over_rows_are_worked_on_in_strips_of_columns() -> None:
    wide = value(64, 64)
    ops = op("mul", wide, 0, 0), op("sum", value(1, 64), 1, axis=0)
    plan = generate_vector_plan(command_of(VectorProgram(inputs=(wide,), ops=ops, outputs=(2,))), "pe0", 2048)
    # A column has 64 x 4 bytes, and its sum takes a slot of 64: three columns are 768 + 64, and two such tiles fit.
    assert plan.grid == (1, 22, 1)
    assert plan.stages[-1].operands[1].cols.tile == 3
    check_plan(plan)


def test_a_row_beside_a_block_is_the_same_for_each_strip() -> None:
    wide, row = value(64, 64), value(1, 64)
    ops = op("neg", row, 1), op("add", wide, 0, 2)
    plan = generate_vector_plan(command_of(VectorProgram(inputs=(wide, row), ops=ops, outputs=(3,))), "pe0", 4096)
    assert plan.grid[0] > 1
    assert [each.rows.dimension for each in plan.stages[0].operands if each.role is Role.SRC] == [0, None]


def test_a_view_reads_the_registers_of_its_value_in_another_shape() -> None:
    column, row = value(8, 1), value(1, 8)
    ops = (
        op("max", column, 0, axis=1),
        VectorOp(math=MathAttributes(op="exp"), arguments=(1,), result=row, shapes=((1, 8),)),
        VectorOp(math=MathAttributes(op="sub"), arguments=(0, 2), result=value(8, 16), shapes=(None, (8, 1))),
    )
    program = VectorProgram(inputs=(value(8, 16),), ops=ops, outputs=(3,))
    plan = generate_vector_plan(command_of(program), "pe0", 1 << 16)
    assert [stage.stage_type for stage in plan.stages] == [FETCH, *[MATH] * 3, STORE]
    read = plan.stages[2].operands[0]
    assert (read.rows.total, read.cols.total, read.base) == (1, 8, plan.stages[1].operands[1].base)
    check_plan(plan)
    # A strip has as many elements of the row as of the column. Two rows are 128 bytes and a slot of 64, and fit twice.
    cut = generate_vector_plan(command_of(program), "pe0", 500)
    assert cut.grid == (4, 1, 1)
    rows, columns = cut.stages[2].operands[0].rows, cut.stages[2].operands[0].cols
    assert (rows.dimension, columns.dimension, columns.total, columns.tile) == (None, 0, 8, 2)
    check_plan(cut)


def test_strips_have_whole_groups_of_rows() -> None:
    # 4 x 3 x 2 values of 16 columns: over the middle axis of 3, then again beside each of its rows.
    wide, narrow = value(24, 16), value(8, 16)
    ops = (
        op("sum", narrow, 0, axis=0, group=(3, 2)),
        op("spread", wide, 1, group=(3, 2)),
        op("div", wide, 0, 2),
    )
    plan = generate_vector_plan(command_of(VectorProgram(inputs=(wide,), ops=ops, outputs=(3,))), "pe0", 1024)
    # A part is 6 rows: 384 bytes, its sums 128. x, the sums and the repeated sums are 896 bytes: one part at a time.
    assert plan.grid == (4, 1, 1)
    assert [each.rows.tile for each in plan.stages[1].operands] == [6, 2]
    check_plan(plan)


def test_a_view_of_a_row_that_is_no_part_is_not_cut() -> None:
    # Each row of the result needs all elements of the first value, which is read as one row.
    ops = (
        VectorOp(math=MathAttributes(op="mul"), arguments=(0, 1), result=value(8, 8), shapes=((1, 8), None)),
        op("sum", value(8, 1), 2, axis=1),
    )
    program = VectorProgram(inputs=(value(8, 1), value(8, 8)), ops=ops, outputs=(3,))
    with pytest.raises(PlanError, match="which no strip of rows or columns makes fit"):
        generate_vector_plan(command_of(program), "pe0", 256)


BLOCK, ROW = value(8, 5), value(1, 5)
NUMBERS = value(8, 5, DType.I32)
READ_AS_8_ROWS = VectorOp(math=MathAttributes(op="neg"), arguments=(0,), result=value(8, 3), shapes=((8, 3),))


@pytest.mark.parametrize(
    ("inputs", "ops", "size", "parts"),
    [
        # Two rows are two parts of a row each.
        ((value(2, 5),), (op("neg", value(2, 5), 0),), 2, {0, 1}),
        ((value(2, 5),), (op("fill", value(2, 5), scalars=(2.0,)), op("add", value(2, 5), 0, 1)), 2, {0, 1, 2}),
        # A row has no part in a strip, however long it is.
        ((BLOCK, ROW), (op("add", BLOCK, 0, 1),), 8, {0, 2}),
        # An input that no op reads may have any rows.
        ((BLOCK, value(3, 5)), (op("neg", BLOCK, 0),), 8, {0, 2}),
        # What is made is a part if its rows have no numbers.
        ((BLOCK,), (op("fill", BLOCK, scalars=(2.0,)), op("add", BLOCK, 0, 1)), 8, {0, 1, 2}),
        ((BLOCK,), (op("fill", ROW, scalars=(2.0,)), op("add", BLOCK, 0, 1)), 8, {0, 2}),
        ((BLOCK,), (op("index", NUMBERS, scalars=(0.0, 0.0, 1.0)), op("add", BLOCK, 0, 1)), 8, {0, 1, 2}),
        ((BLOCK,), (op("index", NUMBERS, scalars=(0.0, 1.0, 0.0)), op("add", BLOCK, 0, 1)), 8, None),
        # 8 parts of 3 elements are no whole rows of 4, in which the input comes.
        ((value(6, 4),), (READ_AS_8_ROWS,), 8, None),
        # Nothing has a part: the rows are made of a single one.
        ((value(1, 64),), (op("rearrange", value(8, 8), 0, lengths=(8, 8), strides=(1, 8)),), 8, None),
        ((ROW,), (op("neg", ROW, 0),), 1, None),
    ],
)
def test_values_have_parts_in_strips_of_rows(
    inputs: tuple[VectorValue, ...], ops: tuple[VectorOp, ...], size: int, parts: set[int] | None
) -> None:
    program = VectorProgram(inputs=inputs, ops=ops, outputs=(len(inputs) + len(ops) - 1,))
    check_program(program)
    assert strips_of_rows(program) == (None if parts is None else Strips(0, size, frozenset(parts)))


REFUSED = [
    (
        VectorProgram(inputs=(value(6, 4),), ops=(op("sum", value(2, 4), 0, axis=0, group=(4, 1)),), outputs=(1,)),
        1024,
        "vector ops[0] sum: got 6 rows, needs a multiple of 4, 4 rows 1 apart",
    ),
    (
        VectorProgram(inputs=(value(6, 4),), ops=(op("spread", value(6, 4), 0),), outputs=(1,)),
        1024,
        "vector ops[0] spread: got group None, needs rows of a group",
    ),
    (
        VectorProgram(
            inputs=(value(6, 4),),
            ops=(VectorOp(math=MathAttributes(op="neg"), arguments=(0,), result=value(5, 4), shapes=((5, 4),)),),
            outputs=(1,),
        ),
        1024,
        "vector ops[0] neg: got 6 x 4 read as 5 x 4, needs the same number of elements",
    ),
    (softmax(4, 64), 383, "vector program: got values of 1536 bytes at a time, which no strip"),
    (
        VectorProgram(
            inputs=(value(64, 64),),
            ops=(
                op("sum", value(1, 64), 0, axis=0),
                op("sub", value(64, 64), 0, 1),
                op("max", value(64, 1), 2, axis=1),
            ),
            outputs=(3,),
        ),
        300,  # a column of 64 takes 256 bytes, and its sum beside the other columns more
        "vector program: got values of",
    ),
    (
        VectorProgram(
            inputs=(),
            ops=(op("index", value(64, 64, DType.I32), scalars=(0.0, 1.0, 1.0)),),
            outputs=(0,),
        ),
        255,
        "vector program: got values of 16384 bytes",
    ),
    (VectorProgram(inputs=(), ops=(), outputs=()), 64, "vector program: got no op or no output"),
    (
        VectorProgram(inputs=(value(4, 4),), ops=(op("neg", value(4, 4), 1),), outputs=(1,)),
        256,
        "vector ops[0]: got arguments (1,), needs values from 0 to 0",
    ),
    (
        VectorProgram(inputs=(value(4, 4),), ops=(op("sum", value(4, 4), 0, axis=1),), outputs=(1,)),
        256,
        "vector ops[0] sum: got a result of 4 x 4, needs 4 x 1",
    ),
    (
        VectorProgram(inputs=(value(4, 4),), ops=(op("neg", value(4, 4), 0),), outputs=(0,)),
        256,
        "vector outputs: got (0,), needs results of ops, from 1 to 1, once each",
    ),
    (
        VectorProgram(inputs=(value(4, 4),), ops=(op("neg", value(4, 4), 0),), outputs=(1, 0)),
        256,
        "vector outputs: got (1, 0), needs results of ops, from 1 to 1, once each",
    ),
    (
        VectorProgram(inputs=(value(4, 4),), ops=(op("neg", value(4, 4), 0),), outputs=()),
        256,
        "vector program: got no op or no output",
    ),
    (
        VectorProgram(inputs=(value(4, 4),), ops=(op("bit_not", value(4, 4), 0),), outputs=(1,)),
        256,
        "vector ops[0] bit_not: got inputs of f32, needs integers",
    ),
    (
        VectorProgram(inputs=(value(4, 4), value(3, 4)), ops=(op("add", value(4, 4), 0, 1),), outputs=(2,)),
        256,
        "vector ops[0] add: got inputs of 4 x 4, 3 x 4, needs shapes that broadcast",
    ),
]


def test_what_moves_elements_anywhere_is_not_worked_on_in_strips() -> None:
    square, turned = value(64, 64), value(64, 64)
    order = op("rearrange", turned, 0, lengths=(64, 64), strides=(1, 64))
    program = VectorProgram(inputs=(square,), ops=(op("neg", square, 0), order), outputs=(1, 2))
    with pytest.raises(PlanError, match="which no strip of rows or columns makes fit"):
        generate_vector_plan(command_of(program), "pe0", 1 << 14)
    assert generate_vector_plan(command_of(program), "pe0", 3 << 14).n_tiles == 1
    retyped = VectorProgram(inputs=(square,), ops=(op("bitcast", value(64, 64, DType.I32), 0),), outputs=(1,))
    assert generate_vector_plan(command_of(retyped), "pe0", 1 << 13).grid == (4, 1, 1)


def test_a_gather_is_worked_on_in_strips_across_its_axis() -> None:
    index, source = value(64, 8, DType.I32), value(64, 32)
    program = VectorProgram(inputs=(index, source), ops=(op("gather", value(64, 8), 0, 1, axis=1),), outputs=(2,))
    plan = generate_vector_plan(command_of(program), "pe0", 1 << 13)
    assert plan.grid == (4, 1, 1)  # 192 bytes a row: 21 rows in half of the registers
    params = stage_params(plan.stages[1], (0, 0, 0), 1)
    assert (params.rows, params.cols, params.depth) == (21, 8, 32)


def test_the_rounds_of_philox_are_in_its_figures() -> None:
    counter = value(4, 8, DType.U32)
    philox = op("philox", counter, 0, scalars=(0.0, 0.0, 0.0, 7.0, 0.0, 6.0, 2.0), scalar_at=(1, 2, 3, 4, 5, 6, 7))
    plan = generate_vector_plan(command_of(VectorProgram(inputs=(counter,), ops=(philox,), outputs=(1,))), "pe0", 1024)
    params = stage_params(plan.stages[1], (0, 0, 0), 1)
    assert (params.rows, params.cols, params.depth) == (4, 8, 6)


@pytest.mark.parametrize(("program", "register_nbytes", "message"), REFUSED)
def test_what_means_nothing_or_does_not_fit_is_refused(
    program: VectorProgram, register_nbytes: int, message: str
) -> None:
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        generate_vector_plan(command_of(program), "pe0", register_nbytes)


def test_an_output_that_no_op_makes_is_refused() -> None:
    program = VectorProgram(inputs=(value(4, 4),), ops=(op("neg", value(4, 4), 0),), outputs=(2,))
    with pytest.raises(PlanError, match=r"^vector outputs: got \(2,\), needs results of ops, from 1 to 1, once each$"):
        check_program(program)


def test_matrices_that_are_not_the_programs_values_are_refused() -> None:
    command = command_of(softmax(4, 64))
    with pytest.raises(PlanError, match=r"^vector: got 0 inputs, needs 1, as the program has$"):
        generate_vector_plan(replace(command, inputs=()), "pe0", 1 << 16)
    other = replace(command, outputs=(Matrix.packed(4, 64, F32),))
    with pytest.raises(PlanError, match=r"^vector outputs\[0\]: got 4 x 64 of f32, needs 4 x 64 of f16$"):
        generate_vector_plan(other, "pe0", 1 << 16)


@pytest.mark.parametrize("register_nbytes", [384, 1 << 16])
def test_a_plan_at_other_addresses_is_the_plan_of_those_addresses(register_nbytes: int) -> None:
    first = command_of(softmax(4, 64))
    second = replace(
        first,
        inputs=(Matrix.packed(4, 64, F16, 1 << 41),),
        outputs=(Matrix.packed(4, 64, F16, 1 << 30),),
    )
    plan, expected = (generate_vector_plan(each, "pe0", register_nbytes) for each in (first, second))
    assert plan.at((1 << 41, 1 << 30)) == expected
    assert list(plan.tiles_at((1 << 41, 1 << 30))) == list(expected.tiles)


def test_any_command_is_planned_by_one_function() -> None:
    command = command_of(softmax(4, 64))
    room = TileRoom(input_nbytes=64, output_nbytes=64, register_nbytes=1536)
    assert generate_plan(command, "pe0", room) == generate_vector_plan(command, "pe0", 1536)


@st.composite
def programs(draw: st.DrawFn) -> VectorProgram:
    shapes = [(5, 7), (1, 7), (5, 1), (1, 1)]
    values = [value(*draw(st.sampled_from(shapes))) for _ in range(draw(st.integers(1, 3)))]
    inputs, ops = tuple(values), []
    for _ in range(draw(st.integers(1, 12))):
        first, second = (draw(st.integers(0, len(values) - 1)) for _ in range(2))
        rows, cols = (max(getattr(values[each], side) for each in (first, second)) for side in ("rows", "cols"))
        made = draw(
            st.sampled_from(
                [
                    op("add", value(rows, cols), first, second),
                    op("exp", values[first], first),
                    op("sum", value(1, values[first].cols), first, axis=0),
                    op("max", value(values[first].rows, 1), first, axis=1),
                    op("cumsum", values[first], first, axis=1),
                ]
            )
        )
        ops.append(made)
        values.append(made.result)
    last = len(values) - 1
    outputs = draw(st.sets(st.integers(len(inputs), last), max_size=3)) | {last}
    return VectorProgram(inputs=inputs, ops=tuple(ops), outputs=tuple(sorted(outputs)))


@given(programs())
def test_values_that_are_live_at_once_never_overlap(program: VectorProgram) -> None:
    slots = [-(-each.nbytes // 64) * 64 for each in program.values]
    layout, last = lay_out_values(program, slots), last_uses(program)
    n_inputs = len(program.inputs)
    for number in range(len(program.ops)):
        made = n_inputs + number
        live = [each for each in range(made) if last[each] > number] + [made]
        spans = sorted((layout.offsets[each], layout.offsets[each] + slots[each]) for each in live)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        for each in program.ops[number].arguments:
            first, second = layout.offsets[each], layout.offsets[made]
            apart = first + slots[each] <= second or second + slots[made] <= first
            assert apart or (first == second and slots[each] == slots[made] and last[each] == number)
    assert layout.nbytes == max(at + size for at, size in zip(layout.offsets, slots, strict=True))
