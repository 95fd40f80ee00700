"""Numbers beside the axes of pictures, in the units in which tables and topologies have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_UNITS: Final = {
    "gbs": "GB/s",
    "ghz": "GHz",
    "mhz": "MHz",
    "ns": "ns",
    "ps": "ps",
    "kib": "KiB",
    "mib": "MiB",
    "gib": "GiB",
    "nbytes": "B",
    "mm": "mm",
}
"""Units by the last part of the name of a field. Source: the names of the fields of all blocks."""


def unit_of(name: str) -> str:
    """Returns the unit that the name of an axis states, such as `hbm.bw_gbs`; "" for none, and for several axes."""
    return "" if " " in name else _UNITS.get(name.rpartition("_")[2], "")


def named(name: str) -> str:
    """Returns the name of an axis with its unit: `hbm.bw_gbs (GB/s)`."""
    return f"{name} ({unit})" if (unit := unit_of(name)) else name


def value_text(name: str, value: str) -> str:
    """Returns *value* of the axis *name* with its unit: `102.4 GB/s`. A value that is no plain number stays."""
    unit = unit_of(name)
    return f"{value} {unit}" if unit and value.replace(".", "", 1).isdecimal() else value


def plain(value: float) -> str:
    """Returns a number without a unit, and without an exponent below 10^15: `16,384`, `2.5 M`, `0.25`."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if size <= abs(value) < 1e15:
            return f"{value / size:.4g} {prefix}"
    return f"{value:,.6g}"


def binary_text(nbytes: float) -> str:
    """Returns bytes in a binary unit: `1.5 MiB`, `512 KiB`."""
    for unit, size in (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if nbytes >= size:
            return f"{nbytes / size:g} {unit}"
    return f"{nbytes:g} B"


def time_text(ps: float) -> str:
    """Returns picoseconds as a mark of an axis has them, without zeros behind the point: `20 us`, `2.5 ms`."""
    for unit, size in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)):
        if abs(ps) >= size:
            return f"{ps / size:,.6g} {unit}"
    return f"{ps:.4g} ps"


def one_unit(times_ps: Sequence[float]) -> tuple[str, list[str]]:
    """Returns the unit that suits most of *times_ps*, and each of them in this unit with four digits."""
    middle = sorted(times_ps)[len(times_ps) // 2]
    unit, size = next(
        ((unit, size) for unit, size in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)) if middle >= size),
        ("ps", 1.0),
    )
    return unit, [_four_digits(ps / size) for ps in times_ps]


def _four_digits(value: float) -> str:
    digits = max(0, 4 - len(f"{abs(value):.0f}"))
    return f"{value:,.{digits}f}"
