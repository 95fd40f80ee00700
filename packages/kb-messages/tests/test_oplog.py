import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_messages.dtypes import DTYPE_BY_CODE, DType
from kb_messages.log.oplog import (
    LOG_FORMAT,
    LOG_FORMAT_VERSION,
    OPERAND_COLUMNS,
    OPS_COLUMNS,
    GemmAttributes,
    MathAttributes,
    Operand,
    OpKind,
    OpRecord,
    Role,
    WaitReason,
)
from kb_messages.memory.address import SPACE_BY_CODE, MemorySpace

OPERAND = Operand(
    role=Role.SRC, space=MemorySpace.HBM, owner=1024, offset=64, rows=2, row_nbytes=8, stride=32, dtype=DType.F16
)
RECORD = OpRecord(
    op_id=0, command_seq=0, tile_id=0, stage_index=0, kind=OpKind.MEMORY, name="dma_read", component="pe0.pe_dma",
    line="gemm.py:7", params="{}", t_ready_ps=1, t_start_ps=4, t_end_ps=9, t_out_ps=9, waits_ps=(3, 0, 0, 0, 0, 0),
    operands=(OPERAND,),
)  # fmt: skip


def test_the_format_has_a_name_and_a_version() -> None:
    assert (LOG_FORMAT, LOG_FORMAT_VERSION) == ("kernbench-oplog", 4)


def test_the_ops_table_is_a_record_without_its_operands() -> None:
    scalars = [name for name in OpRecord.__struct_fields__ if name not in ("waits_ps", "operands")]
    reasons = ("channel", "tcm_port", "register_file", "compute_slot", "operand", "barrier")
    waits = [f"wait_{name}_ps" for name in reasons]
    assert [name for name, _ in OPS_COLUMNS] == scalars + waits


def test_the_operand_table_is_an_operand_with_its_op() -> None:
    assert {name for name, _ in OPERAND_COLUMNS} == {"op_id", *Operand.__struct_fields__}


def bits(kind: str) -> int:
    """Bits of a signed little-endian integer column, of one byte or more."""
    assert kind in ("|i1", "<i2", "<i4", "<i8")
    return 8 * int(kind[2])


def test_times_and_ids_have_64_bits() -> None:
    assert {bits(kind) for name, kind in OPS_COLUMNS if name.endswith("_ps")} == {64}
    assert {bits(kind) for name, kind in OPS_COLUMNS + OPERAND_COLUMNS if name in ("op_id", "tile_id")} == {64}


def test_every_column_is_wide_enough_for_its_values() -> None:
    ops, operands = (
        {name: 2 ** (bits(kind) - 1) for name, kind in columns} for columns in (OPS_COLUMNS, OPERAND_COLUMNS)
    )
    assert max(OpKind) < ops["kind"]
    assert max(Role) < operands["role"]
    assert max(SPACE_BY_CODE) < operands["space"]
    assert max(DTYPE_BY_CODE) < operands["dtype"]
    assert operands["owner"] >= 2**30  # an address has 68 bits, 38 of them the offset
    assert operands["offset"] >= 2**38
    assert operands["stride"] >= 2**38


def test_numbers_in_the_log_never_change() -> None:
    assert [each.name for each in sorted(OpKind)] == ["MEMORY", "GEMM", "MATH"]
    assert [each.name for each in sorted(Role)] == ["SRC", "DST", "A", "B", "ACC", "OUT", "IN"]
    assert [int(each) for each in WaitReason] == list(range(6))


def test_only_dst_and_out_are_written() -> None:
    assert {role for role in Role if role.is_write} == {Role.DST, Role.OUT}


def test_attributes_that_are_false_are_left_out() -> None:
    assert msgspec.json.encode(GemmAttributes()) == b"{}"
    assert msgspec.json.encode(GemmAttributes(accumulate=True)) == b'{"accumulate":true}'


def test_a_record_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(RECORD), type=OpRecord) == RECORD


def test_numbers_follow_the_operands_unless_they_have_places():
    assert MathAttributes(op="fma", scalars=(2.0, 3.0)).arguments(["x"]) == ["x", 2.0, 3.0]
    assert MathAttributes(op="sub", scalars=(1.0,), scalar_at=(0,)).arguments(["x"]) == [1.0, "x"]
    assert MathAttributes(op="where", scalars=(1.0,), scalar_at=(1,)).arguments(["c", "x"]) == ["c", 1.0, "x"]
    assert msgspec.json.encode(MathAttributes(op="add", scalars=(1.0,))) == b'{"op":"add","scalars":[1.0]}'


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_arguments_are_the_operands_and_numbers_in_their_places(is_scalar):
    expected = [float(at) if scalar else f"operand {at}" for at, scalar in enumerate(is_scalar)]
    scalars = tuple(each for each in expected if isinstance(each, float))
    places = tuple(at for at, scalar in enumerate(is_scalar) if scalar)
    operands = [each for each in expected if isinstance(each, str)]
    assert MathAttributes(op="any", scalars=scalars, scalar_at=places).arguments(operands) == expected


@pytest.mark.parametrize("places", [(2,), (-1,), (0, 1), (0, 0)])
def test_places_that_are_no_arguments_are_refused(places):
    with pytest.raises(ValueError, match=r"^scalar_at \[.*\] of 1 scalars$"):
        MathAttributes(op="sub", scalars=(1.0,), scalar_at=places).arguments(["x"])
