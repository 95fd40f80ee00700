"""Reads arrays from `.npy` files that may be damaged or forged."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kb_messages import KbError, open_regular

_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_MOST_DIMENSIONS = 32
_ZIP = b"PK"


def read_array(
    path: Path,
    error: type[KbError] = KbError,
    *,
    kinds: str = "biuf",
    ndim: int | None = None,
    into: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]:
    """Reads the array in the `.npy` file *path*, in C or Fortran order as it was saved.

    *into*, an array of one dimension, gets an array of one dimension and of its own dtype, if it has room. The result
    is then the first part of *into*.

    *kinds* are the allowed kinds of dtype (numpy's letters), *ndim* the rank. Raises *error* if *path* is no regular
    file, its header is damaged, header and length of the file disagree, or the array has another kind or rank. The
    length is compared before memory is allocated, so that a forged shape costs nothing.
    """
    with open_regular(path, error) as file:
        shape, is_fortran, dtype = _header(path, file, error)
        if dtype.hasobject or dtype.kind not in kinds:
            raise error(str(path), f"an array of {_text(dtype)}", f"an array of {_needs(kinds)}")
        if ndim is not None and len(shape) != ndim:
            raise error(str(path), f"an array of shape {shape}", f"one of {ndim} dimensions")
        found = os.fstat(file.fileno()).st_size - file.tell()
        wanted = math.prod(shape) * dtype.itemsize
        if found != wanted:
            raise error(str(path), f"{found} bytes of data", f"the {wanted} that its header states")
        if into is not None and dtype == into.dtype and len(shape) == into.ndim == 1 and wanted <= into.nbytes:
            array = into[: shape[0]]
            found = file.readinto(array.view(np.uint8))  # type: ignore[attr-defined]
        else:
            array = np.fromfile(file, dtype, math.prod(shape))
            found = array.nbytes
    if found != wanted:
        raise error(str(path), f"{found} bytes of data", f"the {wanted} that its header states")
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise error(str(path), "flags of other bytes than 0 and 1", "an array of bool")
    return array.reshape(shape, order="F" if is_fortran else "C")


def _header(path: Path, file: BinaryIO, error: type[KbError]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        start = file.read(len(_ZIP))
        if start == _ZIP:
            raise error(str(path), "an archive (.npz)", "one array in a .npy file")
        file.seek(0)
        read = _READ_HEADER[np.lib.format.read_magic(file)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote, and of escapes in damaged ones
            shape, is_fortran, dtype = read(file)
    except error:
        raise
    except Exception as reason:  # noqa: BLE001 -- numpy evaluates the header as Python, which fails in many ways
        said = f"{type(reason).__name__}: {str(reason)[:120]}"
        raise error(str(path), f"no array ({said})", "a .npy file") from None
    if len(shape) > _MOST_DIMENSIONS or any(type(length) is not int or length < 0 for length in shape):
        raise error(str(path), f"an array of shape {str(shape)[:120]}", "lengths of 0 or more")
    return shape, is_fortran, dtype


def _needs(kinds: str) -> str:
    names = {"b": "bool", "i": "int", "u": "unsigned int", "f": "float", "V": "records"}
    return " or ".join(names[kind] for kind in kinds)


def _text(dtype: np.dtype[Any]) -> str:
    return str(dtype)[:120]
