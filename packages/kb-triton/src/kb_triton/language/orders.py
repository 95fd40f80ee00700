"""Elements in another order, chosen or counted: flip, gather, sort, topk, histogram; softmax and swizzles."""

from __future__ import annotations

from typing import Any

from kb_triton.language.elementary import exp, fdiv, minimum
from kb_triton.language.memory import as_mask
from kb_triton.language.reductions import axis_of
from kb_triton.language.reductions import max as max_along
from kb_triton.language.reductions import sum as sum_along
from kb_triton.language.shapes import full_handle, reshape, steps_of
from kb_triton.language.tensors.arithmetic import as_tensor, binary, bytes_of, constant_number, refuse_f64
from kb_triton.language.tensors.dtypes import int32
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, provide, tensor
from kb_triton.language.tensors.values import NUMBERS, value_of


def _result(handle: Any, shape: tuple[int, ...], like: tensor) -> tensor:
    return tensor(value_of(handle, like.dtype), shape, like.dtype)


def flip(x: Any, dim: Any = None) -> tensor:
    """The elements in reverse order along *dim*, by default the last axis."""
    given = as_tensor(x)
    at = axis_of(given, -1 if dim is None else dim, "tl.flip")
    if type(given.value) in NUMBERS:
        return given
    return _result(machine().flip(full_handle(given), at), given.shape, given)


def gather(src: Any, index: Any, axis: Any) -> tensor:
    """The elements of *src* at *index* along *axis*."""
    source, places = as_tensor(src), as_tensor(index)
    at = axis_of(source, axis, "tl.gather")
    if places.dtype.is_float or places.rank != source.rank:
        refuse(f"tl.gather of {describe(source)} at {describe(places)}", f"integers with {source.rank} axes")
    if type(source.value) in NUMBERS:
        return tensor(source.value, places.shape, source.dtype)
    handle = machine().gather(full_handle(source), full_handle(places), at)
    return _result(handle, places.shape, source)


def sort(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """The elements in ascending order along *dim*, by default the last axis, or in *descending* order."""
    given = as_tensor(x)
    if given.dtype.is_f64:
        refuse_f64("tl.sort")
    at = axis_of(given, -1 if dim is None else dim, "tl.sort")
    handle = machine().sort(full_handle(given), at, bool(descending))
    return _result(handle, given.shape, given)


def topk(x: Any, k: Any, dim: Any = None, descending: Any = True) -> tensor:
    """The *k* largest elements along *dim*, by default the last axis, the largest first."""
    given, count = as_tensor(x), constant_number(k)
    at = axis_of(given, -1 if dim is None else dim, "tl.topk")
    if at != given.rank - 1 or not isinstance(count, int) or not 0 < count <= given.shape[at]:
        refuse(
            f"tl.topk of {k} elements of {describe(given)} along {dim}",
            "the last axis, and a number of elements that it has",
        )
    shape = (*given.shape[:-1], count)
    if descending:
        return _result(machine().topk(full_handle(given), count), shape, given)
    ordered = machine().sort(full_handle(given), at, False)
    return _result(machine().rearranged([ordered], shape, steps_of(given.shape)), shape, given)


def histogram(input: Any, num_bins: Any, mask: Any = None) -> tensor:  # noqa: A002
    """The number of elements of *input* that are 0, 1, ... *num_bins* - 1, where *mask* is true."""
    given, bins = as_tensor(input), constant_number(num_bins)
    if given.dtype.is_float or not isinstance(bins, int):
        refuse(f"tl.histogram of {describe(given)} in {num_bins!r} bins", "integers, and a tl.constexpr number")
    chosen = None if mask is None else bytes_of(as_mask(mask, "tl.histogram"))
    flat = reshape(given, (given.numel,))
    handle = machine().histogram(full_handle(flat), bins, chosen)
    return tensor(value_of(handle, int32), (bins,), int32)


provide(flip=flip, gather=gather, sort=sort, topk=topk, histogram=histogram)


def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> tensor:
    """The softmax of *x* along *dim*, by default 0."""
    given, axis = as_tensor(x), 0 if dim is None else dim
    powers = exp(given - max_along(given, axis, keep_dims=True))
    return fdiv(powers, sum_along(powers, axis, keep_dims=True))


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Swizzled indices of a row-major matrix of *size_i* x *size_j*: groups of *size_g* rows go column by column."""
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
    """The elements of *x* in order along *dim*; with *k*, the first *k* of them."""
    return sort(x, dim, descending) if k is None else topk(x, k, dim, descending)


def bitonic_merge(x: Any, dim: Any = None, descending: Any = False) -> tensor:
    """Sorts *x*, a bitonic sequence along *dim*, at the cost of `sort`."""
    return sort(x, dim, descending)


provide(softmax=softmax)
