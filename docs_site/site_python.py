"""Reference of the public names of packages, from their signatures and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT, Struct
from site_signatures import default_text, signature

MODULES = {
    "kernbench": "A kernel from a script, a notebook or a test. [Kernels from Python](../../python.md) is its guide.",
    "kb_plans": "Tile plans without a simulator. [kb-plans](../../packages/kb-plans.md) is its guide.",
    "kb_dataexec": "Execution and verification of op logs. [kb-dataexec](../../packages/kb-dataexec.md) is its guide.",
    "kb_engine": "What kernels and benchmarks import. [kb-engine](../../packages/kb-engine.md) is its guide.",
    "kb_engine.block": "What authors of blocks import. "
    "[Writing a component](../../packages/kb-engine.md#writing-a-component) is its guide.",
    "kb_engine.testing": "Checks of a block of your own. "
    "[Testing a component](../../packages/kb-engine.md#testing-a-component) is its guide.",
    "kb_topology": "Chips from YAML. [kb-topology](../../packages/kb-topology.md) is its guide.",
    "kb_messages": "What packages tell each other. [kb-messages](../../packages/kb-messages.md) is its guide.",
}
"""The modules whose names are public, with the page that tells how they go together."""


def python_pages() -> dict[str, str]:
    """A page for each module and one that lists them, by their places in the site."""
    rows = [f"| [`{name}`]({name}.md) | {text} |" for name, text in MODULES.items()]
    listed = "\n".join(MODULES)
    index = f"{_INTRODUCTION}\n| module | what it is for |\n| --- | --- |\n" + "\n".join(rows)
    index += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return {
        "reference/python/index.md": index,
        **{f"reference/python/{name}.md": _page(name, text) for name, text in MODULES.items()},
    }


def public_names(module: str) -> list[str]:
    """The names that *module* offers, classes first, then functions, then the rest."""
    found = importlib.import_module(module)
    names = [name for name in getattr(found, "__all__", dir(found)) if not name.startswith("_")]
    means = {"TYPE_CHECKING"} if module == "kb_messages" else {"TYPE_CHECKING", "lazy_door"}  # by which doors are made
    kept = [name for name in names if name not in means and not inspect.ismodule(getattr(found, name))]
    return sorted(kept, key=lambda name: (_rank(getattr(found, name)), name.lower()))


def _rank(value: object) -> int:
    return 0 if inspect.isclass(value) else 1 if inspect.isroutine(value) else 2


def _page(module: str, text: str) -> str:
    found = importlib.import_module(module)
    parts = [f"# `{module}`", (inspect.getdoc(found) or "").partition("\n\n")[0], text]
    for name in public_names(module):
        parts += _entry(name, getattr(found, name), module)
    return "\n\n".join(filter(None, parts)) + "\n"


def _entry(name: str, value: Any, module: str) -> Iterator[str]:
    yield f"## {name}"
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isroutine(value):
        yield f"```py\n{name}{signature(value)}\n```"
        yield inspect.getdoc(value) or ""
    else:
        yield _constant(name, module.partition(".")[0])


def _class(name: str, value: type) -> Iterator[str]:
    if issubclass(value, Enum):
        yield inspect.cleandoc(value.__doc__ or "")
        yield "Members: " + ", ".join(f"`{name}.{each.name}`" for each in value) + "."
    elif issubclass(value, Struct):
        yield inspect.cleandoc(value.__doc__ or "")
        yield _fields(value)
    else:
        yield f"```py\n{name}{_constructor(value)}\n```"
        yield inspect.cleandoc(value.__doc__ or "")
    for member in sorted(_members(value)):
        yield from _member(name, member, inspect.getattr_static(value, member))


def _constructor(value: type) -> str:
    try:
        return signature(value) if value.__init__ is not object.__init__ or hasattr(value, "_fields") else "()"
    except ValueError:  # a class of an extension has no signature
        return "(...)"


def _members(value: type) -> set[str]:
    """The public methods and properties that *value* and the classes of its package before it define."""
    package = value.__module__.partition(".")[0]
    own = [each for each in value.__mro__ if each.__module__.partition(".")[0] == package]
    names = {name for each in own for name in vars(each) if not name.startswith("_")}
    return {name for name in names if _is_shown(inspect.getattr_static(value, name))}


def _is_shown(found: Any) -> bool:
    return bool(_function(found)) and bool(_function(found).__doc__)


def _function(found: Any) -> Any:
    found = getattr(found, "func", found) if not isinstance(found, property) else found.fget
    found = getattr(found, "__func__", found)
    return found if inspect.isfunction(found) else None


def _member(name: str, member: str, found: Any) -> Iterator[str]:
    function = _function(found)
    is_value = not isinstance(found, (staticmethod, classmethod)) and not inspect.isfunction(found)
    yield f"### {name}.{member}"
    if not is_value:
        yield f"```py\n{member}{signature(function)}\n```"
    yield inspect.getdoc(function) or ""


def _fields(value: type[Struct]) -> str:
    """A table of the fields. Their types may name what only a type checker imports, so they stay text."""
    names, defaults = value.__struct_fields__, value.__struct_defaults__
    given = dict(zip(reversed(names), reversed(defaults), strict=False))
    rows = [
        f"| `{name}` | `{_cell(_written(value, name))}` | {_cell(default_text(given.get(name, NODEFAULT)))} |"
        for name in names
    ]
    return "\n".join(["| field | type | default |", "| --- | --- | --- |", *rows]) if rows else ""


def _written(value: type, name: str) -> str:
    """The type of the field *name*, as the class that declares it writes it."""
    annotation = next(
        vars(at)["__annotations__"][name] for at in value.__mro__ if name in vars(at).get("__annotations__", {})
    )
    return str(getattr(annotation, "__name__", annotation))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _constant(name: str, package: str) -> str:
    """How *name* is assigned in the sources of *package*, if that is short, and the text below the assignment."""
    code, text = _constants(package).get(name) or _constants("kb_messages").get(name, ("", ""))
    return f"```py\n{code}\n```\n\n{text}" if code.count("\n") < _LONGEST else text


@cache
def _constants(package: str) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(Path(str(importlib.import_module(package).__file__)).parent.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        body = ast.parse(source).body
        for statement, after in zip(body, [*body[1:], None], strict=True):
            text = after.value if isinstance(after, ast.Expr) else None
            is_text = isinstance(text, ast.Constant) and isinstance(text.value, str)
            for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
                if isinstance(target, ast.Name):
                    code = ast.get_source_segment(source, statement) or ""
                    found.setdefault(target.id, (code, inspect.cleandoc(text.value) if is_text else ""))
    return found


_LONGEST = 20
"""The most lines of an assignment that are shown."""
_INTRODUCTION = """\
# Python

These are the public names of the packages, made from signatures and docstrings. A name that is not here is private.
The functions that a kernel calls are on a page of their own, [`tl`](../../tl.md).
"""
