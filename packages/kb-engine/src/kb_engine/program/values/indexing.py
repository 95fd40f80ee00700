"""Indices of elements of a tensor that are no rectangle: strided slices, dropped dimensions, lists of indices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_engine.program.values.affine import Affine, merged_axes, places_before
from kb_engine.program.values.handles import INDEX_USE, Handle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import Symbol, is_span_inside, plain, whole
from kb_messages import KernelError

Integers: TypeAlias = "Affine | npt.NDArray[np.int64]"
"""Integers over the elements of a reference. An array has length 1 along axes on which its integers do not change."""


_NOWHERE = -1
"""The index of an element that a slice asks for beyond a list of indices."""


class SlicePick(NamedTuple):
    """A slice of an axis: the kernel asked for `n_asked` elements, of which `n_inside` lie inside the tensor."""

    start: int
    step: int
    n_asked: int
    n_inside: int


Pick: TypeAlias = "SlicePick | int | Integers | None"
"""The effect of a key on an axis: a slice cuts it, an integer drops it, integers replace it. None makes an axis of
length 1."""


class Indices(NamedTuple):
    """The index in each dimension of a tensor, of every element of a reference.

    `shape` is the shape that the kernel asked for; `inside` counts the elements of each axis that lie inside the
    tensor. `limits` are, for each dimension, the first index that may be accessed, and the end.
    """

    dimensions: tuple[Integers, ...]
    shape: tuple[int, ...]
    inside: tuple[int, ...]
    limits: tuple[tuple[int, int], ...]

    def rectangle(self, sizes: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Rows and columns of a tensor of *sizes*, if the elements inside are adjacent ones of adjacent rows.

        The leading dimensions of the tensor are its rows. Columns are the last axis of the reference, and there is at
        most one axis more.
        """
        shape = self.inside
        if len(shape) > 2 or any(isinstance(each, np.ndarray) for each in self.dimensions):
            return None
        cut = tuple(slice(n) for n in shape)
        inside = [one for each in self.dimensions if isinstance(each, Affine) and (one := each.at(cut)) is not None]
        row, col = rows_and_columns(inside, sizes, shape)
        assert isinstance(row, Affine)
        assert isinstance(col, Affine)
        found = spans(row, col, Affine(shape, 0, places_before(shape)))
        if found is None or (found[2] != shape[-1] and found[0][1] - found[0][0] > 1):
            return None
        return found[:2]

    @classmethod
    def of_slices(
        cls, starts: Sequence[int], shape: tuple[int, ...], inside: tuple[int, ...], dropped: tuple[int, ...] = ()
    ) -> Indices:
        """Slices of step 1 that begin at *starts*. The dimensions *dropped* have one index and no axis."""
        moved, limits, axes = list[Integers](), list[tuple[int, int]](), iter(range(len(shape)))
        for number, start in enumerate(starts):
            axis = None if number in dropped else next(axes)
            one = Affine.constant(start, shape)
            moved.append(one if axis is None else Affine.along(shape, axis).plus(one))
            limits.append((start, start + (1 if axis is None else inside[axis])))
        return cls(tuple(moved), shape, inside, tuple(limits))

    def at(self, key: Any, where: object) -> Indices:
        """The indices at *key*, by numpy's indexing. Raises KernelError, at *where*, for a key that is no index."""
        picks = self._picks(key, where)
        lists = [number for number, each in enumerate(picks) if isinstance(each, (Affine, np.ndarray))]
        if not lists:
            return self._cut(picks, None)
        if any(isinstance(each, np.ndarray) for each in self.dimensions):
            raise KernelError(str(where), "a second list of indices", "one", "index once, by all lists together")
        advanced = [at for at, each in enumerate(picks) if isinstance(each, (int, Affine, np.ndarray))]
        beside = all(later == at + 1 for at, later in pairwise(advanced))
        front = sum(each is None or isinstance(each, SlicePick) for each in picks[: advanced[0]]) if beside else 0
        try:
            common = np.broadcast_shapes(*(picks[at].shape for at in lists))  # type: ignore[union-attr]
        except ValueError:
            shapes = ", ".join(" x ".join(map(str, picks[at].shape)) for at in lists)  # type: ignore[union-attr]
            raise KernelError(str(where), f"lists of indices of {shapes}", "shapes that broadcast") from None
        return self._cut(picks, (front, common))

    def _cut(self, picks: list[Pick], lists: tuple[int, tuple[int, ...]] | None) -> Indices:
        """The elements that *picks* choose. *lists* are the place and the shape of the axes of lists of indices."""
        kept = [each for each in picks if each is None or isinstance(each, SlicePick)]
        shape = [1 if each is None else each.n_asked for each in kept]
        inside = [1 if each is None else each.n_inside for each in kept]
        front, common = lists or (0, ())
        shape[front:front], inside[front:front] = common, common
        found = tuple(
            _affine(each, picks, tuple(shape), (front, common)) if isinstance(each, Affine) else _data(each, picks)
            for each in self.dimensions
        )
        return Indices(found, tuple(shape), tuple(inside), self.limits)

    def _picks(self, key: Any, where: object) -> list[Pick]:
        """*key* as one pick for each axis, and one for each new axis."""
        keys = list(key) if isinstance(key, tuple) else [key]
        n_axes = sum(each is not None and each is not Ellipsis for each in keys)
        if n_axes > len(self.shape) or sum(each is Ellipsis for each in keys) > 1:
            raise KernelError(str(where), f"{n_axes} indices", f"at most {len(self.shape)}")
        at = next((number for number, each in enumerate(keys) if each is Ellipsis), len(keys))
        keys[at : at + 1] = [slice(None)] * (len(self.shape) - n_axes)
        axes = iter(self.inside)
        return [None if each is None else _pick(each, next(axes), where) for each in keys]


def is_basic(key: Any) -> bool:
    """Whether *key* is an integer or a slice of step 1, so that a reference stays a rectangle."""
    if isinstance(key, slice):
        return key.step is None or key.step == 1
    if isinstance(key, Handle):
        return not key.shape
    return not isinstance(key, (HostValue, np.ndarray)) and key is not None and key is not Ellipsis


def cut_span(span: tuple[int, int], asked: int, key: Any, where: object) -> tuple[tuple[int, int], int]:
    """The part of *span* that *key* chooses, and the end that *key* asks for. *asked* is the end that the kernel asked
    *span* for.

    Raises KernelError, at *where*, for an empty slice, an index beyond the elements, another step than 1, and anything
    but integers.
    """
    start, end = span
    if type(key) is slice and key.step is None and type(start) is type(end) is int:
        first, last = key.start, key.stop
        if type(first) is type(last) is int:
            if 0 <= first < last <= end - start:
                return (start + first, start + last), start + last
        elif first is last is None:
            return span, asked
        elif start == 0 and is_span_inside(first, last, end):
            return (first, last), last
    try:
        part = key if isinstance(key, slice) else slice(whole(key), whole(key) + 1 or None)
        first, last, step = bounds_of(part, end - start)
    except TypeError as error:
        raise KernelError(str(where), f"the index {key!r}", "integers or slices of integers") from error
    if step != 1:
        raise KernelError(str(where), f"a slice with step {step}", "step 1")
    if last <= first:
        if not isinstance(key, slice):
            size = end - start
            raise KernelError(str(where), f"the index {whole(key)} of {size} elements", f"{-size} to {size - 1}")
        got = f"an empty slice {part.start}:{part.stop} of {end - start} elements"
        raise KernelError(str(where), got, "at least one element")
    if not isinstance(key, slice):
        asked = start + last
    elif key.stop is not None:
        asked = start + max(last, whole(key.stop))
    begin = start + first
    return (begin, begin + plain(last - first)), begin + plain(asked - begin)


def bounds_of(part: slice, size: int) -> tuple[int, int, int]:
    """The start, end and step of *part*, by `slice.indices`. Works for symbols too."""
    if type(size) is int and type(part.start) is not Symbol and type(part.stop) is not Symbol:
        return part.indices(size)
    step = 1 if part.step is None else plain(part.step)
    if type(step) is not int or step < 1:
        return slice(plain(part.start), plain(part.stop), step).indices(plain(size))
    first = 0 if part.start is None else whole(part.start)
    last = size if part.stop is None else whole(part.stop)
    first, last = (max(each + size, 0) if each < 0 else min(each, size) for each in (first, last))
    return first, last, step


def _pick(key: Any, inside: int, where: object) -> Pick:
    """The pick of *key* from an axis with *inside* elements in the tensor."""
    if isinstance(key, slice):
        return _stretch(key, inside, where)
    if isinstance(key, Handle) and key.shape:
        key = key.look(INDEX_USE)
    if isinstance(key, np.ndarray) and key.shape and key.dtype.kind in "iu":
        key = HostValue(key, lambda: str(where))
    if isinstance(key, HostValue) and key.shape:
        if key.is_mask:
            raise KernelError(str(where), f"an index of {key}", "integers", "pass booleans as a mask of the call")
        return key.form if isinstance(key.form, Affine) else key.data
    try:
        number: int = whole(key)
    except TypeError as error:
        needs = "integers, slices of integers, or integers that are known while the kernel runs"
        raise KernelError(str(where), f"the index {key!r}", needs) from error
    if not -inside <= number < inside:
        raise KernelError(str(where), f"index {number} of {inside} elements", f"{-inside} to {inside - 1}")
    return number % inside


def _stretch(key: slice, inside: int, where: object) -> SlicePick:
    """The pick of the slice *key* from an axis with *inside* elements in the tensor. A slice that goes forward keeps
    the end that it asks for."""
    try:
        first, last, step = bounds_of(key, inside)
        asked = last if key.stop is None or step < 0 else max(last, whole(key.stop))
    except (TypeError, ValueError) as error:
        raise KernelError(str(where), f"the slice {key}", "integers, and a step that is not 0") from error
    count, n_asked = (len(range(0, plain(end - first), step)) for end in (last, asked))
    if count < 1:
        got = f"an empty slice {key.start}:{key.stop} of {inside} elements"
        raise KernelError(str(where), got, "at least one element")
    return SlicePick(first, step, n_asked, count)


def _affine(
    dimension: Affine, picks: list[Pick], shape: tuple[int, ...], lists: tuple[int, tuple[int, ...]]
) -> Integers:
    """*dimension* at the elements that *picks* choose."""
    front, common = lists
    base, steps, new = dimension.base, list[int](), list[Integers]()
    old = iter(dimension.steps)
    for each in picks:
        if each is None:
            steps.append(0)
            continue
        step = next(old)
        if isinstance(each, SlicePick):
            base += each.start * step
            steps.append(each.step * step if each.n_asked > 1 else 0)
        elif isinstance(each, int):
            base += each * step
        elif step:
            new.append(each.times(step) if isinstance(each, Affine) else each * step)
    steps[front:front] = [0] * len(common)
    found: Integers = Affine(shape, base, tuple(steps))
    behind = len(shape) - front - len(common)
    for each in new:
        if isinstance(each, Affine) and isinstance(found, Affine):
            spread = (0,) * (len(common) - len(each.shape)) + each.steps
            found = found.plus(Affine(shape, each.base, (0,) * front + spread + (0,) * behind))
        else:
            array = spread_out(each)
            found = spread_out(found) + array.reshape((*array.shape, *(1,) * behind))
    return found


def _data(dimension: npt.NDArray[np.int64], picks: list[Pick]) -> npt.NDArray[np.int64]:
    """*dimension* at the elements that *picks*, which hold no lists, choose."""
    axis = 0
    found: npt.NDArray[np.int64] = dimension
    for each in picks:
        if each is None:
            found = np.expand_dims(found, axis)
        elif isinstance(each, SlicePick):
            if found.shape[axis] > 1:
                chosen = each.start + each.step * np.arange(each.n_asked)
                beyond = chosen >= found.shape[axis]
                found = found.take(np.where(beyond, 0, chosen), axis)
                found[(slice(None),) * axis + (beyond,)] = _NOWHERE
        else:
            assert isinstance(each, int)
            found = np.take(found, [each if found.shape[axis] > 1 else 0], axis).squeeze(axis)
            continue
        axis += 1
    return found


def spread_out(integers: Integers) -> npt.NDArray[np.int64]:
    """*integers* as an array, of length 1 along axes on which they do not change."""
    if isinstance(integers, np.ndarray):
        return integers
    shape = tuple(n if step else 1 for n, step in zip(integers.shape, integers.steps, strict=True))
    return Affine(shape, integers.base, integers.steps).data()


def combined(dimensions: Sequence[Integers], factors: Sequence[int], shape: tuple[int, ...]) -> Integers:
    """The sum of *dimensions* times *factors*, over *shape*."""
    found: Integers = Affine.constant(0, shape)
    for each, factor in zip(dimensions, factors, strict=True):
        if isinstance(each, Affine) and isinstance(found, Affine):
            found = found.plus(each.times(factor))
        else:
            found = spread_out(found) + spread_out(each) * factor
    return found


def rows_and_columns(
    dimensions: Sequence[Integers], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Integers, Integers]:
    """The row and the column, in a tensor of *sizes* whose leading dimensions are its rows, of every element."""
    return combined(dimensions[:-1], places_before(sizes[:-1]), shape), dimensions[-1]


def spans(row: Affine, col: Affine, place: Affine) -> tuple[tuple[int, int], tuple[int, int], int] | None:
    """The rows, the columns, and the places of a tile from row to row, of adjacent elements of adjacent rows.

    None where the elements are no such rectangle, or their places in a tile are not in the same order.
    """
    axes = merged_axes(row.shape, (row.steps, col.steps, place.steps))
    n_cols = axes.pop()[0] if axes and axes[-1][1] == (0, 1, 1) else 1
    if len(axes) > 1 or (axes and axes[0][1][:2] != (1, 0)):
        return None
    n_rows, (_, _, pitch) = axes[0] if axes else (1, (0, 0, n_cols))
    return (row.base, row.base + n_rows), (col.base, col.base + n_cols), pitch
