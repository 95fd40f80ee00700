"""Elements chosen by conditions: `tl.where`, and functions with branches by `tl.map_elementwise`.

`map_elementwise` calls the function with whole blocks. Where the function asks for the truth of a block, it is called
once with the answer True and once with the answer False, and `tl.where` joins the two results. So both branches are
computed, as ops of whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kb_triton.language.shapes import broadcast_to, picked, reshape, stacked
from kb_triton.language.tensors.arithmetic import (
    as_tensor,
    broadcast_shapes,
    bytes_of,
    constant_number,
    plain_number,
    refuse_f64,
    rounded,
)
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import NUMPY, dtype, int1, pointer_type, promoted, type_of_number, with_number
from kb_triton.language.tensors.pointers import Address, ChosenAddress
from kb_triton.language.tensors.program import answering, machine, refuse
from kb_triton.language.tensors.tensor import describe, elements_of, provide, tensor
from kb_triton.language.tensors.values import NUMBERS, Data, array_of, as_argument, is_known, waits_of


def where(condition: Any, x: Any, y: Any) -> tensor:
    """Returns the elements of *x* where *condition* is not 0, and the elements of *y* elsewhere.

    Raises KernelError for operands that are no tensors or numbers, and for pointers to elements of two types.
    """
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


MOST_PATHS: Final = 256
"""The most paths through the branches of one function. Source: assumed."""


def map_elementwise(scalar_fn: Callable[..., Any], *args: Any, pack: Any = 1) -> Any:
    """Returns the results of *scalar_fn* for each element of *args*, which are broadcast to one shape.

    With *pack*, a call takes *pack* neighbouring elements of each block, and returns *pack* elements of each result.
    Raises KernelError for a wrong *pack*, for results whose number varies, and for more than MOST_PATHS paths.
    """
    count = constant_number(pack)
    if not args or not isinstance(count, int) or count < 1 or count & (count - 1):
        refuse(f"tl.map_elementwise of {len(args)} blocks with pack={pack!r}", "a block, and a power of two")
    blocks = [as_tensor(each) for each in args]
    shape: tuple[int, ...] = ()
    for each in blocks:
        shape = broadcast_shapes(shape, each.shape, "tl.map_elementwise")
    given = [each for block in blocks for each in _elements(broadcast_to(block, shape), count)]
    found, is_single = _Paths(scalar_fn, given).results()
    if len(found) % count:
        refuse(
            f"tl.map_elementwise with pack={count} of a function with {len(found)} results", f"a multiple of {count}"
        )
    like = given[0].shape
    whole = [broadcast_to(each, like) for each in found]
    results = [reshape(_in_turn(whole[at : at + count]), shape) for at in range(0, len(whole), count)]
    return results[0] if is_single else tuple(results)


def _elements(block: tensor, count: int) -> list[tensor]:
    """Returns *count* blocks: the first, second, ... element of each group of *count* neighbours in *block*."""
    if count == 1:
        return [block]
    if block.numel % count:
        refuse(f"tl.map_elementwise with pack={count} of {block.numel} elements", "a multiple of pack")
    n = block.numel // count
    rows = reshape(block, (n, count))
    return [reshape(picked(rows, 1, number, count), (n,)) for number in range(count)]


def _in_turn(blocks: list[tensor]) -> tensor:
    """Returns the elements of *blocks*, a power of two of them, in turn: the first of each, the second of each, ..."""
    if len(blocks) == 1:
        return blocks[0]
    return stacked(_in_turn(blocks[::2]), _in_turn(blocks[1::2]), blocks[0].rank)


class _Paths:
    """The paths of *function* with *blocks* through its branches."""

    def __init__(self, function: Callable[..., Any], blocks: list[tensor]) -> None:
        self._function = function
        self._blocks = blocks
        self._is_single = True
        self._n_calls = 0

    def results(self) -> tuple[list[tensor], bool]:
        """Returns the results of the function, and whether it returns a single value and no tuple."""
        return self._after(()), self._is_single

    def _after(self, answers: tuple[bool, ...]) -> list[tensor]:
        """Returns the results over all paths on which the first questions of the function have *answers*."""
        self._n_calls += 1
        self._check(self._n_calls)
        asked: list[tensor] = []

        def answer(question: tensor) -> bool:
            asked.append(question)
            self._check(len(asked))
            return answers[len(asked) - 1] if len(asked) <= len(answers) else True

        with answering(answer):
            given = self._function(*self._blocks)
        self._is_single = not isinstance(given, (tuple, list))
        found = [as_tensor(each) for each in ((given,) if self._is_single else given)]
        for at in reversed(range(len(answers), len(asked))):
            others = self._after((*answers, *(True,) * (at - len(answers)), False))
            if len(others) != len(found):
                refuse(
                    f"a function of tl.map_elementwise with {len(found)} results or {len(others)}",
                    "the same number on each path",
                )
            found = [where(asked[at], one, other) for one, other in zip(found, others, strict=True)]
        return found

    def _check(self, n_paths: int) -> None:
        if n_paths > MOST_PATHS:
            refuse(f"a function of tl.map_elementwise with over {MOST_PATHS} paths through its branches",
                   "fewer branches, and loops whose turns no element decides")  # fmt: skip
