"""What Triton writes in its own language: softmax, swizzles, sorts."""

from __future__ import annotations

from typing import Any

from kb_triton.language.arithmetic import as_tensor, binary
from kb_triton.language.elementary import exp, fdiv, minimum
from kb_triton.language.orders import sort, topk
from kb_triton.language.reductions import max as max_along
from kb_triton.language.reductions import sum as sum_along
from kb_triton.language.tensor import provide, tensor


def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> tensor:
    """The softmax of *x* along *dim*, by default 0."""
    given, axis = as_tensor(x), 0 if dim is None else dim
    powers = exp(given - max_along(given, axis, keep_dims=True))
    return fdiv(powers, sum_along(powers, axis, keep_dims=True))


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """The indices of a row-major matrix of *size_i* x *size_j*, in groups of *size_g* rows that go column by column."""
    number = as_tensor(i) * size_j + j
    size_gj = as_tensor(size_g) * size_j
    group = number // size_gj
    first = group * size_g
    rows = minimum(binary("sub", as_tensor(size_i), first), size_g)
    inside = number % size_gj
    return first + inside % rows, inside // rows


def _log2(i: Any) -> int:
    """The logarithm of a power of two."""
    return int(i).bit_length() - 1


def sort_impl(x: Any, k: Any = None, dim: Any = None, descending: Any = False) -> tensor:
    """The elements of *x* in order along *dim*; with *k*, only so many of them."""
    return sort(x, dim, descending) if k is None else topk(x, k, dim, descending)


def bitonic_merge(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """The elements of *x*, which rise and then fall along *dim*, in order. It costs what `sort` costs."""
    return sort(x, dim, descending)


provide(softmax=softmax)
