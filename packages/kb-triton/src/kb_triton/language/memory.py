"""Loads, stores and atomics of Triton kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from kb_engine.program import Handle, IndexBox, Transposed
from kb_triton.language.shapes import full_handle, laid_out, times
from kb_triton.language.tensors.arithmetic import (
    as_tensor,
    broadcast_shapes,
    plain_number,
    refuse_f64,
    rounded,
    stored_number,
)
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import dtype, int1
from kb_triton.language.tensors.pointers import AnyAddress, ChosenAddress, element_type
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, elements_of, provide, provided, tensor
from kb_triton.language.tensors.values import FORMS, NUMBERS, Data, Turned, as_known, data_of, value_of


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """Returns the elements that *pointer* points to, where *mask* is true, and *other*, by default 0, elsewhere.

    A block pointer has *boundary_check* and *padding_option* in place of *mask* and *other*. The hints for caches do
    nothing. Raises KernelError for another object than a pointer, and for a mask that is no block of booleans.
    """
    if not isinstance(pointer, tensor):
        return _load_block(pointer, mask, other, boundary_check, padding_option)
    kind = element_type(pointer, "tl.load")
    shape = joint_shape(pointer.shape, (mask, other), "tl.load with a mask")
    chosen = mask_for(mask, shape, "tl.load")
    if chosen is None and other is not None and mask is None:
        refuse("tl.load with other= and without a mask", "a mask, which chooses the elements that are not loaded")
    return load_elements(pointer.value, shape, kind, chosen, other)


def _load_block(pointer: Any, mask: Any, other: Any, boundary_check: Any, padding_option: str) -> tensor:
    """Returns the block that a block pointer points to."""
    elements = getattr(pointer, "elements", None)
    if elements is None:
        refuse(f"tl.load of {describe(pointer)}", "a pointer, a block of pointers, or a block pointer")
    if mask is not None or other is not None:
        refuse("mask= or other= of a block pointer", "boundary_check=")
    address, chosen = elements(boundary_check)
    other = float("nan") if padding_option == "nan" and chosen is not None else None
    return load_elements(address, pointer.shape, pointer.element_ty, chosen, other)


def parts(address: ChosenAddress, shape: tuple[int, ...], chosen: Any, call: str) -> tuple[Any, Any]:
    """Returns the masks of the two transfers of *shape*, one for each place of *address*, where *chosen* is true."""
    masks = address.masks(tensor(True if chosen is None else chosen, shape, int1))
    first, second = (mask_for(each, shape, call) for each in masks)
    return first, second


def load_elements(address: AnyAddress, shape: tuple[int, ...], kind: dtype, chosen: Any, other: Any) -> tensor:
    """Returns elements of *kind* at *address* where the mask *chosen* is true, None for all; *other* elsewhere."""
    if isinstance(address, ChosenAddress):
        first, second = parts(address, shape, chosen, "tl.load")
        return load_elements(address.one, shape, kind, first, load_elements(address.two, shape, kind, second, other))
    number, rest = 0, None
    if other is not None:
        given = plain_number(other) if not isinstance(other, tensor) else None
        if given is None:
            given_tensor = cast(as_tensor(other), kind)
            given = given_tensor.value if type(given_tensor.value) in NUMBERS else None
            rest = given_tensor if given is None else None
        number = rounded(given, kind) if given is not None else 0
    if chosen is not None and is_nowhere(chosen):
        return tensor(rounded(number, kind), shape, kind) if rest is None else tensor(rest.value, shape, kind)
    ref = address.reference(kind, shape)
    machine_of_program = machine()
    mask = None if chosen is None else as_known(chosen, shape, machine_of_program.line)
    loaded = machine_of_program.load(ref, mask, 0 if mask is None else stored_number(number, kind))
    found = tensor(_value(loaded, kind), shape, kind)
    if rest is None or mask is None:
        return found
    where: tensor = _where(tensor(chosen, shape, int1), found, rest)
    return where


def _where(condition: tensor, x: tensor, y: tensor) -> tensor:
    found: tensor = provided("where")(condition, x, y)
    return found


def _value(loaded: Any, kind: dtype) -> Any:
    if not isinstance(loaded, Transposed):
        return value_of(loaded, kind)
    if kind.is_float:
        return Turned(loaded)
    machine().leave("looks for integers of memory")
    if loaded.of.known is None:
        return Turned(loaded)
    data = data_of(loaded.of)
    return Data(data.array.T, kind.kb, Turned(loaded).bytes, None, data.waits)


def is_nowhere(chosen: Any) -> bool:
    """Whether the mask *chosen* is false everywhere."""
    if isinstance(chosen, IndexBox):
        return chosen.is_empty
    return chosen is False or (type(chosen) is Data and not chosen.array.any())


def joint_shape(pointers: tuple[int, ...], others: Iterable[Any], call: str) -> tuple[int, ...]:
    """Returns the shape of a transfer, which *pointers* and *others* broadcast to. A scalar pointer stays a scalar."""
    shape = pointers
    for each in others:
        if shape and isinstance(each, tensor):
            shape = broadcast_shapes(shape, each.shape, call)
    return shape


def as_mask(mask: Any, call: str) -> tensor:
    """Returns *mask* as booleans. Raises KernelError, with *call*, for elements of another type, as Triton does.

    Unlike Triton, takes the numbers 0 and 1 for False and True.
    """
    given = as_tensor(mask)
    if given.dtype == int1:
        return given
    if not isinstance(mask, tensor) and type(given.value) is int and given.value in (0, 1):
        return tensor(bool(given.value), (), int1)
    got = describe(given) if isinstance(mask, tensor) else f"the number {given.value}"
    refuse(f"{got} as the mask of {call}", "booleans (int1)", "compare, as in offsets < n or flags != 0")


def mask_for(mask: Any, shape: tuple[int, ...], call: str) -> Any:
    """Returns the mask of a transfer of *shape*: a form, `Data`, False for no element, or None for all elements.

    Raises KernelError, with *call*, for a mask that is no block of booleans or has another shape.
    """
    if mask is None:
        return None
    given = as_mask(mask, call)
    if given.shape != shape and broadcast_shapes(given.shape, shape, f"{call} with a mask") != shape:
        refuse(f"a mask of {describe(given)} for {call} of {' x '.join(map(str, shape)) or 'a scalar'}",
               "a mask that broadcasts to the pointers")  # fmt: skip
    value = given.value
    if type(value) in NUMBERS:
        return None if value else False
    if type(value) in FORMS:
        return value
    if type(value) is not Data:
        value = Data(np.asarray(elements_of(given), np.bool_), int1.kb)
    if not shape:
        return None if value.awaited().item() else False
    return value


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Stores *value*, cast to the type of the elements, where *pointer* points and *mask* is true.

    A block pointer has *boundary_check* in place of *mask*. The hints for caches do nothing. Raises KernelError for
    another object than a pointer, and for shapes that do not fit.
    """
    if not isinstance(pointer, tensor):
        elements = getattr(pointer, "elements", None)
        if elements is None:
            refuse(f"tl.store to {describe(pointer)}", "a pointer, a block of pointers, or a block pointer")
        if mask is not None:
            refuse("mask= of a block pointer", "boundary_check=")
        address, chosen = elements(boundary_check)
        store_elements(address, pointer.shape, pointer.element_ty, value, chosen)
        return
    kind = element_type(pointer, "tl.store")
    shape = joint_shape(pointer.shape, (value, mask), "tl.store")
    store_elements(pointer.value, shape, kind, value, mask_for(mask, shape, "tl.store"))


def store_elements(address: AnyAddress, shape: tuple[int, ...], kind: dtype, value: Any, chosen: Any) -> None:
    """Stores *value* to the elements at *address* where the mask *chosen* is true."""
    given = cast(as_tensor(value), kind)
    if given.shape != shape and broadcast_shapes(given.shape, shape, "tl.store") != shape:
        refuse(f"tl.store of {describe(given)} to {times(shape)}", "a value that broadcasts to the pointers")
    if isinstance(address, ChosenAddress):
        first, second = parts(address, shape, chosen, "tl.store")
        store_elements(address.one, shape, kind, given, first)
        store_elements(address.two, shape, kind, given, second)
        return
    if chosen is not None and is_nowhere(chosen):
        return
    ref = address.reference(kind, shape)
    running = machine()
    mask = None if chosen is None else as_known(chosen, shape, running.line)
    running.store(ref, laid_out(given, shape), mask)


_ORDERS: Final = "acq_rel", "acquire", "release", "relaxed"


def change(
    op: str, address: AnyAddress, shape: tuple[int, ...], kind: dtype, values: tuple[Any, ...], chosen: Any, sem: Any
) -> tensor:
    """Changes the elements at *address*, where the mask *chosen* is true, by *values*. Returns the elements before.

    *op* is a name such as "add", and *sem* the memory order. Raises KernelError for a wrong order, type or shape.
    """
    order = sem or "acq_rel"
    if order not in _ORDERS:
        refuse(f"tl.atomic_{op} with sem={sem!r}", f"one of {', '.join(map(repr, _ORDERS))}")
    if kind.is_f64:
        refuse_f64(f"tl.atomic_{op}")
    given = [cast(as_tensor(each), kind) for each in values]
    for each in given:
        if broadcast_shapes(each.shape, shape, f"tl.atomic_{op}") != shape:
            refuse(f"tl.atomic_{op} of {describe(each)} to {times(shape)}", "a value that broadcasts to the pointers")
    if chosen is not None and is_nowhere(chosen):
        return tensor(0.0 if kind.is_float else 0, shape, kind)
    if isinstance(address, ChosenAddress):
        if op == "cas":
            refuse("tl.atomic_cas of pointers that tl.where chose", "pointers into one tensor")
        masks = parts(address, shape, chosen, f"tl.atomic_{op}")
        halves = [
            change(op, where, shape, kind, values, mask, sem)
            for where, mask in zip((address.one, address.two), masks, strict=True)
        ]
        found: tensor = provided("where")(address.chosen, *halves)
        return found
    ref, running = address.reference(kind, shape), machine()
    operands: list[Any] = [_operand(each, shape) for each in given]
    if op == "cas":
        old: Any = running.atomic_cas(ref, operands[0], operands[1], sem=order)
    else:
        mask = None if chosen is None else as_known(chosen, shape, running.line)
        old = getattr(running, f"atomic_{op}")(ref, *operands, mask=mask, sem=order)
    if isinstance(old, Handle) and old.known is not None and not kind.is_float:
        return tensor(data_of(old), shape, kind)
    return tensor(old, shape, kind)


def _operand(x: tensor, shape: tuple[int, ...]) -> Any:
    if type(x.value) in NUMBERS:
        return x.value
    return full_handle(tensor(x.value, shape, x.dtype) if x.shape != shape else x)


def _changed(op: str, pointer: Any, values: tuple[Any, ...], mask: Any, sem: Any) -> tensor:
    call = f"tl.atomic_{op}"
    kind = element_type(pointer, call)
    shape = joint_shape(pointer.shape, (*values, mask), call)
    return change(op, pointer.value, shape, kind, values, mask_for(mask, shape, call), sem)


def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Adds *val* to the elements at *pointer*. Returns the elements before."""
    return _changed("add", pointer, (val,), mask, sem)


def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element by the larger one of it and *val*. Returns the elements before."""
    return _changed("max", pointer, (val,), mask, sem)


def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element by the smaller one of it and *val*. Returns the elements before."""
    return _changed("min", pointer, (val,), mask, sem)


def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element by its bitwise `and` with *val*. Returns the elements before."""
    return _changed("and", pointer, (val,), mask, sem)


def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element by its bitwise `or` with *val*. Returns the elements before."""
    return _changed("or", pointer, (val,), mask, sem)


def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element by its bitwise `xor` with *val*. Returns the elements before."""
    return _changed("xor", pointer, (val,), mask, sem)


def atomic_xchg(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element by *val*. Returns the elements before."""
    return _changed("xchg", pointer, (val,), mask, sem)


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """Replaces each element whose bits are those of *cmp* by *val*. Returns the elements before."""
    return _changed("cas", pointer, (cmp, val), None, sem)


def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Returns the elements at *pointer*, where *mask* is true, and 0 elsewhere. Every load here is atomic."""
    _checked_order("load", sem, ("acquire", "relaxed"))
    return load(pointer, mask)


def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> None:
    """Stores *val* at *pointer*, after the program's earlier commands unless *sem* is relaxed."""
    _checked_order("store", sem, ("release", "relaxed"))
    _changed("xchg", pointer, (val,), mask, sem or "release")


def atomic_poll(
    pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> tensor:
    """Loads the integers at *pointer* until each was *expected_value* once. Returns true for each."""
    _checked_order("poll", sem, ("acquire", "relaxed"))
    if timeout_ns is not None:
        refuse(f"tl.atomic_poll with timeout_ns={timeout_ns}", "None: kernels have no clock here")
    found = load(pointer) == expected_value
    seen = elements_of(found)
    while not seen.all():
        seen = seen | elements_of(load(pointer) == expected_value)
    return tensor(True, found.shape, found.dtype)


def _checked_order(name: str, sem: Any, orders: tuple[str, ...]) -> None:
    if sem is not None and sem not in orders:
        refuse(f"tl.atomic_{name} with sem={sem!r}", f"one of {', '.join(map(repr, orders))}")


provide(
    atomic_add=atomic_add, atomic_max=atomic_max, atomic_min=atomic_min, atomic_and=atomic_and, atomic_or=atomic_or,
    atomic_xor=atomic_xor, atomic_xchg=atomic_xchg, atomic_cas=atomic_cas, atomic_load=atomic_load,
    atomic_store=atomic_store, atomic_poll=atomic_poll, store=store,
)  # fmt: skip
