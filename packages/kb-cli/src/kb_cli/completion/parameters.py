"""The parameters of a benchmark, read from the text of its file, which is never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_MOST_NBYTES: Final = 1 << 20
"""The largest file that is read. Source: assumed; the largest bundled benchmark has 10 kB."""


def parameters(file: Path) -> dict[str, tuple[str, ...]]:
    """Returns the values that the parameters of the benchmark in *file* are known to take, by name.

    A parameter of other types has its default alone. {} for a file that is no benchmark or cannot be read.
    """
    from kb_messages import KbError, read_bytes

    try:
        tree = ast.parse(read_bytes(file, KbError, _MOST_NBYTES))
    except (KbError, SyntaxError, ValueError, RecursionError, MemoryError):  # no benchmark, or one in the making
        return {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    fields = list(_of_functions(tree)) or list(_of_class(classes, _params_class(classes)))
    return {name: tuple(dict.fromkeys(_values(annotation, default, classes))) for name, annotation, default in fields}


Field = tuple[str, ast.expr | None, ast.expr | None]
"""A name, its annotation and its default."""


def _of_functions(tree: ast.Module) -> Iterator[Field]:
    """Yields the parameters of the function under `@kernbench.benchmark`: all but the generator of random numbers."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(_name(each) == "benchmark" for each in node.decorator_list):
            every = [*node.args.posonlyargs, *node.args.args]
            defaults = [None] * (len(every) - len(node.args.defaults)) + list(node.args.defaults)
            pairs = [*zip(every, defaults, strict=True)][1:]
            for each, default in [*pairs, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]:
                yield each.arg, each.annotation, default


def _params_class(classes: Mapping[str, ast.ClassDef]) -> str:
    """Returns the name of the class that a Benchmark has as `Params`."""
    for node in classes.values():
        for each in node.body:
            is_params = isinstance(each, ast.Assign) and [_name(target) for target in each.targets] == ["Params"]
            if is_params and isinstance(each, ast.Assign):
                return _name(each.value)
    return "Params"


def _of_class(classes: Mapping[str, ast.ClassDef], name: str, above: tuple[str, ...] = ()) -> Iterator[Field]:
    """Yields the fields of the class *name* and of its bases in the file."""
    if name not in classes or name in above:
        return
    for base in classes[name].bases:
        yield from _of_class(classes, _name(base), (*above, name))
    for node in classes[name].body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node.annotation, node.value


def _values(annotation: ast.expr | None, default: ast.expr | None, classes: Mapping[str, ast.ClassDef]) -> list[str]:
    """Returns the values that a parameter is known to take, as `-p` takes them."""
    found: list[str] = []
    for node in _alternatives(annotation):
        if isinstance(node, ast.Subscript) and _name(node.value) == "Literal":
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            found += [str(each.value) for each in inner if isinstance(each, ast.Constant)]
        elif _name(node) == "bool":
            found += ["true", "false"]
        elif isinstance(node, ast.Constant) and node.value is None:
            found.append("none")
        elif _name(node) == "DType":
            from kb_messages import DType

            found += [str(each) for each in DType]
        elif _name(node) in classes:
            body = classes[_name(node)].body
            found += [each.value.value for each in body if isinstance(each, ast.Assign) and _is_text(each.value)]  # type: ignore[attr-defined]
    if not found and isinstance(default, ast.Constant) and isinstance(default.value, (int, float, str)):
        found.append(str(default.value))
    return found


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _alternatives(annotation: ast.expr | None) -> Iterator[ast.expr]:
    if isinstance(annotation, ast.BinOp):
        yield from _alternatives(annotation.left)
        yield from _alternatives(annotation.right)
    elif isinstance(annotation, ast.Subscript) and _name(annotation.value) == "Annotated":
        yield from _alternatives(annotation.slice.elts[0] if isinstance(annotation.slice, ast.Tuple) else None)
    elif annotation is not None:
        yield annotation


def _name(node: ast.expr) -> str:
    """Returns the last name of *node*, such as `benchmark` of `kernbench.benchmark(...)`; "" where it has none."""
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
