"""Kernel lines: `file:line` of the statement that a call stands in.

Python versions differ in the line that they report for a call of several lines; the statement's first line is the same.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

import kb_dataexec
import kb_engine
import kb_messages
import kb_topology

_OWN_FOLDERS = tuple(
    str(Path(module.__file__ or "").parent) + os.sep for module in (kb_engine, kb_dataexec, kb_messages, kb_topology)
)


def is_own(filename: str) -> bool:
    """Whether a source file belongs to a package of kernbench."""
    return filename.startswith(_OWN_FOLDERS)


def kernel_line(root: Path, skip_file_prefixes: tuple[str, ...] = ()) -> str:
    """`file:line` of the statement at which the innermost frame outside kernbench stands, relative to *root*.

    Frames of files whose paths begin with one of *skip_file_prefixes* are passed over too.
    """
    own = _OWN_FOLDERS + skip_file_prefixes if skip_file_prefixes else _OWN_FOLDERS
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return line_of(frame.f_code.co_filename, frame.f_lineno, root) if frame is not None else "?:0"


@lru_cache(maxsize=4096)
def line_of(filename: str, lineno: int, root: Path) -> str:
    """`file:line` of the first line of the innermost statement that holds *lineno*, relative to *root*."""
    return f"{_relative(filename, root)}:{_statements(filename).get(lineno, lineno)}"


def _relative(filename: str, root: Path) -> str:
    path = Path(filename)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


@lru_cache
def _statements(filename: str) -> dict[int, int]:
    """For every line of a file, the first line of the innermost statement that holds the line."""
    source = "".join(linecache.getlines(filename))
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
