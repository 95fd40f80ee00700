"""Integers of 64 bits."""

import numpy as np
import pytest

from kb_dataexec.log.compressed import int64s
from kb_messages import LogError


def test_all_integers_of_64_bits_are_kept():
    numbers = [0, -1, 1 << 30, -(1 << 31), 1 << 45, (1 << 63) - 1, -(1 << 63)]
    found = int64s(iter(numbers))
    assert found.dtype == np.int64
    assert found.tolist() == numbers


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_an_integer_beyond_64_bits_is_refused(number):
    with pytest.raises(LogError, match="a time that does not fit 64 bits"):
        int64s([0, number])
