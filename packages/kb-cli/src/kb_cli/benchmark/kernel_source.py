"""The source of a kernel or a benchmark of a Python program: the file or the notebook cell that defines it."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from kb_cli.benchmark.call_benchmark import FunctionBenchmark
from kb_cli.benchmark.code.used_values import code_hash, functions_used
from kb_engine import Benchmark
from kb_engine.program import cell_name
from kb_messages import BenchmarkError, read_bytes

MOST_NBYTES: Final = 16 << 20
"""The most bytes of a benchmark's file. Source: assumed."""
_MOST_TEXTS: Final = 16
_REWRITTEN: Final = "@pytest_ar"
"""A name that pytest gives to each module whose `assert` it replaces."""


class KernelSource(NamedTuple):
    """The text that defines a kernel or a benchmark. *path* is its file's name, which kernel lines begin with.

    `why_not` says why another process cannot find the kernel in the text, and is "" for a function at a file's top
    level. `cells` has the texts of other notebook cells whose functions it calls, by name.
    """

    path: Path
    text: bytes
    why_not: str
    cells: Mapping[str, bytes] = {}


def kernel_source(kernel: Callable[..., Any]) -> KernelSource:
    """Returns the source of *kernel*, a function or its wrapper. A kernel without source has an empty text."""
    code = getattr(inspect.unwrap(kernel), "__code__", None)
    if code is None:
        return KernelSource(Path.cwd() / "kernel.py", b"", f"a {type(kernel).__name__} in place of a function")
    path = Path(code.co_filename)
    name = getattr(kernel, "__qualname__", "")
    if not cell_name(code.co_filename) and path.is_file():  # a debugger writes cells to files
        why_not = "" if name.isidentifier() else f"a kernel that is no function of its file's top level ({name})"
        source = KernelSource(path.resolve(), path.read_bytes(), why_not)
        return _as_imported(source, functions_used(kernel), "a kernel")
    return _of_no_file(code.co_filename, "a kernel", functions_used(kernel))


def benchmark_source(found: type[Benchmark[Any]] | FunctionBenchmark) -> KernelSource:
    """Returns the source of the benchmark *found*. Raises BenchmarkError when its file cannot be read."""
    functions = [found.function] if isinstance(found, FunctionBenchmark) else [*_methods_of(found)]
    plain = [each for each in map(inspect.unwrap, functions) if isinstance(each, FunctionType)]
    module = sys.modules.get(found.__module__)
    file, made = getattr(module, "__file__", None), getattr(module, "__source__", None)
    if isinstance(file, str) and isinstance(made, bytes):  # a package made the module from a text that it keeps
        return KernelSource(Path(file), made, "")
    if file is None:
        used = [each for function in plain for each in functions_used(function)]
        return _of_no_file(plain[0].__code__.co_filename if plain else "benchmark.py", "a benchmark", used)
    path = Path(file).resolve()
    source = KernelSource(path, read_bytes(path, BenchmarkError, MOST_NBYTES), "")
    return _as_imported(source, [used for each in plain for used in functions_used(each)], "a benchmark")


def _methods_of(found: type[Benchmark[Any]]) -> Iterator[Callable[..., Any]]:
    for each in vars(found).values():
        function = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
        if isinstance(function, FunctionType) and function.__module__ == found.__module__:
            yield function


def _of_no_file(filename: str, what: str, functions: Iterable[FunctionType]) -> KernelSource:
    text = _cached(filename)
    why_not = f"{what} of a notebook or a prompt" if text else f"{what} without source"
    others = {each.__code__.co_filename for each in functions} - {filename}
    cells = {name: _cached(other) for other in others if (name := cell_name(other))}
    return KernelSource(Path.cwd() / (cell_name(filename) or filename), text, why_not, dict(sorted(cells.items())))


def _cached(filename: str) -> bytes:
    return "".join(linecache.getlines(filename)).encode()


def _as_imported(source: KernelSource, functions: Iterable[FunctionType], what: str) -> KernelSource:
    """Returns *source*, a file; or a note in its place when the file no longer has the code of *functions*.

    Only functions that were made from the file count.
    """
    own = [each for each in functions if Path(each.__code__.co_filename).resolve() == source.path]
    if any(_REWRITTEN in each.__globals__ for each in own):
        return source
    written = _codes_in(source.text)
    if all(each.__code__ in written.get(each.__code__.co_qualname, ()) for each in own):
        return source
    hashes = ", ".join([code_hash(each) for each in own])
    text = f"# {source.path.name} was edited after its import. The code that ran has the hashes {hashes}.\n"
    return KernelSource(source.path, text.encode(), f"{what} whose file was edited after its import")


@lru_cache(maxsize=_MOST_TEXTS)
def _codes_in(text: bytes) -> dict[str, list[CodeType]]:
    """Returns the code of each function of *text* by the function's name; {} for a text that is no Python file."""
    try:
        codes = [compile(text, "<source>", "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return {}
    found: dict[str, list[CodeType]] = {}
    while codes:
        code = codes.pop()
        found.setdefault(code.co_qualname, []).append(code)
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found
