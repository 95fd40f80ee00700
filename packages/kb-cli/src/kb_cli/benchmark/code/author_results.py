"""Checks results of an author's methods: numbers in plain arrays, by printable names."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_messages import BenchmarkError

MOST_FLOPS = 2**63 - 1
MOST_CHARACTERS = 100
"""The most characters of a name. Source: assumed; a file's name may have 255 bytes."""


def check_benchmark_name(where: str, name: object) -> str:
    """Returns *name*, which reports show and run folders begin with. Raises BenchmarkError for a name that steers
    either.
    """
    needs = f"a text of 1 to {MOST_CHARACTERS} characters that print, without / and \\, not beginning with a dot"
    if not isinstance(name, str):
        raise BenchmarkError(where, f"a name of type {type(name).__name__}", needs)
    if not _is_printed(name) or name.startswith(".") or "/" in name or "\\" in name:
        raise BenchmarkError(where, f"the name {_quoted(name)}", needs)
    return name


def check_names(where: str, names: Any) -> None:
    """Raises BenchmarkError unless all *names* of inputs or outputs are printable texts."""
    for name in names:
        if not isinstance(name, str) or not _is_printed(name):
            got = f"the name {_quoted(name)}" if isinstance(name, str) else f"a name of type {type(name).__name__}"
            raise BenchmarkError(where, got, f"texts of 1 to {MOST_CHARACTERS} characters that print")


def check_array(where: str, name: str, array: object) -> npt.NDArray[Any]:
    """Returns *array*, a plain numpy array of numbers in this machine's byte order. Raises BenchmarkError for other
    objects.
    """
    if type(array) is np.ndarray or type(array) is np.memmap:
        got = f"{array.dtype!s:.100} for {name}"
        if not array.dtype.isnative:
            fix = "use array.astype(array.dtype.newbyteorder('='))"
            raise BenchmarkError(where, f"{got}, in another byte order", "that of this machine", fix)
        if has_numbers(array):
            return array
    else:
        got = f"{type(array).__name__} for {name}"
    raise BenchmarkError(where, got, "a plain numpy array of bools, integers or floats")


def has_numbers(array: npt.NDArray[Any]) -> bool:
    """Whether the dtype of *array* is bool, an integer, or a float, floats of ml_dtypes included."""
    dtype = array.dtype
    return dtype.kind in "biuf" or (dtype.kind == "V" and dtype.fields is None and dtype.type is not np.void)


def checked_count(where: str, answer: object, most: int = 2**200 - 1) -> int:
    """Returns *answer* as an int. Raises BenchmarkError unless it is a whole number from 0 to *most*, 2**n - 1."""
    needs = f"a whole number from 0 to 2**{most.bit_length()} - 1"
    if isinstance(answer, (bool, np.bool_, np.ndarray)):
        raise BenchmarkError(where, f"a {type(answer).__name__}", needs)
    if isinstance(answer, (float, np.floating)) and float(answer).is_integer():
        answer = int(answer)
    try:
        count = operator.index(answer)  # type: ignore[arg-type]
    except TypeError:
        got = str(answer) if isinstance(answer, (float, np.floating)) else f"a {type(answer).__name__}"
        raise BenchmarkError(where, got, needs) from None
    if not 0 <= count <= most:
        raise BenchmarkError(where, f"a number of {count.bit_length()} bits" if count > 0 else "a negative one", needs)
    return count


def checked_tolerance(
    where: str, name: str, error: npt.NDArray[Any], reference: npt.NDArray[Any]
) -> npt.NDArray[np.float64]:
    """Returns *error*, the allowed error of output *name*, as float64.

    Where *reference* is NaN or infinite, the output must be the same, so *error* does not count and becomes 0. Raises
    BenchmarkError for other errors that are NaN, infinite or negative.
    """
    needs = "numbers of 0 or more, none of them infinite"
    if not has_numbers(error):
        raise BenchmarkError(where, f"{error.dtype!s:.100} for {name}", needs)
    allowed = error.astype(np.float64)
    usable = np.isfinite(allowed) & (allowed >= 0)
    if usable.all():
        return allowed
    bad = ~usable & np.isfinite(reference.astype(np.float64))
    if bad.any():
        raise BenchmarkError(where, f"{np.broadcast_to(allowed, bad.shape)[bad][0]} for {name}", needs)
    zeroed: npt.NDArray[np.float64] = np.where(usable, allowed, 0.0)
    return zeroed


def _is_printed(name: str) -> bool:
    return 0 < len(name) <= MOST_CHARACTERS and name.isprintable() and bool(name.strip())


def _quoted(name: str) -> str:
    return repr(name if len(name) <= MOST_CHARACTERS else f"{name[:MOST_CHARACTERS]}...")
