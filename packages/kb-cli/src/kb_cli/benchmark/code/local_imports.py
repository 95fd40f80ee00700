"""Local imports: the files in a benchmark's folder that the benchmark imports. They belong to it like its own file."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kb_messages import BenchmarkError, read_bytes

_MOST_FILES, _MOST_NBYTES = 10_000, 64 << 20
"""The limits for all files together. Source: assumed; a larger program is a library, which can be installed."""
_CALLS: Final = ("import_module", "__import__")
_FOLDERS: list[str] = []
"""The folders of benchmarks that were added to `sys.path`."""
_IMPORTED: set[str] = set()
"""The top-level modules that the last of these benchmarks imports from its folder."""


def files_beside(bench: Path, source: bytes) -> dict[str, bytes]:
    """Returns the bytes of each file in the folder of *bench* that *source* imports, by its path there, sorted.

    The import statements of *source* are followed, wherever they stand, its calls of `import_module` with a literal
    name, and the imports of the files found. Of a package, all Python files count. A link counts as the file behind it.
    Modules that Python finds elsewhere, and imports by other means, are left out. Raises BenchmarkError for more than
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
                    raise BenchmarkError(bench.name, got, "fewer", "install the imported files as a package")
                texts.append(found[file])
    return dict(sorted(found.items()))


def let_import(bench: Path, source: bytes) -> None:
    """Makes *source*, the benchmark in the file *bench*, import the files of its folder as they are now.

    Files of other benchmarks may have the same names, so their modules are forgotten. A folder that the running program
    imports from already stays as it is. Raises BenchmarkError for too many files, as `files_beside` does.
    """
    own = str(bench.parent)
    if own in sys.path and own not in _FOLDERS:
        return
    _forget(_IMPORTED)
    sys.path[:] = [each for each in sys.path if each not in _FOLDERS]
    _FOLDERS[:] = [own, *(each for each in _FOLDERS if each != own)]
    sys.path.extend(_FOLDERS)
    _IMPORTED.clear()
    _IMPORTED.update(map(_top, files_beside(bench, source)))


def import_from(folder: Path, names: Mapping[str, object]) -> None:
    """Makes Python import the files *names* from *folder*, and not from where they were imported before."""
    _forget({_top(name) for name in names})
    sys.path[:] = [str(folder), *(each for each in sys.path if each != str(folder))]


def _top(name: str) -> str:
    """Returns the top-level module of the file *name*."""
    return name.partition("/")[0].removesuffix(".py")


def _forget(tops: Set[str]) -> None:
    """Forgets the top-level modules *tops*, so that the next import loads them again."""
    for module in [module for module in sys.modules if module.partition(".")[0] in tops]:
        del sys.modules[module]


@lru_cache(maxsize=1024)
def _imported(source: bytes) -> frozenset[str]:
    """Returns the names of the top-level modules that *source* imports. Cached: programs run kernels of one file
    repeatedly.
    """
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
    """Returns the Python files of the module *name*, if Python finds the module in *folder*."""
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
    """Yields the Python files of *folder* and below. A link to one of the folders *above* ends there."""
    real = folder.resolve()
    if real in above or not os.access(real, os.R_OK | os.X_OK):
        return
    for each in sorted(folder.iterdir()):
        if each.is_dir():
            yield from _python_files(each, (*above, real))
        elif each.suffix == ".py":
            yield each
