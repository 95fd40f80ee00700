"""What a topology may grow to."""

from __future__ import annotations

from typing import Final

MAX_ITEMS: Final = 1_000_000
"""Most nodes, most links and most wires that a topology may expand to. Source: assumed; about a gigabyte of objects."""
MAX_MEMORY_NBYTES: Final = 1 << 32
"""Largest memory. Source: an address has 32 bits of offset."""
MAX_UNITS: Final = 1 << 10
"""Most memories of one space in a cube. Source: an address has 10 bits of unit."""
MAX_DIES: Final = 1 << 8
"""Most SIPs, and most cubes in a SIP. Source: an address has 8 bits for each."""
