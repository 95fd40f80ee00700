"""A limit on the memory of this process, which turns a kill by the system into a MemoryError."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kb_dataexec.files import available_nbytes

_STATM = Path("/proc/self/statm")
_DATA_PAGES = 5
"""The column of statm with the pages of private, writable memory. Source: proc_pid_statm(5)."""


@contextmanager
def limited_memory() -> Iterator[None]:
    """Limits this process to `available_nbytes` of new memory; an allocation beyond raises MemoryError."""
    available = available_nbytes()
    if available is None or sys.platform == "win32":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    held = int(_STATM.read_text().split()[_DATA_PAGES]) * os.sysconf("SC_PAGE_SIZE")
    limits = [each for each in (soft, hard, held + available) if each != resource.RLIM_INFINITY]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
