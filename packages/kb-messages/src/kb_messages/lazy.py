"""Lazy doors: a package loads a module when somebody uses a name from it, so importing the package takes no time."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_door(
    package: str, names_by_module: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` (PEP 562) of *package*: each name is imported from its module at first use."""
    module_of = {name: module for module, names in names_by_module.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return load, names
