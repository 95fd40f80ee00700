"""The free memory of this machine."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")


def available_nbytes() -> int | None:
    """Returns the bytes that can be allocated without swapping, or None on a system that does not publish them."""
    try:
        (line,) = (line for line in _MEMINFO.read_text().splitlines() if line.startswith("MemAvailable:"))
        return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        return None
