import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_topology import format_nbytes, parse_nbytes


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [("512 KiB", 524_288), ("2 MiB", 2_097_152), ("2GiB", 2_147_483_648), ("1.5 KiB", 1536), ("7 B", 7), (1000, 1000)],
)
def test_sizes_are_binary(size, nbytes):
    assert parse_nbytes(size) == nbytes


@pytest.mark.parametrize("size", ["2 GB", "2", "0.3 KiB", "-1 KiB", "KiB", "", "1 kib", "9" * 99 + " B"])
def test_what_is_no_whole_number_of_bytes_is_none(size):
    assert parse_nbytes(size) is None


@given(st.integers(min_value=0, max_value=1 << 39))
def test_formatting_loses_no_byte(nbytes):
    assert parse_nbytes(format_nbytes(nbytes)) == nbytes
