"""Result types follow Triton, row by row of its table."""

import pytest

from kb_engine.language.call_rules import result_dtype
from kb_messages import DType

TABLE = [
    ("add", ("f16", "f16"), (), "f16"),
    ("add", ("f16", "f32"), (), "f32"),
    ("add", ("f16", "bf16"), (), "f16"),
    ("add", ("bf16", "bf16"), (), "bf16"),
    ("mul", ("bf16", "f8e4m3"), (), "f32"),
    ("mul", ("f8e4m3", "f8e5m2"), (), "f16"),
    ("mul", ("f8e4m3", "f8e4m3"), (), "f8e4m3"),
    ("add", ("i64", "f16"), (), "f16"),
    ("div", ("f16", "f16"), (), "f32"),
    ("div", ("bf16", "bf16"), (), "f32"),
    ("div", ("bf16",), (2,), "f32"),
    ("div", ("i32", "i32"), (), "f32"),
    ("add", ("i8", "i32"), (), "i32"),
    ("add", ("i32", "u32"), (), "u32"),
    ("add", ("u8", "i8"), (), "u8"),
    ("add", ("i64", "u32"), (), "i64"),
    ("add", ("bool", "i8"), (), "i8"),
    ("bit_and", ("bool", "bool"), (), "bool"),
    ("add", ("f16",), (2.5,), "f16"),
    ("add", ("f16",), (2,), "f16"),
    ("add", ("i8",), (2,), "i8"),
    ("add", ("i8",), (2.0,), "f32"),
    ("floordiv", ("i8",), (2.0,), "i8"),
    ("add", ("bool",), (1,), "i32"),
    ("add", ("bool",), (True,), "bool"),
    ("lt", ("f32", "f32"), (), "bool"),
    ("argmax", ("f16",), (), "i32"),
    ("sum", ("i8",), (), "i32"),
    ("sum", ("u16",), (), "u32"),
    ("sum", ("i64",), (), "i64"),
    ("sum", ("f16",), (), "f16"),
    ("max", ("i8",), (), "i8"),
    ("where", ("f16", "f32"), (), "f32"),
    ("where", (), (1.0, 0), "f32"),
    ("where", (), (1, 0), "i32"),
    ("where", (), (True, False), "bool"),
]


@pytest.mark.parametrize(("op", "dtypes", "numbers", "result"), TABLE)
def test_the_dtype_of_a_result_is_that_of_tritons_table(op, dtypes, numbers, result):
    given = [DType(each) for each in dtypes]
    assert result_dtype(op, given, numbers) == result
    assert result_dtype(op, given[::-1], numbers) == result
