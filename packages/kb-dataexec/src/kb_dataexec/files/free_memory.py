"""The free memory of this machine, or of the container in which this process runs."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
"""The folder of the container, where cgroups have version 2. Source: Linux's admin-guide/cgroup-v2.rst."""


def available_nbytes() -> int | None:
    """Returns the bytes that can be allocated without swapping, or None on a system that does not publish them.

    In a container with a limit, these are at most the bytes up to the limit, and the bytes of files that can be
    dropped.
    """
    found = _of_meminfo("MemAvailable")
    left = _left_in_container()
    return found if found is None or left is None else min(found, left)


def with_swap_nbytes() -> int | None:
    """Returns `available_nbytes` and the bytes that can be swapped; None where the system does not publish both."""
    available, swap = available_nbytes(), _of_meminfo("SwapFree")
    return None if available is None or swap is None else available + swap


def _of_meminfo(name: str) -> int | None:
    try:
        (line,) = (line for line in _MEMINFO.read_text().splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        return None


def _left_in_container() -> int | None:
    """Returns the bytes up to the limit of the container; None without a limit."""
    try:
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):  # `max` is no number
        return None
