"""Arguments of a launch, as the kernel sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb_messages import KernelError
from kb_triton.host import TensorDescriptor
from kb_triton.language import Pointer, constexpr, make_tensor_descriptor, pointer_of, tensor
from kb_triton.language.arithmetic import rounded
from kb_triton.language.dtypes import float32, int1
from kb_triton.language.promotion import type_of_number


def check_integers(arguments: Iterable[tuple[str, Any]]) -> None:
    """Raise KernelError, which names the argument, for an integer beyond 64 bits among *arguments*."""
    for name, value in arguments:
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 64:
                raise KernelError(f"argument {name}", _described(value), "one of 64 bits, from -2^63 to 2^64 - 1")
        elif isinstance(value, (tuple, list)):
            check_integers((f"{name}[{number}]", each) for number, each in enumerate(value))


def _described(value: int) -> str:
    """*value* in words. Python writes no integers of thousands of digits."""
    return f"the integer {value}" if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"


def as_argument(value: Any, is_constant: bool) -> Any:
    """*value* in a kernel: a constant as it is, a pointer or a number as a tensor, tuples element by element.

    A descriptor of the host becomes one of the kernel.
    """
    if isinstance(value, Pointer):
        return pointer_of(value)
    if is_constant or value is None:
        return constexpr(value)
    if isinstance(value, bool):
        return tensor(value, (), int1)
    if isinstance(value, int):
        return tensor(int(value), (), type_of_number(int(value)))
    if isinstance(value, float):
        return tensor(rounded(value, float32), (), float32)
    if isinstance(value, TensorDescriptor):
        base = as_argument(value.base, False)
        return make_tensor_descriptor(base, value.shape, value.strides, value.block_shape, value.padding)
    if isinstance(value, (tuple, list)):
        items = [as_argument(each, False) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
