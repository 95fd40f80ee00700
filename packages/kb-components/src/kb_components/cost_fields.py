"""The `Meta` of the fields that decide the cost of a block: bounds, and the lever that an attribution names.

With these bounds every time fits 64 bits and every rate fits a float.
"""

from __future__ import annotations

from typing import Final

from msgspec import Meta

from kb_messages import Lever

LEAST_RATE: Final = 0.001
MOST_RATE: Final = 1_000_000
"""The highest clock in GHz, and the most operations in a cycle. Source: assumed (the bound of a link's GB/s)."""
_MHZ: Final = 1000


def clock_ghz(classes: tuple[str, ...], noun: str = "clock") -> Meta:
    """The `Meta` of a clock in GHz, a lever of *classes* with the name *noun*."""
    return Meta(ge=LEAST_RATE, le=MOST_RATE, extra=Lever(classes, "twice", noun).extra)


def clock_mhz(classes: tuple[str, ...]) -> Meta:
    """The `Meta` of a clock in MHz, a lever of *classes* with the name `clock`."""
    return Meta(ge=LEAST_RATE * _MHZ, le=MOST_RATE * _MHZ, extra=Lever(classes, "twice", "clock").extra)


def bandwidth_gbs(classes: tuple[str, ...], noun: str = "bandwidth") -> Meta:
    """The `Meta` of a bandwidth in GB/s, a lever of *classes* with the name *noun*."""
    return Meta(gt=0, extra=Lever(classes, "twice", noun).extra)


def places(classes: tuple[str, ...], noun: str, edge: str) -> Meta:
    """The `Meta` of a number of places, at least 1. One more lets go of time of *classes* that holds up by *edge*."""
    return Meta(ge=1, extra=Lever(classes, "one more", noun, edge).extra)


def time_ns(classes: tuple[str, ...], noun: str = "latency") -> Meta:
    """The `Meta` of a time in ns, a lever of *classes* with the name *noun*."""
    return Meta(ge=0, extra=Lever(classes, "half", noun).extra)
