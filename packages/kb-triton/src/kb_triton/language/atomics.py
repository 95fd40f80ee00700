"""Atomics: bytes of memory that are read, changed and written at once."""

from __future__ import annotations

from typing import Any, Final

from kb_engine.program import Handle
from kb_triton.language.arithmetic import as_tensor, broadcast_shapes, refuse_f64
from kb_triton.language.casts import cast
from kb_triton.language.chosen_pointers import AnyAddress, ChosenAddress
from kb_triton.language.dtypes import dtype
from kb_triton.language.memory import is_nowhere, joint_shape, load, mask_for, parts
from kb_triton.language.pointers import element_type
from kb_triton.language.program import machine, refuse
from kb_triton.language.shapes import full_handle, times
from kb_triton.language.tensor import describe, elements_of, provide, provided, tensor
from kb_triton.language.values import NUMBERS, as_known, data_of

_ORDERS: Final = "acq_rel", "acquire", "release", "relaxed"


def change(
    op: str, address: AnyAddress, shape: tuple[int, ...], kind: dtype, values: tuple[Any, ...], chosen: Any, sem: Any
) -> tensor:
    """Change the elements at *address*, where the mask *chosen* is true, by *values*. Returns them as they were."""
    order = sem or "acq_rel"
    if order not in _ORDERS:
        refuse(f"tl.atomic_{op} with sem={sem!r}", f"one of {', '.join(map(repr, _ORDERS))}")
    if kind.is_f64:
        refuse_f64(f"tl.atomic_{op}")
    given = [cast(as_tensor(each), kind) for each in values]
    for each in given:
        if broadcast_shapes(each.shape, shape, f"tl.atomic_{op}") != shape:
            refuse(f"tl.atomic_{op} of {describe(each)} to {times(shape)}", "equal shapes")
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
    """Add *val* to the elements at *pointer*. Returns them as they were."""
    return _changed("add", pointer, (val,), mask, sem)


def atomic_max(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The larger one of each element and *val*. Returns the elements as they were."""
    return _changed("max", pointer, (val,), mask, sem)


def atomic_min(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The smaller one of each element and *val*. Returns the elements as they were."""
    return _changed("min", pointer, (val,), mask, sem)


def atomic_and(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The bits that are set in each element and in *val*. Returns the elements as they were."""
    return _changed("and", pointer, (val,), mask, sem)


def atomic_or(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The bits that are set in each element or in *val*. Returns the elements as they were."""
    return _changed("or", pointer, (val,), mask, sem)


def atomic_xor(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The bits that are set in either each element or *val*. Returns the elements as they were."""
    return _changed("xor", pointer, (val,), mask, sem)


def atomic_xchg(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """*val* in place of each element. Returns the elements as they were."""
    return _changed("xchg", pointer, (val,), mask, sem)


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> tensor:
    """*val* in place of each element that equals *cmp*. Returns the elements as they were."""
    return _changed("cas", pointer, (cmp, val), None, sem)


def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """The elements at *pointer*, where *mask* is true, and 0 elsewhere. Every load here is one step, as this one."""
    _checked_order("load", sem, ("acquire", "relaxed"))
    return load(pointer, mask)


def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> None:
    """*val* in place of the elements at *pointer*, after the program's earlier commands unless *sem* is relaxed."""
    _checked_order("store", sem, ("release", "relaxed"))
    _changed("xchg", pointer, (val,), mask, sem or "release")


def atomic_poll(
    pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> tensor:
    """Load the integers at *pointer* until each was *expected_value* once. Returns true for each."""
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
    atomic_store=atomic_store, atomic_poll=atomic_poll,
)  # fmt: skip
