"""Sizes of memories, like `512 KiB`, in bytes."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,12})?) ?(B|KiB|MiB|GiB)")


def parse_nbytes(size: int | str) -> int | None:
    """*size*, an int of bytes or text like `512 KiB`, in bytes. None when *size* is no whole number of bytes."""
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if not match:
        return None
    nbytes = Fraction(match[1]) * _UNITS[match[2]]
    return nbytes.numerator if nbytes.denominator == 1 else None


def format_nbytes(nbytes: int) -> str:
    """*nbytes* in the largest unit that divides it: `2 GiB`, `1000 B`."""
    unit = next(name for name, factor in reversed(_UNITS.items()) if nbytes % factor == 0)
    return f"{nbytes // _UNITS[unit]} {unit}"
