"""Reductions and scans with a function of the kernel, and which of these functions is a reduction of the chip."""

from __future__ import annotations

import dis
from collections.abc import Callable, Hashable, Iterator
from math import inf, nan
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, ref

import numpy as np

from kb_engine.program import Affine
from kb_messages import KernelError
from kb_triton.language.elementary import maximum
from kb_triton.language.orders import flip, gather
from kb_triton.language.reductions import axis_of, reduced, scanned
from kb_triton.language.selection import where
from kb_triton.language.shapes import picked, reshape, stacked
from kb_triton.language.tensors.arithmetic import as_tensor
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import NUMPY, bounds, dtype, float32, int1, int32, wrapped
from kb_triton.language.tensors.program import refuse
from kb_triton.language.tensors.tensor import provide, tensor
from kb_triton.language.tensors.values import NUMBERS

Combine = Callable[..., Any]
_REDUCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "max": max, "min": min, "reduce_or": lambda a, b: a | b,
    "reduce_and": lambda a, b: a & b, "reduce_xor": lambda a, b: a ^ b,
}  # fmt: skip
_SMALL: Final = [(int(a), int(b)) for a, b in np.random.default_rng(0).integers(1, 100, (12, 2))]
_FLOATS: Final = [
    *((a + 0.5, b - 99.5) for a, b in _SMALL), *((b - 99.5, a + 0.25) for a, b in _SMALL),
    (0.0, 1.0), (-1.0, 0.0), (0.0, 0.0), (1e30, 1e-30), (-1e-30, -1e30), (1e4, 1e-4), (inf, 2.0), (-3.0, -inf),
]  # fmt: skip
_BOOLEANS: Final = [(False, False), (False, True), (True, False), (True, True)]
_OWN: Final = "kb_triton."
_CONSTANTS: Final = frozenset(("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST"))


def reduction_of(combine: Combine, kind: dtype) -> str | None:
    """Returns the name of the chip's reduction that *combine* equals for values of *kind*; None where it equals none.

    The function is called with some pairs of numbers of the type. A function with numeric constants may do something
    else for a number that is not tried, so such a function is never taken for a reduction of the chip.
    """
    fn, names = getattr(combine, "fn", combine), _names_of(combine)
    if not isinstance(fn, FunctionType):
        return _tried(combine, kind)
    kept = _FOUND.setdefault(fn, {})
    found = kept.get(kind)
    if found is None or found.names != names:
        found = kept[kind] = _Found(names, _tried(combine, kind))
    return found.reduction


class _Found(NamedTuple):
    """The cached result for a function. It holds while the names in the function's code have the same values."""

    names: tuple[Hashable, ...]
    reduction: str | None


_FOUND: Final = WeakKeyDictionary[FunctionType, dict[dtype, _Found]]()


def _tried(combine: Combine, kind: dtype) -> str | None:
    """Tries *combine* on pairs of numbers, and returns the result of `reduction_of`."""
    if not _is_without_numbers(combine):
        return None
    own = float32 if kind.is_float else kind
    pairs = _BOOLEANS if kind is int1 else _FLOATS if kind.is_float else _integers(kind)
    try:
        numbers = [getattr(each, "value", each) for each in (combine(*_scalars(pair, own)) for pair in pairs)]
    except (TypeError, KernelError):
        return None
    if any(type(each) not in NUMBERS for each in numbers):
        return None
    for name in _candidates(kind):
        made = [_REDUCTIONS[name](*pair) for pair in pairs]
        expected = made if kind.is_float or kind is int1 else [wrapped(each, kind) for each in made]
        if all(_agree(*pair, kind) for pair in zip(numbers, expected, strict=True)):
            return f"{name}_number" if name in ("max", "min") and kind.is_float and _drops_nan(combine) else name
    return None


def _names_of(combine: Combine) -> tuple[Hashable, ...]:
    """Returns references to the functions, or types, behind the names in the code of *combine* and of its callees.

    The references are weak, so they keep nothing alive. Functions of kb_triton do not change, so their names are left
    out.
    """
    ahead: list[Any] = [combine]
    found: dict[Hashable, None] = {}
    for each in ahead:
        # A module of Triton's would search for near names of "fn".
        fn = each if isinstance(each, ModuleType) else getattr(each, "fn", each)
        if isinstance(fn, FunctionType) and ref(fn) not in found and not _is_own(fn):
            ahead += [fn.__globals__.get(name) for name in fn.__code__.co_names]
        found[ref(fn) if isinstance(fn, FunctionType) else (len(found), ref(type(fn)))] = None
    return tuple(found)


def _agree(one: Any, two: Any, kind: dtype) -> bool:
    """Whether the two results are equal; two floats may differ by a rounding."""
    return bool(one == two or (kind.is_float and abs(one - two) <= 1e-5 * abs(two)))


def _candidates(kind: dtype) -> list[str]:
    """Returns the reductions for *kind*: floats have no bitwise ones, and booleans have only bitwise ones."""
    if kind.is_float:
        return [each for each in _REDUCTIONS if not each.startswith("reduce")]
    return [each for each in _REDUCTIONS if kind is not int1 or each.startswith("reduce")]


def _scalars(pair: tuple[Any, Any], kind: dtype) -> tuple[tensor, tensor]:
    return tensor(pair[0], (), kind), tensor(pair[1], (), kind)


def _integers(kind: dtype) -> list[tuple[int, int]]:
    """Returns pairs of small integers, of the limits of *kind*, and of random integers of *kind*."""
    low, high = bounds(kind)
    edges = [(0, 0), (0, high), (low, 0), (low, high), (high, low), (high, high), (low, low), (7, 7)]
    drawn = np.random.default_rng(1).integers(low, high, (12, 2), NUMPY[kind.name], endpoint=True)
    return [*_SMALL, *edges, *((int(a), int(b)) for a, b in drawn)]


def _drops_nan(combine: Combine) -> bool:
    """Whether *combine*, an extreme, returns the number for NaN and a number in at least one order."""
    pair = _scalars((nan, 1.0), float32)
    return any(each.value == each.value for each in (combine(*pair), combine(*pair[::-1])))


def _is_without_numbers(combine: Any, seen: frozenset[Any] = frozenset()) -> bool:
    """Whether the code of *combine* and of its callees has no numeric constant, default or closure."""
    fn = getattr(combine, "fn", combine)
    if fn in seen or _is_own(fn):
        return True
    if not isinstance(fn, FunctionType) or fn.__closure__ or fn.__defaults__ or fn.__kwdefaults__:
        return False
    if not all(map(_is_without_number, _constants(fn))):
        return False
    return all(_is_known(fn.__globals__.get(name), seen | {fn}) for name in fn.__code__.co_names)


def _is_own(fn: Any) -> bool:
    return str(getattr(fn, "__module__", "")).startswith(_OWN)


def _constants(fn: FunctionType) -> Iterator[Any]:
    return (each.argval for each in dis.get_instructions(fn) if each.opname in _CONSTANTS)


def _is_without_number(constant: Any) -> bool:
    """Whether *constant* is None, a text, or a tuple of these. The code of a nested lambda is not."""
    if isinstance(constant, tuple):
        return all(map(_is_without_number, constant))
    return constant is None or isinstance(constant, str)


def _is_known(value: Any, seen: frozenset[Any]) -> bool:
    """Whether *value*, of a global name, brings no number. None stands for attributes and builtins of Python."""
    if value is None or isinstance(value, dtype):
        return True
    if isinstance(value, ModuleType):
        return value.__name__.startswith(_OWN) or type(value).__module__.startswith(_OWN)
    return _is_without_numbers(value, seen)


_SCANS: Final = {
    "sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin", "max_number": "cummax_number",
    "min_number": "cummin_number",
}  # fmt: skip


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:  # noqa: A002
    """Returns *input*, a block or a tuple of blocks, combined over *axis* by *combine_fn*."""
    blocks, is_tuple = _blocks(input)
    if axis is None:
        blocks, axis = [reshape(each, (each.numel,)) for each in blocks], 0
    at = axis_of(blocks[0], axis, "tl.reduce")
    name = reduction_of(combine_fn, blocks[0].dtype) if len(blocks) == 1 else None
    if name is not None:
        found = [_in_type(reduced(name, blocks[0], at, keep_dims), blocks[0].dtype)]
    else:
        found = [_without(each, at, keep_dims) for each in _halved(blocks, at, combine_fn)]
    return tuple(found) if is_tuple else found[0]


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False) -> Any:  # noqa: A002
    """Returns, for each element of *input*, all elements up to it along *axis* combined by *combine_fn*.

    *input* is a block or a tuple of blocks. With *reverse*, the elements from the element on are combined.
    """
    blocks, is_tuple = _blocks(input)
    at = axis_of(blocks[0], axis, "tl.associative_scan")
    name = reduction_of(combine_fn, blocks[0].dtype) if len(blocks) == 1 else None
    if name in _SCANS and blocks[0].dtype is not int1:
        found = [scanned(_SCANS[name], blocks[0], at, reverse)]
    else:
        turned = [flip(each, at) if reverse else each for each in blocks]
        found = [flip(each, at) if reverse else each for each in _scanned(turned, at, combine_fn)]
    return tuple(found) if is_tuple else found[0]


def _blocks(given: Any) -> tuple[list[tensor], bool]:
    is_tuple = isinstance(given, (tuple, list))
    return [as_tensor(each) for each in (given if is_tuple else (given,))], is_tuple


def _in_type(x: tensor, kind: dtype) -> tensor:
    return x if x.dtype == kind else cast(x, kind)


def _without(x: tensor, axis: int, keep_dims: Any) -> tensor:
    return x if keep_dims else reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _halved(blocks: list[tensor], axis: int, combine: Combine) -> list[tensor]:
    """Returns *blocks* combined over *axis*, pair by pair until the axis has length 1."""
    while blocks[0].shape[axis] > 1:
        halves = [_halves(each, axis) for each in blocks]
        blocks = _combined(combine, [each[0] for each in halves], [each[1] for each in halves], blocks)
    return blocks


def _combined(combine: Combine, one: list[tensor], two: list[tensor], like: list[tensor]) -> list[tensor]:
    found = combine(*one, *two)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(results) != len(like):
        refuse(f"a combine function of {len(like)} values that returns {len(results)}", f"{len(like)} results")
    return [_in_type(as_tensor(each), block.dtype) for each, block in zip(results, like, strict=True)]


def _halves(x: tensor, axis: int) -> tuple[tensor, tensor]:
    """Returns the elements of *x* at even and at odd indices along *axis*."""
    return picked(x, axis, 0, 2), picked(x, axis, 1, 2)


def _scanned(blocks: list[tensor], axis: int, combine: Combine) -> list[tensor]:
    """Returns the scan of *blocks* along *axis*.

    The scan of combined neighbours, half as long, has the results at odd indices. The results at even indices combine
    these with the elements of *blocks*.
    """
    if blocks[0].shape[axis] == 1:
        return blocks
    halves = [_halves(each, axis) for each in blocks]
    evens, odds = ([each[number] for each in halves] for number in (0, 1))
    at_odd = _scanned(_combined(combine, evens, odds, blocks), axis, combine)
    shape = at_odd[0].shape
    index = tensor(Affine.along(shape, axis), shape, int32) if shape[axis] > 1 else tensor(0, shape, int32)
    before = [gather(each, maximum(index - 1, 0), axis) if each.shape[axis] > 1 else each for each in at_odd]
    further = _combined(combine, before, evens, blocks)
    at_even = [where(index == 0, one, two) for one, two in zip(evens, further, strict=True)]
    return [_in_turn(one, two, axis) for one, two in zip(at_even, at_odd, strict=True)]


def _in_turn(one: tensor, two: tensor, axis: int) -> tensor:
    found = stacked(one, two, axis + 1)
    return reshape(found, (*one.shape[:axis], 2 * one.shape[axis], *one.shape[axis + 1 :]))


provide(reduce=reduce, associative_scan=associative_scan)
