"""The source of a kernel that a Python program holds: the file or the notebook cell that defines it."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class KernelSource(NamedTuple):
    """The text that defines a kernel. *path* is its file's name, which kernel lines begin with.

    `why_not` says why nobody else can find the kernel in the text, and is "" for a function at a file's top level.
    """

    path: Path
    text: bytes
    why_not: str


def kernel_source(kernel: Callable[..., Any]) -> KernelSource:
    """The source of *kernel*, a function or what wraps one. A kernel without source gives an empty text."""
    code = getattr(inspect.unwrap(kernel), "__code__", None)
    if code is None:
        return KernelSource(Path.cwd() / "kernel.py", b"", f"a {type(kernel).__name__} in place of a function")
    path = Path(code.co_filename)
    name = getattr(kernel, "__qualname__", "")
    if path.is_file():
        why_not = "" if name.isidentifier() else f"a kernel that is no function of its file's top level ({name})"
        return KernelSource(path.resolve(), path.read_bytes(), why_not)
    text = "".join(linecache.getlines(code.co_filename)).encode()
    what = "a kernel of a notebook or a prompt" if text else "a kernel without source"
    return KernelSource(Path.cwd() / path, text, what)
