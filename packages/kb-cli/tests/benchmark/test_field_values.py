"""Texts become values of a field's type."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta

from kb_cli.benchmark.values.field_values import BadValue, describe, value_of
from kb_messages import DType, TileShape

Size = Annotated[int, Meta(ge=1)]


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("7", Size, 7),
        (" 7 ", Size, 7),
        ("0.5", float, 0.5),
        ("1e3", float, 1000.0),
        ("3", int | float, 3),
        ("f32", DType, DType.F32),
        ("16x8x4", TileShape | None, TileShape(16, 8, 4)),
        ("none", TileShape | None, None),
        ("None", int | None, None),
        ("slow", Literal["fast", "slow"], "slow"),
        ("true", bool, True),
        ("NO", bool, False),
        ("hello", str | None, "hello"),
        ("none", str | None, None),
        ("[1, 2]", list[int], [1, 2]),
    ],
)
def test_text_becomes_a_value_of_the_field(text: str, type_: object, value: object) -> None:
    assert value_of(text, type_) == value


def test_all_bounds_are_described() -> None:
    with pytest.raises(BadValue) as caught:
        value_of("x", Size, full=True)
    assert caught.value.needs == "an int >= 1"
    assert describe(Annotated[float, Meta(gt=0, le=4)]) == "a number > 0 and <= 4"
