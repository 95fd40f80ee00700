"""The files beside a benchmark that the benchmark imports: they belong to it as its own file does."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from kb_messages import BenchmarkError, read_bytes

_MOST_FILES, _MOST_NBYTES = 10_000, 64 << 20
"""Of all files together. Source: assumed; what is larger is a library, which can be installed."""
BENCHMARK: Final = "kb_benchmark_"
"""In front of the names of the modules that benchmarks are."""
_CALLS: Final = ("import_module", "__import__")
_FOLDERS: list[str] = []
"""The folders of benchmarks that were added to the places where Python looks for modules."""


def files_beside(bench: Path, source: bytes) -> dict[str, bytes]:
    """The bytes of each file in the folder of *bench* that *source* imports, by its path there, sorted.

    They are found by the import statements of *source*, wherever they stand, by its calls of `import_module` with a
    name, and by those of these files. Of a package, all Python files count. A link counts as the file behind it.
    Modules that are found elsewhere, and imports by other means, are left out. Raises BenchmarkError for more than
    10,000 files, or 64 MiB.
    """
    folder = bench.resolve().parent
    found: dict[str, bytes] = {}
    texts, nbytes = [source], 0
    while texts:
        for name in _imported(texts.pop()):
            for path in _files_of(name, folder):
                file = path.relative_to(folder).as_posix()
                if file in found or path.resolve() == bench.resolve():
                    continue
                found[file] = read_bytes(path, BenchmarkError, _MOST_NBYTES)
                nbytes += len(found[file])
                if len(found) > _MOST_FILES or nbytes > _MOST_NBYTES:
                    got = f"more than {_MOST_FILES} files or {_MOST_NBYTES >> 20} MiB beside it that it imports"
                    raise BenchmarkError(bench.name, got, "fewer", "install what it imports as a package")
                texts.append(found[file])
    return dict(sorted(found.items()))


def let_import(folder: Path) -> None:
    """Have a benchmark of *folder* import the files there, as they are now.

    Files of other benchmarks may have the same names, so what benchmarks have imported is forgotten. A folder that the
    running program imports from already stays as it is.
    """
    own = str(folder)
    if own in sys.path and own not in _FOLDERS:
        return
    _forget(
        name
        for name, module in list(sys.modules.items())
        if not (name.startswith(BENCHMARK) or "." in name) and _folder_of(module) in _FOLDERS
    )
    sys.path[:] = [each for each in sys.path if each not in _FOLDERS]
    _FOLDERS[:] = [own, *(each for each in _FOLDERS if each != own)]
    sys.path.extend(_FOLDERS)


def import_from(folder: Path, names: Mapping[str, object]) -> None:
    """Have the files *names* in *folder* imported from there, and not from where they were imported before."""
    _forget(name.partition("/")[0].removesuffix(".py") for name in names)
    sys.path[:] = [str(folder), *(each for each in sys.path if each != str(folder))]


def _forget(names: Iterable[str]) -> None:
    """Import the top-level modules *names* anew when they are imported again."""
    tops = set(names)
    for module in [module for module in sys.modules if module.partition(".")[0] in tops]:
        del sys.modules[module]


def _folder_of(module: ModuleType) -> str | None:
    """Where the top-level *module* was found; None for one without a place."""
    places = [*getattr(module, "__path__", ()), getattr(module, "__file__", None)]
    return str(Path(places[0]).parent) if isinstance(places[0], str) else None


@lru_cache(maxsize=1024)
def _imported(source: bytes) -> frozenset[str]:
    """The names of the top-level modules that *source* imports. Programs run kernels of one file again and again."""
    try:
        return frozenset(_names(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # its import says so
        return frozenset()


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _CALLS:
            names = [each.value for each in node.args[:1] if isinstance(each, ast.Constant)]
            yield from (each.partition(".")[0] for each in names if isinstance(each, str))


def _files_of(name: str, folder: Path) -> list[Path]:
    """The Python files of the module *name*, if Python finds the module in *folder*."""
    file, package = folder / f"{name}.py", folder / name
    if not file.is_file() and not package.is_dir():
        return []
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if package.resolve() in [Path(each).resolve() for each in spec.submodule_search_locations or ()]:
        return list(_python_files(package))
    return [file] if spec.origin is not None and Path(spec.origin).resolve() == file.resolve() else []


def _python_files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """The Python files of *folder* and below. A link to one of the folders *above* ends there."""
    real = folder.resolve()
    if real in above or not os.access(real, os.R_OK | os.X_OK):
        return
    for each in sorted(folder.iterdir()):
        if each.is_dir():
            yield from _python_files(each, (*above, real))
        elif each.suffix == ".py":
            yield each
