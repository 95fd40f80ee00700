"""Writes files. An error names the file and the reason of the system, where numpy would count missing items."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Makes each OSError of the block, which writes the file or folder *path*, name a file. Raises OSError."""
    try:
        yield
    except OSError as reason:
        if reason.filename is None:
            raise OSError(reason.errno or 0, reason.strerror or str(reason), str(path)) from None
        raise


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Writes *array* to *path*, with the bytes of `numpy.save`. Raises OSError, which names *path*."""
    header = np.lib.format.header_data_from_array_1_0(array)
    data = array.T if header["fortran_order"] else array
    with writing(path), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
