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


def duration(ps: float) -> str:
    """Returns picoseconds in the unit that suits them: `12.345 us`."""
    for unit, size in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)):
        if abs(ps) >= size:
            return f"{ps / size:.3f} {unit}"
    return f"{ps:.0f} ps"


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
