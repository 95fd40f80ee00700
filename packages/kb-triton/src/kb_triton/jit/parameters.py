"""The parameters of a kernel, as decorators of others ask for them."""

from __future__ import annotations

import inspect
from typing import Any

from kb_triton.language import constexpr


class KernelParameter:
    """Parameter number `num` of a kernel. Decorators of others that prepare launches read these facts."""

    def __init__(self, num: int, parameter: inspect.Parameter, not_specialized: bool) -> None:
        self.num = num
        self.name = parameter.name
        self.annotation = parameter.annotation
        self.default = parameter.default
        self.has_default = parameter.default is not parameter.empty
        self.is_constexpr = is_constexpr(parameter.annotation)
        self.is_const = False
        self.do_not_specialize = self.do_not_specialize_on_alignment = not_specialized

    @property
    def text(self) -> str:
        """The parameter as the kernel's author writes it, such as `BLOCK: tl.constexpr = 64`."""
        default = f"{' = ' if self.is_constexpr else '='}{self.default!r}" if self.has_default else ""
        return f"{self.name}{': tl.constexpr' if self.is_constexpr else ''}{default}"

    def __repr__(self) -> str:
        return f"KernelParameter({self.num}, {self.name!r})"


def is_constexpr(annotation: Any) -> bool:
    """Whether an *annotation*, or its text, is `tl.constexpr`."""
    if annotation is constexpr:
        return True
    return isinstance(annotation, str) and annotation.replace(" ", "").rpartition(".")[2] == "constexpr"
