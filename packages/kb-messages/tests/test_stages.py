import re

import pytest

from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.log.oplog import Role
from kb_messages.plans.stages import (
    Axis,
    OperandTemplate,
    Place,
    Rectangle,
    TileShape,
    rectangle,
)


def operand(role: Role, place: Place, rows: Axis, cols: Axis, stride: int) -> OperandTemplate:
    return OperandTemplate(role=role, place=place, base=1000, rows=rows, cols=cols, stride=stride, dtype=DType.F16)


@pytest.mark.parametrize(("text", "shape"), [("1x2x3", TileShape(1, 2, 3)), ("128X64X32", TileShape(128, 64, 32))])
def test_a_tile_shape_is_read_as_m_n_k(text: str, shape: TileShape) -> None:
    assert TileShape.parse(text) == shape
    assert str(shape) == text.lower()


NO_SHAPES = ["", "128", "1x2", "1x2x3x4", "0x1x1", "-1x1x1", "1.5x1x1", "axbxc", "1x2x", "²x1x1", "1 x1x1"]


@pytest.mark.parametrize("text", NO_SHAPES)
def test_a_tile_shape_that_is_no_three_positive_sizes_is_refused(text: str) -> None:
    message = f"tile: got {text!r}, needs three positive sizes MxNxK; write it like 128x128x128"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        TileShape.parse(text)


def test_the_last_piece_of_an_axis_may_be_ragged() -> None:
    axis = Axis(dimension=0, total=10, tile=4)
    assert [axis.extent(index) for index in range(3)] == [4, 4, 2]


def test_a_rectangle_in_memory_follows_the_tile() -> None:
    rows, cols = Axis(dimension=0, total=10, tile=4), Axis(dimension=2, total=20, tile=8)
    there = operand(Role.SRC, Place.MEMORY, rows, cols, 256)
    # row 2 * 4 of 256 bytes, column 2 * 8 of 2 bytes; 10 - 8 rows and 20 - 16 columns are left
    found = rectangle(there, (2, 7, 2))
    assert found == Rectangle(1000 + 8 * 256 + 16 * 2, 2, 4 * 2, 256)
    assert found.nbytes == 2 * 8


def test_a_rectangle_in_a_buffer_stays_where_it_is() -> None:
    rows, cols = Axis(dimension=0, total=10, tile=4), Axis(dimension=1, total=20, tile=8)
    here = operand(Role.DST, Place.INPUT_BUFFER, rows, cols, 16)
    assert rectangle(here, (2, 2, 0)) == Rectangle(1000, 2, 8, 16)
