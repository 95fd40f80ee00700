"""Rules of the house that a machine can keep: how long a function is, and that a class name stands for one thing."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "packages").glob("*/src/**/*.py"))
LONGEST_FUNCTION = 60


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


def test_a_class_name_stands_for_one_thing() -> None:
    files = defaultdict(set)
    for path, node in nodes(ast.ClassDef):
        if not node.name.startswith("_"):
            files[node.name].add(path.name)
    assert {name: sorted(paths) for name, paths in files.items() if len(paths) > 1} == {}
