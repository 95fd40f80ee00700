"""Norms give the numbers of numpy for any rows, on any chip and layout."""

import pytest
from running import check_ops


@pytest.mark.parametrize("rows", [1, 9])
def test_rms_norm_of_any_rows(rows: int) -> None:
    check_ops("one_cube", "", lambda m: m.rms_norm("norm", m.input("x", (rows, 100), ("batch", "")), 1e-5))
