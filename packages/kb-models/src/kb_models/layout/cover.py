"""Cover: finds the parts of a matrix that hold a rectangle of the matrix."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kb_models.layout.value import Part

Range = tuple[int, int]
"""The first index and the index behind the last."""


class Block(Struct, frozen=True):
    """A part of a rectangle: rows and columns of part number `part`, and the rows and columns of the rectangle that
    they are."""

    part: int
    rows: slice
    cols: slice
    rows_of_whole: slice
    cols_of_whole: slice


def cover(parts: Sequence[Part], cube: int, rows: Range, cols: Range) -> list[Block]:
    """Blocks that together are *rows* and *cols* of the matrix in *parts*, row by row of blocks.

    Of copies, the block is in the cube nearest to *cube* by number.
    """
    found: list[Block] = []
    row = rows[0]
    while row < rows[1]:
        strip: list[tuple[int, int, int]] = []
        end, col = rows[1], cols[0]
        while col < cols[1]:
            holding = [number for number, part in enumerate(parts) if _has(part, row, col)]
            nearest = min(holding, key=lambda number: (abs(parts[number].cube - cube), number))
            down, along = parts[nearest].bounds
            strip.append((nearest, col, min(along[1], cols[1])))
            end, col = min(end, down[1]), min(along[1], cols[1])
        found += [_block(parts[number], number, (row, end), (a, b), rows[0], cols[0]) for number, a, b in strip]
        row = end
    return found


def overlaps(parts: Sequence[Part], rows: Range, cols: Range) -> list[Block]:
    """What every part, copies too, has of *rows* and *cols* of the matrix in *parts*."""
    found = []
    for number, part in enumerate(parts):
        shared = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip((rows, cols), part.bounds, strict=True)]
        if all(start < stop for start, stop in shared):
            found.append(_block(part, number, shared[0], shared[1], rows[0], cols[0]))
    return found


def _has(part: Part, row: int, col: int) -> bool:
    (top, bottom), (left, right) = part.bounds
    return top <= row < bottom and left <= col < right


def _block(part: Part, number: int, rows: Range, cols: Range, top: int, left: int) -> Block:
    (first_row, _), (first_col, _) = part.bounds
    return Block(number, _moved(rows, first_row), _moved(cols, first_col), _moved(rows, top), _moved(cols, left))


def _moved(span: Range, by: int) -> slice:
    return slice(span[0] - by, span[1] - by)
