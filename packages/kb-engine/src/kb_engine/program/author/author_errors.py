"""Errors of a user's code, shown with the frames of the user's files, without frames of kernbench and libraries.

Python's errors about a wrong use of `tl` become errors that name a use that works.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback
from inspect import Parameter, signature
from opcode import opmap
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

from greenlet import GreenletExit

from kb_engine.block.block_authors import PACKAGES, block_entry, walked_frames
from kb_engine.program.author.cells import cell_name
from kb_engine.program.author.kernel_lines import at_line, line_of
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import LaidOutOperators
from kb_messages import BenchmarkError, KbError, KernelError
from kb_topology import near_names

_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_MOST_FRAMES = 20
_LINE = re.compile(r"[^\s:]+:\d+")
_DOCS: Final = "docs/tl.md lists all names"
_CALL: Final = re.compile(r"(\w+)\.(\w+)\(\) (.+)")
_OPERATION: Final = re.compile(r"unsupported operand type\(s\) for (\S+?)=?(?: or pow\(\))?: '(\w+)' and '(\w+)'")
_COMPARISON: Final = re.compile(r"'(\S+)' not supported between instances of '(\w+)' and '(\w+)'")
_OF_ONE: Final = re.compile(r"bad operand type for (?:unary )?(\S+?)(?:\(\))?: '(\w+)'")
_CALLS: Final = {"**": "pow", "abs": "abs"}
_TOO_MANY: Final = re.compile(r"takes .*positional arguments? but (\d+) (?:was|were) given")
_UNKNOWN: Final = re.compile(r"got an unexpected keyword argument '(\w+)'")
_MISSING: Final = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")


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
    shown = "".join(traceback.format_list(list(map(_named, frames[-_MOST_FRAMES:])))).rstrip()
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
        frame
        for at, frame in enumerate(every)
        if _is_authors(frame.filename, root)
        or (entry is not None and at >= entry.at and frame.filename.startswith(entry.paths))
    ]
    return traceback.StackSummary.from_list(kept)


def _named(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """*frame* under the name of its notebook cell, or unchanged where its file is no cell."""
    name = cell_name(frame.filename)
    return traceback.FrameSummary(name, frame.lineno, frame.name, line=frame.line) if name else frame


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


def wrong_use(error: BaseException, line: str, language: object) -> KernelError | None:
    """The KernelError of a wrong use of *language*, the class of `tl`, for *error*, which a kernel statement at *line*
    raised.

    None for an error that has nothing to do with the language.
    """
    if not isinstance(language, type):
        return None
    if isinstance(error, AttributeError):
        return _unknown_name(error, line, language)
    if not isinstance(error, TypeError):
        return None
    operation = _wrong_operation(str(error), line, language)
    if operation is not None:
        return operation
    found = _CALL.fullmatch(str(error))
    if found is None or found[1] not in {each.__name__ for each in language.__mro__}:
        return None
    return KernelError(line, f"tl.{found[2]} {_mistake_in(found[3])}", _call_of(language, found[2]))


def _wrong_operation(said: str, line: str, language: type) -> KernelError | None:
    """The error of an operator that tensors in memory or values in TCM do not have, from the text of Python's error."""
    found = _OPERATION.fullmatch(said) or _COMPARISON.fullmatch(said) or _OF_ONE.fullmatch(said)
    if found is None or not _names_of_values() & set(found.groups()[1:]):
        return None
    operator, *operands = found.groups()
    got = f" {operator} ".join(operands) if len(operands) > 1 else f"{operator} of a {operands[0]}"
    if operator == "@":
        return KernelError(line, got, "tl.dot(a, b) of two values in TCM")
    if TensorRef.__name__ in operands:
        return KernelError(line, got, "values in TCM", "tl.load brings elements of a tensor there")
    call = _CALLS.get(operator, "")
    return KernelError(line, got, _call_of(language, call)) if hasattr(language, call) else None


def _unknown_name(error: AttributeError, line: str, language: type) -> KernelError | None:
    name, of = error.name or "", error.obj
    if isinstance(of, language):
        names = [each for each in dir(language) if not each.startswith("_")]
        near = [f"tl.{each}" for each in near_names(name, names)]
        fix = f"did you mean {' or '.join(near)}? {_DOCS}" if near else _DOCS
        return KernelError(line, f"tl.{name}, which tl does not have", "a function that it has", fix)
    if not isinstance(of, (Handle, LaidOutOperators)):
        return None
    names = [each for each in dir(type(of)) if not each.startswith("_")]
    near = [f".{each}" for each in near_names(name, names)]
    if not name.startswith("_") and hasattr(language, name):
        near = [_call_of(language, name)]
    fix = f"did you mean {near[0]}? {_DOCS}" if near else _DOCS
    return KernelError(line, f".{name} of a value in TCM", "a name that such a value has", fix)


def _names_of_values() -> set[str]:
    """The names of the classes of tensors and of values in TCM."""
    found: list[type] = [TensorRef, Handle, LaidOutOperators]
    for each in found:
        found += each.__subclasses__()
    return {each.__name__ for each in found}


def _mistake_in(problem: str) -> str:
    """The mistake of a call, from *problem*, the text of Python's error. Python counts `tl` as an argument."""
    if found := _TOO_MANY.match(problem):
        given = int(found[1]) - 1
        return f"with {given} argument{'s' * (given != 1)}"
    if found := _UNKNOWN.match(problem):
        return f"with {found[1]}="
    found = _MISSING.match(problem)
    return f"without {found[1]}" if found else f"that {problem}"


def _call_of(language: type, name: str) -> str:
    """The call of `tl.name` with its parameters."""
    parameters = list(signature(getattr(language, name)).parameters.values())[1:]
    listed = ", ".join(str(each.replace(annotation=Parameter.empty)) for each in parameters)
    return f"tl.{name}({listed})"
