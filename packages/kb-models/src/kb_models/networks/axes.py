"""Laid: a tensor of a network as a value of rows and columns. Its axes may be cut, merged and exchanged without a copy.

An axis of the tensor is made of atoms, and an atom lies along the rows or along the columns of the value. An image of
NCHW is a value whose rows have the atoms N, H and W, and whose columns have C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_models.layout import Value

Places = npt.NDArray[np.int64]
"""For each row or column of a result, the row or column of an operand."""


class Atom(Struct, frozen=True, eq=False):
    """A part of an axis of *size* elements. Atoms are told apart by identity."""

    size: int


Axis = tuple[Atom, ...]


class Laid(NamedTuple):
    """A tensor with the axes *axes* in *value*, whose rows and columns run over the atoms *rows* and *cols*, the last
    one fastest. Axes of one element have no atoms. An atom in neither repeats the tensor along its axis."""

    value: Value
    rows: Axis
    cols: Axis
    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(size_of(axis) for axis in self.axes)

    @property
    def is_whole(self) -> bool:
        """Whether each element of the tensor has a place of its own."""
        return math.prod(self.shape) == size_of(self.rows) * size_of(self.cols)

    def repeated(self, shape: Sequence[int]) -> Laid:
        """The tensor with axes of one element repeated to *shape*, and axes in front of it."""
        axes = ((),) * (len(shape) - len(self.axes)) + self.axes
        return self._replace(
            axes=tuple(axis or (Atom(n),) if n > 1 else () for axis, n in zip(axes, shape, strict=True))
        )

    def transposed(self, order: Sequence[int]) -> Laid:
        """The tensor with its axes in another *order*."""
        return self._replace(axes=tuple(self.axes[number] for number in order))

    def reshaped(self, shape: Sequence[int]) -> Laid | None:
        """The tensor in another *shape* of as many elements; None where that needs a copy."""
        atoms = [atom for axis in self.axes for atom in axis]
        found = self
        axes: list[Axis] = []
        for size in shape:
            axis: list[Atom] = []
            left = size
            while left > 1:
                atom = atoms.pop(0)
                if atom.size > left:
                    if atom.size % left:
                        return None
                    parts = Atom(left), Atom(atom.size // left)
                    found = found._replace(rows=cut_in(found.rows, atom, parts), cols=cut_in(found.cols, atom, parts))
                    atom = parts[0]
                    atoms.insert(0, parts[1])
                elif left % atom.size:
                    return None
                axis.append(atom)
                left //= atom.size
            axes.append(tuple(axis))
        return found._replace(axes=tuple(axes))

    def on(self, value: Value) -> Laid:
        """The same tensor in another *value* of the same rows and columns."""
        return self._replace(value=value)


def size_of(axis: Axis) -> int:
    """The elements of *axis*."""
    return math.prod(atom.size for atom in axis)


def cut_in(axis: Axis, atom: Atom, parts: Sequence[Atom]) -> Axis:
    """*axis* with *parts* in place of *atom*, where it has that."""
    return tuple(each for old in axis for each in (parts if old is atom else (old,)))


def laid(value: Value, shape: Sequence[int], n_row_axes: int) -> Laid:
    """A tensor of *shape* whose first *n_row_axes* axes are the rows of *value*, and whose other axes the columns."""
    axes = tuple((Atom(size),) if size > 1 else () for size in shape)
    rows, cols = (tuple(atom for axis in some for atom in axis) for some in (axes[:n_row_axes], axes[n_row_axes:]))
    return Laid(value, rows, cols, axes)


def image(value: Value, shape: Sequence[int]) -> Laid:
    """A tensor of *shape*, images with their channels second, whose pixels are the rows of *value*: NHWC in memory."""
    axes = tuple((Atom(size),) if size > 1 else () for size in shape)
    batch, channels, *pixels = axes
    return Laid(value, (*batch, *(atom for axis in pixels for atom in axis)), channels, axes)


def places(along: Axis, index_of: dict[Atom, Places], size: int) -> Places:
    """For each of *size* rows or columns of a result, the row or column over *along*. *index_of* has the index in each
    atom of *along*, for each row or column of the result."""
    found = np.zeros(size, np.int64)
    for atom in along:
        found = found * atom.size + index_of[atom]
    return found


def indices(along: Axis) -> dict[Atom, Places]:
    """For each atom of *along*, its index at each row or column over *along*."""
    size = size_of(along)
    found, at = {}, np.arange(size)
    for atom in reversed(along):
        found[atom], at = at % atom.size, at // atom.size
    return found


def is_last(along: Axis, axis: Axis) -> bool:
    """Whether the atoms of *axis* are the last ones of *along*, in their order. True for an axis of one element."""
    return not axis or along[-len(axis) :] == axis


def common_cuts(number: int, tensors: Sequence[Laid]) -> list[int] | None:
    """The sizes into which axis *number* is cut so that it is whole atoms in all of *tensors*; None if there are none.

    Tensors with one element there, where others have more, are left out.
    """
    whole = max(size_of(tensor.axes[number]) for tensor in tensors)
    cuts = {1, whole}
    for tensor in tensors:
        size = 1
        for atom in reversed(tensor.axes[number]):
            size *= atom.size
            cuts.add(size)
    order = sorted(cuts, reverse=True)
    if any(one % other for one, other in pairwise(order)):
        return None
    return [one // other for one, other in pairwise(order)] or [1]


def merged(axes: Sequence[Axis], counts: Sequence[int]) -> tuple[Axis, ...]:
    """*axes* put together: the first `counts[0]` of them as one, and so on."""
    found, at = [], 0
    for count in counts:
        found.append(tuple(atom for axis in axes[at : at + count] for atom in axis))
        at += count
    return tuple(found)


def same_layout(one: Laid, other: Laid) -> bool:
    """Whether two tensors of one shape have their elements at the same rows and columns."""
    return _order(one) == _order(other)


def _order(tensor: Laid) -> list[list[tuple[int, int, int]]]:
    place = {
        id(atom): (number, at, atom.size) for number, axis in enumerate(tensor.axes) for at, atom in enumerate(axis)
    }
    return [[place[id(atom)] for atom in side] for side in (tensor.rows, tensor.cols)]
