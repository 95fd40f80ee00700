"""The bounds of a block's clock and rates, so that times fit 64 bits and rates fit a float, whatever a file says."""

from __future__ import annotations

from typing import Final

from msgspec import Meta

from kb_messages import Lever

LEAST_RATE: Final = 0.001
MOST_RATE: Final = 1_000_000
"""Of a clock in GHz, and of operations in a cycle. Source: assumed (those of a link's GB/s)."""
_MHZ: Final = 1000


def clock_ghz(classes: tuple[str, ...], noun: str = "clock") -> Meta:
    """The `Meta` of a clock in GHz, a lever of *classes* that is called *noun*."""
    return Meta(ge=LEAST_RATE, le=MOST_RATE, extra=Lever(classes, "twice", noun).extra)


def clock_mhz(classes: tuple[str, ...]) -> Meta:
    """As `clock_ghz`, of a clock in MHz."""
    return Meta(ge=LEAST_RATE * _MHZ, le=MOST_RATE * _MHZ, extra=Lever(classes, "twice", "clock").extra)
