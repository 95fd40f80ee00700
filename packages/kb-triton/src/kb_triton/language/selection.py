"""tl.where: elements of one of two blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from kb_triton.language.arithmetic import as_tensor, broadcast_shapes, bytes_of, plain_number, refuse_f64, rounded
from kb_triton.language.casts import cast
from kb_triton.language.chosen_pointers import ChosenAddress
from kb_triton.language.dtypes import NUMPY, dtype, int1, pointer_type
from kb_triton.language.pointers import Address
from kb_triton.language.program import machine, refuse
from kb_triton.language.promotion import promoted, type_of_number, with_number
from kb_triton.language.tensor import describe, elements_of, provide, tensor
from kb_triton.language.values import NUMBERS, Data, array_of, as_argument, is_known, waits_of


def where(condition: Any, x: Any, y: Any) -> tensor:
    """The elements of *x* where *condition* is not 0, and those of *y* elsewhere."""
    chosen = cast(as_tensor(condition), int1)
    kind = _type(x, y)
    if isinstance(kind, pointer_type):
        return _of_pointers(chosen, as_tensor(x), as_tensor(y))
    one, two = cast(_settled(x, kind), kind), cast(_settled(y, kind), kind)
    shape = broadcast_shapes(broadcast_shapes(one.shape, two.shape, "tl.where"), chosen.shape, "tl.where")
    if type(chosen.value) in NUMBERS:
        taken = one if chosen.value else two
        return _repeated(taken, shape)
    if kind.is_f64:
        refuse_f64("tl.where")
    a, b = one.value, two.value
    if is_known(chosen.value) and is_known(a) and is_known(b):
        arrays = [array_of(each, kind) for each in (a, b)]
        found = np.where(array_of(chosen.value, int1), *arrays).astype(NUMPY[kind.name], copy=False)
        data = Data(np.broadcast_to(found, shape), kind.kb, ("where", (chosen.value, a, b)), None,
                    waits_of(chosen.value, a, b))  # fmt: skip
        return tensor(data, shape, kind)
    arguments = [bytes_of(chosen), as_argument(a), as_argument(b)]
    return tensor(machine().math("where", arguments, kind.kb), shape, kind)


def _settled(x: Any, kind: dtype) -> tensor:
    if isinstance(x, tensor):
        return x
    number = plain_number(x)
    if number is None:
        refuse(f"tl.where of {describe(x)}", "tensors and numbers")
    return tensor(rounded(number, kind), (), kind)


def _type(x: Any, y: Any) -> dtype:
    if isinstance(x, tensor) and isinstance(y, tensor):
        return x.dtype if isinstance(x.dtype, pointer_type) else promoted(x.dtype, y.dtype)
    if isinstance(x, tensor) or isinstance(y, tensor):
        given, number = (x, y) if isinstance(x, tensor) else (y, x)
        plain = plain_number(number)
        if plain is None:
            refuse(f"tl.where of {describe(number)}", "tensors and numbers")
        return given.dtype if isinstance(given.dtype, pointer_type) else with_number(given.dtype, plain)
    numbers = [plain_number(each) for each in (x, y)]
    if None in numbers:
        refuse(f"tl.where of {describe(x)} and {describe(y)}", "tensors and numbers")
    return promoted(*(type_of_number(each) for each in numbers))


def _repeated(x: tensor, shape: tuple[int, ...]) -> tensor:
    if x.shape == shape:
        return x
    value = x.value.broadcast(shape) if hasattr(x.value, "broadcast") else x.value
    return tensor(value, shape, x.dtype)


def _of_pointers(chosen: tensor, one: tensor, two: tensor) -> tensor:
    if isinstance(two.dtype, pointer_type) and one.dtype != two.dtype:
        refuse(f"tl.where of {one.dtype} and {two.dtype}", "pointers to elements of one type")
    if not chosen.shape:
        return _repeated(one if bool(chosen) else two, broadcast_shapes(one.shape, two.shape, "tl.where"))
    places = Address | ChosenAddress
    if not isinstance(one.value, places) or not isinstance(two.value, places):
        refuse("tl.where of pointers and numbers", "pointers", "give the load a mask")
    shape = broadcast_shapes(broadcast_shapes(one.shape, two.shape, "tl.where"), chosen.shape, "tl.where")
    if type(chosen.value) in NUMBERS:
        return _repeated(one if chosen.value else two, shape)
    if not is_known(chosen.value):
        chosen = tensor(Data(elements_of(chosen), int1.kb), chosen.shape, int1)
    if not (isinstance(one.value, Address) and isinstance(two.value, Address)):
        return tensor(ChosenAddress(chosen, one.value, two.value), shape, one.dtype)
    if one.value.storage is not two.value.storage:
        return tensor(ChosenAddress(chosen, one.value, two.value), shape, one.dtype)
    offsets = [np.broadcast_to(_array(each.value.offset), shape) for each in (one, two)]
    found = np.where(array_of(chosen.value, int1), *offsets)
    waits = one.value.waits + two.value.waits + waits_of(chosen.value)
    return tensor(Address(one.value.storage, found, waits), shape, one.dtype)


def _array(offset: Any) -> Any:
    return offset.data() if hasattr(offset, "data") and not isinstance(offset, np.ndarray) else np.asarray(offset)


provide(where=where)
