"""Lazy doors: a package loads a module when somebody uses a name from it, so importing the package takes no time."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_door(
    package: str, names_by_module: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__` and `__dir__` (PEP 562) of *package*, and its `__all__`: each name is imported at first use.

    A door assigns the three under `if not TYPE_CHECKING:`, because type checkers take any name from a module that has
    `__getattr__`. `__all__` has the names in *names_by_module*, and the names that the door has imported from its
    package.
    """
    module_of = {name: module for module, names in names_by_module.items() for name in names}
    door = sys.modules[package]
    imported = {name for name, value in vars(door).items() if _home(value).startswith(f"{package}.")}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=door)
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(door, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(door), *module_of})

    return load, names, sorted({*module_of, *imported})


def _home(value: object) -> str:
    """The name of the module that defines *value*; "" for a module and for a constant."""
    return getattr(value, "__module__", None) or ""
