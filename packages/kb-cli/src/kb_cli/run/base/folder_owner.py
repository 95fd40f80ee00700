"""The owner of a hidden folder: the process that made it, and whether that process is gone."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from functools import cache
from pathlib import Path

_FORM = re.compile(r"(\d{1,10})-(\d{1,20})-([0-9a-f]{8})")


def owner() -> str:
    """Returns this process as `PID-START-MACHINE`. START is 0 on a system that does not publish start times."""
    return f"{os.getpid()}-{_start(os.getpid())}-{_machine()}"


def is_gone(made_by: str) -> bool:
    """Whether *made_by*, a text of `owner`, names a process of this machine that no longer runs.

    A process of another machine or container, which may share the disk, is taken for alive.
    """
    form = _FORM.fullmatch(made_by)
    if form is None or form[3] != _machine():
        return False
    pid, start = int(form[1]), int(form[2])
    return not _runs(pid) or start != _start(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's process, or a system without the call
        return True
    return True


def _start(pid: int) -> int:
    """Returns the start time of *pid*, in clock ticks since the machine started (field 22 of /proc/PID/stat, see
    proc(5)).
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(fields.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


@cache
def _machine() -> str:
    """Returns 8 hex digits that identify this machine and container."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]
