"""Rules of the house that a machine can keep: the length of a function, names of classes, files of a folder."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "packages"
SOURCES = sorted(PACKAGES.glob("*/src/**/*.py"))
SOURCES_BY_PACKAGE = {path.parent.name: path.parents[1] for path in PACKAGES.glob("*/src/kb_*/__init__.py")}
LONGEST_FUNCTION = 60
MOST_FILES_OF_A_FOLDER = 15


@cache
def definitions() -> list[tuple[Path, ast.AST]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES)
    return [(path, node) for path, tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]


def nodes(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> list[tuple[Path, ast.AST]]:
    found = [(path, node) for path, node in definitions() if isinstance(node, kind)]
    assert len(found) >= 200, "a search that finds nothing forbids nothing"
    return found


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{path.name}:{node.name}": n_lines
        for path, node in nodes((ast.FunctionDef, ast.AsyncFunctionDef))
        if (n_lines := node.end_lineno - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert long == {}


def test_a_class_that_a_door_offers_has_a_name_of_its_own() -> None:
    """A module qualifies the names of its classes. The doors of one package offer no two classes of one name."""
    offered: dict[tuple[str, str], set[str]] = defaultdict(set)
    for door in SOURCES:
        if door.name == "__init__.py":
            for node in ast.walk(ast.parse(door.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kb_"):
                    package = node.module.partition(".")[0]
                    for alias in node.names:
                        offered[package, alias.name].add(defining_module(node.module, alias.name))
    assert len(offered) >= 200, "a search that finds nothing forbids nothing"
    assert {name: sorted(modules) for name, modules in offered.items() if len(modules) > 1} == {}


@cache
def defining_module(module: str, name: str) -> str:
    """The module in which *name* of *module* is defined: a door offers names of other modules."""
    root = SOURCES_BY_PACKAGE[module.partition(".")[0]]
    path = root / Path(*module.split(".")) / "__init__.py"
    if path.exists():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.module in (None, module):
                continue
            if any(alias.name == name for alias in node.names):
                return defining_module(node.module, name)
    return module


def test_a_folder_has_a_number_of_files_that_a_reader_takes_in() -> None:
    files: dict[Path, int] = defaultdict(int)
    for path in SOURCES:
        files[path.parent] += path.name != "__init__.py"
    many = {str(folder.relative_to(PACKAGES)): n for folder, n in files.items() if n > MOST_FILES_OF_A_FOLDER}
    assert many == {}
