"""`-p KEY=VALUE` texts become parameters, and errors name the key."""

from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from kb_cli.benchmark.values.params import build_params, parse_assignments, shown_params
from kb_messages import BenchmarkError, DType, TileShape

Size = Annotated[int, Meta(ge=1)]


class Params(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    M: Size = 512
    scale: Annotated[float, Meta(gt=0, le=4)] = 1.0
    dtype: DType = DType.F16
    tile: TileShape | None = TileShape(128, 128, 128)
    mode: Literal["fast", "slow"] = "fast"
    check: bool = False
    note: str | None = None
    dims: tuple[int, ...] = (1,)


class Required(Struct):
    M: Size
    N: Size = 1

    def __post_init__(self) -> None:
        if self.M < self.N:
            raise ValueError("M is below N")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M=0", "-p M: got 0, needs >= 1"),
        ("M=abc", "-p M: got 'abc', needs an int"),
        ("M=1.5", "-p M: got '1.5', needs an int"),
        ("M=", "-p M: got '', needs an int"),
        ("scale=9", "-p scale: got 9.0, needs <= 4"),
        ("scale=x", "-p scale: got 'x', needs a number"),
        ("tile=8x8", "-p tile: got '8x8', needs a tile MxNxK or none; write it like 128x128x128"),
        ("tile=0x8x8", "-p tile: got '0x8x8', needs a tile MxNxK or none; write it like 128x128x128"),
        ("mode=fats", "-p mode: got 'fats', needs one of fast, slow; did you mean 'fast'?"),
        ("check=2", "-p check: got '2', needs true or false"),
        ("m=1", ("-p m: got an unknown parameter, needs one of M, scale, dtype, tile, mode, check, note, dims; "
                "did you mean 'M'?")),
        ("tyle=1x1x1", ("-p tyle: got an unknown parameter, needs one of M, scale, dtype, tile, mode, check, note, "
                       "dims; did you mean 'tile'?")),
    ],
)  # fmt: skip
def test_texts_that_are_no_value_are_refused(text: str, message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        build_params(Params, parse_assignments([text]))
    assert str(caught.value) == message


def test_a_value_that_was_renamed_is_refused_with_its_new_name() -> None:
    class Renamed(Struct):
        place: Annotated[Literal["near", "anywhere"], Meta(extra={"renamed": {"local": "near"}})] = "near"
        maybe: Annotated[Literal["on"], Meta(extra={"renamed": {"yes": "on"}})] | None = None

    found = []
    for text in ("place=local", "maybe=yes", "place=nea"):
        with pytest.raises(BenchmarkError) as caught:
            build_params(Renamed, parse_assignments([text]))
        found.append(str(caught.value))
    assert found == [
        "-p place: got 'local', needs one of near, anywhere; 'local' is called 'near' now",
        "-p maybe: got 'yes', needs one of on or none; 'yes' is called 'on' now",
        "-p place: got 'nea', needs one of near, anywhere; did you mean 'near'?",
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["M"], "-p: got 'M', needs KEY=VALUE; write it like -p M=512"),
        (["=3"], "-p: got '=3', needs KEY=VALUE; write it like -p M=512"),
        (["M=1", "M=2"], "-p M: got '1' and '2', needs one value; give it once"),
    ],
)
def test_assignments_that_are_none(texts: list[str], message: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        parse_assignments(texts)
    assert str(caught.value) == message


def test_a_value_may_hold_an_equals_sign() -> None:
    assert parse_assignments(["note=a=b"]) == {"note": "a=b"}


def test_a_field_without_default_must_be_given() -> None:
    with pytest.raises(BenchmarkError, match=r"^-p M: got no value, needs an int >= 1; add -p M=\.\.\.$"):
        build_params(Required, {})


def test_the_struct_s_own_check_is_heard() -> None:
    with pytest.raises(BenchmarkError, match=r"^-p: got parameters that do not go together \(M is below N\)"):
        build_params(Required, {"M": "1", "N": "2"})


def test_shown_params_can_be_given_again() -> None:
    params = build_params(Params, {"tile": "8x16x32", "dtype": "bf16"})
    shown = shown_params(params)
    assert shown["tile"] == "8x16x32"
    texts = {name: str(value) for name, value in shown.items() if name != "dims"}
    assert build_params(Params, texts) == params


class Checked(Struct):
    M: int = 8
    ratio: float = 1.0
    anything: object = None
    data: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.M == 9:
            raise ValueError("nine")
        if self.M == 10:
            raise SystemExit(0)
        if self.M == 11:
            raise RuntimeError("eleven")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("M=9", "-p: got parameters that do not go together (nine), needs a legal combination"),
        ("M=10", "SystemExit: 0, needs Checked() to succeed"),
        ("M=11", "RuntimeError: eleven, needs Checked() to succeed"),
        ("M=" + "9" * 5000, "'" + "9" * 200 + "...', needs an int; numbers are finite, and integers have at most 64"),
        ("M=" + "9" * 30, "needs an int; numbers are finite, and integers have at most 64 bits"),
        ("ratio=nan", "-p ratio: got 'nan', needs a number; numbers are finite"),
        ("ratio=-inf", "-p ratio: got '-inf', needs a number; numbers are finite"),
        ("ratio=1e999", "-p ratio: got '1e999', needs a number"),
        ("data=" + "[" * 100000, "-p data: got '[["),
        ('data={"a": 1, "a": 2}', "-p data: got"),
        ("data=NaN", "-p data: got 'NaN'"),
    ],
)
def test_parameters_that_cannot_be_are_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        build_params(Checked, parse_assignments([text]))
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("value", [1j, object(), "\ud800", property(), print, [1j]])
def test_values_that_json_cannot_hold_are_refused(value: object) -> None:
    with pytest.raises(BenchmarkError, match=r"^-p anything: got an? \w+ that JSON cannot hold, needs numbers, texts"):
        shown_params(Checked(anything=value))
