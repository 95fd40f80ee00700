import math
from typing import get_args

import msgspec
import pytest

from kb_messages.commands import (
    AtomicCommand,
    Command,
    CompletionRecord,
    DrainCommand,
    EpilogueOp,
    EpilogueScope,
    Fill,
    GemmCommand,
    LoadCommand,
    MathCommand,
    MathInput,
    Matrix,
    Piece,
    Rectangle,
    SendCommand,
    StoreCommand,
    SubmittedCommand,
    VectorCommand,
    accesses_of,
    matrices_of,
    target_of,
)
from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.log.oplog import MathAttributes, scalar_of
from kb_messages.math.vector import VectorOp, VectorProgram, VectorValue
from kb_messages.plans.plan_json import decode_command, encode_command
from kb_messages.plans.stages import TileShape

WIDE = Matrix(address=1 << 48, rows=3, cols=5, stride=64, dtype=DType.F16)
PACKED = Matrix.packed(3, 5, DType.F16)


def test_bytes_of_a_matrix_leave_the_gaps_between_rows_out() -> None:
    assert (WIDE.row_nbytes, WIDE.nbytes) == (5 * 2, 3 * 5 * 2)


def test_packed_rows_follow_each_other() -> None:
    assert (PACKED.address, PACKED.stride, PACKED.nbytes) == (0, 10, 30)


@pytest.mark.parametrize("dtype", ["f16", float, None])
def test_a_packed_matrix_needs_a_dtype(dtype: object) -> None:
    with pytest.raises(PlanError, match=r"^Matrix\.packed: got dtype .*, needs a DType; write it like DType\.F16"):
        Matrix.packed(2, 3, dtype)  # type: ignore[arg-type]


def test_a_part_begins_at_its_first_element_and_keeps_the_rows_apart() -> None:
    part = Matrix(address=1 << 48, rows=3, cols=5, stride=64, dtype=DType.F16, virtual=4096).part(1, 2, 2, 3)
    moved = 64 + 2 * 2
    assert (part.address, part.virtual) == ((1 << 48) + moved, 4096 + moved)
    assert (part.rows, part.cols, part.stride, part.dtype) == (2, 3, 64, DType.F16)


@pytest.mark.parametrize(
    "command",
    [
        LoadCommand(src=WIDE, dst=PACKED),
        LoadCommand(src=WIDE.part(0, 0, 2, 2), dst=PACKED, fill=Fill(row=1, col=3, immediate=64)),
        StoreCommand(src=PACKED, dst=WIDE),
        GemmCommand(a=WIDE, b=WIDE, out=WIDE),
        GemmCommand(a=WIDE, b=WIDE, out=WIDE, tile=TileShape(8, 16, 32), a_pinned=True, out_pinned=True),
        GemmCommand(
            a=WIDE,
            b=WIDE,
            out=WIDE,
            epilogue=(
                EpilogueOp(op="bias", scope=EpilogueScope.OUTPUT_TILE, operand=PACKED, operand_pinned=True),
                EpilogueOp(op="scale", scope=EpilogueScope.K_TILE, scalars=(0.5,)),
            ),
        ),
        MathCommand(
            math=MathAttributes(op="mul", scalars=(2.0,)), inputs=(MathInput(matrix=WIDE, pinned=True),), out=PACKED
        ),
    ],
    ids=["load", "masked load", "store", "gemm", "gemm with tile", "gemm with epilogue", "math"],
)
def test_a_submitted_command_survives_json(command: Command) -> None:
    submitted = SubmittedCommand(command_seq=7, pe="sip0.cube0.pe0", line="gemm.py:7", command=command)
    assert msgspec.json.decode(msgspec.json.encode(submitted), type=SubmittedCommand) == submitted


def test_a_matrix_with_an_unknown_field_is_refused() -> None:
    text = b'{"address":0,"rows":1,"cols":1,"stride":2,"dtype":"f16","layout":"row"}'
    with pytest.raises(msgspec.ValidationError, match=r"^Object contains unknown field `layout`$"):
        msgspec.json.decode(text, type=Matrix)


def test_an_epilogue_op_without_a_scope_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"^Object missing required field `scope`$"):
        msgspec.json.decode(b'{"op":"relu"}', type=EpilogueOp)


def test_every_operand_of_a_command_is_found_wherever_it_stands() -> None:
    a, b, out, bias = (Matrix.packed(1, 8, DType.F16, address) for address in range(4))
    op = EpilogueOp(op="bias", scope=EpilogueScope.OUTPUT_TILE, operand=bias)
    relu = EpilogueOp(op="relu", scope=EpilogueScope.OUTPUT_TILE)
    assert list(matrices_of(GemmCommand(a=a, b=b, out=out, epilogue=(op, relu)))) == [a, b, out, bias]
    inputs = (MathInput(matrix=a), MathInput(matrix=b))
    assert list(matrices_of(MathCommand(math=MathAttributes(op="add"), inputs=inputs, out=out))) == [a, b, out]
    assert list(matrices_of(LoadCommand(src=a, dst=b))) == [a, b]


def test_the_span_of_a_matrix_has_the_gaps_between_rows() -> None:
    assert (WIDE.span_nbytes, PACKED.span_nbytes) == (2 * 64 + 10, 30)


@pytest.mark.parametrize(
    "command",
    [
        LoadCommand(src=PACKED, dst=WIDE),
        StoreCommand(src=PACKED, dst=WIDE),
        GemmCommand(a=PACKED, b=PACKED, out=WIDE),
        DrainCommand(src=PACKED, dst=WIDE),
        AtomicCommand(math=MathAttributes(op="add"), target=WIDE, operands=(PACKED,)),
        MathCommand(math=MathAttributes(op="exp"), inputs=(MathInput(matrix=PACKED),), out=WIDE),
    ],
)
def test_the_target_of_a_command_is_one_of_its_matrices(command: Command) -> None:
    assert target_of(command) is WIDE
    assert [matrix is WIDE for matrix in matrices_of(command)].count(True) == 1


def test_what_a_command_reads_and_writes_is_exact_with_pieces_too() -> None:
    reads, writes = accesses_of(LoadCommand(src=PACKED, dst=WIDE))
    assert (reads, writes) == ([PACKED.rectangle], [WIDE.rectangle])
    tile = Matrix.packed(4, 4, DType.F16, 1 << 40)
    one, repeated = Piece(96, 16, (1 << 40) + 8, 8, 2, 3), Piece(7, 0, 1 << 40, 8, 3, 4)
    constant = Piece(0, 2, (1 << 40) + 30, 2, 1, 1)
    reads, writes = accesses_of(LoadCommand(src=PACKED, dst=tile, pieces=(one, repeated), fills=(constant,)))
    assert reads == [Rectangle(96, 2, 6, 16), Rectangle(7, 1, 8, 0)]
    places = [Rectangle((1 << 40) + 8, 2, 6, 8), Rectangle(1 << 40, 3, 8, 8), Rectangle((1 << 40) + 30, 1, 2, 2)]
    assert writes == places
    assert accesses_of(LoadCommand(src=PACKED, dst=tile, fills=(constant,))) == ([], places[2:])
    assert accesses_of(StoreCommand(src=tile, dst=PACKED, pieces=(one,))) == ([tile.rectangle], reads[:1])


def test_every_command_of_a_kernel_works_on_data_and_its_completion_does_not() -> None:
    assert {command: command.data_op for command in get_args(Command)} == {
        LoadCommand: True,
        StoreCommand: True,
        SendCommand: True,
        GemmCommand: True,
        DrainCommand: True,
        AtomicCommand: True,
        MathCommand: True,
        VectorCommand: True,
    }
    submitted = SubmittedCommand(command_seq=0, pe="pe0", line="", command=StoreCommand(src=PACKED, dst=WIDE))
    assert submitted.data_op is True
    assert CompletionRecord.data_op is False


def vector_command(scalar: float = 2.0) -> VectorCommand:
    value = VectorValue(PACKED.rows, PACKED.cols, PACKED.dtype)
    op = VectorOp(math=MathAttributes(op="mul", scalars=(scalar_of(scalar),)), arguments=(0,), result=value, line="k:1")
    return VectorCommand(
        program=VectorProgram(inputs=(value,), ops=(op,), outputs=(1,)), inputs=(PACKED,), outputs=(WIDE,)
    )


def test_a_vector_command_reads_its_inputs_and_writes_its_outputs() -> None:
    command = vector_command()
    assert list(matrices_of(command)) == [PACKED, WIDE]
    assert accesses_of(command) == ([PACKED.rectangle], [WIDE.rectangle])
    assert accesses_of(LoadCommand(src=PACKED, dst=WIDE)) == ([PACKED.rectangle], [WIDE.rectangle])


@pytest.mark.parametrize("scalar", [2.0, math.inf, -math.inf, math.nan])
def test_a_vector_command_is_itself_after_json(scalar: float) -> None:
    command = vector_command(scalar)
    again = decode_command(encode_command(command))
    assert again == command
    assert isinstance(again, VectorCommand)
    assert hash(again.program) == hash(command.program)
    assert [value.nbytes for value in again.program.values] == [PACKED.nbytes] * 2
