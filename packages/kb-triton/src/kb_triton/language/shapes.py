"""Shapes: views of blocks, broadcasts, and axes in another order."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from kb_engine.program import Affine, Handle, Known, Transposed
from kb_triton.language.arithmetic import as_tensor, bytes_of
from kb_triton.language.pointers import Address
from kb_triton.language.program import machine, refuse
from kb_triton.language.tensor import describe, provide, tensor
from kb_triton.language.values import FORMS, NUMBERS, Data, as_known


def expand_dims(input: Any, axis: Any) -> tensor:  # noqa: A002
    """*input* with an axis of length 1 more, which becomes number *axis*; several for a tuple."""
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
    key = tuple(None if number == at else slice(None) for number in range(len(shape)))
    if type(value) in FORMS:
        return tensor(value.at(key), shape, x.dtype)
    if isinstance(value, Handle):
        return tensor(machine().with_axis(value, x.rank, at), shape, x.dtype)
    return tensor(_reshaped(value, x.shape, shape), shape, x.dtype)


def _reshaped(value: Any, before: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """*value*, no number, in another *shape* of as many elements; *before* is the shape it is broadcast to."""
    if type(value) is Data:
        array = np.broadcast_to(value.array, before).reshape(shape)
        found = Data(array, value.kind, ("reshape", (value, before, shape)), None, value.waits)
        return found
    if isinstance(value, Address):
        return Address(value.storage, _reshaped_offset(value.offset, before, shape), value.waits)
    if isinstance(value, Affine):
        affine = value.reshaped(shape)
        return affine if affine is not None else Data(value.data().reshape(shape), _kind_of(value))
    if type(value) in FORMS:
        return Data(value.data().reshape(shape), _kind_of(value), ("reshape", (value, before, shape)))
    if isinstance(value, Transposed):
        value = machine().laid_out(value)
    assert isinstance(value, Handle)
    return machine().view(value, before, shape)


def _kind_of(value: Any) -> Any:
    from kb_messages import DType

    return DType.I64 if isinstance(value, Affine) else DType.BOOL


def _reshaped_offset(offset: Any, before: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    if type(offset) is int:
        return offset
    if isinstance(offset, Affine):
        found = offset.broadcast(before).reshaped(shape)
        return offset.broadcast(before).data().reshape(shape) if found is None else found
    return np.broadcast_to(offset, before).reshape(shape)


def laid_out(x: tensor, shape: tuple[int, ...]) -> Any:
    """*x*, which broadcasts to *shape*, as `tl.store` of the chip takes it."""
    value = x.value
    kind = x.dtype.kb
    assert kind is not None
    running = machine()
    if type(value) in NUMBERS:
        sizes = shape if 0 < len(shape) < 3 else (1, prod(shape))
        return running.view(running.full(sizes, value, kind), sizes, shape)
    if type(value) in FORMS:
        return as_known(value, shape, running.line)
    if isinstance(value, Transposed) and value.shape == shape:
        return value
    handle = bytes_of(x)
    if isinstance(handle, Known):
        return handle
    return running.spread(handle, x.shape, shape)


def broadcast_to(input: Any, *shape: Any) -> tensor:  # noqa: A002
    """*input* repeated over *shape*."""
    x, sizes = as_tensor(input), shape_of(shape)
    if np.broadcast_shapes(x.shape, sizes) != sizes:
        refuse(f"tl.broadcast_to of {describe(x)} to {' x '.join(map(str, sizes))}", "a shape that it broadcasts to")
    value = x.value
    if type(value) in FORMS or isinstance(value, Address):
        value = value.broadcast(sizes)
    elif type(value) is not Data and type(value) not in NUMBERS and len(x.shape) != len(sizes):
        value = _reshaped(value, x.shape, (1,) * (len(sizes) - len(x.shape)) + x.shape)
    return tensor(value, sizes, x.dtype)


def shape_of(given: Any) -> tuple[int, ...]:
    """A shape as a kernel writes it: numbers one by one, or a tuple of them."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    return tuple(int(each) for each in sizes)


provide(expand_dims=expand_dims, broadcast_to=broadcast_to)
