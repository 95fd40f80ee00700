"""Errors of a user's code, shown with the frames of the user's files, without frames of kernbench and libraries."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback
from opcode import opmap
from pathlib import Path
from types import FrameType, TracebackType

from greenlet import GreenletExit

from kb_engine.block.block_authors import PACKAGES, BlockEntry, block_entry, walked_frames
from kb_engine.program.author.kernel_lines import at_line, line_of
from kb_engine.program.author.wrong_uses import wrong_use
from kb_messages import BenchmarkError, KbError

_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))

_MOST_FRAMES = 20
_LINE = re.compile(r"[^\s:]+:\d+")


class UserCodeError(BenchmarkError):
    """An exception of the code of a kernel or benchmark. Its text ends with the frames of the author's files."""

    def __init__(self, where: str, got: str, needs: str, fix: str = "", frames: str = "") -> None:
        super().__init__(where, got, needs, fix)
        self.args = (where, got, needs, fix, frames)
        self.frames = frames

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.frames}".rstrip()


def explain(
    error: BaseException, root: Path, needs: str, program: str = "", language: object = None, elsewhere: str = ""
) -> KbError:
    """Converts *error*, which code in the folder *root* raised or caused, to an error that names the author's line.

    The line is relative to *root*. A KbError keeps its words, and stays as it is if it names a line of the author. For
    any other exception, *needs* names the behaviour that the code should have had. An exception in a block of another
    author names the line and the method of the block. *program* is the program in which it happened. *language* is the
    class of the `tl` of a kernel; wrong uses of the language have errors of their own. *elsewhere* is the place of an
    exception that no line of the author raised or caused, by default *root*.
    """
    explained = _explained(error, root, needs, language, elsewhere or str(root))
    if program:
        explained.where = f"{explained.where}, in {program}"
    return explained


def _explained(error: BaseException, root: Path, needs: str, language: object, elsewhere: str) -> KbError:
    frames = _authors_frames(error, root)
    lines = [line_of(frame.filename, frame.lineno or 0, root) for frame in frames]
    where = lines[-1] if lines else elsewhere
    if isinstance(error, KbError):
        if not lines or error.where.startswith(tuple(lines)):
            return error
        return at_line(error, where).with_traceback(error.__traceback__)
    entry = block_entry(walked_frames(error))
    wrong = wrong_use(error, where, language) if entry is None else None
    if wrong is not None:
        return wrong.with_traceback(error.__traceback__)
    needs = needs if entry is None else f"{entry.method} to raise no exception"
    linecache.checkcache()
    shown = "".join(traceback.format_list(frames[-_MOST_FRAMES:])).rstrip()
    shown = "\n".join(printable(line) for line in shown.splitlines())
    fix = "see the frames below" if shown else ""
    return UserCodeError(where, _said_by(error), needs, fix, shown).with_traceback(error.__traceback__)


def authors_line(error: BaseException, root: Path) -> str:
    """The line of the author, relative to *root*, at which *error* was raised or passed; "" when there is none."""
    frames = _authors_frames(error, root)
    return line_of(frames[-1].filename, frames[-1].lineno or 0, root) if frames else ""


def authors_traceback(error: BaseException) -> TracebackType | None:
    """The traceback of *error* without the frames of kernbench and of libraries; None where no others are left."""
    found: TracebackType | None = None
    trace, kept = error.__traceback__, list[TracebackType]()
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith((*_own_folders(), *_LIBRARIES)):
            kept.append(trace)
        trace = trace.tb_next
    for each in reversed(kept):
        found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found


def place(error: KbError, root: Path) -> None:
    """Puts the author's line, relative to *root*, in front of the place of *error*, unless the place names a line."""
    line = authors_line(error, root)
    if line and not _LINE.match(error.where):
        error.where = f"{line}: {error.where}"


def calling_line(root: Path) -> str:
    """The line of the author, relative to *root*, from which kernbench is called now; "" when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_authors(frame.f_code.co_filename, root):
        frame = frame.f_back
    return "" if frame is None else line_of(frame.f_code.co_filename, frame.f_lineno, root)


def is_authors_error(error: BaseException, root: Path) -> bool:
    """Whether code of an author in the folder *root* is to blame for *error*.

    A signal, the end of an abandoned kernel, and a full disk to which kernbench writes are no errors of the author. A
    signal raises KeyboardInterrupt at any instruction; code raises it by `raise`.
    """
    is_own, folders = False, _own_folders()
    for frame, _ in traceback.walk_tb(error.__traceback__):
        filename = frame.f_code.co_filename
        if _is_authors(filename, root):
            is_own = False
        elif filename.startswith(folders):
            is_own = True
    if isinstance(error, KeyboardInterrupt):
        return not is_own and _ends_in_raise(error)
    if isinstance(error, (OSError, GreenletExit)) or not isinstance(error, Exception):
        return not is_own
    return True


def printable(text: str, most: int = 500) -> str:
    """*text* on one line, with control characters escaped, cut after *most* characters."""
    cut = text if len(text) <= most else f"{text[:most]}..."
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)


def _ends_in_raise(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code.co_code[trace.tb_lasti] == opmap["RAISE_VARARGS"]


def _said_by(error: BaseException) -> str:
    """The type and the text of *error*. The text is left out if the author's code fails to make it."""
    try:
        text = printable(str(error))
    except BaseException:  # noqa: BLE001 - an author's __str__ may raise anything
        text = ""
    name = printable(type(error).__name__)
    return f"{name}: {text}" if text else name


def _authors_frames(error: BaseException, root: Path) -> traceback.StackSummary:
    """The frames of *error* in files of the author, and, inside a block, in files of the block's author.

    A KbError that the block raises is about the request to the block, so its frames end before the block.
    """
    walked = walked_frames(error)
    entry = block_entry(walked)
    if entry is not None and isinstance(error, KbError):
        walked = walked[: entry.at]
    every = traceback.StackSummary.extract(iter(walked), lookup_lines=False)  # a line may be looked up in a device
    kept = [
        frame for at, frame in enumerate(every) if _is_authors(frame.filename, root) or _is_makers(frame, at, entry)
    ]
    return traceback.StackSummary.from_list(kept)


def _is_makers(frame: traceback.FrameSummary, at: int, entry: BlockEntry | None) -> bool:
    return entry is not None and at >= entry.at and frame.filename.startswith(entry.paths)


def _is_authors(filename: str, root: Path) -> bool:
    """Whether a file is the author's: it lies in *root*, or neither in a package of kernbench nor in a library.

    A cell of a notebook is no file. `linecache` has its lines.
    """
    path = Path(filename)
    if path.parent == root:
        return True
    if filename.startswith((*_own_folders(), *_LIBRARIES)) or "\0" in filename:
        return False
    return filename in linecache.cache or path.is_file()


def _own_folders() -> tuple[str, ...]:
    return tuple(
        str(Path(module.__file__).parent) + os.sep
        for name in PACKAGES
        if (module := sys.modules.get(name)) is not None and module.__file__ is not None
    )
