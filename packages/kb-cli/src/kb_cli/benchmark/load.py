"""Loads a benchmark file: one Benchmark subclass, or one function under `@kernbench.benchmark`.

The bytes that run are the bytes that are hashed.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.inspect import type_info
from msgspec.structs import fields

from kb_cli.benchmark import bundled
from kb_cli.benchmark.call_benchmark import FunctionBenchmark
from kb_cli.benchmark.code.author_results import check_benchmark_name
from kb_cli.benchmark.code.local_imports import files_beside, let_import
from kb_cli.benchmark.code.used_values import used_values
from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.kernel_source import MOST_NBYTES, benchmark_source
from kb_cli.benchmark.run_records import RecordedCall, RecordedScript
from kb_cli.benchmark.workloads import workload_names, workload_source
from kb_engine import Benchmark, Workload
from kb_engine.program import explain
from kb_messages import BenchmarkError, read_bytes

_FILE: ContextVar[str] = ContextVar("file", default="")


@contextmanager
def import_guard(file: str) -> Iterator[None]:
    """Marks the time in which kb imports *file*, so that the import starts no run of its own."""
    token = _FILE.set(file)
    try:
        yield
    finally:
        _FILE.reset(token)


def refuse_during_import(what: str) -> None:
    """Raises BenchmarkError when a benchmark's file calls *what* while kb imports the file."""
    if file := _FILE.get():
        fix = 'put the call below `if __name__ == "__main__":`'
        raise BenchmarkError(file, f"a call of {what} while kb imports the file", "none", fix)


DEFAULT_TOPOLOGY: Final = "one_cube"
"""The bundled chip of benchmarks that name none."""
BenchmarkType = type[Benchmark[Any]]
_IMPORT = "the import of the file"


class LoadedBenchmark(NamedTuple):
    """A benchmark with the file that defines it.

    `call` is the record of a call that is a benchmark of its own, or of a benchmark that no other process can find.
    `script` is the record of a launch of a script. `beside` has the files of its folder that it imports, by their paths
    there, and the notebook cells that it uses, by name; none for a benchmark that comes with kb.
    """

    name: str
    path: Path
    source: bytes
    bench: Benchmark[Any]
    call: RecordedCall | None = None
    script: RecordedScript | None = None
    beside: Mapping[str, bytes] = {}

    @property
    def root(self) -> Path:
        """The folder that kernel lines are relative to."""
        return self.path.parent

    @property
    def label(self) -> str:
        """The file's name in errors."""
        return self.path.name

    @property
    def default_topology(self) -> str:
        """The bundled chip that runs it where the user names none."""
        return self.bench.default_topology if isinstance(self.bench, Workload) else DEFAULT_TOPOLOGY

    @property
    def sha256(self) -> str:
        """The sha256 of the file, in hex."""
        return hashlib.sha256(self.source).hexdigest()


def load_benchmark(text: str) -> LoadedBenchmark:
    """Returns the benchmark that *text* names, a bundled name, a Python file, or a workload of another package.

    Raises BenchmarkError when the file cannot be read or imported, or has no usable benchmark.
    """
    is_workload = text not in bundled.names("benchmarks") and not text.endswith(".py")
    workload = workload_source(text) if is_workload else None
    if workload is not None:
        return load_source(*workload)
    path = bundled.find("benchmarks", text, workload_names() if is_workload else ()).resolve()
    return load_source(path, read_bytes(path, BenchmarkError, MOST_NBYTES))


def load_source(path: Path, source: bytes) -> LoadedBenchmark:
    """Returns the benchmark that *source* defines, as if it stood in the file *path*. Errors and kernel lines name
    *path*.

    Raises BenchmarkError when *source* cannot be imported, or has no usable benchmark.
    """
    module = execute_source(path, source)
    with user_code(path, "a look for the benchmark"):
        found = _the_benchmark(module, path.name)
    return _made_of(found, path, source)


def load_defined(found: BenchmarkType | FunctionBenchmark) -> LoadedBenchmark:
    """Returns the benchmark of the class or function *found*, which a running program defines.

    Raises BenchmarkError when its file cannot be read. A benchmark of a notebook, or of a file that was edited since
    its import, has a record that says so.
    """
    path, text, why_not, cells = benchmark_source(found)
    loaded = _made_of(found, path, text)
    if not why_not:
        return loaded
    used = used_values(found.function) if isinstance(found, FunctionBenchmark) else {}
    record = RecordedCall(kernel=loaded.name, arguments={}, launch={}, flops=0, why_not=why_not, used=used)
    return loaded._replace(call=record, beside={**loaded.beside, **cells})


def _made_of(found: BenchmarkType | FunctionBenchmark, path: Path, source: bytes) -> LoadedBenchmark:
    """Returns the benchmark of the class or function *found*. Raises BenchmarkError for one that cannot be made."""
    if isinstance(found, FunctionBenchmark):
        with user_code(path, f"{found.name}()"):
            bench: Benchmark[Any] = found.new()
        _check_params(f"{path.name}: {found.name}", bench.Params)
        return _loaded(check_benchmark_name(f"{path.name}: name", found.name), path, source, bench)
    with user_code(path, "a look for the benchmark"):
        _check_params(f"{path.name}: {found.__name__}", getattr(found, "Params", None))
    with user_code(path, f"{found.__name__}()"):
        bench = found()
        given: Any = bench.name
    named = path.stem if isinstance(given, str) and not given else given
    return _loaded(check_benchmark_name(f"{path.name}: name", named), path, source, bench)


def _loaded(name: str, path: Path, source: bytes, bench: Benchmark[Any]) -> LoadedBenchmark:
    beside = {} if bundled.shipped(path.name, source) == path else files_beside(path, source)
    return LoadedBenchmark(name, path, source, bench, beside=beside)


def execute_source(path: Path, source: bytes) -> ModuleType:
    """Returns the file as a module. *source* is compiled here, because an import might run a stale cache instead.

    Raises BenchmarkError when *source* cannot be imported.
    """
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f"{path.name}:{error.lineno or 1}:{error.offset or 1}"
        raise BenchmarkError(where, f"a syntax error ({error.msg})", "a Python file") from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:  # null bytes, or too deep a nesting
        raise BenchmarkError(path.name, str(error) or "too much code for Python", "a Python file") from None
    module = ModuleType(f"kb_benchmark_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # msgspec looks up the types of Params by their module's name
    let_import(path, source)
    with user_code(path, _IMPORT), import_guard(path.name), _scripts_are_explained(path):
        exec(code, module.__dict__)
    return module


@contextmanager
def _scripts_are_explained(path: Path) -> Iterator[None]:
    """Explains a missing `triton` in the file *path*: a script with Triton kernels runs with `kb exec`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "triton":
            raise
        explained = explain(error, path.parent, f"{_IMPORT} to succeed", elsewhere=path.name)
        file = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else path
        fix = f"a script with Triton kernels is no benchmark, and runs with kb exec {file}"
        raise BenchmarkError(explained.where, explained.got, explained.needs, fix).with_traceback(
            error.__traceback__
        ) from None


def _the_benchmark(module: ModuleType, label: str) -> BenchmarkType | FunctionBenchmark:
    named = [value for value in vars(module).values() if _is_benchmark(value)]
    found: list[BenchmarkType | FunctionBenchmark] = [
        each for each in dict.fromkeys(named) if each.__module__ == module.__name__
    ]
    concrete = [each for each in found if not inspect.isabstract(each)]
    if len(concrete) > 1:
        names = ", ".join(getattr(each, "__name__", "") or each.name for each in concrete)
        raise BenchmarkError(label, f"{len(concrete)} benchmarks ({names})", "exactly one", "one file a benchmark")
    if not concrete:
        raise _none_usable([each for each in found if isinstance(each, type)], label)
    return concrete[0]


def _is_benchmark(value: object) -> bool:
    return isinstance(value, FunctionBenchmark) or (isinstance(value, type) and issubclass(value, Benchmark))


def _check_params(where: str, params: object) -> None:
    if not (isinstance(params, type) and issubclass(params, Struct)):
        got = "no Params" if params is None else f"Params that are {params!r}"
        raise BenchmarkError(where, got, "a msgspec Struct", "set `Params = YourStruct`")
    try:
        type_info(params)
        fields(params)
    except (TypeError, NameError) as error:
        raise BenchmarkError(f"{where}: Params", f"a type that cannot be read ({error})", "fields of types") from None


def _none_usable(found: list[BenchmarkType], label: str) -> BenchmarkError:
    if not found:
        fix = "derive a class from kb_engine.Benchmark, or put @kernbench.benchmark over a function"
        return BenchmarkError(label, "no Benchmark subclass", "exactly one", fix)
    missing = ", ".join(sorted(found[0].__abstractmethods__))
    return BenchmarkError(f"{label}: {found[0].__name__}", f"no {missing}", "every method of Benchmark")
