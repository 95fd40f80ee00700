"""Reductions and scans with a function of the kernel."""

from __future__ import annotations

from typing import Any, Final

from kb_engine.program import Affine
from kb_triton.language.arithmetic import as_tensor
from kb_triton.language.casts import cast
from kb_triton.language.dtypes import dtype, int1, int32
from kb_triton.language.elementary import maximum
from kb_triton.language.orders import flip, gather
from kb_triton.language.program import refuse
from kb_triton.language.recognition import Combine, reduction_of
from kb_triton.language.reductions import axis_of, reduced, scanned
from kb_triton.language.selection import where
from kb_triton.language.shapes import picked, reshape, stacked
from kb_triton.language.tensor import provide, tensor

_SCANS: Final = {
    "sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin", "max_number": "cummax_number",
    "min_number": "cummin_number",
}  # fmt: skip


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False) -> Any:  # noqa: A002
    """The elements of *input*, a block or a tuple of blocks, combined over *axis* by *combine_fn*."""
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
    """For each element of *input*, a block or a tuple of blocks, all up to it along *axis*, combined."""
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
    """*blocks* combined over *axis* in pairs, until its length is 1."""
    while blocks[0].shape[axis] > 1:
        halves = [_halves(each, axis) for each in blocks]
        blocks = _combined(combine, [each[0] for each in halves], [each[1] for each in halves], blocks)
    return blocks


def _combined(combine: Combine, one: list[tensor], two: list[tensor], like: list[tensor]) -> list[tensor]:
    found = combine(*one, *two)
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(results) != len(like):
        refuse(f"a combine function of {len(like)} values that returns {len(results)}", "as many")
    return [_in_type(as_tensor(each), block.dtype) for each, block in zip(results, like, strict=True)]


def _halves(x: tensor, axis: int) -> tuple[tensor, tensor]:
    """The elements of *x* at even and at odd indices along *axis*."""
    return picked(x, axis, 0, 2), picked(x, axis, 1, 2)


def _scanned(blocks: list[tensor], axis: int, combine: Combine) -> list[tensor]:
    """The scan of *blocks*: that of neighbours combined, which has every second element, and from it the others."""
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
