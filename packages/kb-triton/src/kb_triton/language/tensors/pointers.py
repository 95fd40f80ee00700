"""Pointers: elements of host tensors that lie on the chip, at offsets that the kernel knows."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_engine.program import Affine, Completion, Indices, TensorRef, form_of
from kb_messages import DType
from kb_triton.language.tensors.arithmetic import as_tensor, broadcast_shapes
from kb_triton.language.tensors.dtypes import dtype, int64, pointer_type
from kb_triton.language.tensors.program import ChipStorage, machine, refuse
from kb_triton.language.tensors.tensor import describe, elements_of, provide, tensor
from kb_triton.language.tensors.values import INTEGERS, Data

Offset: TypeAlias = "int | Affine | npt.NDArray[np.int64]"


class Pointer(NamedTuple):
    """A pointer argument of a kernel: it points to element *element_offset* of a storage with elements of *dtype*."""

    storage: ChipStorage
    element_offset: int
    dtype: dtype


class Address:
    """The places of a block of pointers: *offset*, in elements of the pointers' type, into *storage*.

    `waits` are the commands in flight that load the data from which the offset was computed.
    """

    __slots__ = ("offset", "storage", "waits")

    def __init__(self, storage: ChipStorage, offset: Offset, waits: tuple[Completion, ...] = ()) -> None:
        self.storage = storage
        self.offset = offset
        self.waits = waits

    def broadcast(self, shape: tuple[int, ...]) -> Address:
        """Returns the same places over *shape*."""
        offset = self.offset
        if isinstance(offset, Affine):
            offset = offset.broadcast(shape)
        elif isinstance(offset, np.ndarray):
            offset = np.broadcast_to(offset, shape)
        return Address(self.storage, offset, self.waits)

    def plus(self, offset: Offset, waits: tuple[Completion, ...]) -> Address:
        """Returns the places *offset* elements further."""
        return Address(self.storage, added(self.offset, offset), self.waits + waits if waits else self.waits)

    def reference(self, kind: dtype, shape: tuple[int, ...]) -> TensorRef:
        """Returns the elements, of type *kind* over *shape*, after a wait for the offset."""
        if self.waits:
            machine().wait_for_each(self.waits)
            self.waits = ()
        chip = self.storage.view(kind.kb)
        offset = self.offset
        where: Affine | npt.NDArray[np.int64]
        if isinstance(offset, np.ndarray):
            where = np.broadcast_to(offset, shape)
        else:
            where = Affine.constant(offset, shape) if isinstance(offset, int) else offset.broadcast(shape)
        n = chip.shape[0]
        return TensorRef(chip, (0, 1), (0, n), indices=Indices((where,), shape, shape, ((0, n),)))


def added(one: Offset, two: Offset) -> Offset:
    """Returns the sum of two offsets."""
    if isinstance(one, int) and isinstance(two, int):
        return one + two
    if isinstance(one, np.ndarray | np.generic) or isinstance(two, np.ndarray | np.generic):
        a, b = (each.data() if isinstance(each, Affine) else each for each in (one, two))
        return np.asarray(a + b)
    first, second = (Affine((), each, ()) if isinstance(each, int) else each for each in (one, two))
    found = form_of(operator.add, first, second)
    assert isinstance(found, Affine)
    return found


def offset_of(x: tensor) -> tuple[Offset, tuple[Completion, ...]]:
    """Returns the integers of *x* as an offset, and the commands they wait for. Pending integers are computed now."""
    value = x.value
    if type(value) in INTEGERS or isinstance(value, Affine):
        return value, ()
    if type(value) is Data:
        return value.array.astype(np.int64), value.waits
    return np.asarray(elements_of(x)).astype(np.int64), ()


def _binary(op: str, x: Any, y: Any) -> tensor:
    """Returns the operator *op* of pointers, or of pointers and integers. Raises KernelError for other operators."""
    x, y = as_tensor(x), as_tensor(y)
    if op in ("eq", "ne", "lt", "le", "gt", "ge"):
        found: tensor = _compared(op, x, y)
        return found
    pointer, other = (x, y) if isinstance(x.dtype, pointer_type) else (y, x)
    if op not in ("add", "sub") or (op == "sub" and pointer is y):
        refuse(f"{op} of {describe(x)} and {describe(y)}", "a pointer plus or minus integers")
    if not other.dtype.is_int() or isinstance(other.dtype, pointer_type):
        refuse(f"a pointer plus {describe(other)}", "a pointer plus or minus integers")
    offset, waits = offset_of(other)
    if op == "sub":
        offset = offset.times(-1) if isinstance(offset, Affine) else -offset
    shape = broadcast_shapes(pointer.shape, other.shape, "pointer +")
    return tensor(pointer.value.plus(offset, waits), shape, pointer.dtype)


def _compared(op: str, x: tensor, y: tensor) -> Any:
    numbers = [as_integers(each) if isinstance(each.dtype, pointer_type) else each for each in (x, y)]
    return getattr(operator, op)(*numbers)


def as_integers(x: tensor) -> tensor:
    """Returns the addresses of pointers as tl.int64. Raises KernelError for pointers into two tensors."""
    address = x.value
    assert isinstance(x.dtype, pointer_type)
    if not isinstance(address, Address):
        refuse("the addresses of pointers that tl.where chose of two tensors", "pointers into one tensor")
    nbytes, base, offset = x.dtype.element_ty.itemsize, address.storage.address, address.offset
    if isinstance(offset, Affine):
        return tensor(offset.times(nbytes).plus(Affine.constant(base, offset.shape)), x.shape, int64)
    if isinstance(offset, np.ndarray):
        return tensor(Data(offset * nbytes + base, DType.I64, None, None, address.waits), x.shape, int64)
    return tensor(offset * nbytes + base, x.shape, int64)


def as_pointers(x: tensor, kind: pointer_type) -> tensor:
    """Returns pointers or integer addresses *x* as pointers of the type *kind*.

    Raises KernelError for an address that no reachable tensor has, and for one within an element.
    """
    nbytes = kind.element_ty.itemsize
    if isinstance(x.dtype, pointer_type):
        address, before = x.value, x.dtype.element_ty.itemsize
        if not isinstance(address, Address):
            refuse("a cast of pointers that tl.where chose of two tensors", "a cast before tl.where")
        return tensor(Address(address.storage, _scaled(address.offset, before, nbytes), address.waits), x.shape, kind)
    if not x.dtype.is_int():
        refuse(f"{describe(x)} as pointers", "integers of tl.int64")
    offset, waits = offset_of(x)
    lowest = offset if isinstance(offset, int) else offset.low if isinstance(offset, Affine) else int(np.min(offset))
    if waits:
        machine().wait_for_each(waits)
    storage = machine().storage_at(lowest)
    if storage is None:
        refuse(f"the address {lowest} as a pointer", "an address of a tensor that the kernel has")
    return tensor(Address(storage, _scaled(added(offset, -storage.address), 1, nbytes)), x.shape, kind)


def _scaled(offset: Offset, before: int, nbytes: int) -> Offset:
    """Returns *offset*, in elements of *before* bytes, in elements of *nbytes* bytes."""
    if before == nbytes:
        return offset
    if isinstance(offset, Affine):
        found = offset.times(before)
        divided = found.floor_div(nbytes)
        if divided is None or divided.times(nbytes) != found:
            refuse(f"a pointer to elements of {nbytes} bytes that is not aligned", "whole elements from the start")
        return divided
    found_at: Any = offset * before
    is_cut = bool(found_at % nbytes) if isinstance(found_at, int) else np.any(found_at % nbytes)
    if is_cut:
        refuse(f"a pointer to elements of {nbytes} bytes that is not aligned", "whole elements from the start")
    result: Offset = found_at // nbytes if isinstance(found_at, int) else np.asarray(found_at // nbytes)
    return result


def pointer_of(argument: Pointer) -> tensor:
    """Returns a pointer argument as a scalar of the kernel."""
    return tensor(Address(argument.storage, argument.element_offset), (), pointer_type(argument.dtype))


def element_type(x: Any, call: str) -> dtype:
    """Returns the type of the elements that *x* points to. Raises KernelError, with *call*, for another object."""
    if not isinstance(x, tensor) or not isinstance(x.dtype, pointer_type):
        refuse(f"{call} of {describe(x)}", "a pointer, or a block of pointers")
    return x.dtype.element_ty


provide(pointer_binary=_binary)


AnyAddress: TypeAlias = "Address | ChosenAddress"


class ChosenAddress:
    """Places in one of two tensors, from `tl.where`: *one* where *chosen*, booleans, is true, and *two* elsewhere.

    A transfer becomes two transfers with masks, one for each tensor.
    """

    __slots__ = ("chosen", "one", "two")

    def __init__(self, chosen: tensor, one: AnyAddress, two: AnyAddress) -> None:
        self.chosen = chosen
        self.one = one
        self.two = two

    def broadcast(self, shape: tuple[int, ...]) -> ChosenAddress:
        """Returns the same places over *shape*."""
        return ChosenAddress(self.chosen, self.one.broadcast(shape), self.two.broadcast(shape))

    def plus(self, offset: Offset, waits: tuple[Completion, ...]) -> ChosenAddress:
        """Returns the places *offset* elements further."""
        return ChosenAddress(self.chosen, self.one.plus(offset, waits), self.two.plus(offset, waits))

    def masks(self, mask: Any) -> tuple[tensor, tensor]:
        """Returns the parts of *mask*, a tensor of booleans, for elements at *one* and for elements at *two*."""
        first: tensor = mask & self.chosen
        second: tensor = mask & ~self.chosen
        return first, second
