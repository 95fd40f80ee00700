"""Loads a benchmark file with exactly one Benchmark subclass. The bytes that run are the bytes that are hashed."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from msgspec import Struct

from kb_cli.benchmark import bundled
from kb_cli.benchmark.user_code import user_code
from kb_engine import Benchmark
from kb_messages import BenchmarkError

BenchmarkType = type[Benchmark[Any]]


class LoadedBenchmark(NamedTuple):
    """A benchmark with the file that defines it."""

    name: str
    path: Path
    source: bytes
    bench: Benchmark[Any]

    @property
    def root(self) -> Path:
        """The folder that kernel lines are relative to."""
        return self.path.parent

    @property
    def label(self) -> str:
        """The file's name in errors."""
        return self.path.name

    @property
    def sha256(self) -> str:
        """The sha256 of the file, in hex."""
        return hashlib.sha256(self.source).hexdigest()


def load_benchmark(text: str) -> LoadedBenchmark:
    """The benchmark that *text* names, a bundled name or a Python file.

    Raises BenchmarkError when the file cannot be read or imported, or has no usable benchmark.
    """
    path = bundled.find("benchmarks", text).resolve()
    try:
        source = path.read_bytes()
    except OSError as error:
        got = "a directory" if path.is_dir() else f"a file that cannot be read ({error.strerror})"
        raise BenchmarkError(text, got, "a Python file with one Benchmark subclass") from None
    bench_type = _the_benchmark(_execute(path, source), path.name)
    with user_code(path, f"{bench_type.__name__}()"):
        bench = bench_type()
    return LoadedBenchmark(bench.name or path.stem, path, source, bench)


def _execute(path: Path, source: bytes) -> ModuleType:
    """The file as a module. *source* is compiled here, because an import might run a stale cache instead."""
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f"{path.name}:{error.lineno or 1}:{error.offset or 1}"
        raise BenchmarkError(where, f"a syntax error ({error.msg})", "a Python file") from None
    except ValueError as error:  # null bytes
        raise BenchmarkError(path.name, str(error), "a Python file") from None
    module = ModuleType(f"kb_benchmark_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # msgspec looks up the types of Params by their module's name
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a benchmark may import files beside its own
    with user_code(path, "the import of the file"):
        exec(code, module.__dict__)
    return module


def _the_benchmark(module: ModuleType, label: str) -> BenchmarkType:
    named = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Benchmark)]
    found: list[BenchmarkType] = [each for each in dict.fromkeys(named) if each.__module__ == module.__name__]
    concrete = [bench_type for bench_type in found if not inspect.isabstract(bench_type)]
    if len(concrete) > 1:
        names = ", ".join(bench_type.__name__ for bench_type in concrete)
        raise BenchmarkError(label, f"{len(concrete)} benchmarks ({names})", "exactly one", "one file a benchmark")
    if not concrete:
        raise _none_usable(found, label)
    params = getattr(concrete[0], "Params", None)
    if not (isinstance(params, type) and issubclass(params, Struct)):
        got = "no Params" if params is None else f"Params that are {params!r}"
        raise BenchmarkError(f"{label}: {concrete[0].__name__}", got, "a msgspec Struct", "set `Params = YourStruct`")
    return concrete[0]


def _none_usable(found: list[BenchmarkType], label: str) -> BenchmarkError:
    if not found:
        fix = "derive a class from kb_engine.Benchmark"
        return BenchmarkError(label, "no Benchmark subclass", "exactly one", fix)
    missing = ", ".join(sorted(found[0].__abstractmethods__))
    return BenchmarkError(f"{label}: {found[0].__name__}", f"no {missing}", "every method of Benchmark")
