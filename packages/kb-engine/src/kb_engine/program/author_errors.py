"""Errors of a user's own code, shown by the frames of the user's files alone, without kernbench and libraries."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from pathlib import Path

from kb_engine.program.kernel_lines import line_of
from kb_messages import BenchmarkError, KbError, KernelError

_PACKAGES = ("kb_messages", "kb_topology", "kb_plans", "kb_dataexec", "kb_engine", "kb_components", "kb_cli")
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class UserCodeError(BenchmarkError):
    """An exception of the code of a kernel or benchmark. Its text ends with the frames of the author's files."""

    def __init__(self, where: str, got: str, needs: str, fix: str = "", frames: str = "") -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, frames)
        self.frames = frames

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.frames}".rstrip()


def explain(error: BaseException, root: Path, needs: str) -> KbError:
    """*error*, which code in the folder *root* raised or caused, as an error that names the author's line.

    The line is relative to *root*. A KbError keeps its words, and stays as it is if it names a line of the author. For
    any other exception, *needs* says what the code should have done.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_authors(frame.filename, root)]
    lines = [line_of(frame.filename, frame.lineno or 0, root) for frame in frames]
    where = lines[-1] if lines else str(root)
    if isinstance(error, KbError):
        if not lines or error.where.startswith(tuple(lines)):
            return error
        return KernelError(f"{where}: {error.where}", error.got, error.needs, error.fix)
    linecache.checkcache()
    shown = "".join(traceback.format_list(frames)).rstrip()
    got = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return UserCodeError(where, got, needs, "see the frames below" if shown else "", shown)


def _is_authors(filename: str, root: Path) -> bool:
    """Whether a file is the author's: it lies in *root*, or neither in a package of kernbench nor in a library."""
    path = Path(filename)
    if path.parent == root:
        return True
    own = tuple(
        str(Path(module.__file__).parent) + os.sep
        for name in _PACKAGES
        if (module := sys.modules.get(name)) is not None and module.__file__ is not None
    )
    return path.is_file() and not filename.startswith((*own, *_LIBRARIES))
