"""The limits of a topology. A larger topology is refused."""

from __future__ import annotations

from typing import Final

from kb_messages import OFFSET_BITS

MAX_FILE_NBYTES: Final = 4 << 20
"""Largest file. Source: assumed; the format is so compact that the largest bundled file has 9 KB, and 4 MiB are read in
about ten seconds."""
MAX_NAME_CHARACTERS: Final = 100
"""Longest name of a topology. Source: assumed; folders and pictures are named after it."""
MAX_ITEMS: Final = 1_000_000
"""Most nodes, most links and most wires of a topology. Source: assumed; they take about a gigabyte of memory."""
MAX_MEMORY_NBYTES: Final = 1 << OFFSET_BITS
"""Largest memory, 256 GiB. Source: the bits of the offset in an address."""
MAX_UNITS: Final = 1 << 10
"""Most memories of one space in a cube. Source: an address has 10 bits of unit."""
MAX_DIES: Final = 1 << 8
"""Most SIPs, and most cubes in a SIP. Source: an address has 8 bits for each."""
