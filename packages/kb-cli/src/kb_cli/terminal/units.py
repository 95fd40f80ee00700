"""Numbers as text with their unit, lists of names in a sentence, and values as a person would type them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

PS_PER_NS = 1000


def percent(share: float) -> str:
    """Returns a share as text: `99.9 %`."""
    return f"{share * 100:.1f} %"


def signed_percent(share: float) -> str:
    """Returns a change as text: `-15.6 %`, `+2.0 %`, and `0.0 %` for a smaller change."""
    text = percent(abs(share))
    return text if text == percent(0.0) else f"{'+' if share > 0 else '-'}{text}"


_TIMES = ((1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns"))


def time_unit(ps: float) -> tuple[float, str]:
    """Returns the unit that suits *ps* picoseconds: its size in picoseconds, and its name."""
    return next(((size, unit) for size, unit in _TIMES if abs(ps) >= size), (1.0, "ps"))


def durations(column: Sequence[float]) -> list[str]:
    """Returns the picoseconds of a column, all in the unit that suits the largest: `12.345 us`, `0.040 us`.

    What would be rounded to 0 is `< 0.001 us`.
    """
    size, unit = time_unit(max(map(abs, column), default=0))
    least = 1.0 if size == 1 else size / 1000

    def text(ps: float) -> str:
        if 0 < ps < least / 2:
            return f"< 0.001 {unit}"
        return f"{ps / size:,.0f} {unit}" if size == 1 else f"{ps / size:,.3f} {unit}"

    return [text(ps) for ps in column]


def duration(ps: float) -> str:
    """Returns picoseconds in the unit that suits them: `12.345 us`."""
    size, unit = time_unit(ps)
    return f"{ps:.0f} ps" if size == 1 else f"{ps / size:.3f} {unit}"


def quantity(value: float, unit: str) -> str:
    """Returns a number with a decimal prefix: `13.4 TFLOP/s`, `4.19 MB`."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def bandwidth(gbs: float) -> str:
    """Returns bytes per nanosecond, always in GB/s, so that a column compares: `702.2 GB/s`, `13,107 GB/s`."""
    return f"{gbs:,.0f} GB/s" if gbs >= 1000 else f"{gbs:.4g} GB/s"


def listed(names: Sequence[str]) -> str:
    """Returns *names*, one or more, as a sentence has them: `M`, `M and N`, `M, N and K`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def value_text(value: object) -> str:
    """Returns *value*, a JSON value, as `-p` takes it: `none`, `true`, `1.5`, `64x64x64`. Lists and dicts are JSON."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
