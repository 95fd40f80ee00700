"""Loads and stores of Triton kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kb_engine.program import IndexBox, Transposed
from kb_triton.language.arithmetic import as_tensor, broadcast_shapes, plain_number, rounded, stored_number
from kb_triton.language.casts import cast
from kb_triton.language.chosen_pointers import AnyAddress, ChosenAddress
from kb_triton.language.dtypes import dtype, int1
from kb_triton.language.pointers import element_type
from kb_triton.language.program import machine, refuse
from kb_triton.language.shapes import laid_out
from kb_triton.language.tensor import describe, elements_of, provided, tensor
from kb_triton.language.values import FORMS, NUMBERS, Data, Turned, as_known, data_of, value_of


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
    """The elements that *pointer* points to, where *mask* is true, and *other*, by default 0, elsewhere.

    The hints for caches do nothing.
    """
    if not isinstance(pointer, tensor):
        return _load_block(pointer, mask, other, boundary_check, padding_option)
    kind = element_type(pointer, "tl.load")
    shape = joint_shape(pointer.shape, (mask, other), "tl.load with a mask")
    chosen = mask_for(mask, shape, "tl.load")
    if chosen is None and other is not None and mask is None:
        refuse("tl.load with other= and without a mask", "a mask, which says where it goes")
    return load_elements(pointer.value, shape, kind, chosen, other)


def _load_block(pointer: Any, mask: Any, other: Any, boundary_check: Any, padding_option: str) -> tensor:
    """What a block pointer points to."""
    elements = getattr(pointer, "elements", None)
    if elements is None:
        refuse(f"tl.load of {describe(pointer)}", "a pointer, a block of pointers, or a block pointer")
    if mask is not None or other is not None:
        refuse("mask= or other= of a block pointer", "boundary_check=")
    address, chosen = elements(boundary_check)
    other = float("nan") if padding_option == "nan" and chosen is not None else None
    return load_elements(address, pointer.shape, pointer.element_ty, chosen, other)


def parts(address: ChosenAddress, shape: tuple[int, ...], chosen: Any, call: str) -> tuple[Any, Any]:
    """The masks of a transfer of *shape* to and from the two places of *address*, where the mask *chosen* is true."""
    masks = address.masks(tensor(True if chosen is None else chosen, shape, int1))
    first, second = (mask_for(each, shape, call) for each in masks)
    return first, second


def load_elements(address: AnyAddress, shape: tuple[int, ...], kind: dtype, chosen: Any, other: Any) -> tensor:
    """The elements of type *kind* at *address*, where the mask *chosen* is true; all with None."""
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
    """Whether the mask *chosen* leaves nothing."""
    if isinstance(chosen, IndexBox):
        return chosen.is_empty
    return chosen is False or (type(chosen) is Data and not chosen.array.any())


def joint_shape(pointers: tuple[int, ...], others: Iterable[Any], call: str) -> tuple[int, ...]:
    """The shape of a transfer: that of the *pointers* and *others* together. A scalar pointer stays one."""
    shape = pointers
    for each in others:
        if shape and isinstance(each, tensor):
            shape = broadcast_shapes(shape, each.shape, call)
    return shape


def as_mask(mask: Any, call: str) -> tensor:
    """*mask* as booleans. Raises KernelError, which says the *call*, for elements of another type, as Triton does.

    The numbers 0 and 1 are taken for False and True, which Triton does not do.
    """
    given = as_tensor(mask)
    if given.dtype == int1:
        return given
    if not isinstance(mask, tensor) and type(given.value) is int and given.value in (0, 1):
        return tensor(bool(given.value), (), int1)
    got = describe(given) if isinstance(mask, tensor) else f"the number {given.value}"
    refuse(f"{got} as the mask of {call}", "booleans (int1)", "compare, as in offsets < n or flags != 0")


def mask_for(mask: Any, shape: tuple[int, ...], call: str) -> Any:
    """The mask of a transfer of *shape*: a form, `Data`, False for none, or None for all elements."""
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
        return None if value.look().item() else False
    return value


def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write *value*, cast to the type of the elements, to where *pointer* points and *mask* is true.

    The hints for caches do nothing.
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
    """Write *value* to the elements at *address* where the mask *chosen* is true."""
    given = cast(as_tensor(value), kind)
    if given.shape != shape and broadcast_shapes(given.shape, shape, "tl.store") != shape:
        refuse(f"tl.store of {describe(given)} to {' x '.join(map(str, shape)) or 'a scalar'}", "equal shapes")
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
