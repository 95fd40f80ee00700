"""Functions with another source than their author's, as test suites make them of templates."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from kb_messages import KernelError

_NUMBERS: Final = count(1)


def patched(fn: Callable[..., Any], source: str) -> FunctionType:
    """Returns a function with the *source*, and with the globals, defaults and closure of *fn*.

    Lines of errors are those of a file beside the file of *fn*, which exists in this process alone. Raises KernelError
    for a source that is no function of that name.
    """
    if not isinstance(fn, FunctionType):
        raise KernelError(f"source of {fn!r}", "an object without code", "a function")
    name = fn.__name__
    path = str(Path(fn.__code__.co_filename).with_suffix(f".{name}{next(_NUMBERS)}.py"))
    free = fn.__code__.co_freevars
    indented = "".join(f"    {line}" for line in source.splitlines(keepends=True))
    text = f"def outer({', '.join(free)}):\n{indented}\n    return {name}\n" if free else source
    try:
        code = compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise KernelError(f"source of {name}", f"a syntax error ({error.msg})", "a function of Python") from None
    found = _within(code, name)
    if found is None:
        raise KernelError(f"source of {name}", f"a source without a function {name}", "the source of that function")
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    cells = dict(zip(free, fn.__closure__ or (), strict=True))
    made = FunctionType(found, fn.__globals__, name, fn.__defaults__, tuple(cells[each] for each in found.co_freevars))
    made.__kwdefaults__, made.__module__, made.__qualname__ = fn.__kwdefaults__, fn.__module__, fn.__qualname__
    made.__annotations__ = fn.__annotations__
    return made


def _within(code: CodeType, name: str) -> CodeType | None:
    """Returns the code of the function *name* in *code*; None where there is none."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found = each if each.co_name == name else _within(each, name)
            if found is not None:
                return found
    return None
