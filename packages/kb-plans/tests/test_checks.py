"""A value of a wrong type or out of bounds is one sentence, and never a plan of something else."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kb_messages import (
    ADDRESS_BITS,
    OFFSET_BITS,
    AtomicCommand,
    Command,
    DrainCommand,
    DType,
    EpilogueOp,
    EpilogueScope,
    Fill,
    GemmCommand,
    LoadCommand,
    MathAttributes,
    MathCommand,
    MathInput,
    Matrix,
    NonFinite,
    Piece,
    PipelinePlan,
    PlanError,
    StoreCommand,
    TileShape,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
    decode_plan,
    encode_plan,
)
from kb_plans import TileRoom, checks, count, generate_plan, suggest_math_tile, suggest_tile
from kb_plans.checks import explain, is_sound

SQUARE = Matrix.packed(64, 64, DType.F16, 1 << 43)
ROW = Matrix.packed(1, 64, DType.F16)
ROOM = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=1 << 20)
OPS = (
    EpilogueOp(op="bias", scope=EpilogueScope.OUTPUT_TILE, operand=ROW),
    EpilogueOp(op="scale", scope=EpilogueScope.K_TILE, scalars=(2.0,)),
)
TILE = TileShape(16, 16, 16)
GEMM = GemmCommand(a=SQUARE, b=SQUARE, out=SQUARE, tile=TILE, epilogue=OPS)
MATH = MathCommand(
    math=MathAttributes(op="add", scalars=(1,), scalar_at=(0,)),
    inputs=(MathInput(matrix=replace(SQUARE, virtual=4096)),),
    out=SQUARE,
    tile=TileShape(16, 16, 1),
)
LOAD = LoadCommand(src=ROW, dst=SQUARE, fill=Fill(row=1, col=0, immediate=8))
STORE = StoreCommand(src=SQUARE, dst=SQUARE)
COMMANDS: tuple[Command, ...] = (GEMM, MATH, LOAD, STORE)
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, float("nan"), float("inf"), "", "output_tile", "f16", b"x", [], (), {}, [1], (1,),
    1 << 70, -(10**5000), 10**5000, object(), SQUARE, TILE, OPS[0], EpilogueScope.K_TILE, DType.BF16, GEMM, int,
)  # fmt: skip


def planned(command: Any) -> PipelinePlan:
    return generate_plan(command, "pe0", ROOM)


def with_strange_values(value: Any) -> Iterator[tuple[str, Any]]:
    """*value* with one of its values, however deep, replaced: (what was done, the result)."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            for strange in STRANGE:
                yield f"{name} is {type(strange).__name__}", replace(value, **{name: strange})
            for what, inner in with_strange_values(getattr(value, name)):
                yield f"{name} {what}", replace(value, **{name: inner})
    if isinstance(value, tuple):
        yield "a generator", (each for each in value)
        yield "a list", list(value)
        for number, item in enumerate(value):
            for strange in STRANGE:
                yield f"[{number}] is {type(strange).__name__}", (*value[:number], strange, *value[number + 1 :])
            for what, inner in with_strange_values(item):
                yield f"[{number}] {what}", (*value[:number], inner, *value[number + 1 :])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_of_another_type_is_refused_or_means_what_it_says(command: Command) -> None:
    """What is accepted survives JSON, which keeps no type but the declared one, and gives the same counts then."""
    n_refused = n_accepted = 0
    for what, strange in with_strange_values(command):
        try:
            plan = planned(strange)
        except PlanError:
            n_refused += 1
            continue
        again = msgspec.json.decode(msgspec.json.encode(strange), type=Command)
        assert planned(again) == plan, what
        assert count(planned(again)) == count(decode_plan(encode_plan(plan))), what
        n_accepted += 1
    assert n_refused > 200
    assert n_accepted > 2


PIECE = Piece(address=4096, stride=64, place=8192, place_stride=32, rows=2, cols=3)
SHAPED = VectorOp(
    math=MathAttributes(op="neg"), arguments=(0,), result=VectorValue(1, 64, DType.F16), shapes=((1, 64),)
)
VECTOR = VectorCommand(
    program=VectorProgram(inputs=(VectorValue(1, 64, DType.F16),), ops=(SHAPED,), outputs=(1,)),
    inputs=(ROW,),
    outputs=(ROW,),
)
ALL_FIELDS: tuple[Command, ...] = (
    replace(GEMM, acc=SQUARE),
    LoadCommand(src=ROW, dst=SQUARE, pieces=(PIECE,), fills=(PIECE,)),
    StoreCommand(src=SQUARE, dst=ROW, pieces=(PIECE,)),
    AtomicCommand(math=MathAttributes(op="add"), target=SQUARE, operands=(SQUARE,), old=SQUARE),
    DrainCommand(src=SQUARE, dst=SQUARE),
    VECTOR,
)


@pytest.mark.parametrize("command", [*COMMANDS, *ALL_FIELDS])
def test_what_the_quick_look_accepts_has_nothing_to_explain(command: Command) -> None:
    """The rest is explained, except a few integers out of bounds: the plan's own rules refuse these."""
    assert is_sound(command)
    explain(command, type(command), "pe0")
    for what, strange in with_strange_values(command):
        if is_sound(strange):
            explain(strange, type(command), "pe0")
        elif not what.endswith("is int"):
            with pytest.raises(PlanError):
                explain(strange, type(command), "pe0")


def test_a_group_of_one_number_and_a_shape_of_one_number_are_refused() -> None:
    summed = VectorOp(math=MathAttributes(op="sum", axis=0), arguments=(0,), result=VectorValue(1, 64, DType.F16))
    group: Any = replace(summed, math=replace(summed.math, group=(1,)))
    shape: Any = replace(SHAPED, shapes=((64,),))
    for op, said in (
        (group, f"vector program ops[0] math group: got (1,), needs two numbers from 1 to {1 << OFFSET_BITS}"),
        (shape, f"vector program ops[0] shapes: got ((64,),), needs rows and columns from 1 to {1 << OFFSET_BITS}, or"),
        (replace(SHAPED, shapes=1), "vector program ops[0] shapes: got the int '1', needs a tuple"),
    ):
        with pytest.raises(PlanError) as caught:
            planned(replace(VECTOR, program=replace(VECTOR.program, ops=(op,))))
        assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (replace(GEMM, epilogue=(replace(OPS[0], scope="output_tile"),)),
         "gemm epilogue[0] scope: got the str 'output_tile', needs an EpilogueScope"),
        (replace(GEMM, epilogue=(op for op in OPS)), "gemm epilogue: got a value of type generator, needs a tuple"),
        (replace(GEMM, tile=TileShape(16.0, 16, 16)), "gemm tile m: got the float '16.0', needs an int"),
        (replace(GEMM, tile=TileShape(16, True, 16)), "gemm tile n: got the bool 'True', needs an int"),
        (replace(GEMM, a=replace(SQUARE, stride=0)),
         "gemm a stride: got 0 bytes, needs the 128 bytes of a row at least"),
        (replace(GEMM, a=replace(SQUARE, stride=127)),
         "gemm a stride: got 127 bytes, needs the 128 bytes of a row at least"),
        (replace(GEMM, b=replace(SQUARE, address=-1)), "gemm b address: got -0x1, needs 0 to 68 bits"),
        (replace(GEMM, out=replace(SQUARE, rows=0)),
         "gemm out: got 0 x 64, needs at least one row and one column"),
        (replace(GEMM, a=replace(SQUARE, dtype="f16")), "gemm a dtype: got the str 'f16', needs a DType"),
        (replace(MATH, math=MathAttributes(op="add", scalars=(float("nan"),))),
         "math math scalars[0]: got the float 'nan', needs a finite number of at most 64 bits"),
        (replace(STORE, src=replace(SQUARE, rows=0), dst=replace(SQUARE, rows=0)),
         "store src: got 0 x 64, needs at least one row and one column"),
        (replace(GEMM, tile=TileShape(-(10**5000), 1, 1)),
         "gemm tile m: got an int of 16610 bits, needs one that fits 64 bits"),
        (None, "plan: got a value of type NoneType, needs a command"),
        (SQUARE, "plan: got a value of type Matrix, needs a command"),
    ],
)  # fmt: skip
def test_the_sentence_names_the_field(command: Any, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned(command)
    assert str(caught.value) == said


def test_a_single_row_may_have_any_stride() -> None:
    assert count(planned(StoreCommand(src=replace(ROW, stride=0), dst=ROW))) == count(
        planned(StoreCommand(src=ROW, dst=ROW))
    )


@pytest.mark.parametrize("suggest", [suggest_tile, suggest_math_tile])
@pytest.mark.parametrize("command", [None, STORE, replace(MATH, inputs=()), replace(GEMM, a=None)])
def test_a_tile_is_suggested_for_commands_alone(suggest: Callable[[Any, TileRoom], TileShape], command: Any) -> None:
    with pytest.raises(PlanError):
        suggest(command, ROOM)


@pytest.mark.parametrize("room", [None, replace(ROOM, input_nbytes=float("nan")), replace(ROOM, output_nbytes="9")])
def test_room_is_in_whole_bytes(room: Any) -> None:
    with pytest.raises(PlanError, match=r"^room for tiles: got "):
        suggest_tile(GEMM, room)


def test_a_pe_has_a_name() -> None:
    with pytest.raises(PlanError, match=r"^plan pe: got a value of type NoneType, needs the name of a PE as a str$"):
        generate_plan(STORE, None, ROOM)  # type: ignore[arg-type]


MATRIX, END, MOST = (
    Matrix(address=4096, rows=2, cols=3, stride=64, dtype=DType.F16),
    1 << ADDRESS_BITS,
    1 << OFFSET_BITS,
)
LIMITS = [
    (checks._is_piece, PIECE, "address", 0, END - 1),
    (checks._is_piece, PIECE, "stride", 0, END - 1),
    (checks._is_piece, PIECE, "place", 0, END - 1),
    (checks._is_piece, PIECE, "place_stride", 0, END - 1),
    (checks._is_piece, PIECE, "virtual", 0, END - 1),
    (checks._is_piece, PIECE, "rows", 1, MOST),
    (checks._is_piece, PIECE, "cols", 1, MOST),
    (checks._is_math, MathAttributes(op="sum"), "axis", 0, 1),
    (checks._is_fill, Fill(row=0, col=0, immediate=0), "row", 0, MOST),
    (checks._is_fill, Fill(row=0, col=0, immediate=0), "col", 0, MOST),
    (checks._is_fill, Fill(row=0, col=0, immediate=0), "immediate", 0, END - 1),
    (checks._is_value, VectorValue(2, 3, DType.F16), "rows", 1, MOST),
    (checks._is_value, VectorValue(2, 3, DType.F16), "cols", 1, MOST),
    (checks._is_matrix, MATRIX, "address", 0, END - 1),
    (checks._is_matrix, MATRIX, "virtual", 0, END - 1),
    (checks._is_matrix, MATRIX, "rows", 1, MOST),
    (checks._is_matrix, MATRIX, "stride", 6, END - 1),
    (checks._is_matrix, replace(MATRIX, stride=END - 1), "cols", 1, MOST),
    (checks._is_op, OPS[0], "group", 1, MOST),
    (checks._is_tile, TileShape(1, 1, 1), "m", 1, MOST),
    (checks._is_tile, TileShape(1, 1, 1), "n", 1, MOST),
    (checks._is_tile, TileShape(1, 1, 1), "k", 1, MOST),
]


@pytest.mark.parametrize(("check", "value", "name", "least", "most"), LIMITS)
def test_a_number_at_a_limit_is_taken_and_one_beyond_is_not(check, value, name, least, most):
    found = [check(replace(value, **{name: number})) for number in (least - 1, least, most, most + 1)]
    assert found == [False, True, True, False]


@pytest.mark.parametrize("name", Piece.__struct_fields__)
def test_a_piece_of_integers_alone_is_sound(name):
    assert checks._is_piece(PIECE)
    # True is an integer between the limits, but no int.
    assert not checks._is_piece(replace(PIECE, **{name: True}))


@pytest.mark.parametrize(
    ("changes", "sound"),
    [
        ({"axis": True}, False),
        ({"scalars": (NonFinite.NAN,)}, True),
        ({"scalars": [1.0]}, False),
        ({"lengths": (2, 3), "strides": (-3, 1)}, True),
        ({"lengths": (-1,)}, False),
        ({"strides": (1 << 63,)}, False),
        ({"first": 1 << 63}, False),
        ({"group": (2, 1)}, True),
        ({"group": (2, 0)}, False),
        ({"reverse": 1}, False),
    ],
)
def test_attributes_of_a_function_are_sound_as_they_are_declared(changes, sound):
    assert checks._is_math(replace(MathAttributes(op="sum"), **changes)) is sound


@pytest.mark.parametrize("check", [checks._is_step, checks._is_scalar])
def test_a_whole_number_has_64_bits_with_its_sign(check):
    assert [check(sign * ((1 << 63) - more)) for sign in (1, -1) for more in (0, 1)] == [False, True, False, True]


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks._are_places, MOST - 1, MOST),
        (checks._are_places, 0, -1),
        (checks._are_steps, -1, 1 << 63),
        (checks._are_scalars, 1, None),
        (checks._are_pieces, PIECE, None),
        (checks._is_pair, MOST, MOST + 1),
        (checks._is_pair, 1, 0),
    ],
)
def test_a_tuple_is_sound_if_each_of_it_is(check, good, bad):
    assert check((good, good))
    assert not check((good, bad))
    assert not check([good, good])


def test_the_long_look_takes_numbers_at_their_limits():
    explain(replace(STORE, src=replace(SQUARE, stride=(1 << 63) - 1)), StoreCommand, "pe0")
    with pytest.raises(PlanError, match=r"^store src stride: got an int of 64 bits, needs one that fits 64 bits$"):
        explain(replace(STORE, src=replace(SQUARE, stride=1 << 63)), StoreCommand, "pe0")
    explain(replace(STORE, src=replace(SQUARE, virtual=END - 1)), StoreCommand, "pe0")
    with pytest.raises(PlanError, match=r"^store src virtual: got 0x10{17}, needs 0 to 68 bits$"):
        explain(replace(STORE, src=replace(SQUARE, virtual=END)), StoreCommand, "pe0")


def test_the_long_look_takes_matrices_at_their_limits():
    last = replace(MATRIX, address=END - 1, rows=MOST)
    explain(StoreCommand(src=last, dst=MATRIX), StoreCommand, "pe0")
    for changes, said in (
        ({"address": END}, "store src address: got 0x100000000000000000, needs 0 to 68 bits"),
        ({"rows": MOST + 1}, f"store src: got {MOST + 1} x 3, needs at most {MOST} rows and columns"),
        ({"rows": 2, "stride": 5}, "store src stride: got 5 bytes, needs the 6 bytes of a row at least"),
    ):
        with pytest.raises(PlanError) as caught:
            explain(StoreCommand(src=replace(last, **changes), dst=MATRIX), StoreCommand, "pe0")
        assert str(caught.value) == said


def test_the_long_look_takes_pieces_at_their_limits():
    def look(**changes):
        explain(StoreCommand(src=SQUARE, dst=ROW, pieces=(replace(PIECE, **changes),)), StoreCommand, "pe0")

    for name in ("rows", "cols"):
        look(**{name: 1})
        look(**{name: MOST})
        for beyond in (0, MOST + 1):
            with pytest.raises(PlanError, match=rf"^store pieces\[0\]: got .*, needs 1 to {MOST} rows and columns$"):
                look(**{name: beyond})
    for name in ("address", "virtual"):
        look(**{name: 0})
        look(**{name: END - 1})
        with pytest.raises(PlanError, match=rf"^store pieces\[0\] {name}: got 0x10{{17}}, needs 0 to 68 bits$"):
            look(**{name: END})


def test_a_whole_number_is_quoted_up_to_63_bits():
    with pytest.raises(PlanError, match=rf"^plan pe: got the int '{(1 << 63) - 1}', needs the name"):
        explain(STORE, StoreCommand, (1 << 63) - 1)
    with pytest.raises(PlanError, match=r"^plan pe: got a value of type int, needs the name"):
        explain(STORE, StoreCommand, 1 << 63)


def test_no_number_is_a_scalar_of_a_function_and_of_no_epilogue():
    explain(replace(MATH, math=replace(MATH.math, scalars=(NonFinite.NAN,))), MathCommand, "pe0")
    with pytest.raises(PlanError, match=r"^gemm epilogue\[1\] scalars\[0\]: got "):
        explain(replace(GEMM, epilogue=(OPS[0], replace(OPS[1], scalars=(NonFinite.NAN,)))), GemmCommand, "pe0")
