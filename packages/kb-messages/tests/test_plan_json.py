import json
from typing import Any

import pytest
from messages_plans import copy_plan

from kb_messages import (
    DType,
    GemmCommand,
    Matrix,
    PlanError,
    TileShape,
    decode_command,
    decode_plan,
    encode_command,
    encode_plan,
)

SQUARE = Matrix.packed(64, 64, DType.F16)
GEMM = GemmCommand(a=SQUARE, b=SQUARE, out=SQUARE, tile=TileShape(16, 16, 16))


def changed(**places: Any) -> str:
    """The JSON of a plan whose first stage and its first operand have other values."""
    form = json.loads(encode_plan(copy_plan(2, 3, 4)))
    for place, value in places.items():
        target: Any = form
        *steps, last = place.split("__")
        for step in steps:
            target = target[int(step) if step.isdigit() else step]
        target[last] = value
    return json.dumps(form)


def test_a_plan_survives_json_with_enums_by_name() -> None:
    plan = copy_plan(2, 3, 4)
    text = encode_plan(plan)
    assert decode_plan(text) == decode_plan(text.decode()) == plan
    first = json.loads(text)["stages"][0]
    assert (first["stage_type"], first["when"]) == ("dma_read", "every_tile")
    operand = first["operands"][0]
    assert {key: operand[key] for key in ("role", "place", "when", "dtype")} == {
        "role": "src", "place": "memory", "when": "every_tile", "dtype": "f16",
    }  # fmt: skip


def test_a_command_survives_json() -> None:
    assert decode_command(encode_command(GEMM)) == GEMM
    assert json.loads(encode_command(GEMM))["type"] == "gemm"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff", "the byte 0xff at offset 0, which is no UTF-8"),
        ("[" * 100_000, "nesting"),
        ("9" * 5000, "not JSON"),
        ("NaN", "the constant NaN"),
        ('{"kind": "a", "kind": "b"}', "a key occurs twice"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field"),
        (changed(stages__0__stage_type=0), "stages[0] stage_type: got a value of type int, needs one of dma_read"),
        (changed(stages__0__when="never"), "stages[0] when: got 'never', needs one of every_tile"),
        (changed(stages__0__operands__0__role="a", stages__0__operands__0__place=[]), "operands[0] place"),
        (changed(grid=[-1, -3, 4]), "plan grid: got -1 x -3 x 4 tiles, needs at least one along each side"),
        (changed(grid=[1 << 40, 1 << 40, 4]), "plan grid: got 1099511627776 x 1099511627776 x 4 tiles, needs at most"),
        (changed(grid=[2, 3, 5]), "a side that does not fit the grid"),
        (changed(stages__0__operands__0__rows={"dimension": 3, "total": 1, "tile": 1}), "does not fit the grid"),
        (changed(stages__0__operands__0__base=-1), "a base or stride out of bounds"),
        (changed(stages__0__operands=[]), "stages[0]: got no src operand"),
        (changed(stages__0__stage_type="math"), "needs one in a math of every tile"),
        (changed(buffers={"input_nbytes": -1}), "plan buffers input_nbytes"),
        (changed(kind=5), "Expected `str`, got `int`"),
    ],
)  # fmt: skip
def test_a_plan_that_is_none_is_one_sentence(text: Any, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        decode_plan(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text", ["{}", '{"type": "gemm"}', '{"type": 3}', "5", b"\xff", '{"type": "gemm", "type": "load"}']
)
def test_a_command_that_is_none_is_one_sentence(text: Any) -> None:
    with pytest.raises(PlanError, match=r"^command: got .*, needs .*$"):
        decode_command(text)
