"""Kernel lines: `file:line` of the statement that a call stands in.

Python versions differ in the line that they report for a call of several lines; the statement's first line is the same.
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
from kb_engine.program.values.foreign_values import value_of_ended
from kb_messages import KbError, KernelError

_PACKAGES = "kb_engine", "kb_dataexec", "kb_messages", "kb_topology", "kb_triton"
_OWN_FOLDERS = tuple(
    str(Path(spec.origin).parent) + os.sep
    for name in _PACKAGES
    if (spec := find_spec(name)) is not None and spec.origin
)
_MOST_CALLS: Final = 4096


def is_own(filename: str) -> bool:
    """Whether a source file belongs to a package of kernbench."""
    return filename.startswith(_OWN_FOLDERS)


def at_line(error: KbError, line: str) -> KernelError:
    """*error*, which what the kernel line *line* asked for has met."""
    if isinstance(error, UnwrittenLoadError):
        return error.at(line)
    return KernelError(f"{line}: {error.where}", error.got, error.needs, error.fix)


class KernelLines:
    """Finds the line of the author from which kernbench is called, relative to *root*.

    Files are told apart once, and each call of a kernel is looked up once: a kernel makes the same calls again and
    again.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._passed_over: dict[tuple[str, ...], dict[str, bool]] = {}
        self._found: dict[tuple[int, int], tuple[CodeType, str]] = {}

    def here(self, skip_file_prefixes: tuple[str, ...] = ()) -> str:
        """`file:line` of the statement at which the innermost frame outside kernbench stands.

        Frames of files whose paths begin with one of *skip_file_prefixes* are passed over too.
        """
        passed_over = self._passed_over.get(skip_file_prefixes)
        if passed_over is None:
            passed_over = self._passed_over[skip_file_prefixes] = {}
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            is_passed = passed_over.get(code.co_filename)
            if is_passed is None:
                is_passed = code.co_filename.startswith(_OWN_FOLDERS + skip_file_prefixes)
                passed_over[code.co_filename] = is_passed
            if not is_passed:
                key = id(code), frame.f_lasti
                found = self._found.get(key)
                return self._line(code, frame) if found is None else found[1]
            frame = frame.f_back
        return "?:0"

    def of_ended(self, skip_file_prefixes: tuple[str, ...] = ()) -> NoReturn:
        """In place of `here` for a program that has ended. Raises KernelError at the line, which uses its value."""
        raise value_of_ended(self.here(skip_file_prefixes))

    def _line(self, code: CodeType, frame: FrameType) -> str:
        if len(self._found) >= _MOST_CALLS:
            self._found.clear()
        line = line_of(code.co_filename, frame.f_lineno, self._root)
        self._found[id(code), frame.f_lasti] = code, line  # it keeps the code alive, so that the id stays its own
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
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


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
