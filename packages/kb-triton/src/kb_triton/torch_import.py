"""Keeps torch from noticing the modules that stand for Triton's: it would take them for a compiler.

torch asks once whether there is a `triton`, and keeps the answer. So it is asked while none is to be seen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import DistributionFinder
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any, Protocol

from kb_topology import near_names
from kb_triton.distribution import TritonDistribution
from kb_triton.generated_helpers import HELPERS, HelpersLoader, forget_helpers

_ASKED = "torch.utils._triton"


class Modules(Protocol):
    """What torch must not see."""

    def show(self) -> None:
        """Let `import triton` find the modules."""

    def hide(self) -> None:
        """Let `import triton` find none of them."""


class TorchFinder(MetaPathFinder):
    """Finds torch and its modules as Python does, and hides *modules* while one of them is imported."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules

    def ask_torch_before(self) -> None:
        """Have a torch that is imported already look for a `triton` now."""
        if "torch" in sys.modules:
            ask()
            forget_helpers()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As `MetaPathFinder.find_spec`. An import of a module that only Triton has raises ModuleNotFoundError."""
        if fullname.startswith("triton.") and sys._getframe(2).f_globals.get("__name__") == "importlib.util":
            return None  # somebody asks whether the module is here, and imports nothing
        if fullname == "triton.experimental":
            text = "triton.experimental: got Gluon, needs tl: kernels in Gluon choose layouts and memories of one GPU"
            raise ModuleNotFoundError(text, name=fullname)
        if fullname.startswith("triton."):
            near = near_names(fullname, [each for each in sys.modules if each.startswith("triton.")])
            text = (
                f"{fullname}: got a module that kb-triton does not have{f'; did you mean {near[0]}?' if near else ''}"
            )
            raise ModuleNotFoundError(text, name=fullname)
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or not spec.has_location:
            return spec
        loader = HelpersLoader(spec.loader) if fullname == HELPERS else _HidingLoader(spec.loader, self._modules)
        return spec_from_file_location(
            fullname, spec.origin, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterator[TritonDistribution]:
        """The distribution `triton`, if *context* asks for that name or for all, while the modules are to be seen."""
        name = None if context is None else context.name
        if (name is None or name.lower() == "triton") and sys.modules.get("triton") is not None:
            yield TritonDistribution()


class _HidingLoader(Loader):
    """*loader*, with *modules* hidden while a module is executed."""

    def __init__(self, loader: Loader, modules: Modules) -> None:
        self._loader = loader
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As that of the loader behind it."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute *module*, and have torch look for a `triton`, while there is none to be seen."""
        self._modules.hide()
        try:
            self._loader.exec_module(module)
            if module.__name__ == "torch":
                ask()
        finally:
            self._modules.show()


def ask() -> None:
    """Have torch find out whether there is a `triton`. A torch without the question does not ask later either."""
    with suppress(ImportError, AttributeError):
        __import__(_ASKED)
        sys.modules[_ASKED].has_triton_package()
        sys.modules[_ASKED].has_triton()
