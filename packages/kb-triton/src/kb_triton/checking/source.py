"""KernelSource: the source of a kernel's function, and frames of it for tracebacks."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn
from weakref import WeakKeyDictionary

from kb_engine.program import cell_name

_DEFINITION: Final = re.compile(r"^def\s+\w+\s*\(", re.MULTILINE)


class KernelSource:
    """The source of *fn* from its `def` on, as a tree and as *text* without *indentation*, a number of spaces.

    The first line of the text is *first_line* of the file.
    """

    def __init__(self, fn: FunctionType, text: str, tree: ast.FunctionDef, first_line: int, indentation: int) -> None:
        self.text = text
        self.tree = tree
        self.first_line = first_line
        self.path = fn.__code__.co_filename
        self.indentation = indentation
        self._names = fn.__name__, fn.__qualname__, fn.__module__

    @property
    def file_name(self) -> str:
        """The name of the file without its folder, or of the notebook cell."""
        return cell_name(self.path) or Path(self.path).name

    def line_in_file(self, node: ast.AST) -> int:
        """Returns the line of *node* in the file."""
        line: int = getattr(node, "lineno", 1)
        return self.first_line + line - 1

    def raising(self, node: ast.AST, action: Callable[[], NoReturn]) -> Callable[[], NoReturn]:
        """Returns a function that calls *action*. Its frame in a traceback is the line of *node* in this function."""
        module = ast.parse("def kernel(): action()")
        for each in ast.walk(module):
            if isinstance(each, (ast.stmt, ast.expr)):
                each.lineno = each.end_lineno = self.line_in_file(node)
                each.col_offset = getattr(node, "col_offset", 0) + self.indentation
                each.end_col_offset = each.col_offset + 1
        module.body[0].lineno = module.body[0].end_lineno = self.first_line
        code = compile(module, self.path, "exec", dont_inherit=True)
        inner = next(each for each in code.co_consts if isinstance(each, CodeType))
        name, qualname, of_module = self._names
        return FunctionType(
            inner.replace(co_name=name, co_qualname=qualname), {"action": action, "__name__": of_module}
        )


_SOURCES: Final = WeakKeyDictionary[FunctionType, "tuple[CodeType, KernelSource | None]"]()


def source_of(fn: Any) -> KernelSource | None:
    """Returns the source of *fn*; None for an object without source, such as a function made by `exec`."""
    if not isinstance(fn, FunctionType):
        return None
    code, found = _SOURCES.get(fn, (None, None))
    if code is not fn.__code__:
        found = _read(fn)
        _SOURCES[fn] = fn.__code__, found
    return found


def _read(fn: FunctionType) -> KernelSource | None:
    try:
        lines, first = inspect.getsourcelines(fn)
        whole = textwrap.dedent("".join(lines))
        begins = _DEFINITION.search(whole)
        if begins is None:
            return None
        text = whole[begins.start() :]
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    if not isinstance(tree, ast.FunctionDef):
        return None
    indentation = len(lines[0]) - len(lines[0].lstrip())
    return KernelSource(fn, text, tree, max(first, 1) + whole[: begins.start()].count("\n"), indentation)
