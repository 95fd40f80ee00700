"""What counts as equal among bytes, moments and rates in double precision."""

from __future__ import annotations

from typing import Final

NO_BYTES: Final = 1e-3
"""Fewer bytes than this are a rounding error, and nothing waits for them."""

NO_TIME_PS: Final = 2.0**-6
"""A moment that is at most this much after a whole picosecond counts as that picosecond."""

MORE: Final = 1 + 1e-9
"""Rates within this factor are equal."""
