"""Arrays among the arguments of a launch: the pointers that a kernel gets for them, and their text in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import structs

from kb_engine import Tensor
from kb_messages import DType, KernelError
from kb_triton.host.buffers import address_of, is_array
from kb_triton.host.storages import Storages
from kb_triton.language import Pointer
from kb_triton.language.tensors.dtypes import OF_KB, bfloat16, dtype, float8e4nv, float8e5, of_numpy


@dataclass
class TensorDescriptor:
    """A host tensor that kernels load and store in blocks, under the name that Triton gives it.

    *base* is the array, *shape* its sizes and *strides* its strides in elements, and *block_shape* the sizes of a
    block. Elements beyond the shape are loaded as 0, or as NaN with "nan" as *padding*. *round_f32_to_tf32* does
    nothing. Raises KernelError when the lists are not of one length of 1 to 5, or the last stride is not 1.
    """

    base: Any
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not 1 <= rank <= 5 or len(self.strides) != rank or len(self.block_shape) != rank:
            got = f"shape {list(self.shape)}, strides {list(self.strides)} and blocks {list(self.block_shape)}"
            raise KernelError("TensorDescriptor", got, "lists of one length, 1 to 5")
        if self.strides[-1] != 1:
            raise KernelError("TensorDescriptor", f"strides {list(self.strides)}", "a last stride of 1")

    @staticmethod
    def from_tensor(tensor: Any, block_shape: list[int], padding: str = "zero") -> TensorDescriptor:
        """Returns the descriptor of the whole array *tensor*, in its own shape and strides."""
        if callable(getattr(tensor, "stride", None)):
            strides = list(tensor.stride())
        else:
            strides = [each // tensor.itemsize for each in tensor.strides]
        return TensorDescriptor(tensor, list(tensor.shape), strides, list(block_shape), padding)

    def with_base(self, base: Any) -> TensorDescriptor:
        """Returns a descriptor of the same blocks of another *base*."""
        return replace(self, base=base)


class TensorStorage:
    """The bytes of *tensor*, a tensor of a benchmark's host. Kernels see addresses of the chip, not of this process.

    Raises KernelError for a tensor that is cut into blocks, copied or mapped.
    """

    def __init__(self, tensor: Tensor) -> None:
        if len(tensor.addresses) > 1 or len(tensor.addresses[0]) > 1 or tensor.copies or tensor.virtual:
            fix = "leave out blocks=, slices=, shard= and host.map"
            raise KernelError(f"tensor {tensor.name}", "one that is cut, copied or mapped", "a flat tensor", fix)
        self.name = tensor.name
        self.address = tensor.addresses[0][0]
        self.nbytes = tensor.rows * tensor.cols * tensor.dtype.nbytes
        self._tensor = tensor

    def view(self, dtype: DType) -> Tensor:
        """Returns the tensor as elements of *dtype*, in one dimension."""
        count = self.nbytes // dtype.nbytes
        return structs.replace(self._tensor, shape=(count,), dtype=dtype, row_bounds=(0, 1), col_bounds=(0, count))


Named: TypeAlias = "tuple[str, Any]"


_OF_TORCH: Final = {"bfloat16": bfloat16, "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5}
"""Types of torch that numpy has no name for."""


class Reinterpreted:
    """An array whose bytes a kernel takes for elements of another type. `triton.reinterpret` makes it."""

    def __init__(self, base: Any, kind: dtype) -> None:
        self.base = base
        self.dtype = kind
        self.shape = base.shape
        self.device = getattr(base, "device", None)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return address_of(self.base)

    def stride(self, *axis: int) -> Any:
        """The stride of the array along *axis* in elements, or all of its strides."""
        return self.base.stride(*axis)


def is_view(value: object) -> bool:
    """Whether *value* is no array and stands for one: it has `data_ptr()` and `dtype`, as a tensor has."""
    return not is_array(value) and callable(getattr(value, "data_ptr", None)) and hasattr(value, "dtype")


def arrays_in(arguments: Mapping[str, Any]) -> Iterator[Named]:
    """Yields the name of the argument and the array for each array among *arguments*, also for arrays in tuples."""
    for name, value in arguments.items():
        if is_array(value):
            yield name, value
        elif isinstance(value, TensorDescriptor):
            yield from arrays_in({name: value.base})
        elif is_view(value):
            yield name, _viewed(value, name)
        elif isinstance(value, tuple | list):
            yield from arrays_in({f"{name}[{number}]": each for number, each in enumerate(value)})


def with_pointers(value: Any, name: str, storages: Storages) -> Any:
    """Returns *value*, the argument *name*, with pointers into *storages* in place of arrays.

    Raises KernelError for an element type that Triton lacks, and for an array that is not aligned to its elements.
    """
    if is_array(value):
        return _pointer(value, type_of(value, name), name, storages)
    if isinstance(value, Tensor):
        return Pointer(TensorStorage(value), 0, OF_KB[value.dtype])
    if isinstance(value, TensorDescriptor):
        return value.with_base(with_pointers(value.base, name, storages))
    if is_view(value):
        return _pointer(value, type_of(value, name), name, storages)
    if type(value) in (tuple, list):
        return type(value)(with_pointers(each, f"{name}[{number}]", storages) for number, each in enumerate(value))
    if isinstance(value, tuple) and any(map(_has_array, value)):
        items = [with_pointers(each, f"{name}[{number}]", storages) for number, each in enumerate(value)]
        return type(value)._make(items)  # type: ignore[attr-defined]  # a namedtuple
    return value


def type_of(array: Any, name: str = "") -> dtype:
    """Returns Triton's type for the elements of *array*.

    Raises KernelError, which names the argument *name*, for a type that Triton lacks.
    """
    if isinstance(array.dtype, dtype):
        return array.dtype
    shown = str(array.dtype).removeprefix("torch.")
    if isinstance(array, np.ndarray):
        found = of_numpy(array.dtype)
    else:
        found = _torch_type(shown)
    if found is None:
        is_fp8 = shown.startswith("float8")
        needs = "a type that the chip has: float8_e4m3fn and float8_e5m2 of the fp8 types"
        raise KernelError(f"argument {name}", f"an array of {shown}", needs if is_fp8 else "a type that Triton has")
    return found


def shown(value: Any) -> object:
    """Returns *value* as reports show it: an array as its type and shape, a number of numpy as a number of Python."""
    if is_array(value) or is_view(value):
        return f"{type_of(value)}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, TensorDescriptor):
        return f"descriptor of {shown(value.base)} in blocks of {list(value.block_shape)}"
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, np.generic) and not isinstance(plain := value.item(), np.generic):
        return shown(plain)
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, dtype):
        return str(value)
    if isinstance(value, tuple | list):
        return [shown(each) for each in value]
    return getattr(value, "__name__", f"a {type(value).__name__}")


def _pointer(array: Any, kind: dtype, name: str, storages: Storages) -> Pointer:
    address = address_of(array)
    storage = storages.of(address)
    offset, rest = divmod(address - storage.address, kind.itemsize)
    if rest:
        got = f"an array that begins {rest} bytes after a whole element of {kind} of its storage"
        raise KernelError(f"argument {name}", got, "an aligned array", "pass a copy: x.copy()")
    return Pointer(storage, offset, kind)


def _has_array(value: Any) -> bool:
    """Whether *value* is an array, or a tuple with an array at any depth."""
    if isinstance(value, tuple | list):
        return any(map(_has_array, value))
    return is_array(value) or isinstance(value, TensorDescriptor) or is_view(value)


def _viewed(view: Any, name: str) -> Any:
    """Returns the array that *view* stands for. Raises KernelError where no attribute of *view* is an array."""
    found = next(filter(is_array, getattr(view, "__dict__", {}).values()), None)
    if found is None and hasattr(view, "base"):
        found = _viewed(view.base, name)
    if found is None:
        got = f"a {type(view).__name__} with data_ptr() and no array among its attributes"
        raise KernelError(f"argument {name}", got, "an array, or an object that keeps the array it stands for")
    return found


def _torch_type(name: str) -> dtype | None:
    if name in _OF_TORCH:
        return _OF_TORCH[name]
    try:
        return of_numpy(name)
    except TypeError:
        return None
