"""What the check of a kernel knows of a value: a tensor's type, a constant, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

from kb_triton.checking.refusals import Refusal
from kb_triton.language.tensors.dtypes import (
    block_type,
    dtype,
    float32,
    float64,
    int1,
    int32,
    int64,
    pointer_type,
    uint32,
    uint64,
)

_MOST_ELEMENTS: Final = 1048576
"""The largest block. Source: `TRITON_MAX_TENSOR_NUMEL` of Triton 3.9."""
_LEAST_F32: Final = 2.0**-126
_MOST_F32: Final = (2 - 2.0**-23) * 2.0**127


@dataclass(frozen=True)
class Unknown:
    """A value of which nothing is known, or with *is_tensor* only that it is a tensor. No rule refuses it."""

    is_tensor: bool = False


UNKNOWN: Final = Unknown()
SOME_TENSOR: Final = Unknown(is_tensor=True)


@dataclass(eq=False, slots=True)
class Typed:
    """A tensor: its element type, which may be a pointer, and its shape, () for a scalar.

    Two values are the same value of the program exactly if they are the same object.
    """

    dtype: Any
    shape: tuple[int, ...]

    @property
    def is_block(self) -> bool:
        """Whether the tensor has axes."""
        return bool(self.shape)

    @property
    def is_pointer(self) -> bool:
        """Whether the elements are pointers."""
        return isinstance(self.dtype, pointer_type)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def of(self, kind: Any) -> Typed:
        """Returns a new tensor of this shape with elements of *kind*."""
        return Typed(kind, self.shape)

    def __str__(self) -> str:
        return f"{type_name(self.dtype)}[{', '.join(f'constexpr[{size}]' for size in self.shape)}]"


@dataclass(eq=False, slots=True)
class Constant:
    """A constexpr of Triton with its value."""

    value: Any

    def __str__(self) -> str:
        return f"constexpr[{self.value}]"


@dataclass(eq=False, slots=True)
class Plain:
    """An object of Python that a kernel names and that is no constexpr: a module, a function, a type, or None."""

    value: Any

    def __str__(self) -> str:
        return str(self.value)


@dataclass(eq=False, slots=True)
class Group:
    """A tuple of values; *fields* are the names of a named tuple."""

    values: tuple[Value, ...]
    fields: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return str([str(each) for each in self.values])


@dataclass(eq=False, slots=True)
class Descriptor:
    """A tensor descriptor: the type of its elements and the shape of its blocks."""

    dtype: Any
    block_shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor_descriptor<{block_name(self.dtype, self.block_shape)}>"


@dataclass(eq=False, slots=True)
class Method:
    """The method *name* of the value *owner*."""

    owner: Value
    name: str


Value: TypeAlias = Unknown | Typed | Constant | Plain | Group | Descriptor | Method

CLASSES: Final[dict[type, str]] = {
    Typed: "triton.language.core.tensor",
    Constant: "triton.language.core.constexpr",
    Group: "triton.language.core.tuple",
    Descriptor: "triton.language.core.tensor_descriptor",
}
"""Triton's class for each class of a value of the program."""
_SHORT: Final[dict[type, str]] = {Typed: "tensor", Group: "tuple", Descriptor: "tensor_descriptor"}


def block(kind: Any, shape: Iterable[int]) -> Typed:
    """Returns a new tensor of *kind* and *shape*. Refuses sizes that are no powers of 2, and too many elements."""
    sizes = tuple(shape)
    check_sizes(sizes)
    return Typed(kind, sizes)


def check_sizes(shape: Sequence[Any]) -> None:
    """Refuses a *shape* that no block can have."""
    for at, size in enumerate(shape):
        if not isinstance(size, int):
            raise Refusal(f"Shape element {at} must have type `constexpr[int]`, got `constexpr[{_class_of(size)}]")
        if size <= 0 or size & (size - 1):
            raise Refusal(f"Shape element {at} must be a power of 2")
    if prod(shape) > _MOST_ELEMENTS:
        raise Refusal(f"numel ({prod(shape)}) exceeds triton maximum tensor numel ({_MOST_ELEMENTS})")


def wrapped(value: Any) -> Value:
    """Returns an object of Python as a value of a kernel: a tuple as its elements, any other object as a constant."""
    if isinstance(value, (Unknown, Typed, Constant, Plain, Group, Descriptor, Method)):
        return value
    if isinstance(value, (tuple, list)):
        return Group(tuple(wrapped(each) for each in value), getattr(value, "_fields", None))
    return Constant(value)


def python_of(value: Value) -> Any:
    """Returns the object of Python that *value* stands for: that of a constant or plain object, else *value* itself."""
    return value.value if isinstance(value, (Constant, Plain)) else value


def is_unknown(value: Any) -> bool:
    """Whether *value*, or an element of it, is unknown."""
    if isinstance(value, Group):
        return any(map(is_unknown, value.values))
    if isinstance(value, (tuple, list)):
        return any(map(is_unknown, value))
    return isinstance(value, (Unknown, Method))


def is_number(value: Any) -> bool:
    """Whether *value* is a constant number."""
    return isinstance(value, (Constant, Plain)) and isinstance(value.value, (int, float))


def type_of_constant(value: Any) -> dtype:
    """Returns the type of the scalar that Triton makes of a number of Python. Refuses any other object."""
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for kind, low, high in ((int32, -(1 << 31), 1 << 31), (uint32, 1 << 31, 1 << 32), (int64, -(1 << 63), 1 << 63),
                                (uint64, 1 << 63, 1 << 64)):  # fmt: skip
            if low <= value < high:
                return kind
        raise Refusal(f"Nonrepresentable integer {value}.", ValueError)
    if isinstance(value, float):
        size = abs(value)
        fits = size in (0.0, float("inf")) or value != value or _LEAST_F32 <= size <= _MOST_F32
        return float32 if fits else float64
    raise Refusal(f"cannot convert {value} of type {_class_of(value)} to tensor", TypeError)


def _class_of(value: Any) -> str:
    return f"<class '{CLASSES[type(value)]}'>" if type(value) in CLASSES else str(type(value))


def as_tensor(value: Value) -> Typed | Unknown:
    """Returns *value* as a tensor: a number as a scalar. Refuses what is neither."""
    if isinstance(value, (Typed, Unknown)):
        return value
    if isinstance(value, Method):
        return UNKNOWN
    return Typed(type_of_constant(python_of(value)), ())


def normalized(value: Value) -> Value:
    """Returns *value* as a function gets it: a plain object is a constant there."""
    if isinstance(value, Plain):
        return wrapped(value.value)
    if isinstance(value, Group):
        return Group(tuple(map(normalized, value.values)), value.fields)
    return value


def handles(value: Value) -> tuple[Any, ...]:
    """Returns the values of the running program in *value*, which has none where it is a constant."""
    if isinstance(value, Group):
        return tuple(each for part in value.values for each in handles(part))
    if isinstance(value, Constant):
        return ()
    if isinstance(value, Plain):
        name = type(value.value).__name__
        raise Refusal(f"'{name}' object has no attribute '_flatten_ir'", AttributeError)
    return (value,)


def renewed(value: Value) -> Value:
    """Returns a new value of the type of *value*."""
    if isinstance(value, Typed):
        return Typed(value.dtype, value.shape)
    if isinstance(value, Descriptor):
        return Descriptor(value.dtype, value.block_shape)
    if isinstance(value, Group):
        return Group(tuple(map(renewed, value.values)), value.fields)
    return value


def same_element(one: Any, two: Any) -> bool:
    """Whether two element types are one type. A pointer to constants differs from other pointers."""
    if isinstance(one, pointer_type) != isinstance(two, pointer_type):
        return False
    return one == two and getattr(one, "const", False) == getattr(two, "const", False)


def same_type(one: Value, two: Value) -> bool:
    """Whether *one* and *two* have one type, so that one name can hold either."""
    if type(one) is not type(two):
        return False
    if isinstance(one, Typed) and isinstance(two, Typed):
        return same_element(one.dtype, two.dtype) and one.shape == two.shape
    if isinstance(one, Constant) and isinstance(two, Constant):
        return _same_constant(one.value, two.value)
    if isinstance(one, Group) and isinstance(two, Group):
        pairs = zip(one.values, two.values, strict=False)
        return (
            len(one.values) == len(two.values) and one.fields == two.fields and all(same_type(*each) for each in pairs)
        )
    if isinstance(one, Descriptor) and isinstance(two, Descriptor):
        return same_element(one.dtype, two.dtype) and one.block_shape == two.block_shape
    return True


def _same_constant(one: Any, two: Any) -> bool:
    return one is two or (type(one) is type(two) and bool(one == two))


def type_name(kind: Any) -> str:
    """Returns the name that Triton prints for an element type."""
    if isinstance(kind, pointer_type):
        return f"{'const_' if kind.const else ''}pointer<{type_name(kind.element_ty)}>"
    return str(kind)


def type_repr(kind: Any) -> str:
    """Returns the representation of an element type in Triton's errors, such as `triton.language.float32`."""
    if isinstance(kind, pointer_type):
        return type_name(kind)
    name = kind.name
    return f"triton.language.{name.replace('bf', 'bfloat') if name.startswith('bf') else name.replace('fp', 'float')}"


def block_name(kind: Any, shape: Sequence[int]) -> str:
    """Returns the name that Triton prints for the type of a block, or of a scalar where *shape* is ()."""
    return f"<{[str(size) for size in shape]}, {type_name(kind)}>" if shape else type_name(kind)


def name_of_type(value: Value) -> str:
    """Returns the name that Triton prints for the type of *value*."""
    if isinstance(value, Typed):
        return block_name(value.dtype, value.shape)
    if isinstance(value, Constant):
        return f"constexpr_type[{value.value}]"
    if isinstance(value, Group):
        return f"[{','.join(map(name_of_type, value.values))}]"
    return str(value)


def repr_of_type(value: Typed) -> str:
    """Returns the representation of the type of *value* in Triton's errors."""
    return block_name(value.dtype, value.shape) if value.shape else type_repr(value.dtype)


def class_name(value: Value) -> str:
    """Returns the name of Triton's class for *value*, or of the class of a plain object, without its module."""
    return _SHORT.get(type(value)) or type(python_of(value)).__name__


def type_object(value: Typed) -> Any:
    """Returns `x.type` of *value*: an element type, or the type of a block."""
    return block_type(value.dtype, value.shape) if value.shape else value.dtype
