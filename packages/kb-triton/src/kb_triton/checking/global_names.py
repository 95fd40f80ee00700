"""Names that a kernel takes from its module: Triton lets kernels see constants, modules and functions of Triton."""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import UNKNOWN, Plain, Value, wrapped
from kb_triton.language import constexpr
from kb_triton.language.tensors.dtypes import dtype

BUILTINS: Final[dict[str, Any]] = {
    each: getattr(builtins, each)
    for each in ("len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max")
}
"""The builtins of Python that a kernel may use. Source: `CodeGenerator.builtin_namespace` of Triton 3.9."""
ALLOWING: Final = "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS"
_OWN: Final = ("kb_triton", "triton")
_NOTHING: Final = object()
_MOST_FILES: Final = 64


def allows_all_globals(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Triton's own switch lets kernels read all globals."""
    return environment.get(ALLOWING, "").lower() in ("1", "true", "on", "yes")


def global_value(fn: FunctionType, name: str, allows_all: bool) -> Value | None:
    """Returns the value of *name* in the module of *fn*, or around *fn*; None where there is no such name.

    Refuses a global that Triton refuses. With *allows_all*, no global is refused.
    """
    found = _found(fn, name)
    if found is _NOTHING:
        return Plain(BUILTINS[name]) if name in BUILTINS else None
    if _is_allowed(found) or name in BUILTINS:
        return wrapped(found) if _is_constant(found) else Plain(found)
    if not allows_all and not _may_be_constant(fn, name):
        raise Refusal(_refused(name), NameError)
    return wrapped(found) if type(found) in (bool, int, float, str, tuple) else UNKNOWN


def _found(fn: FunctionType, name: str) -> Any:
    """Returns the object that *name* stands for in *fn*."""
    for free, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if free == name:
            try:
                return cell.cell_contents
            except ValueError:
                return _NOTHING
    return fn.__globals__.get(name, _NOTHING)


def _is_constant(value: Any) -> bool:
    return isinstance(value, constexpr)


def _is_allowed(value: Any) -> bool:
    """Whether Triton lets a kernel see *value* whatever its name is."""
    if value is None or isinstance(value, (ModuleType, dtype)) or _is_constant(value):
        return True
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return True
    if hasattr(value, "__aggregate_fields__") or getattr(value, "__is_constexpr_function__", False):
        return True
    owners = (getattr(value, "__module__", None), type(value).__module__)
    return any(isinstance(each, str) and each.partition(".")[0] in _OWN for each in owners)


def _refused(name: str) -> str:
    return (
        f"Cannot access global variable {name} from within @jit'ed function. Triton kernels can only access global "
        "variables that are instanstiated as constexpr (`x = triton.language.constexpr(42)`). Note that this is "
        "different from annotating a variable as constexpr (`x: triton.language.constexpr = 42`), which is not "
        "supported.  Alternatively, set the envvar TRITON_ALLOW_NON_CONSTEXPR_GLOBALS=1, but we do not promise to "
        "support this forever."
    )


def _may_be_constant(fn: FunctionType, name: str) -> bool:
    """Whether the plain object *name* may come from a call of `constexpr`, which leaves no mark on some objects.

    A boolean, a tuple, and the result of arithmetic with constants are plain objects here and constants in Triton. So
    the assignments to *name* in its file are read.
    """
    module: ModuleType | None = sys.modules.get(fn.__module__)
    return _is_from_constants(fn.__code__.co_filename, module, name, 0)


def _is_from_constants(path: str, module: ModuleType | None, name: str, depth: int) -> bool:
    bindings = _bindings(path).get(name)
    if bindings is None or depth > 4:
        return True
    for each in bindings:
        if isinstance(each, ast.ImportFrom):
            origin = _imported(module, each)
            if origin is not None and not (getattr(origin, "__file__", None) or "").endswith(".py"):
                continue
            original = next((alias.name for alias in each.names if (alias.asname or alias.name) == name), name)
            if origin is None or _is_from_constants(getattr(origin, "__file__", "") or "", origin, original, depth + 1):
                return True
        elif each is None or any(_makes_constant(node, module) for node in ast.walk(each)):
            return True
    return False


def _makes_constant(node: ast.AST, module: ModuleType | None) -> bool:
    """Whether *node* is a call of `constexpr`, or a name that may be a constant."""
    if isinstance(node, ast.Attribute):
        return node.attr == "constexpr"
    if isinstance(node, ast.Name):
        return node.id == "constexpr" or _is_constant(getattr(module, node.id, None))
    return False


def _imported(module: ModuleType | None, node: ast.ImportFrom) -> ModuleType | None:
    """Returns the module that the import *node* of *module* takes names from; None where it is not found."""
    if not node.level:
        return sys.modules.get(node.module or "")
    package = getattr(module, "__package__", "") or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return sys.modules.get(".".join([*parts, *([node.module] if node.module else [])]))


@lru_cache(maxsize=_MOST_FILES)
def _bindings(path: str) -> dict[str, list[ast.AST | None]]:
    """Returns what the file *path* binds to each name, in any scope: the value, an import, or None for others."""
    found: dict[str, list[ast.AST | None]] = {}
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        for name, value in _bound_by(node):
            found.setdefault(name, []).append(value)
    return found


def _bound_by(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, (ast.Tuple, ast.List)):
                yield from ((each.id, node.value) for each in target.elts if isinstance(each, ast.Name))
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.ImportFrom):
        yield from ((alias.asname or alias.name, node) for alias in node.names)
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name, ast.Tuple(node.decorator_list)
    elif isinstance(node, ast.arg):
        yield node.arg, ast.Constant(0)
