"""The allocations behind numpy arrays and CPU torch tensors: where each lies in this process, and how long it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from ctypes import c_uint8
from typing import Any, Final, NamedTuple, TypeGuard
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from kb_messages import KernelError


class HostBuffer(NamedTuple):
    """One allocation of this process: bytes [`address`, `end`). `owner` keeps it alive."""

    address: int
    end: int
    is_writeable: bool
    owner: object

    def as_bytes(self) -> npt.NDArray[np.uint8]:
        """Returns an array of uint8 over the same memory. A write to one of the two arrays changes the other."""
        return np.ctypeslib.as_array((c_uint8 * (self.end - self.address)).from_address(self.address))


def is_array(value: object) -> bool:
    """Whether *value* is a numpy array or a torch tensor."""
    return isinstance(value, np.ndarray) or is_torch_tensor(value)


def is_torch_tensor(value: object) -> bool:
    """Whether *value* is a torch tensor. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def address_of(array: Any) -> int:
    """Returns the address, in this process, of the first element of a numpy array or a torch tensor."""
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(array.data_ptr())


def address(array: Any) -> int:
    """Returns the address of the first element of *array*, for an array of addresses that a kernel loads.

    A kernel can reach a numpy array by its address only after this call, because Python has no list of numpy arrays.
    Tensors of torch are found without it.
    """
    if _is_numpy(array):
        root = _root(array)
        _NUMPY[id(root)] = root
    return address_of(array)


def buffer_of(array: Any, name: str) -> HostBuffer:
    """Returns the allocation that a numpy array or a torch tensor is a view of.

    Raises KernelError, which names the argument *name*, for a tensor whose bytes are not in the memory of this process.
    """
    if _is_numpy(array):
        return _numpy_buffer(array)
    device = _device_of(array)
    if device != "cpu" or str(array.layout) != "torch.strided":
        got = f"a tensor on {device} of layout {str(array.layout).removeprefix('torch.')}"
        raise KernelError(f"argument {name}", got, "a dense tensor on the CPU", "make it with device='cpu'")
    storage = array.untyped_storage()
    address = int(storage.data_ptr())
    return HostBuffer(address, address + int(storage.nbytes()), True, storage)


def expanded(array: Any, name: str) -> str:
    """Returns a hint for errors where several elements of *array* share memory, as after `expand`; "" otherwise.

    The hint names *name*, the argument, and the call that copies it.
    """
    steps = array.strides if _is_numpy(array) else array.stride()
    if not any(step == 0 and size > 1 for step, size in zip(steps, array.shape, strict=True)):
        return ""
    way = f"{name}.copy()" if _is_numpy(array) else f"{name}.contiguous()"
    return f" (an expanded array, so elements share memory: pass {way})"


def live_buffers() -> Iterator[HostBuffer]:
    """Yields allocations of this process that a kernel may reach by an address.

    They are the numpy arrays that `address` has seen, and all dense torch tensors on the CPU.
    """
    for array in list(_NUMPY.values()):
        yield _numpy_buffer(array)
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for each in gc.get_objects():
        if issubclass(type(each), torch.Tensor) and _device_of(each) == "cpu" and each.layout is torch.strided:
            yield buffer_of(each, "")


def _device_of(tensor: Any) -> str:
    """Returns the type of the device of *tensor*, without the modes of torch that change its answer."""
    with sys.modules["torch"]._C.DisableTorchFunction():
        return str(tensor.device.type)


def _is_numpy(array: object) -> TypeGuard[npt.NDArray[Any]]:
    return isinstance(array, np.ndarray)


_NUMPY: Final = WeakValueDictionary[int, Any]()
"""Allocations of numpy that `address` has seen, by id."""


def _root(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the array that owns the memory of *array*: *array* itself where it is no view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _numpy_buffer(array: npt.NDArray[Any]) -> HostBuffer:
    root, is_writeable = _root(array), bool(array.flags.writeable)
    while array is not root and isinstance(array.base, np.ndarray):
        array = array.base
        is_writeable = is_writeable or bool(array.flags.writeable)
    start = int(root.ctypes.data)
    if not root.size:
        return HostBuffer(start, start, is_writeable, root)
    reach = [stride * (count - 1) for stride, count in zip(root.strides, root.shape, strict=True)]
    low = start + sum(each for each in reach if each < 0)
    high = start + sum(each for each in reach if each > 0) + root.itemsize
    return HostBuffer(low, high, is_writeable, root)
