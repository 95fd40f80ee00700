"""Cuts a function that puts elements in another order into pieces: rectangles of its operands and of its result.

Operands and result lie row by row, so the place of an element is a sum of steps. A piece has a range of indices along
each axis of the order. One rectangle of an operand covers the elements that the piece reads, and its result is a
rectangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from kb_messages import MathAttributes, Matrix


class ElementBlock(NamedTuple):
    """`rows` runs of `cols` elements each, `stride` apart, of a value whose elements lie one after the other."""

    first: int
    rows: int
    cols: int
    stride: int

    @property
    def size(self) -> int:
        """Elements."""
        return self.rows * self.cols

    def of(self, matrix: Matrix) -> Matrix:
        """The block of *matrix*, which lies packed."""
        nbytes, at = matrix.dtype.nbytes, matrix.address + self.first * matrix.dtype.nbytes
        return Matrix(address=at, rows=self.rows, cols=self.cols, stride=self.stride * nbytes, dtype=matrix.dtype)

    def step(self, step: int) -> int:
        """The distance, in the block alone, of two elements that are *step* apart in the value."""
        rows, cols = divmod(abs(step), self.stride) if self.rows > 1 else (0, abs(step))
        return (rows * self.cols + cols) * (-1 if step < 0 else 1)


class LayoutPiece(NamedTuple):
    """The op `math` on `inputs`, numbers of operands and blocks of them, which makes the block `out` of the result."""

    math: MathAttributes
    inputs: tuple[tuple[int, ElementBlock], ...]
    out: ElementBlock


class LayoutRange(NamedTuple):
    """`lengths` indices from `starts` on, along each axis, of an order of *math* over operands of *sizes* elements."""

    math: MathAttributes
    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def whole(cls, math: MathAttributes, sizes: Sequence[int]) -> LayoutRange:
        """All indices."""
        return cls(math, tuple(sizes), (0,) * len(math.lengths), math.lengths)

    def piece(self) -> LayoutPiece | None:
        """The piece that makes the range by one op; None if the range mixes both operands other than alternating along
        an axis."""
        out = _covering(_sum(self.starts, self._out_steps), self.lengths, self._out_steps)
        steps, first = self.math.strides, self._first
        if len(self.sizes) == 1 or self._high < self.sizes[0] or self._low >= self.sizes[0]:
            number = int(len(self.sizes) > 1 and self._low >= self.sizes[0])
            block = _covering(first - self.sizes[0] * number, self.lengths, steps)
            return LayoutPiece(self._order("rearrange", block, steps), ((number, block),), out)
        axis = self._turn()
        if axis is None:
            return None
        lengths = tuple(1 if at == axis else length for at, length in enumerate(self.lengths))
        blocks = [_covering(first, lengths, steps), _covering(first + steps[axis] - self.sizes[0], lengths, steps)]
        math = self._order("combine", blocks[0], steps, axis)
        return LayoutPiece(math, ((0, blocks[0]), (1, blocks[1])), out)

    def halves(self) -> tuple[LayoutRange, LayoutRange] | None:
        """The range in two parts: between two operands that are read, else small ones; None for one element."""
        if self._low < self.sizes[0] <= self._high and self._turn() is None:
            for axis, (length, step) in enumerate(zip(self.lengths, self.math.strides, strict=True)):
                place = -(-(self.sizes[0] - self._first) // step) if step > 0 else 0
                if 0 < place < length and all(map(_is_block, self._cut(axis, place))):
                    return self._cut(axis, place)
        cuts = [self._cut(axis, -(-length // 2)) for axis, length in enumerate(self.lengths) if length > 1]
        return min((each for each in cuts if all(map(_is_block, each))), key=_larger, default=None)

    @property
    def _out_steps(self) -> tuple[int, ...]:
        whole = self.math.lengths
        return tuple(prod(whole[axis + 1 :]) for axis in range(len(whole)))

    @property
    def _first(self) -> int:
        return self.math.first + _sum(self.starts, self.math.strides)

    @property
    def _low(self) -> int:
        return _covering(self._first, self.lengths, self.math.strides).first

    @property
    def _high(self) -> int:
        ends = ((length - 1) * step for length, step in zip(self.lengths, self.math.strides, strict=True))
        return self._first + sum(end for end in ends if end > 0)

    def _turn(self) -> int | None:
        """The axis of two indices, of which one reads the first operand and the other the second."""
        for axis, (length, step) in enumerate(zip(self.lengths, self.math.strides, strict=True)):
            if length == 2 and self._low + step >= self.sizes[0] > self._high - step:
                return axis
        return None

    def _cut(self, axis: int, place: int) -> tuple[LayoutRange, LayoutRange]:
        lengths, starts = list(self.lengths), list(self.starts)
        lengths[axis] = place
        before = self._replace(lengths=tuple(lengths))
        lengths[axis], starts[axis] = self.lengths[axis] - place, starts[axis] + place
        return before, self._replace(lengths=tuple(lengths), starts=tuple(starts))

    def _order(self, op: str, block: ElementBlock, steps: tuple[int, ...], turn: int | None = None) -> MathAttributes:
        """The order of the range over the elements of its blocks, which have the shape of *block*."""
        within = [block.step(step) for step in steps]
        if turn is not None:
            within[turn] = block.size
        first = sum((length - 1) * -step for length, step in zip(self.lengths, within, strict=True) if step < 0)
        return MathAttributes(op=op, lengths=self.lengths, strides=tuple(within), first=first)


def _covering(first: int, lengths: Sequence[int], steps: Sequence[int]) -> ElementBlock:
    """The smallest block with all elements at *first* and *steps* from there."""
    taken = [(abs(step), length) for length, step in zip(lengths, steps, strict=True) if length > 1 and step]
    low = first + sum((length - 1) * min(step, 0) for length, step in zip(lengths, steps, strict=True))
    span = 1 + sum(step * (length - 1) for step, length in taken)
    best, cols = ElementBlock(low, 1, span, span), 1
    for at, (step, length) in enumerate(sorted(taken)):
        outer = sorted(taken)[at:]
        if step >= cols and all(other % step == 0 for other, _ in outer):
            found = ElementBlock(low, 1 + sum(other // step * (n - 1) for other, n in outer), cols, step)
            best = min(best, found, key=lambda each: each.size)
        cols += step * (length - 1)
    return best


def _is_block(made: LayoutRange) -> bool:
    """Whether the result of *made* is a rectangle."""
    return _covering(0, made.lengths, made._out_steps).size == prod(made.lengths)


def _larger(parts: tuple[LayoutRange, LayoutRange]) -> int:
    """Elements that the larger of *parts* reads and makes."""
    return max(_covering(0, each.lengths, each.math.strides).size + prod(each.lengths) for each in parts)


def _sum(indices: Sequence[int], steps: Sequence[int]) -> int:
    return sum(index * step for index, step in zip(indices, steps, strict=True))
