"""The modules that stand for Triton's in `sys.modules`: `install` makes them and puts them there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from kb_topology import did_you_mean
from kb_triton.runtime import testing
from kb_triton.shims.module_names import host_names
from kb_triton.shims.torch_import import TorchFinder, forget_helpers

_LIBDEVICE: Final = tuple(f"triton.language.extra.{each}libdevice" for each in ("", "cuda.", "hip.", "intel."))


class TritonModule(ModuleType):
    """The module *name* of Triton with the attributes *names*. Another attribute is an error that lists near names."""

    def __init__(self, name: str, names: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(names)
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None, is_package=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        near = did_you_mean(name, [each for each in vars(self) if not each.startswith("_")])
        raise AttributeError(f"{self.__name__}.{name}: got a name that kb-triton does not have{near and f'; {near}'}")


class _Installed:
    """The modules that `install` has put into `sys.modules`, and the modules of the same names before it."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self._before: dict[str, ModuleType] = {}
        self._hidden = 0
        self._finder = TorchFinder(self)

    def install(self) -> None:
        """Puts the modules in place, unless they are there."""
        if self.modules:
            return
        self._before = {name: module for name, module in sys.modules.items() if _is_triton(name)}
        for name in self._before:
            del sys.modules[name]
        self.hide()
        self._finder.ask_torch_before()
        self.modules = _made()
        self.show()
        sys.meta_path.insert(0, self._finder)

    def uninstall(self) -> None:
        """Takes the modules away, and puts the earlier ones back."""
        if not self.modules:
            return
        for name in [each for each in sys.modules if _is_triton(each)]:
            del sys.modules[name]
        sys.meta_path.remove(self._finder)
        forget_helpers()
        self.modules = {}
        sys.modules.update(self._before)

    def show(self) -> None:
        """Makes `import triton` find the modules again, once each `hide` was followed by a `show`."""
        self._hidden -= 1
        if not self._hidden:
            sys.modules.update(self.modules)

    def hide(self) -> None:
        """Makes `import triton` find nothing, even where a Triton is installed."""
        self._hidden += 1
        if self._hidden == 1:
            for name in self.modules:
                sys.modules.pop(name, None)
            sys.modules["triton"] = None  # type: ignore[assignment]  # Python's mark for a failing import


_INSTALLED = _Installed()


def install() -> None:
    """Makes `import triton` find kernbench's modules in this process. torch does not notice them."""
    _INSTALLED.install()


def is_installed() -> bool:
    """Whether the modules are in place."""
    return bool(_INSTALLED.modules)


def uninstall() -> None:
    """Takes back `install`: modules that were there before are there again."""
    _INSTALLED.uninstall()


def _is_triton(name: str) -> bool:
    return name == "triton" or name.startswith("triton.")


def _made() -> dict[str, ModuleType]:
    """Returns all modules by name, each as an attribute of the module above it."""
    language = importlib.import_module("kb_triton.language")
    libdevice = _language_part("libdevice", language)
    modules: dict[str, ModuleType] = {}
    for name, names in host_names().items():
        modules[name] = TritonModule(name, names)
    modules |= {"triton.testing": testing, "triton.language": language}
    modules |= {"triton.language.core": language, "triton.language.standard": language}
    modules |= {f"triton.language.{each}": _language_part(each, language) for each in ("math", "random")}
    modules |= dict.fromkeys(_LIBDEVICE, libdevice)
    for name in sorted(modules, key=len):
        above, _, last = name.rpartition(".")
        if above and not (above == "triton.runtime" and last == "driver"):
            vars(modules[above]).setdefault(last, modules[name])
    return modules


def _language_part(name: str, language: ModuleType) -> ModuleType:
    """Returns the module *name* of *language*; *language* itself where it has no module of that name."""
    full = f"{language.__name__}.{name}"
    return importlib.import_module(full) if find_spec(full) is not None else language
