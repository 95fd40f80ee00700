"""A lock of a folder, so that processes that change a file in it do so one after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process has the lock of *folder*, and keep the lock meanwhile. A process that dies gives its
    lock back, and no file is made. Windows has no such lock of a folder, so nobody waits there.

    Raises OSError for a folder that cannot be read, and on file systems without locks.
    """
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
