"""Exchanges the names of two folders in one step, on systems that can."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_HERE = -100
"""AT_FDCWD of Linux's fcntl.h: relative paths mean the working directory."""
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux's renameat2(2)."""
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}


def exchange(one: Path, other: Path) -> bool:
    """Exchanges the names of *one* and *other* at once. Returns False where the system or the file system cannot.

    Raises FileNotFoundError when one of the two is gone, and other OSErrors as a rename does.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # a C library from before 2018
        return False
    if renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
