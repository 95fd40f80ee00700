"""Heuristics: constants of a kernel that follow from its other arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kb_triton.jit import launching, unseen


class Wrapper:
    """A kernel that wraps another kernel, *fn*: a JITFunction, or the result of a decorator for kernels.

    The wrapper has the attributes of *fn*, so decorators of libraries may wrap it in turn.
    """

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    @property
    def base_fn(self) -> Any:
        """The function of the innermost kernel, as its author wrote it."""
        inner = self.fn
        while hasattr(inner, "fn"):
            inner = inner.fn
        return inner

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launches the kernel. *named* has the grid, too."""
        return self.fn.run(*arguments, **named)

    def warmup(self, *arguments: Any, **named: Any) -> Any:
        """Returns the kernel as compiled, without a launch."""
        return self.run(*arguments, warmup=True, **{"grid": (1,), **named})

    @unseen
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return launching(self.run, grid)

    def __getattr__(self, name: str) -> Any:
        if name == "fn":
            raise AttributeError(name)
        return getattr(self.fn, name)


class Heuristics(Wrapper):
    """A kernel with heuristics: *values* has a function for each argument that is computed from the other arguments."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def run(self, *arguments: Any, **named: Any) -> Any:
        """Launches the kernel with the computed arguments."""
        known = dict(zip(self.fn.arg_names, arguments, strict=False))
        for name, make in self.values.items():
            named[name] = make({**known, **named})
        return self.fn.run(*arguments, **named)


def heuristics(values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Callable[[Any], Heuristics]:
    """Decorates a kernel: *values* has, by name, a function for each argument that is computed from the others."""
    return lambda fn: Heuristics(fn, values)
