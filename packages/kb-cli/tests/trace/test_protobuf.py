"""Protobuf's wire format, against hand-made bytes and a reader that shares no code with the writer."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto_decoder import fields, varint

from kb_cli.trace import protobuf


@pytest.mark.parametrize(
    ("value", "found"),
    [(0, b"\0"), (1, b"\1"), (127, b"\x7f"), (128, b"\x80\1"), (150, b"\x96\1"), (300, b"\xac\2")],
)  # 150 and 300 are the examples of the specification
def test_varints_of_the_specification(value: int, found: bytes) -> None:
    assert protobuf.varint(value) == found


def test_fields_of_the_specification() -> None:
    assert protobuf.integer(1, 150) == bytes.fromhex("089601")
    assert protobuf.text(2, "testing") == bytes.fromhex("120774657374696e67")
    assert protobuf.message(3, protobuf.integer(1, 150)) == bytes.fromhex("1a03089601")


def test_a_column_pads_small_numbers() -> None:
    parts = protobuf.integers(1, np.array([1, 300, 0]))
    assert protobuf.encode(parts) == bytes.fromhex("088100 08ac02 088000")


def test_text_that_utf8_lacks_is_escaped() -> None:
    assert protobuf.text(1, "a\ud800b") == b"\x0a\x08a\\ud800b"


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1), st.integers(1, 500))
def test_every_number_of_64_bits_comes_back(values: list[int], field: int) -> None:
    column = np.array(values, np.int64)
    eight_bytes = [*protobuf.doubles(field + 1, column / 3), *protobuf.fixed64s(field + 2, column)]
    inner = [*protobuf.integers(field, column), *eight_bytes, protobuf.integer(1000, 7)]
    parts = protobuf.messages(3, inner)
    data, nbytes = protobuf.encode(parts), protobuf.nbytes_of(parts)
    assert len(data) == len(values) * nbytes
    for at, value in enumerate(values):
        found = fields(fields(data[at * nbytes : (at + 1) * nbytes])[3][0])
        double, integer = struct.pack("<d", float(value) / 3), value.to_bytes(8, "little")
        assert found == {field: [value], field + 1: [double], field + 2: [integer], 1000: [7]}


@given(st.integers(0, 2**64 - 1))
def test_one_number_comes_back_in_the_fewest_bytes(value: int) -> None:
    data = protobuf.varint(value)
    assert varint(data, 0) == (value, len(data))
    assert len(data) == max(1, -(-value.bit_length() // 7))
