"""Cuts functions that move elements anywhere into programs on parts of values that do not fit the registers.

The plan cuts other functions into strips, or into pieces of rows that go forward. A function here needs elements from
other places than the places of its result, so each of its programs reads its own blocks of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from kb_engine.language.vector.layout_pieces import ElementBlock, LayoutRange
from kb_messages import (
    MATH_FUNCTIONS,
    DType,
    MathAttributes,
    Matrix,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
)

RESULT: Final = -1
"""The number that stands for the result among the inputs of a part: a part may read results of earlier parts."""
Fits: TypeAlias = Callable[[VectorProgram], bool]


class OpPart(NamedTuple):
    """A program for a part of an op: blocks of the op's operands, by their numbers, and blocks of its result."""

    program: VectorProgram
    inputs: tuple[tuple[int, ElementBlock], ...]
    outputs: tuple[ElementBlock, ...]

    def command(self, operands: Sequence[Matrix], result: Matrix) -> VectorCommand:
        """The command that runs the program, where the operands and the result lie."""
        sources = (block.of(result if number == RESULT else operands[number]) for number, block in self.inputs)
        targets = (block.of(result) for block in self.outputs)
        return VectorCommand(program=self.program, inputs=tuple(sources), outputs=tuple(targets))


class _Op(NamedTuple):
    """The op `math`. `inputs` and `result` are the shapes and dtypes of its operands and of its result."""

    math: MathAttributes
    inputs: tuple[VectorValue, ...]
    result: VectorValue
    line: str

    def part(self, math: MathAttributes, inputs: tuple[tuple[int, ElementBlock], ...], out: ElementBlock) -> OpPart:
        """The part of one op, *math*, followed by a conversion where elements move to a result of another dtype."""
        values = tuple(_value(block, self._dtype(number)) for number, block in inputs)
        result, arguments = _value(out, self.result.dtype), tuple(range(len(values)))
        ops = [self.op(math, arguments, result)]
        if MATH_FUNCTIONS[math.op].lays_out and values[0].dtype is not result.dtype:
            moved = self.op(math, arguments, _value(out, values[0].dtype))
            ops = [moved, self.op(MathAttributes(op="copy"), (len(values),), result)]
        last = len(values) + len(ops) - 1
        return OpPart(VectorProgram(inputs=values, ops=tuple(ops), outputs=(last,)), inputs, (out,))

    def op(self, math: MathAttributes, arguments: tuple[int, ...], result: VectorValue) -> VectorOp:
        """An op of a part, at the line of the op."""
        return VectorOp(math=math, arguments=arguments, result=result, line=self.line)

    def _dtype(self, number: int) -> DType:
        return (self.result if number == RESULT else self.inputs[number]).dtype


def may_be_cut(math: MathAttributes) -> bool:
    """Whether the function of *math* can be cut into parts other than strips and pieces of rows."""
    function = MATH_FUNCTIONS[math.op]
    return function.lays_out or function.picks or math.op == "sort" or _is_reverse_scan(math)


def parts_of(
    math: MathAttributes, inputs: tuple[VectorValue, ...], result: VectorValue, line: str, fits: Fits
) -> list[OpPart]:
    """The programs that make *result*, one after the other, each of which *fits*; empty if there is no such cut.

    The operands, like *inputs*, and the result lie packed.
    """
    op = _Op(math, inputs, result, line)
    if math.op == "histogram":
        return _counted(op, fits)
    if math.op == "gather":
        return _gathered(op, fits)
    if math.op == "sort":
        return _sorted(op, fits)
    if _is_reverse_scan(math):
        return _scanned_in_reverse(op, fits)
    return _moved(op, fits)


def _is_reverse_scan(math: MathAttributes) -> bool:
    """Whether *math* is a scan along rows from the last element on. Pieces of rows go forward."""
    return math.reverse and math.axis == 1 and MATH_FUNCTIONS[math.op].scans


def _moved(op: _Op, fits: Fits) -> list[OpPart]:
    """The parts of `rearrange` and `combine`, and of a conversion after them: ranges halved until they fit."""
    found: list[OpPart] = []
    left = [LayoutRange.whole(op.math, [each.rows * each.cols for each in op.inputs])]
    while left:
        each = left.pop()
        piece = each.piece()
        made = piece and op.part(*piece)
        if made and fits(made.program):
            found.append(made)
            continue
        halves = each.halves()
        if halves is None:
            return []
        left += reversed(halves)
    return found


def _scanned_in_reverse(op: _Op, fits: Fits) -> list[OpPart]:
    """The parts of a scan from the last element on: rows are reversed, scanned and reversed again, in place."""
    rows, cols = op.result.rows, op.result.cols
    turned = _moved(op._replace(math=_turn(rows, cols)), fits)
    for height in (rows, 1):
        n, starts = cols // 2, range(0, rows, height)
        strips = [ElementBlock(row * cols, height, cols, cols) for row in starts]
        scanned = [op.part(replace(op.math, reverse=False), ((RESULT, each),), each) for each in strips]
        while turned and n and fits(scanned[0].program):
            back = [
                _swapped(op, ElementBlock(row * cols + at, height, m, cols), (row + 1) * cols - at - m)
                for row in starts
                for at in range(0, cols // 2, n)
                for m in (min(n, cols // 2 - at),)
            ]
            if all(fits(each) for each in {part.program for part in back}):
                return [*turned, *scanned, *back]
            n //= 2
    return []


def _swapped(op: _Op, left: ElementBlock, first: int) -> OpPart:
    """The part that exchanges *left* and the block at *first*, each reversed."""
    right = left._replace(first=first)
    value, turn = _value(left, op.result.dtype), _turn(left.rows, left.cols)
    ops = tuple(op.op(turn, (number,), value) for number in (0, 1))
    program = VectorProgram(inputs=(value, value), ops=ops, outputs=(2, 3))
    return OpPart(program, ((RESULT, left), (RESULT, right)), (right, left))


def _turn(rows: int, cols: int) -> MathAttributes:
    return MathAttributes(op="rearrange", lengths=(rows, cols), strides=(cols, -1), first=cols - 1)


def _counted(op: _Op, fits: Fits) -> list[OpPart]:
    """The parts of `histogram`: each counts some of the elements, and adds the counts so far."""
    size, bins = op.inputs[0].rows * op.inputs[0].cols, op.result
    out = ElementBlock(0, 1, bins.cols, bins.cols)
    n = size
    while n:
        parts: list[OpPart] = []
        for start in range(0, size, n):
            block = _run(start, min(n, size - start))
            ops = [op.op(op.math, (0,), bins)]
            values, blocks = [_value(block, op.inputs[0].dtype)], [(0, block)]
            if start:
                values, blocks = [*values, bins], [*blocks, (RESULT, out)]
                ops = [op.op(op.math, (0,), bins), op.op(MathAttributes(op="add"), (2, 1), bins)]
            outputs = (len(values) + len(ops) - 1,)
            program = VectorProgram(inputs=tuple(values), ops=tuple(ops), outputs=outputs)
            parts.append(OpPart(program, tuple(blocks), (out,)))
        if all(fits(each.program) for each in parts[:2]):
            return parts
        n //= 2
    return []


def _gathered(op: _Op, fits: Fits) -> list[OpPart]:
    """The parts of `gather`: parts of the index. The elements to choose from are whole along the axis."""
    index, source = op.inputs
    found: list[OpPart] = []
    across, along = (index.cols, index.rows) if op.math.axis == 0 else (index.rows, index.cols)
    left = [((0, across), (0, along))]
    while left:
        (start, n), (first, count) = left.pop()
        if op.math.axis == 0:
            blocks = ElementBlock(first * index.cols + start, count, n, index.cols)
            chosen_from = ElementBlock(start, source.rows, n, source.cols)
        else:
            blocks = ElementBlock(start * index.cols + first, n, count, index.cols)
            chosen_from = ElementBlock(start * source.cols, n, source.cols, source.cols)
        made = op.part(op.math, ((0, blocks), (1, chosen_from)), blocks)
        if fits(made.program):
            found.append(made)
        elif n > 1:
            left += [((start + n // 2, n - n // 2), (first, count)), ((start, n // 2), (first, count))]
        elif count > 1:
            left += [((start, n), (first + count // 2, count - count // 2)), ((start, n), (first, count // 2))]
        else:
            return []
    return found


def _sorted(op: _Op, fits: Fits) -> list[OpPart]:
    """The parts of `sort`: blocks of a row are sorted, and then merged in pairs, in the order of a sorting network."""
    rows, cols = op.result.rows, op.result.cols
    group, step = op.math.group or (rows, 1)
    if op.math.axis == 1:
        length, apart, firsts = cols, 1, [row * cols for row in range(rows)]
    else:
        length, apart = group, step * cols
        firsts = [at * group * apart + each for at in range(rows // (group * step)) for each in range(apart)]
    n = length
    while n > 1:
        n = -(-n // 2)
        starts = range(0, length, n)
        sizes = [min(n, length - start) for start in starts]
        found: list[OpPart] = []
        for first in firsts:
            blocks = [_along(first + s * apart, size, apart) for s, size in zip(starts, sizes, strict=True)]
            found += [op.part(_sort_of(op), ((0, each),), each) for each in blocks]
            found += [_merged(op, blocks[low], blocks[high]) for low, high in _network(len(blocks))]
        if all(fits(each) for each in {part.program for part in found}):
            return found
    return []


def _merged(op: _Op, low: ElementBlock, high: ElementBlock) -> OpPart:
    """The part that merges the blocks *low* and *high* of the result, which are sorted."""
    dtype, size = op.result.dtype, low.size + high.size
    both = VectorValue(size, 1, dtype) if op.math.axis == 0 else VectorValue(1, size, dtype)
    values = _value(low, dtype), _value(high, dtype)
    ops = (
        op.op(MathAttributes(op="combine", lengths=(size,), strides=(1,)), (0, 1), both),
        op.op(replace(_sort_of(op), op="merge"), (2,), both),
        op.op(MathAttributes(op="rearrange", lengths=(low.size,), strides=(1,)), (3,), values[0]),
        op.op(MathAttributes(op="rearrange", lengths=(high.size,), strides=(1,), first=low.size), (3,), values[1]),
    )
    program = VectorProgram(inputs=values, ops=ops, outputs=(4, 5))
    return OpPart(program, ((RESULT, low), (RESULT, high)), (low, high))


def _sort_of(op: _Op) -> MathAttributes:
    return MathAttributes(op="sort", axis=op.math.axis, reverse=op.math.reverse)


def _network(n: int) -> Iterator[tuple[int, int]]:
    """The pairs that Batcher's merge exchange compares, for *n* items.

    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.2, algorithm M. Sorted blocks may take
    the place of items. Source: G. Baudet, D. Stevenson, "Optimal Sorting Algorithms for Parallel Computers", 1978.
    """
    top = 1 << max((n - 1).bit_length() - 1, 0)
    p = top
    while p:
        q, r, d = top, 0, p
        while d:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            d, q, r = q - p, q // 2, p
        p //= 2


def _run(first: int, n: int) -> ElementBlock:
    return ElementBlock(first, 1, n, n)


def _along(first: int, n: int, apart: int) -> ElementBlock:
    """*n* elements, *apart* from each other."""
    return _run(first, n) if apart == 1 else ElementBlock(first, n, 1, apart)


def _value(block: ElementBlock, dtype: DType) -> VectorValue:
    return VectorValue(block.rows, block.cols, dtype)
