"""Blocks: how a kernel makes them, and views, broadcasts and joins of them."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from kb_engine.program import Affine, HalfSpace, Handle, HostValue, IndexBox, plain
from kb_messages import DType
from kb_triton.language.tensors.arithmetic import (
    as_tensor,
    broadcast_shapes,
    bytes_of,
    constant_number,
    plain_number,
    refuse_f64,
    rounded,
    stored_number,
)
from kb_triton.language.tensors.casts import cast, element_type_of
from kb_triton.language.tensors.dtypes import int32
from kb_triton.language.tensors.pointers import Address, ChosenAddress
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, provide, tensor
from kb_triton.language.tensors.values import FORMS, NUMBERS, Data, Turned, as_argument, as_known, value_of


def shape_of(given: Any) -> tuple[int, ...]:
    """Returns the shape *given*, numbers one by one or one tuple of numbers. Raises KernelError for other sizes."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    found: list[Any] = [constant_number(each) for each in sizes]
    if not all(isinstance(each, int) and each > 0 for each in found):
        refuse(f"the shape {sizes}", "tl.constexpr integers of at least 1")
    return tuple(found)


def times(shape: tuple[int, ...]) -> str:
    """Describes a shape in words."""
    return " x ".join(map(str, shape)) or "a scalar"


def expand_dims(input: Any, axis: Any) -> tensor:  # noqa: A002
    """Returns *input* with a new axis of length 1 at number *axis*; several axes for a tuple."""
    x = as_tensor(input)
    if isinstance(axis, (tuple, list)):
        for each in sorted(int(one) % (x.rank + len(axis)) for one in axis):
            x = expand_dims(x, each)
        return x
    at = int(axis) % (x.rank + 1)
    shape = (*x.shape[:at], 1, *x.shape[at:])
    value = x.value
    if type(value) in NUMBERS:
        return tensor(value, shape, x.dtype)
    if type(value) in FORMS:
        key = tuple(None if number == at else slice(None) for number in range(len(shape)))
        return tensor(value.at(key), shape, x.dtype)
    if isinstance(value, Handle):
        return tensor(machine().with_axis(value, x.rank, at), shape, x.dtype)
    return tensor(_reshaped(value, x.shape, shape), shape, x.dtype)


def _reshaped(value: Any, before: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """Returns *value*, which stands for a block of shape *before*, in another *shape* of as many elements."""
    if type(value) in NUMBERS:
        return value
    if type(value) is Data:
        array = np.broadcast_to(value.array, before).reshape(shape)
        return Data(array, value.kind, partial(_viewed, value, before, shape), None, value.waits)
    if isinstance(value, Address):
        return Address(value.storage, _reshaped_offset(value.offset, before, shape), value.waits)
    if isinstance(value, ChosenAddress):
        chosen = reshape(broadcast_to(value.chosen, before), shape)
        return ChosenAddress(chosen, _reshaped(value.one, before, shape), _reshaped(value.two, before, shape))
    if isinstance(value, Affine) and (affine := value.reshaped(shape)) is not None:
        return affine
    if type(value) in FORMS:
        kind = DType.I64 if isinstance(value, Affine) else DType.BOOL
        return Data(value.data().reshape(shape), kind, partial(_viewed, value, before, shape))
    return _viewed(value, before, shape)


def _viewed(value: Any, before: tuple[int, ...], shape: tuple[int, ...]) -> Handle:
    running, source = machine(), as_argument(value)
    if isinstance(source, HostValue):
        source = running.math("copy", [source], DType.BOOL if source.is_mask else DType.I64)
    return running.view(source, before, shape)


def _reshaped_offset(offset: Any, before: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if isinstance(offset, int):
        return offset
    if isinstance(offset, Affine):
        found = offset.broadcast(before).reshaped(shape)
        return offset.broadcast(before).data().reshape(shape) if found is None else found
    return np.broadcast_to(offset, before).reshape(shape)


def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> tensor:  # noqa: A002
    """Returns *input* in another shape of as many elements, row by row. One size may be -1.

    Raises KernelError for a shape with another number of elements.
    """
    x, given = as_tensor(input), shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    sizes = list(given)
    if sizes.count(-1) == 1:
        rest = prod(int(each) for each in sizes if each != -1)
        sizes[sizes.index(-1)] = x.numel // (rest or 1)
    wanted = shape_of((tuple(sizes),)) if sizes else ()
    if prod(wanted) != x.numel:
        refuse(f"tl.reshape of {describe(x)} to {times(wanted)}", f"a shape of {x.numel} elements")
    return x if wanted == x.shape else tensor(_reshaped(x.value, x.shape, wanted), wanted, x.dtype)


def view(input: Any, *shape: Any) -> tensor:  # noqa: A002
    """Returns *input* in another shape of as many elements, row by row: another name of `reshape`."""
    return reshape(input, *shape)


def ravel(x: Any, can_reorder: Any = False) -> tensor:
    """Returns *x* as a vector, row by row."""
    given = as_tensor(x)
    return reshape(given, (given.numel,))


def squeeze(x: Any, dim: Any) -> tensor:
    """Returns *x* without its axis *dim*, of length 1."""
    given = as_tensor(x)
    at = int(dim) % given.rank
    return reshape(given, (*given.shape[:at], *given.shape[at + 1 :]))


def unsqueeze(x: Any, dim: Any) -> tensor:
    """Returns *x* with a new axis of length 1 at number *dim*: another name of `expand_dims`."""
    return expand_dims(x, dim)


def full_handle(x: tensor) -> Handle:
    """Returns a handle of all elements of *x*, in its shape."""
    running, kind = machine(), x.dtype.kb
    if type(x.value) in NUMBERS:
        return running.full(x.shape, stored_number(plain(x.value), x.dtype), kind)
    handle = bytes_of(x)
    if isinstance(handle, HostValue):
        handle = running.math("copy", [handle.broadcast_to(x.shape)], kind)
    assert isinstance(handle, Handle)
    return running.spread(handle, x.shape, x.shape)


def laid_out(x: tensor, shape: tuple[int, ...]) -> Any:
    """Returns *x*, which broadcasts to *shape*, as the operand of a store of the chip."""
    value, running = x.value, machine()
    if type(value) in FORMS:
        return as_known(value, shape, running.line)
    if type(value) is Turned and value.shape == shape:
        return value.factor
    return full_handle(x if x.shape == shape else broadcast_to(x, shape))


def broadcast_to(input: Any, *shape: Any) -> tensor:  # noqa: A002
    """Returns *input* repeated over *shape*. Raises KernelError where *input* does not broadcast to it."""
    x, sizes = as_tensor(input), shape_of(shape) if shape != ((),) else ()
    if x.shape == sizes:
        return x
    if len(x.shape) > len(sizes) or any(
        n not in (1, size) for n, size in zip(x.shape[::-1], sizes[::-1], strict=False)
    ):
        refuse(f"tl.broadcast_to of {describe(x)} to {times(sizes)}", "a shape that it broadcasts to")
    value = x.value
    if type(value) in FORMS or isinstance(value, (Address, ChosenAddress)):
        value = value.broadcast(sizes)
    return tensor(value, sizes, x.dtype)


def broadcast(input: Any, other: Any) -> tuple[tensor, tensor]:  # noqa: A002
    """Returns both blocks, repeated over the shape that they broadcast to."""
    one, two = as_tensor(input), as_tensor(other)
    shape = broadcast_shapes(one.shape, two.shape, "tl.broadcast")
    return broadcast_to(one, shape), broadcast_to(two, shape)


def steps_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides in elements of a row-major block of *shape*."""
    return tuple(prod(shape[at + 1 :]) for at in range(len(shape)))


def stacked(x: tensor, y: tensor, axis: int) -> tensor:
    """Returns two blocks of one shape and type along a new *axis* of length 2."""
    shape, steps = (*x.shape[:axis], 2, *x.shape[axis:]), steps_of(x.shape)
    strides = (*steps[:axis], x.numel, *steps[axis:])
    handle = machine().rearranged([full_handle(x), full_handle(y)], shape, strides)
    return tensor(value_of(handle, x.dtype), shape, x.dtype)


def picked(x: tensor, axis: int, number: int, step: int) -> tensor:
    """Returns the elements of *x* at *number*, *number* + *step* and so on along *axis*."""
    shape, steps = (*x.shape[:axis], x.shape[axis] // step, *x.shape[axis + 1 :]), steps_of(x.shape)
    if type(x.value) in NUMBERS:
        return tensor(x.value, shape, x.dtype)
    strides = (*steps[:axis], steps[axis] * step, *steps[axis + 1 :])
    handle = machine().rearranged([full_handle(x)], shape, strides, number * steps[axis])
    return tensor(value_of(handle, x.dtype), shape, x.dtype)


def _pair(a: Any, b: Any, call: str) -> tuple[tensor, tensor]:
    one, two = as_tensor(a), as_tensor(b)
    if one.dtype != two.dtype:
        refuse(f"{call} of {one.dtype} and {two.dtype}", "blocks of one type")
    return (one, two) if one.shape == two.shape else broadcast(one, two)


def join(a: Any, b: Any) -> tensor:
    """Returns both blocks along a new last axis of length 2."""
    one, two = _pair(a, b, "tl.join")
    return stacked(one, two, one.rank)


def interleave(a: Any, b: Any) -> tensor:
    """Returns the elements of both blocks in turn, along the last axis."""
    found = join(a, b)
    return found if found.rank == 1 else reshape(found, (*found.shape[:-2], 2 * found.shape[-2]))


def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> tensor:  # noqa: A002
    """Returns *input* followed by *other* along axis *dim*."""
    one, two = _pair(input, other, "tl.cat")
    if not one.rank:
        return join(one, two)
    at = int(dim) % one.rank
    found = stacked(one, two, at)
    return reshape(found, (*found.shape[:at], 2 * found.shape[at + 1], *found.shape[at + 2 :]))


def split(a: Any) -> tuple[tensor, tensor]:
    """Returns the two halves of a block along its last axis, of length 2."""
    x = as_tensor(a)
    if not x.rank or x.shape[-1] != 2:
        refuse(f"tl.split of {describe(x)}", "a block whose last axis has length 2")
    first, second = (reshape(picked(x, x.rank - 1, number, 2), x.shape[:-1]) for number in (0, 1))
    return first, second


def permute(input: Any, *dims: Any) -> tensor:  # noqa: A002
    """Returns *input* with its axes in another order: axis i of the result is axis `dims[i]` of *input*."""
    x = as_tensor(input)
    order = shape_of_axes(dims, x)
    shape = tuple(x.shape[each] for each in order)
    value = x.value
    if order == tuple(range(x.rank)) or type(value) in NUMBERS:
        return tensor(value, shape, x.dtype)
    return tensor(_permuted(value, x, order, shape), shape, x.dtype)


def _permuted(value: Any, x: tensor, order: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if isinstance(value, (Affine, IndexBox, HalfSpace)):
        return value.transposed(order)
    if type(value) is Data:
        array = np.broadcast_to(value.array, x.shape).transpose(order)
        return Data(array, value.kind, partial(_permuted_bytes, value, x, order), None, value.waits)
    if isinstance(value, Address):
        offset = value.broadcast(x.shape).offset
        if not isinstance(offset, int):
            offset = offset.transposed(order) if isinstance(offset, Affine) else offset.transpose(order)
        return Address(value.storage, offset, value.waits)
    if isinstance(value, ChosenAddress):
        chosen = permute(broadcast_to(value.chosen, x.shape), order)
        return ChosenAddress(chosen, _permuted(value.one, x, order, shape), _permuted(value.two, x, order, shape))
    if type(value) is Turned:
        return value.factor.of
    handle = value if isinstance(value, Handle) and value.shape == x.shape else full_handle(x)
    if [axis for axis in order if x.shape[axis] > 1] == [axis for axis, n in enumerate(x.shape) if n > 1]:
        return handle.reshape(shape)
    return Turned(handle.T) if order == (1, 0) else machine().in_order(handle, order)


def _permuted_bytes(value: Data, x: tensor, order: tuple[int, ...]) -> Handle:
    return machine().in_order(full_handle(x), order)


def shape_of_axes(dims: Any, x: tensor) -> tuple[int, ...]:
    """Returns the order of axes *dims* with numbers from 0. Raises KernelError unless it has each axis once."""
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = tuple(int(each) % max(x.rank, 1) for each in given)
    if sorted(order) != list(range(x.rank)):
        refuse(f"the axes {tuple(given)} of {describe(x)}", f"each of its {x.rank} axes once")
    return order


def trans(input: Any, *dims: Any) -> tensor:  # noqa: A002
    """Returns *input* with its last two axes exchanged, or with its axes in the order *dims*."""
    x = as_tensor(input)
    if dims:
        return permute(x, *dims)
    if x.rank < 2:
        refuse(f"tl.trans of {describe(x)}", "a block of two axes at least")
    return permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def item(x: Any) -> tensor:
    """Returns the one element of *x* as a scalar. Raises KernelError for several elements."""
    given = as_tensor(x)
    if given.numel != 1:
        refuse(f"item() of {describe(given)}", "a block of one element", "use tl.sum, tl.max or tl.gather")
    return given if not given.shape else reshape(given, ())


provide(
    item=item, expand_dims=expand_dims, broadcast_to=broadcast_to, reshape=reshape, view=view, ravel=ravel, trans=trans,
    permute=permute, split=split, join=join,
)  # fmt: skip


def program_id(axis: Any) -> tensor:
    """Returns the program's number along *axis* of the grid."""
    return tensor(machine().program_id(int(axis)), (), int32)


def num_programs(axis: Any) -> tensor:
    """Returns the number of programs along *axis* of the grid."""
    return tensor(machine().num_programs(int(axis)), (), int32)


def arange(start: Any, end: Any) -> tensor:
    """Returns the integers from *start* to *end* - 1.

    Raises KernelError for bounds that are no constants, and, as Triton does, unless their number is a power of two.
    """
    first, last = constant_number(start), constant_number(end)
    if not isinstance(first, int) or not isinstance(last, int):
        refuse(
            f"tl.arange from {describe(start)} to {describe(end)}",
            "two integers of Python or of parameters that are tl.constexpr",
        )
    count = plain(last - first)
    if count < 1 or count & (count - 1):
        refuse(f"tl.arange from {first} to {last}", "a number of integers that is a power of two")
    return tensor(Affine((count,), first, (1,)) if count > 1 else first, (count,), int32)


def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """Returns a block whose elements are all *value*, a number or a scalar."""
    sizes, kind = shape_of((shape,)), element_type_of(dtype)
    if isinstance(value, tensor):
        given = cast(value, kind)
        if given.shape and given.numel > 1:
            refuse(f"tl.full of {describe(value)}", "a scalar")
        if type(given.value) in NUMBERS:
            return tensor(given.value, sizes, kind)
        return broadcast_to(given, sizes)
    number = plain_number(value)
    if number is None:
        refuse(f"tl.full of {describe(value)}", "a number or a scalar")
    if kind.is_f64:
        refuse_f64("tl.full")
    return tensor(rounded(number, kind), sizes, kind)


def zeros(shape: Any, dtype: Any) -> tensor:
    """Returns a block of zeros."""
    return full(shape, 0, dtype)


def zeros_like(input: Any) -> tensor:  # noqa: A002
    """Returns a block of zeros with the shape and type of *input*."""
    x = as_tensor(input)
    return tensor(rounded(0, x.dtype), x.shape, x.dtype)


def full_like(input: Any, value: Any) -> tensor:  # noqa: A002
    """Returns a block with the shape and type of *input* whose elements are all *value*."""
    x = as_tensor(input)
    return full(x.shape, value, x.dtype)
