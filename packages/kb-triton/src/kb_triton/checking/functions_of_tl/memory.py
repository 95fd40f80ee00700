"""Rules for loads, stores, atomics and tensor descriptors."""

from __future__ import annotations

from typing import Any, Final

from kb_triton.checking.arithmetic import bitcast, broadcast, common_shape, converted
from kb_triton.checking.functions_of_tl.rules import NONE, given_tensor, is_none, nothing, rule, tensor_of
from kb_triton.checking.host_functions import OUTSIDE
from kb_triton.checking.refusals import Refusal, unverified
from kb_triton.checking.values import (
    UNKNOWN,
    Constant,
    Descriptor,
    Group,
    Typed,
    Value,
    block,
    check_sizes,
    class_name,
    name_of_type,
    python_of,
    repr_of_type,
    same_element,
    type_name,
)
from kb_triton.language.tensors.dtypes import (
    bfloat16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    pointer_type,
    uint16,
)

_CACHES: Final = frozenset(("none", "ca", "cg", "wb", "cs", "wt", "cv"))
_EVICTIONS: Final = frozenset(("evict_normal", "evict_first", "evict_last"))
_ORDERS: Final = frozenset(("acquire", "release", "acq_rel", "relaxed"))
_SCOPES: Final = frozenset(("gpu", "cta", "sys"))


def _check_hints(cache_modifier: Value, eviction_policy: Value) -> None:
    cache, eviction = python_of(cache_modifier) or "none", python_of(eviction_policy) or "evict_normal"
    if isinstance(cache, str) and cache.removeprefix(".") not in _CACHES:
        raise Refusal(f"Unsupported cache modifier {cache.removeprefix('.')!r}")
    if isinstance(eviction, str) and eviction not in _EVICTIONS:
        raise Refusal(f"Unsupported eviction policy {eviction!r}")


def _pointer(value: Value, name: str) -> Typed:
    found = given_tensor(value, "type") if not isinstance(value, Constant) else None
    if found is None:
        raise Refusal("'constexpr_type' object has no attribute 'scalar'")
    if not found.is_pointer:
        raise Refusal(f"Unsupported ptr type {repr_of_type(found)} in `tl.{name}`")
    return found


def _optional(value: Value) -> Typed | None:
    return None if is_none(value) else tensor_of(value)


def _check_scalars(pointer: Typed, **others: Typed | None) -> None:
    """Refuses blocks beside a scalar pointer."""
    for name, each in others.items():
        if not pointer.is_block and each is not None and each.is_block:
            raise Refusal(f"{name} argument cannot be block type if pointer argument is not a block")


def _check_mask(mask: Typed | None) -> None:
    if mask is not None and mask.dtype != int1:
        raise Refusal("Mask must have boolean scalar type")


@rule("load")
def load(
    pointer: Value,
    mask: Value = NONE,
    other: Value = NONE,
    boundary_check: Value = NONE,
    padding_option: Value = NONE,
    *,
    cache_modifier: Value = NONE,
    eviction_policy: Value = NONE,
    volatile: Value = NONE,
) -> Value:
    """Returns the type of a load. Two arguments are those of block pointers, which Triton had until version 3.8."""
    if isinstance(pointer, Descriptor):
        return UNKNOWN
    where, instead = _optional(mask), _optional(other)
    _check_hints(cache_modifier, eviction_policy)
    at = _pointer(pointer, "load")
    if where is None and instead is not None:
        raise Refusal("`other` cannot be provided without `mask`")
    _check_scalars(at, Mask=where, Other=instead)
    for each in (where, instead):
        if at.is_block and each is not None:
            at, _ = broadcast(at, each)
    if where is not None and where.dtype != int1:
        raise unverified(f"a mask of {type_name(where.dtype)}")
    kind = at.dtype.element_ty
    if instead is not None:
        converted(instead, int8 if kind == int1 else kind)
    return at.of(kind)


def _store_shapes(pointer: Typed, value: Typed, mask: Typed | None) -> None:
    """Refuses a value or mask whose shape is larger than that of the block of pointers."""
    if not pointer.is_block:
        return
    shape = common_shape(pointer.shape, value.shape)
    if mask is not None:
        shape = common_shape(shape, mask.shape)
    if shape != pointer.shape:
        raise Refusal(
            f"Expected pointer argument to have shape {_constants(shape)} but got {_constants(pointer.shape)}"
        )


def _constants(shape: tuple[int, ...]) -> str:
    return str([f"constexpr[{size}]" for size in shape])


def _check_constant(pointer: Typed) -> None:
    if pointer.dtype.const:
        raise Refusal("Cannot store to a constant pointer")


@rule("store", method=True)
def store(
    pointer: Value,
    value: Value,
    mask: Value = NONE,
    boundary_check: Value = NONE,
    *,
    cache_modifier: Value = NONE,
    eviction_policy: Value = NONE,
) -> Value:
    """Returns the value of a store."""
    what, where = tensor_of(value), _optional(mask)
    _check_hints(cache_modifier, eviction_policy)
    if isinstance(pointer, Typed) and pointer.is_pointer:
        _check_constant(pointer)
    at = _pointer(pointer, "store")
    _check_scalars(at, Value=what, Mask=where)
    _store_shapes(at, what, where)
    kind = at.dtype.element_ty
    stored = converted(what, kind)
    if kind == int1:
        converted(stored, int8)
    _check_mask(where)
    return nothing()


def _check_order(sem: Value, scope: Value) -> None:
    for value, known in ((python_of(sem), _ORDERS), (python_of(scope), _SCOPES)):
        if isinstance(value, str) and value and value not in known:
            raise Refusal(f"Memory semantic {value} not supported")


def _atomic(pointer: Value, value: Value | None, mask: Value, name: str) -> Typed:
    """Returns the type of the old value that an atomic gives."""
    what, where = None if value is None else tensor_of(value), _optional(mask)
    at = _pointer(pointer, f"atomic_{name}")
    if what is not None:
        _check_constant(at)
    _check_scalars(at, Value=what, Mask=where)
    if what is not None:
        _store_shapes(at, what, where)
    kind = at.dtype.element_ty
    if what is not None:
        converted(what, int8 if name == "store" and kind == int1 else kind)
    _check_mask(where)
    return at.of(kind)


def _check_atomic_type(kind: Any, name: str) -> None:
    if isinstance(kind, pointer_type):
        return
    if name != "add" and kind in (float16, bfloat16):
        raise Refusal(f"atomic_{name} does not support {kind}")
    if kind in (int16, uint16) or kind.primitive_bitwidth < 16:
        raise Refusal(f"atomic_{name} does not support {kind}")


def _read_modify_write(pointer: Value, value: Value, mask: Value, sem: Value, scope: Value, name: str) -> Value:
    found = _atomic(pointer, value, mask, name)
    _check_atomic_type(found.dtype, name)
    _check_order(sem, scope)
    if name in ("max", "min") and not found.dtype.is_int() and found.dtype not in (float32, float64):
        raise Refusal(f"atomic_{name} not supported for dtype {found.dtype}")
    return found


def _rule_of_atomic(name: str) -> None:
    """Adds the rule of `tl.atomic_NAME`, whose result has the type of the elements."""

    @rule(f"atomic_{name}", method=True)
    def find(pointer: Value, val: Value, mask: Value = NONE, sem: Value = NONE, scope: Value = NONE) -> Value:
        return _read_modify_write(pointer, val, mask, sem, scope, name)


for _name in ("add", "max", "min", "and", "or", "xor", "xchg"):
    _rule_of_atomic(_name)


@rule("atomic_cas", method=True)
def atomic_cas(pointer: Value, cmp: Value, val: Value, sem: Value = NONE, scope: Value = NONE) -> Value:
    """Returns the type of `tl.atomic_cas`."""
    old, new = tensor_of(cmp), tensor_of(val)
    _check_order(sem, scope)
    at = given_tensor(pointer, "type")
    if at.is_pointer and at.dtype.element_ty.primitive_bitwidth not in (16, 32, 64):
        raise Refusal("atomic_cas only supports elements with width {16, 32, 64}")
    kind = at.dtype.element_ty if at.is_pointer else new.dtype
    for each in (old, new):
        if type_name(each.dtype).lstrip("u") != type_name(kind).lstrip("u") or each.shape != at.shape:
            raise unverified(f"atomic_cas of {name_of_type(each)} at {name_of_type(at)}")
    return new.of(new.dtype)


@rule("atomic_load", method=True)
def atomic_load(pointer: Value, mask: Value = NONE, sem: Value = NONE, scope: Value = NONE) -> Value:
    """Returns the type of `tl.atomic_load`."""
    found = _atomic(pointer, None, mask, "load")
    _check_order(sem, scope)
    return found


@rule("atomic_store", method=True)
def atomic_store(pointer: Value, val: Value, mask: Value = NONE, sem: Value = NONE, scope: Value = NONE) -> Value:
    """Returns the value of `tl.atomic_store`."""
    _atomic(pointer, val, mask, "store")
    _check_order(sem, scope)
    return nothing()


@rule("make_tensor_descriptor", "_experimental_make_tensor_descriptor", default=UNKNOWN)
def make_tensor_descriptor(
    base: Value, shape: Value, strides: Value, block_shape: Value, padding_option: Value = NONE
) -> Value:
    """Returns the type of a descriptor that a kernel makes."""
    if not all(isinstance(each, Group) for each in (shape, strides, block_shape)):
        return UNKNOWN
    sizes, steps, blocks = (each.values for each in (shape, strides, block_shape) if isinstance(each, Group))
    rank = len(sizes)
    if not 1 <= rank <= 5:
        raise Refusal(f"Expected 1 <= ndim <= 5 but got {rank} dimensions")
    if len(steps) != rank:
        raise Refusal(f"Expected {rank} strides but got {len(steps)}")
    if len(blocks) != rank:
        raise Refusal(f"Expected block_shape to have {rank} dimensions but got {len(steps)}")
    at = given_tensor(base, "dtype")
    if not at.is_pointer:
        raise Refusal(f"base must be a pointer type, got {type_name(at.dtype)}")
    kind, last = at.dtype.element_ty, python_of(blocks[-1])
    nbytes = kind.primitive_bitwidth // 8
    if isinstance(last, int) and last * nbytes < 16:
        raise Refusal(
            f"Descriptor block shape must have at least 16 bytes in the last dimension, but got {last} * {nbytes} = "
            f"{last * nbytes} bytes"
        )
    step = python_of(steps[-1])
    if isinstance(step, Typed):
        raise Refusal(OUTSIDE)
    if step != 1:
        raise Refusal(f"Tensor descriptor last dim must be 1 but got {step}")
    for each in map(python_of, steps[:-1]):
        if isinstance(each, int) and each * nbytes % 16:
            raise Refusal(
                f"Tensor descriptor strides must be 16-byte aligned, but got a stride of {each} * {nbytes} = "
                f"{each * nbytes} bytes"
            )
    found = [python_of(each) for each in blocks]
    check_sizes(found)
    return Descriptor(kind, tuple(found))


def _check_offsets(descriptor: Descriptor, offsets: Value) -> None:
    rank = len(descriptor.block_shape)
    if isinstance(offsets, Group) and len(offsets.values) != rank:
        raise Refusal(f"expected {rank} offsets, but got {len(offsets.values)}")


@rule("load_tensor_descriptor")
def load_of_descriptor(desc: Value, offsets: Value) -> Value:
    """Returns the type of a load by a descriptor."""
    if not isinstance(desc, Descriptor):
        raise Refusal(f"'{class_name(desc)}' object has no attribute 'load'")
    _check_offsets(desc, offsets)
    return block(desc.dtype, desc.block_shape)


@rule("store_tensor_descriptor")
def store_of_descriptor(desc: Value, offsets: Value, value: Value) -> Value:
    """Returns the value of a store by a descriptor."""
    if not isinstance(desc, Descriptor):
        raise Refusal(f"'{class_name(desc)}' object has no attribute 'store'")
    _check_offsets(desc, offsets)
    what = given_tensor(value)
    if what.shape != desc.block_shape:
        sizes = [str(size) for size in desc.block_shape]
        raise Refusal(f"expected value shape {sizes}, got {_constants(what.shape)}")
    if not same_element(what.dtype, desc.dtype):
        converted(what, desc.dtype)
    return nothing()


@rule("cast", "to", method=True)
def cast(input: Value, dtype: Value, fp_downcast_rounding: Value = NONE, bitcast: Value = NONE) -> Value:
    """Returns the type of a cast."""
    return cast_to(tensor_of(input), python_of(dtype), python_of(fp_downcast_rounding), bool(python_of(bitcast)))


def cast_to(value: Typed, kind: Any, rounding: Any = None, takes_bits: bool = False) -> Typed:
    """Returns the type of *value* cast to *kind*; with *takes_bits*, its bits are taken for *kind*."""
    target = getattr(kind, "scalar", None)
    if target is None:
        raise Refusal(
            f"'{class_name(kind) if isinstance(kind, Typed) else type(kind).__name__}' object has no attribute 'scalar'"
        )
    if takes_bits:
        return bitcast(value, target)
    if rounding is not None and not same_element(value.dtype, target):
        _check_rounding(value, target, rounding)
    return converted(value, target)


def _check_rounding(value: Typed, target: Any, rounding: Any) -> None:
    if rounding not in ("rtne", "rtz"):
        raise Refusal(f"Invalid rounding mode: {rounding}. Supported rounding modes are 'rtne' and 'rtz'.")
    source = value.dtype
    narrows = not isinstance(source, pointer_type) and not isinstance(target, pointer_type)
    if not (narrows and source.is_float and target.is_float and target.primitive_bitwidth < source.primitive_bitwidth):
        raise Refusal(
            "fp_downcast_rounding should be set only for truncating fp conversions. Source scalar type is "
            f"{type_name(source)} and destination type is {type_name(target)}"
        )
