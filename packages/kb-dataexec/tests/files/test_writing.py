"""Writing of files: errors name the file, and arrays are as numpy writes them."""

import resource
from pathlib import Path

import numpy as np
import pytest

from kb_dataexec.files import write_array, writing

ARRAYS = [
    np.arange(6, dtype=np.uint8),
    np.float64(3),
    np.zeros((0, 4)),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::2],
    np.zeros(3, [("a", "<u4"), ("b", "<f8")]),
    np.array([True, False]),
]


@pytest.mark.parametrize("array", ARRAYS)
def test_the_bytes_are_those_of_numpy(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "numpy.npy", array)
    write_array(tmp_path / "own.npy", np.asarray(array))
    assert (tmp_path / "own.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()


def test_a_limit_is_an_error_with_the_name_of_the_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_array(tmp_path / "large.npy", np.zeros(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "large.npy")


def test_an_error_keeps_the_name_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="why") as caught, writing(tmp_path):
        raise OSError(28, "why", "file")
    assert caught.value.filename == "file"
