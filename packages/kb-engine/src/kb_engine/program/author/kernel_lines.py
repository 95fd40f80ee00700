"""Kernel lines: `file:line` of the statement of a call, and errors at such a line.

Python versions differ in the line that they report for a call of several lines, so lines are the first line of the
statement.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, NoReturn

from kb_engine.memory.device_memory import UnwrittenLoadError
from kb_engine.program.author.cells import cell_name, file_name
from kb_messages import KbError, KernelError


def foreign_value(got: str, line: str) -> KernelError:
    """The error of a program that uses a value of another program at *line*. *got* describes the use.

    A value lies in the TCM of its program, and its commands belong to its program. So another program can neither wait
    for the value nor have it computed, and its bytes are free when its program has ended.
    """
    fix = "tl.load the elements in this program: programs pass data to others through memory"
    return KernelError(line, got, "values of the program that uses them", fix)


def value_of_ended(line: str) -> KernelError:
    """The error of a program that uses, at *line*, a value whose program has ended."""
    return foreign_value("a value of a program that has ended, in this run or an earlier one", line)


_PACKAGES = "kb_engine", "kb_dataexec", "kb_messages", "kb_topology", "kb_triton"
_OWN_FOLDERS = tuple(
    str(Path(spec.origin).parent) + os.sep
    for name in _PACKAGES
    if (spec := find_spec(name)) is not None and spec.origin
)
_MOST_CALLS: Final = 4096
_KERNELS: Final = os.path.join("kb_engine", "host", "collective_kernel.py")
"""The file of kernbench whose lines are those of a kernel: a launch of the host's collectives has no other line."""


def is_own(filename: str) -> bool:
    """Whether a source file belongs to a package of kernbench."""
    return filename.startswith(_OWN_FOLDERS)


def at_line(error: KbError, line: str) -> KernelError:
    """Converts *error*, which a call at the kernel line *line* caused, to an error at *line*."""
    if isinstance(error, UnwrittenLoadError):
        return error.at(line)
    return KernelError(f"{line}: {error.where}", error.got, error.needs, error.fix)


class KernelLines:
    """Finds the line of the author from which kernbench is called, relative to *root*.

    The results are cached by file and by call, because a kernel makes the same calls again and again.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._passed_over: dict[tuple[str, ...], dict[str, bool]] = {}
        self._found: dict[tuple[int, int], tuple[CodeType, str]] = {}

    def here(self, skip_file_prefixes: tuple[str, ...] = ()) -> str:
        """`file:line` of the statement at which the innermost frame outside kernbench stands.

        Frames of files whose paths begin with one of *skip_file_prefixes* are skipped too.
        """
        passed_over = self._passed_over.get(skip_file_prefixes)
        if passed_over is None:
            passed_over = self._passed_over[skip_file_prefixes] = {}
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            is_passed = passed_over.get(code.co_filename)
            if is_passed is None:
                name = code.co_filename
                is_passed = name.startswith(_OWN_FOLDERS + skip_file_prefixes) and not name.endswith(_KERNELS)
                passed_over[code.co_filename] = is_passed
            if not is_passed:
                key = id(code), frame.f_lasti
                found = self._found.get(key)
                return self._line(code, frame) if found is None else found[1]
            frame = frame.f_back
        return "?:0"

    def of_ended(self, skip_file_prefixes: tuple[str, ...] = ()) -> NoReturn:
        """Raises KernelError at the current line, in place of `here`: the line uses a value of an ended program."""
        raise value_of_ended(self.here(skip_file_prefixes))

    def _line(self, code: CodeType, frame: FrameType) -> str:
        if len(self._found) >= _MOST_CALLS:
            self._found.clear()
        line = line_of(code.co_filename, frame.f_lineno, self._root)
        self._found[id(code), frame.f_lasti] = code, line  # a reference to the code, so that its id is not reused
        return line


@lru_cache(maxsize=16)
def kernel_lines(root: Path) -> KernelLines:
    """The one `KernelLines` of *root*."""
    return KernelLines(root)


def line_of(filename: str, lineno: int, root: Path) -> str:
    """`file:line` of the first line of the innermost statement that holds *lineno*, relative to *root*.

    The file is read anew where it has changed, because its modules may have been loaded again.
    """
    linecache.checkcache(filename)
    statements = _statements("".join(linecache.getlines(filename)))
    return f"{_relative(filename, root)}:{statements.get(lineno, lineno)}"


def _relative(filename: str, root: Path) -> str:
    path = Path(filename)
    is_below = path.is_relative_to(root) and not cell_name(filename)  # IPython's file of a cell may lie below *root*
    return path.relative_to(root).as_posix() if is_below else file_name(filename)


@lru_cache
def _statements(source: str) -> dict[int, int]:
    """For every line of *source*, the first line of the innermost statement that holds the line."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    first: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.end_lineno is not None:
            start = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            first.update(dict.fromkeys(range(start, last + 1), start))
    return first
