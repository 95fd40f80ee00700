"""The clock in integer picoseconds, the event queue, and units of time and rate."""

from kb_engine.timing.clock import Clock
from kb_engine.timing.units import KIB, Rate, ns_text, ps_from_ns

__all__ = [
    "KIB",
    "Clock",
    "Rate",
    "ns_text",
    "ps_from_ns",
]
