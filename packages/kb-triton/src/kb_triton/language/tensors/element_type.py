"""Element types of Triton, by name: their facts, their chip types, and what host code and kernels ask of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from kb_messages import DType
from kb_topology import did_you_mean
from kb_triton.language.tensors.program import refuse

_SIGNED: Final = ("int8", "int16", "int32", "int64")
_UNSIGNED: Final = ("int1", "uint8", "uint16", "uint32", "uint64")
_FLOATS: Final = {
    "fp8e4b15": (None, 3, 15), "fp8e4nv": (DType.F8E4M3, 3, 7), "fp8e4b8": (None, 3, 8),
    "fp8e5": (DType.F8E5M2, 2, 15), "fp8e5b16": (None, 2, 16), "fp16": (DType.F16, 10, 15),
    "bf16": (DType.BF16, 7, 127), "fp32": (DType.F32, 23, 127), "fp64": (DType.U64, 52, 1023),
}  # fmt: skip
"""The chip's type, the bits of the mantissa and the bias of the exponent, by name. Source: semantics of Triton's types,
triton-lang.org."""


_NAMES: Final = (*_SIGNED, *_UNSIGNED, *_FLOATS, "void")


class Kind(Enum):
    """What the elements of a type are, in the order in which they decide the type of a result."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2


class Signedness(Enum):
    """Whether an integer type has negative numbers."""

    SIGNED = 0
    UNSIGNED = 1


_KINDS: Final = {
    "bool": Kind.BOOLEAN, "int": Kind.INTEGRAL, "uint": Kind.INTEGRAL, "float": Kind.FLOATING,
}  # fmt: skip
_MADE: Final[dict[str, dtype]] = {}
"""The types that were asked for, by name."""
_OF_THE_COMPILER: Final = dict.fromkeys(
    ("to_ir", "_flatten_ir_types", "_unflatten_ir"), ": it belongs to Triton's compiler, and nothing is compiled here"
)


class dtype:
    """The element type of Triton that is called *name*, such as `fp16`. Equal names give the same object.

    `family` is "float", "int", "uint", "bool" or "void". Raises KernelError for a name that is no type of Triton.
    """

    KIND = Kind
    SIGNEDNESS = Signedness
    SINT_TYPES = _SIGNED
    UINT_TYPES = _UNSIGNED
    FP_TYPES = tuple(_FLOATS)
    STANDARD_FP_TYPES = ("fp16", "bf16", "fp32", "fp64")
    OTHER_TYPES = ("void",)

    name: str
    family: str
    primitive_bitwidth: int
    int_bitwidth: int
    int_signedness: Signedness
    fp_mantissa_width: int
    exponent_bias: int

    def __new__(cls, name: Any) -> dtype:
        """Returns the one object of the type."""
        text = str(getattr(name, "value", name))
        found = _MADE.get(text)
        if found is None:
            if not cls.is_dtype(text):
                refuse(f"tl.dtype({text!r})", f"one of {', '.join(_NAMES)}", did_you_mean(text, _NAMES))
            found = _MADE[text] = super().__new__(cls)
            found._set(text, *_facts_of(text))
            if text in _FLOATS:
                _, found.fp_mantissa_width, found.exponent_bias = _FLOATS[text]
            elif found.is_int():
                found.int_signedness = Signedness.SIGNED if found.is_int_signed() else Signedness.UNSIGNED
        return found

    def _set(self, name: str, family: str, bits: int, kb: DType | None = None) -> None:
        self.name = name
        self.family = family
        self.primitive_bitwidth = self.int_bitwidth = bits
        self._kb = kb

    def __reduce__(self) -> Any:
        return dtype, (self.name,)

    @property
    def kb(self) -> DType:
        """The chip's type for the bytes. Raises KernelError for a type that the chip does not have."""
        if self._kb is None:
            refuse(f"elements of {self}", "a type that the chip has: tl.float8e4nv and tl.float8e5 of the fp8 types")
        return self._kb

    @property
    def is_of_chip(self) -> bool:
        """Whether the chip has the type."""
        return self._kb is not None

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.primitive_bitwidth // 8 or 1

    @property
    def scalar(self) -> dtype:
        """The type of one element: the type itself."""
        return self

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.family == "float"

    @property
    def is_f64(self) -> bool:
        """Whether it is float64, which the chip only stores and moves."""
        return self.name == "fp64"

    def is_floating(self) -> bool:
        """Whether it is a floating-point type."""
        return self.family == "float"

    def is_fp8(self) -> bool:
        """Whether it is a float of 8 bits."""
        return self.family == "float" and self.primitive_bitwidth == 8

    def is_fp16(self) -> bool:
        """Whether it is float16."""
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        """Whether it is bfloat16."""
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        """Whether it is float32."""
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        """Whether it is float64."""
        return self.is_f64

    def is_standard_floating(self) -> bool:
        """Whether it is float16, bfloat16, float32 or float64."""
        return self.family == "float" and self.primitive_bitwidth > 8

    def is_int(self) -> bool:
        """Whether it is an integer type; int1 is one."""
        return self.family in ("int", "uint", "bool")

    def is_int_signed(self) -> bool:
        """Whether it is a signed integer type."""
        return self.family == "int"

    def is_int_unsigned(self) -> bool:
        """Whether it is an unsigned integer type."""
        return self.family in ("uint", "bool")

    def is_bool(self) -> bool:
        """Whether it is int1."""
        return self.family == "bool"

    def __getattr__(self, name: str) -> Callable[[], bool]:
        """Returns `is_int64` and further tests for one type."""
        if name.startswith("is_") and name[3:] in _NAMED:
            return lambda: self.name == _NAMED[name[3:]]
        raise AttributeError(f"a dtype has no {name!r}{_OF_THE_COMPILER.get(name, '')}", name=name)

    @property
    def value(self) -> dtype:
        """The type itself: a type among the constants of a kernel is asked for its `.value`."""
        return self

    def is_ptr(self) -> bool:
        """Whether it is a type of pointers."""
        return False

    def is_block(self) -> bool:
        """Whether it is a type of blocks."""
        return False

    def is_void(self) -> bool:
        """Whether it is no type of values."""
        return self.family == "void"

    @staticmethod
    def is_dtype(type_str: str) -> bool:
        """Whether *type_str* is the name of an element type."""
        return type_str in _NAMES

    def is_const(self) -> bool:
        """Whether it is a type of pointers that are only read."""
        return False

    def kind(self) -> Kind:
        """Returns what the elements are. Raises KernelError for a type without elements."""
        found = _KINDS.get(self.family)
        if found is None:
            refuse(f"kind() of {self}", "a type of elements")
        return found

    def get_int_max_value(self) -> int:
        """Returns the largest integer of the type. Raises KernelError for a type that is no integer type."""
        return self._integer_bounds("get_int_max_value")[1]

    def get_int_min_value(self) -> int:
        """Returns the smallest integer of the type. Raises KernelError for a type that is no integer type."""
        return self._integer_bounds("get_int_min_value")[0]

    def _integer_bounds(self, call: str) -> tuple[int, int]:
        if not self.is_int():
            refuse(f"{call} of {self}", "an integer type")
        bits = self.primitive_bitwidth
        return (-(1 << bits - 1), (1 << bits - 1) - 1) if self.is_int_signed() else (0, (1 << bits) - 1)

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """Returns *element_ty*: the type with other elements."""
        return element_ty

    def codegen_name(self) -> str:
        """Returns the name under which `triton.language` has the type, such as `float16`."""
        long = {"fp": "float", "bf": "bfloat"}.get(self.name[:2])
        return self.name if long is None else f"{long}{self.name[2:]}"

    @property
    def cache_key_part(self) -> str:
        """The name, as keys of caches have it."""
        return self.name

    def mangle(self) -> str:
        """Returns the short name in names of specialized functions, such as `i32` or `fp16`."""
        if self.family in ("int", "uint", "bool"):
            return f"{'i' if self.family == 'int' else 'u'}{self.primitive_bitwidth}"
        return "V" if self.family == "void" else self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.codegen_name()}"


def _facts_of(name: str) -> tuple[str, int, DType | None]:
    """Returns the family of a type, its bits and the chip's type for it."""
    if name in _FLOATS:
        bits = int(name[2:3]) if name.startswith("fp8") else int(name[2:])
        return "float", bits, _FLOATS[name][0]
    if name == "void":
        return "void", 0, None
    if name == "int1":
        return "bool", 1, DType.BOOL
    family = "int" if name in _SIGNED else "uint"
    width = name.removeprefix(family)
    return family, int(width), DType(f"{family[0]}{width}")


_NAMED: Final = {
    "int1": "int1", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "fp8e4nv": "fp8e4nv", "fp8e4b8": "fp8e4b8",
    "fp8e4b15": "fp8e4b15", "fp8e5": "fp8e5", "fp8e5b16": "fp8e5b16",
}  # fmt: skip
"""The name of the type for each test such as `is_int64()`."""
