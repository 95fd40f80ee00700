"""What a kernel raised, told by its own frames."""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from pathlib import Path

from kb_engine.language.lines import is_own, line_of
from kb_messages.errors import KbError, KernelError

_LIBRARIES = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<frozen ",
)


class KernelRaisedError(KbError):
    """An exception that a kernel's own code raised; the text shows the frames of the user's files alone."""

    def __init__(self, where: str, got: str, needs: str, fix: str = "", frames: str = "") -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, frames)
        self.frames = frames

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.frames}".rstrip()


def explain(error: Exception, root: Path) -> KbError:
    """*error*, raised below a kernel, as one that names the kernel line (relative to *root*)."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_own(frame.filename)]
    at = _innermost(frames, root)
    where = line_of(at.filename, at.lineno or 0, root) if at is not None else "kernel"
    if isinstance(error, KbError):
        if error.where.startswith(where):
            return error
        return KernelError(f"{where}: {error.where}", error.got, error.needs, error.fix)
    linecache.checkcache()
    shown = "".join(traceback.format_list(frames)).rstrip()
    return KernelRaisedError(
        where, f"{type(error).__name__}: {error}", "a kernel that returns", "see the frames below", shown
    )


def _innermost(frames: list[traceback.FrameSummary], root: Path) -> traceback.FrameSummary | None:
    """The last frame of the user's own code: no installed library's, or at least one below *root*."""
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    below = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    for candidates in (own, below, frames):
        if candidates:
            return candidates[-1]
    return None
