import numpy as np
import pytest

from kb_dataexec.arrays import scratch
from kb_dataexec.arrays.scratch import Scratch

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(scratch, "_kept", [])


def test_what_one_gave_back_the_next_gets_again():
    with Scratch() as first:
        array = first.empty((3, 4), F32)
    assert (array.shape, array.dtype) == ((3, 4), F32)
    with Scratch() as second:
        assert np.shares_memory(array, second.empty((2, 5), F32))


def test_nothing_is_given_twice_at_a_time():
    with Scratch() as first, Scratch() as second:
        arrays = [each.empty((4, 4), F32) for each in (first, first, second, second)]
        for number, array in enumerate(arrays):
            array[...] = number
    assert [array[0, 0] for array in arrays] == [0, 1, 2, 3]


def test_the_least_that_fits_is_taken():
    with Scratch() as first:
        large, small = first.empty((100,), F32), first.empty((10,), F32)
    with Scratch() as second:
        assert np.shares_memory(small, second.empty((9,), F32))
        assert np.shares_memory(large, second.empty((9,), F32))
        assert not any(np.shares_memory(each, second.empty((9,), F32)) for each in (large, small))


def test_no_more_than_a_bound_is_kept(monkeypatch):
    monkeypatch.setattr(scratch, "_MOST_KEPT_NBYTES", 100)
    with Scratch() as first:
        for length in (10, 30, 12):
            first.empty((length,), F32)
    assert [each.nbytes for each in scratch._kept] == [40, 48]


def test_it_is_given_back_after_an_error():
    def fail():
        with Scratch() as first:
            first.empty((2,), F32)
            first.empty((1 << 60,), F32)

    with pytest.raises(MemoryError):
        fail()
    assert len(scratch._kept) == 1
