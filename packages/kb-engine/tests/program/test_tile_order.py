"""Whether a tile writes bytes that a later tile reads: plans of four strips, by hand."""

import pytest

from kb_engine.program.tile_order import reads_before_writes
from kb_messages import (
    Axis,
    BufferNeeds,
    DType,
    MathAttributes,
    OperandTemplate,
    PipelinePlan,
    Place,
    Role,
    StageTemplate,
    StageType,
    When,
)

ROWS = Axis(dimension=None, total=2, tile=2)
WHOLE = Axis(dimension=None, total=8, tile=8)


def operand(role, base, cols, dtype=DType.F32, rows=ROWS, place=Place.MEMORY):
    return OperandTemplate(
        role=role, place=place, base=base, rows=rows, cols=cols, stride=cols.total * dtype.nbytes, dtype=dtype
    )


def plan(read, written, tiles=4, when=When.EVERY_TILE, dimension=2):
    """Tiles that read a strip of *read*, compute, and write a strip of *written*."""
    inside = operand(Role.DST, 0, WHOLE, place=Place.REGISTERS)
    made = operand(Role.OUT, 0, WHOLE, place=Place.REGISTERS)
    grid = (1, 1, tiles) if dimension == 2 else (1, tiles, 1)
    return PipelinePlan(
        kind="vector",
        grid=grid,
        buffers=BufferNeeds(),
        stages=(
            StageTemplate(stage_type=StageType.FETCH, component="f", when=When.EVERY_TILE, operands=(read, inside)),
            StageTemplate(
                stage_type=StageType.MATH, component="m", when=When.EVERY_TILE, operands=(inside, made),
                math=MathAttributes(op="copy"),
            ),
            StageTemplate(stage_type=StageType.STORE, component="f", when=when, operands=(inside, written)),
        ),
    )  # fmt: skip


STRIPS = Axis(dimension=2, total=8, tile=2)
ONE = Axis(dimension=None, total=1, tile=1)


@pytest.mark.parametrize(
    ("base", "rows", "dtype", "expected"),
    [
        # 2 rows of 32 bytes are read in strips of 8 bytes of each row.
        (0, ROWS, DType.F32, True),  # each tile writes the bytes that it has read
        (0, ONE, DType.F32, True),  # one row, strip by strip, over the first row
        (32, ONE, DType.F32, True),  # over the second row
        (8, ONE, DType.F32, False),  # the first tile writes what the second one reads
        (64, ONE, DType.F32, True),  # behind all of it
        (0, ONE, DType.I64, False),  # strips of 16 bytes: the first tile writes what the second one reads
    ],
)
def test_a_strip_may_replace_bytes_that_are_read_by_then(base, rows, dtype, expected):
    read, written = operand(Role.SRC, 0, STRIPS), operand(Role.DST, base, STRIPS, dtype, rows)
    assert reads_before_writes(plan(read, written)) is expected


def test_a_total_of_the_last_tile_may_replace_all_that_was_read():
    read, written = operand(Role.SRC, 0, STRIPS), operand(Role.DST, 8, WHOLE, DType.I64, ONE)
    assert reads_before_writes(plan(read, written, when=When.LAST_K))
    assert not reads_before_writes(plan(read, written))


def test_a_plan_of_one_tile_may_write_anywhere():
    whole = operand(Role.SRC, 0, WHOLE)
    assert reads_before_writes(plan(whole, operand(Role.DST, 4, WHOLE), tiles=1))


def test_a_plan_of_many_tiles_is_not_searched():
    many = Axis(dimension=2, total=257, tile=1)
    assert not reads_before_writes(plan(operand(Role.SRC, 0, many), operand(Role.DST, 1 << 20, many), tiles=257))
