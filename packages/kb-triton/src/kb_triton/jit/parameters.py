"""The parameters of a kernel, as decorators of others ask for them, and arguments that do not fit them."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any

from kb_messages import KernelError
from kb_topology import did_you_mean
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


class UnknownArgumentError(KernelError):
    """A launch has arguments that the kernel has no parameters for. `names` are theirs."""

    names: tuple[str, ...] = ()


def misfit(
    kernel: str,
    params: Sequence[KernelParameter],
    n_given: int,
    named: Collection[str],
    options: Collection[str],
    why: str,
) -> KernelError:
    """The error of a launch of *kernel*, whose *params* do not take *n_given* arguments and the *named* ones.

    *why* is what Python says. Python speaks of a missing argument also where its name is misspelt.
    """
    where, needs = f"launch of {kernel}", f"those of {kernel}({', '.join(each.text for each in params)})"
    known = {each.name for each in params}
    unknown = tuple(name for name in named if name not in known)
    if not unknown:
        return KernelError(where, f"arguments that do not fit ({why})", needs)
    free = [each.name for each in params[n_given:] if each.name not in named]
    fixes = (did_you_mean(each, names) for each in unknown for names in (free, known, options if len(each) > 2 else ()))
    got = f"{'the unknown argument' if len(unknown) == 1 else 'the unknown arguments'} {', '.join(unknown)}"
    error = UnknownArgumentError(where, got, needs, next(filter(None, fixes), ""))
    error.names = unknown
    return error
