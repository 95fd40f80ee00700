"""Calls of functions of `tl` in a kernel: which rule a function has, and the binding of arguments to the rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from kb_triton import language
from kb_triton.checking.values import SOME_TENSOR, UNKNOWN, Value
from kb_triton.checking.whole_check import WholeCheck

RULES: Final[dict[str, Callable[..., Any]]] = {}
"""The rule of each function, by its name in `tl`."""


_TENSORS: Final = frozenset(
    (
        "abs", "arange", "argmax", "argmin", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min",
        "atomic_or", "atomic_xchg", "atomic_xor", "broadcast_to", "cast", "ceil", "clamp", "cos", "cumprod", "cumsum",
        "div_rn", "dot", "dot_scaled", "erf", "exp", "exp2", "expand_dims", "fdiv", "flip", "floor", "fma", "full",
        "full_like", "gather", "histogram", "interleave", "join", "load", "log", "log2", "maximum", "minimum",
        "num_programs", "permute", "program_id", "rand", "randint", "randn", "ravel", "reshape", "rsqrt", "sigmoid",
        "sin", "softmax", "sort", "sqrt", "sqrt_rn", "sum", "to_tensor", "topk", "trans", "umulhi", "view", "where",
        "xor_sum", "zeros", "zeros_like",
    )
)  # fmt: skip
"""Functions whose result is a tensor, whatever their arguments are."""


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    """Returns the names of the functions of `tl`, by the ids of the functions."""
    return {id(getattr(language, name)): name for name in language.__all__ if callable(getattr(language, name))}


def name_of(function: Any) -> str | None:
    """Returns the name of a function of `tl`; None for any other object."""
    return _names().get(id(function))


def is_method(name: str) -> bool:
    """Whether tensors have the method *name*."""
    return name in _TENSORS


def call_of_tl(
    name: str,
    arguments: Sequence[Value],
    named: Mapping[str, Value],
    check: WholeCheck,
    is_a_method: bool = False,
) -> Value:
    """Returns the value of `tl.NAME(...)`, or with *is_a_method* of the method of the first of *arguments*."""
    return SOME_TENSOR if name in _TENSORS else UNKNOWN
