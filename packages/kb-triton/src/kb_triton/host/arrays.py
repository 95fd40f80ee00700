"""Arguments of a launch that have arrays: what a kernel gets for them, and how reports show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from kb_engine import Tensor
from kb_messages import KernelError
from kb_triton.host.buffers import address_of, is_array
from kb_triton.host.storages import Storages
from kb_triton.host.tensor_descriptor import TensorDescriptor
from kb_triton.host.tensor_storage import TensorStorage
from kb_triton.language import Pointer
from kb_triton.language.dtypes import OF_KB, bfloat16, dtype, float8e4nv, float8e5, of_numpy

Named: TypeAlias = "tuple[str, Any]"


_OF_TORCH: Final = {"bfloat16": bfloat16, "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5}
"""Types of torch that numpy has no name for."""


class Reinterpreted:
    """An array whose elements a kernel takes for those of another type. `triton.reinterpret` makes it."""

    def __init__(self, base: Any, kind: dtype) -> None:
        self.base = base
        self.dtype = kind
        self.shape = base.shape
        self.device = getattr(base, "device", None)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return address_of(self.base)

    def stride(self, *axis: int) -> Any:
        """As that of the array."""
        return self.base.stride(*axis)


def is_view(value: object) -> bool:
    """Whether *value* stands for elements of an array: it says `data_ptr()` and `dtype`, as a tensor does."""
    return not is_array(value) and callable(getattr(value, "data_ptr", None)) and hasattr(value, "dtype")


def arrays_in(arguments: Mapping[str, Any]) -> Iterator[Named]:
    """Every array among *arguments*, after the name of its argument."""
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
    """*value*, the argument *name*, with pointers in place of arrays. Raises KernelError for a type without name."""
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
    """Triton's type for the elements of *array*. Raises KernelError, which says *name*, for one that Triton lacks."""
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
    """*value* as reports show it: an array by type and shape, a number or text as it is, one of numpy as Python's."""
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
    return is_array(value) or isinstance(value, TensorDescriptor) or is_view(value)


def _viewed(view: Any, name: str) -> Any:
    """The array that *view* stands for elements of. Raises KernelError where *view* does not have the array."""
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
